#!/usr/bin/env bash
# Checks that the oldest versions that the manifests allow are enough: the oldest Rust, and then with it the oldest release of
# each crate that a published crate names. Needs rustup. The tree is copied, so Cargo.lock stays as it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tests/lib/common.sh

rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
rustup toolchain list | grep -q "^$rust" || rustup toolchain install "$rust" --profile minimal
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z | xargs -0 cp --parents -P -t "$copy"
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")/oldest
export CARGO_TARGET_DIR
cd "$copy"

# The tests, benchmarks and private crates may need newer crates than users have.
crates=(--package=lockkeeper --package=lockkeeper-cli)
echo "Rust $rust with Cargo.lock"
cargo "+$rust" check --locked --quiet "${crates[@]}" $(features)
echo "Rust $rust with the oldest crates"
# The option is unstable. With this variable a stable cargo takes it, too.
RUSTC_BOOTSTRAP=1 cargo update --quiet -Z direct-minimal-versions
cargo "+$rust" check --locked --quiet "${crates[@]}" $(features)
echo "Rust $rust and the oldest crates are enough."
