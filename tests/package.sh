#!/usr/bin/env bash
# Makes the packages of the published crates, and checks them. Usage: tests/package.sh [--fast]
#
# - Each package has a readme, both licences, the data that a registry shows, and at most MOST bytes.
# - cargo builds each package from the packages before it, as a registry serves them. (Not with --fast.)
# - A program in an empty folder builds from these packages alone, and runs. It is the first program of the README, with the
#   README's own `cargo add` lines. It builds again with all features, and the documentation, too. (Not with --fast.)
#
# Files that are not committed are packaged, too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# In the order of publishing: each crate needs only crates before it, for its tests, too.
PUBLISHED=(lockkeeper-jute lockkeeper-proto lockkeeper-server lockkeeper-session lockkeeper-tls lockkeeper-sasl
    lockkeeper-recipes lockkeeper lockkeeper-cli)
MOST=262144 # packed; the largest one, the session, has 178 KiB
fast=${1:-}
root=$PWD
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
SCRATCH=$(mktemp -d)
trap 'rm -rf "$SCRATCH"' EXIT
die() {
    echo "FAILED: $*" >&2
    exit 1
}

# A crate that may be published and is not in the list would be forgotten.
publishable=$(cargo metadata --locked --no-deps --format-version 1 | python3 -c '
import json, sys
print(*sorted(package["name"] for package in json.load(sys.stdin)["packages"] if package["publish"] != []))')
[ "$publishable" = "$(printf '%s\n' "${PUBLISHED[@]}" | sort | xargs)" ] || die "published: $publishable"

# Tests are left out of the packages: cargo warns of each of them.
cargo package --locked --allow-dirty ${fast:+--no-verify} "${PUBLISHED[@]/#/--package=}" 2>&1 | grep --line-buffered -v '^warning: ignoring test'

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
for crate in "${PUBLISHED[@]}"; do
    file=$target/package/$crate-$version.crate
    tar -xzf "$file" -C "$SCRATCH"
    unpacked=$SCRATCH/$crate-$version
    printf '   %-20s %3d files %4d KiB\n' "$crate" "$(find "$unpacked" -type f | wc -l)" $(($(stat -c %s "$file") / 1024))
    [ "$(stat -c %s "$file")" -le $MOST ] || die "$file has more than $MOST bytes"
    for needed in README.md LICENSE-MIT LICENSE-APACHE Cargo.toml src; do
        [ -e "$unpacked/$needed" ] || die "$crate has no $needed"
    done
    for needed in description license repository keywords categories readme rust-version; do
        grep -q "^$needed = " "$unpacked/Cargo.toml" || die "$crate has no $needed in its manifest"
    done
done
[ -z "$fast" ] || exit 0

echo "The first program of the README, from these packages alone"
export CARGO_TARGET_DIR=$target/package-user
cargo new --quiet --vcs none "$SCRATCH/hello"
cd "$SCRATCH/hello"
{
    echo '[patch.crates-io]'
    for crate in "${PUBLISHED[@]}"; do
        echo "$crate = { path = '$SCRATCH/$crate-$version' }"
    done
} >>Cargo.toml
awk '/^```rust$/ { inside = 1; next } /^```$/ && inside { exit } inside' "$root/README.md" >src/main.rs
# The crates are not in a registry yet, so their folders are added.
grep '^cargo add ' "$root/README.md" | sed 's/ *#.*//' | while read -r cargo add crates; do
    case $crates in
        --path*) ;; # from a clone
        lockkeeper*) for crate in $crates; do cargo add --quiet --path "$SCRATCH/$crate-$version"; done ;;
        *) eval "$cargo $add --quiet $crates" ;;
    esac
done
cargo run --quiet
cargo add --quiet --path "$SCRATCH/lockkeeper-$version" --features digest,digest-md5,tls
cargo run --quiet
# The documentation includes the guide.
RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps -p lockkeeper
echo "The packages are complete."
