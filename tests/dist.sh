#!/usr/bin/env bash
# Builds the command for packages, and checks it. Usage: tests/dist.sh [--static | OPTIONS FOR cargo build]
#
# - The program is stripped, and has at most MOST bytes. Its debug information is in a file beside it, which debuggers find.
# - It says its version, and runs a command under a lock on a server of its own.
# - With --static it needs no shared library. That takes Rust's musl target and a C compiler for it: `rustup target add
#   x86_64-unknown-linux-musl`, and Debian's package musl-tools.
#
# The result: lockkeeper and lockkeeper.debug in target/dist-files, or in target/dist-files/static.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

MOST=6000000 # it has 5.4 million, the static one 5.5
target=${CARGO_TARGET_DIR:-target}
files=$target/dist-files
built=$target/dist/lockkeeper
options=("$@")
if [ "${1:-}" = --static ]; then
    triple=$(uname -m)-unknown-linux-musl
    files=$files/static
    built=$target/$triple/dist/lockkeeper
    options=(--target "$triple")
fi
die() {
    echo "FAILED: $*" >&2
    exit 1
}

cargo build --locked --profile dist -p lockkeeper-cli ${options[@]+"${options[@]}"}
mkdir -p "$files"
objcopy --only-keep-debug "$built" "$files/lockkeeper.debug"
strip -o "$files/lockkeeper" "$built"
(cd "$files" && objcopy --add-gnu-debuglink=lockkeeper.debug lockkeeper)

program=$files/lockkeeper
size=$(stat -c %s "$program")
[ "$size" -le $MOST ] || die "$program has $size bytes, more than $MOST"
! readelf --wide --sections "$program" | grep -E '\.(debug_info|debug_line|symtab) ' || die "$program is not stripped"
# The program itself knows no line any more: the file beside it does.
main=$(nm "$files/lockkeeper.debug" | awk '$3 ~ /lockkeeper4main/ && !n++ { print $1 }')
line=$(addr2line -e "$program" "$main")
case $line in
    *cli/src/main.rs:*) ;;
    *) die "the debug information is not found: $line" ;;
esac
if [ "${1:-}" = --static ]; then
    ! readelf --program-headers "$program" | grep INTERP || die "$program needs a loader"
    ! readelf --dynamic "$program" | grep NEEDED || die "$program needs shared libraries"
fi
"$program" --version
said=$("$program" serve -- "$program" run /lock -- sh -c 'echo "$LOCKKEEPER_PATH"')
[ "$said" = /lock ] || die "run said: $said"
printf '%s: %d bytes, and %d bytes of debug information\n' "$program" "$size" "$(stat -c %s "$files/lockkeeper.debug")"
