#!/usr/bin/env bash
# Checks that the oldest versions that the manifests allow are enough: the oldest Rust, and then with it the oldest release of
# each crate that a published crate names. Needs rustup. The tree is copied, so Cargo.lock stays as it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tests/lib/common.sh

# oldest MANIFEST: its oldest Rust, which is installed if it is missing.
oldest() {
    local rust
    rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$1")
    rustup toolchain list | grep "^$rust-" >/dev/null || rustup toolchain install "$rust" --profile minimal >&2
    echo "$rust"
}
library=$(oldest Cargo.toml)
command=$(oldest cli/Cargo.toml)

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z | xargs -0 cp --parents -P -t "$copy"
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")/oldest
export CARGO_TARGET_DIR
cd "$copy"

# The tests, benchmarks and private crates may need newer crates, and a newer Rust, than users have.
check() {
    echo "Rust $library for the library and $command for the command, with $1"
    cargo "+$library" check --locked --quiet --package=lockkeeper --package=lockkeeper-server $(features)
    cargo "+$command" check --locked --quiet --package=lockkeeper-cli $(features)
}
check Cargo.lock
# The option is unstable. With this variable a stable cargo takes it, too.
RUSTC_BOOTSTRAP=1 cargo update --quiet -Z direct-minimal-versions
check "the oldest crates"
echo "They are enough."
