#!/usr/bin/env bash
# Makes the Debian package of the command, installs it into an empty root, uses it there, and removes it. Usage: tests/deb.sh
#
# The package has the program of tests/dist.sh, with Kerberos where that can be built, a manual page for each command, and completions
# for bash, zsh and fish. Its debug information stays beside it. The system's own packages are not touched. Needs dpkg-dev, and fakeroot
# unless you are root.
# LOCKKEEPER_MAINTAINER is the name and address of who publishes it.
#
# The result: target/dist-files/lockkeeper_VERSION_ARCHITECTURE.deb
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tests/lib/common.sh
kerberos=()
! have_gssapi || kerberos=(--features kerberos)
tests/dist.sh ${kerberos[@]+"${kerberos[@]}"}

files=${CARGO_TARGET_DIR:-target}/dist-files
SCRATCH=$(mktemp -d)
trap 'rm -rf "$SCRATCH"' EXIT
die() {
    echo "FAILED: $*" >&2
    exit 1
}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
architecture=$(dpkg --print-architecture)
package=$files/lockkeeper_${version}_$architecture.deb

echo "Making $package"
tree=$SCRATCH/tree
share=$tree/usr/share
install -D "$files/lockkeeper" "$tree/usr/bin/lockkeeper"
program=$tree/usr/bin/lockkeeper
mkdir -p "$tree/DEBIAN" "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/vendor-completions" \
    "$share/fish/vendor_completions.d" "$share/doc/lockkeeper"
"$program" man "$share/man/man1"
"$program" completions bash >"$share/bash-completion/completions/lockkeeper"
"$program" completions zsh >"$share/zsh/vendor-completions/_lockkeeper"
"$program" completions fish >"$share/fish/vendor_completions.d/lockkeeper.fish"
# The program contains other crates, whose licences ask for their texts. A text that many crates have stands there once.
{
    cat LICENSE-MIT LICENSE-APACHE
    cargo metadata --locked --format-version 1 >"$SCRATCH/metadata"
    cargo tree --locked -p lockkeeper-cli ${kerberos[@]+"${kerberos[@]}"} -e normal --prefix none --format '{p}' | METADATA=$SCRATCH/metadata python3 -c '
import json, os, pathlib, sys
with open(os.environ["METADATA"]) as file:
    packages = {(it["name"], it["version"]): it for it in json.load(file)["packages"]}
first = {}
for name, version in sorted({tuple(line.split()[:2]) for line in sys.stdin}):
    package = packages[name, version.removeprefix("v")]
    if not package["source"]:
        continue
    print("\n" + "=" * 70 + "\n\n" + name, version + ": " + package["license"])
    for file in sorted(pathlib.Path(package["manifest_path"]).parent.iterdir()):
        if file.is_file() and file.name.upper().startswith(("LICENSE", "COPYING", "COPYRIGHT", "NOTICE")):
            text = file.read_text().strip()
            other = first.setdefault(text, f"{name}, {file.name}")
            print("\n" + (text if other == f"{name}, {file.name}" else f"{file.name}: as that of {other}"))'
} >"$share/doc/lockkeeper/copyright"
cp CHANGELOG.md "$share/doc/lockkeeper/changelog"
gzip -9n "$share"/man/man1/*.1 "$share/doc/lockkeeper/changelog"
# dpkg-shlibdeps says which packages have the shared libraries. It wants a source package.
mkdir "$SCRATCH/debian"
printf 'Source: lockkeeper\n\nPackage: lockkeeper\nArchitecture: any\n' >"$SCRATCH/debian/control"
needs=$(cd "$SCRATCH" && dpkg-shlibdeps -O "$program" | sed -n 's/^shlibs:Depends=//p')
[ -n "$needs" ] || die "dpkg-shlibdeps finds no library"
cat >"$tree/DEBIAN/control" <<CONTROL
Package: lockkeeper
Version: $version
Architecture: $architecture
Maintainer: ${LOCKKEEPER_MAINTAINER:-the lockkeeper authors <nobody@lockkeeper.invalid>}
Installed-Size: $(du -sk --exclude=DEBIAN "$tree" | cut -f 1)
Depends: $needs
Section: utils
Priority: optional
Homepage: $(sed -n 's/^repository = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
Description: run a command under a distributed lock
 lockkeeper runs a command under a lock on Apache ZooKeeper, as flock(1) does on
 one machine. It shows who holds a lock and who waits for it, looks at a tree of
 nodes and repairs it, and runs a server in memory for tests.
CONTROL
chmod -R u=rwX,go=rX "$tree"
dpkg-deb --build --root-owner-group "$tree" "$package"

echo "Installing it into an empty root"
root=$SCRATCH/root
mkdir -p "$root"/var/lib/dpkg/{info,updates}
touch "$root/var/lib/dpkg/status"
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(fakeroot)
# The empty root has no libc. The package has no scripts, so nothing is run in there.
on_root() {
    ${as_root[@]+"${as_root[@]}"} dpkg --root="$root" --force-depends,not-root,bad-path --log=/dev/null "$@"
}
on_root --install "$package" 2>"$SCRATCH/warnings" || die "$(cat "$SCRATCH/warnings")"
listed=$(on_root --listfiles lockkeeper)
echo "$listed"
for file in bin/lockkeeper share/man/man1/lockkeeper.1.gz share/man/man1/lockkeeper-wire-decode.1.gz \
    share/bash-completion/completions/lockkeeper share/zsh/vendor-completions/_lockkeeper \
    share/fish/vendor_completions.d/lockkeeper.fish share/doc/lockkeeper/copyright; do
    grep -qx "/usr/$file" <<<"$listed" || die "no /usr/$file"
    [ -s "$root/usr/$file" ] || die "/usr/$file is empty"
done
grep -q '^ring v.*: ' "$root/usr/share/doc/lockkeeper/copyright" || die "the licence of ring is missing"
said=$("$root/usr/bin/lockkeeper" --version)
grep -qx "lockkeeper $version" <<<"$said" || die "--version says: $said"
# The page has the options of this program, and groff can read it.
pages=$root/usr/share/man/man1
zcat "$pages/lockkeeper-run.1.gz" | grep -q -- '\\-\\-once\\-per' || die "the manual page of run lacks an option"
if command -v groff >/dev/null; then
    for page in "$pages"/*.gz; do
        complaints=$(zcat "$page" | groff -man -Tutf8 -ww -z 2>&1)
        [ -z "$complaints" ] || die "$page: $complaints"
    done
fi
bash -c 'source "$1" && complete -p lockkeeper' - "$root/usr/share/bash-completion/completions/lockkeeper" >/dev/null ||
    die "bash does not take the completions"

on_root --remove lockkeeper 2>/dev/null
left=$(find "$root" -path "$root/var" -prune -o -type f -print)
[ -z "$left" ] || die "left behind: $left"
echo "$(dpkg-deb --field "$package" Package Version Depends | xargs): $(stat -c %s "$package") bytes"
