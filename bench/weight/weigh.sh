#!/usr/bin/env bash
# What a program with one lock weighs: the bytes of the stripped program in cargo's release profile as it is, and those above an
# empty program; the crates from the registry; and the processor time of a clean build with one job.
#
# Usage: bench/weight/weigh.sh            prints the table, with zookeeper-client beside
#        bench/weight/weigh.sh --small    prints what an empty program and ours weigh with the lines of "A small program" in the guide
#        bench/weight/weigh.sh --check    fails if ours is more than 2 % heavier than weight.txt says
#        bench/weight/weigh.sh --bless    writes weight.txt
#
# The figures belong to one compiler, which weight.txt names. With another one, --check says that it has not compared.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
TARGET=$(realpath -m "${CARGO_TARGET_DIR:-../../target}/weight")
readonly TARGET
# Settings of whoever runs this do not count.
unset CARGO_INCREMENTAL CARGO_PROFILE_RELEASE_LTO CARGO_PROFILE_RELEASE_CODEGEN_UNITS CARGO_PROFILE_RELEASE_OPT_LEVEL RUSTFLAGS

# weigh FEATURE [OPTIONS OF CARGO]: prints the bytes of the program.
weigh() {
    CARGO_TARGET_DIR=$TARGET cargo build --quiet --release --no-default-features --features "$@"
    strip -o "$TARGET/stripped" "$TARGET/release/weight"
    stat -c %s "$TARGET/stripped"
}

# crates FEATURE: prints how many crates come from the registry, without those that only run in the build.
crates() {
    local tree
    tree=$(cargo tree --quiet -e normal,no-proc-macro --prefix none --features "$1" --target x86_64-unknown-linux-gnu)
    grep -v 'weight v\|lockkeeper' <<<"$tree" | sed 's/ (\*)$//' | sort -u | grep -c . || true
}

# seconds FEATURE: prints the processor time of a clean build with one job.
seconds() {
    local TIMEFORMAT='%U %S'
    rm -rf "$TARGET/clean"
    { time CARGO_TARGET_DIR=$TARGET/clean cargo build --quiet --release -j 1 --features "$1"; } 2>&1 |
        tail -n 1 | awk '{ printf "%.0f", $1 + $2 }'
    rm -rf "$TARGET/clean"
}

compiler=$(rustc --version)
case ${1:-} in
    --small)
        small=(--config 'profile.release.lto="fat"' --config 'profile.release.opt-level="s"'
            --config 'profile.release.codegen-units=1')
        empty=$(weigh "" "${small[@]}")
        bytes=$(weigh lockkeeper "${small[@]}")
        printf 'an empty program: %d bytes; with one lock: %d bytes\n' "$empty" "$bytes"
        ;;
    --bless)
        printf '%s\n%s\n' "$compiler" "$(weigh lockkeeper)" >weight.txt
        cat weight.txt
        ;;
    --check)
        { read -r of && read -r recorded; } <weight.txt
        if [ "$of" != "$compiler" ]; then
            echo "NOT COMPARED: weight.txt is of $of, and this is $compiler"
            exit
        fi
        bytes=$(weigh lockkeeper)
        echo "a program with one lock: $bytes bytes; recorded: $recorded"
        [ "$((bytes * 100))" -le "$((recorded * 102))" ] || { echo "more than 2 % heavier"; exit 1; }
        ;;
    "")
        empty=$(weigh "")
        printf '%-18s %12s %18s %8s %14s\n' program bytes "above an empty one" crates "build, CPU s"
        for feature in "" lockkeeper zookeeper-client; do
            bytes=$(weigh "$feature")
            printf '%-18s %12d %18d %8d %14d\n' "${feature:-empty}" "$bytes" "$((bytes - empty))" "$(crates "$feature")" \
                "$(seconds "$feature")"
        done
        ;;
    *)
        sed -n '2,9p' "${BASH_SOURCE[0]##*/}" >&2
        exit 64
        ;;
esac
