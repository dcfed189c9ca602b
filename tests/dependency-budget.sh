#!/usr/bin/env bash
# The dependency budget: checks the crates that a user of `lockkeeper` has to compile and trust. Run by .ci/run.
#
# It counts the crates from outside the workspace that a program links when it uses lockkeeper with default features on
# Linux. The rules:
#   - There are at most 20.
#   - None is a proc-macro, because a proc-macro brings syn and its compile time.
#   - None except libc has a build script, because a build script runs with the permissions of the user who builds.
#   - None is another ZooKeeper client, because this client implements the protocol itself.
# It also compares what each optional feature adds with a list, and checks that the lock file of fuzz/, which is a workspace of
# its own, is up to date.
# Prints the crates and their count, and fails with a list of all broken rules. Other platforms link other system crates,
# and are not checked.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

MOST=20
TARGET=x86_64-unknown-linux-gnu

# `cargo tree` shows which crates are really linked (features, kinds of dependencies). `cargo metadata` shows which crates
# have a build script.
tree=$(cargo tree --locked -p lockkeeper -e normal --prefix none --target "$TARGET")
metadata=$(mktemp)
trap 'rm -f "$metadata"' EXIT
cargo metadata --locked --format-version 1 --filter-platform "$TARGET" >"$metadata"
cargo tree --quiet --locked --manifest-path fuzz/Cargo.toml --target "$TARGET" >/dev/null

MOST=$MOST METADATA=$metadata TREE=$tree python3 - <<'PYTHON'
import json, os, sys

# A line of the tree has the form `NAME vVERSION[ (proc-macro)][ (PATH)][ (*)]`.
crates = {}
for line in os.environ["TREE"].splitlines():
    name, version, *marks = line.split()
    if not name.startswith("lockkeeper"):
        crates.setdefault((name, version.removeprefix("v")), set()).update(marks)

with open(os.environ["METADATA"]) as file:
    kinds = {
        (package["name"], package["version"]): {kind for target in package["targets"] for kind in target["kind"]}
        for package in json.load(file)["packages"]
    }

breaches = []
for (name, version), marks in sorted(crates.items()):
    if (name, version) not in kinds:
        sys.exit(f"cannot match `cargo tree` with `cargo metadata`: {name} {version} is only in the first")
    print(f"   {name} {version}")
    if "(proc-macro)" in marks or "proc-macro" in kinds[name, version]:
        breaches.append(f"{name} is a proc-macro")
    if "custom-build" in kinds[name, version] and name != "libc":
        breaches.append(f"{name} has a build script")
    if "zookeeper" in name or "zk" in name:
        breaches.append(f"{name} looks like another ZooKeeper client")

most = int(os.environ["MOST"])
print(f"{len(crates)} crates from outside the workspace; the budget is {most}")
if not crates:
    breaches.append("`cargo tree` lists no crates: this check is broken")
if len(crates) > most:
    breaches.append(f"{len(crates)} crates are linked, but the budget is {most}")
sys.exit("\n".join(f"FAILED: {breach}" for breach in breaches) or None)
PYTHON

# names FEATURE: the crates from outside the workspace that a program links with this feature.
names() {
    cargo tree --locked -p lockkeeper -e normal --prefix none --target "$TARGET" --features "$1" |
        awk '$1 !~ /^lockkeeper/ { print $1 }' | sort -u
}
failed=0
while read -r feature expected; do
    added=$(comm -13 <(names "") <(names "$feature") | xargs)
    echo "   $feature adds: ${added:-nothing}"
    [ "$added" = "$expected" ] || { echo "FAILED: the list for $feature is: $expected" && failed=1; }
done <<'FEATURES'
gssapi bitflags libgssapi libgssapi-sys
digest-md5 block-buffer cfg-if crypto-common digest generic-array md-5 typenum
digest base64 block-buffer cfg-if cpufeatures crypto-common digest generic-array sha1 typenum
tls cfg-if getrandom ring rustls rustls-pki-types rustls-webpki subtle tokio-rustls untrusted zeroize
FEATURES
exit "$failed"
