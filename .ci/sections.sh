# shellcheck shell=bash
# Sourced by .ci/run and .ci/nightly: sections, the table of them, and the tools that they need.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. tests/lib/common.sh

SCRATCH=$(mktemp -d)
declare -A ASIDE=() # functions whose sections run beside, and their process groups
trap 'for group in "${ASIDE[@]}"; do kill -- "-$group" 2>/dev/null; done; rm -rf "$SCRATCH"' EXIT
# One folder for all, however the scripts change their own.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}
CARGO_TARGET_DIR=$(realpath -m "$CARGO_TARGET_DIR")
# Nothing here is compiled twice but by the planted faults, which say so themselves; and nobody looks at backtraces.
[ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0

TABLE=()
FAILURES=0

# processors: sets PROCESSORS to the seconds that the commands of this shell have had of the processors until now.
processors() {
    times >"$SCRATCH/times" # in this shell: a substitution would be another one
    PROCESSORS=$(awk -F'[ms ]+' 'NR == 2 { printf "%d", $1 * 60 + $2 + $3 * 60 + $4 }' "$SCRATCH/times")
}

# section NAME COMMAND...: runs the command, whatever the sections before it said, and notes how it ended, how long it took, and
# how many seconds of the processors.
section() {
    local name=$1 begin=$SECONDS status=0 had word=ok
    shift
    printf '\n==== %s: %s\n' "$name" "$*"
    processors && had=$PROCESSORS
    "$@" || status=$?
    processors
    if [ "$status" -ne 0 ]; then
        FAILURES=$((FAILURES + 1)) word=FAILED
        printf '==== %s: FAILED (status %d)\n' "$name" "$status"
    fi
    TABLE+=("$(printf '%-9s %5ds %5ds  %s' "$word" $((SECONDS - begin)) $((PROCESSORS - had)) "$name")")
}

# aside FUNCTION: runs the sections of the function beside those that follow, until `rejoin`, with a target folder of its own, since
# cargo lets one build at a time into a folder. They get the time of the processors that the others leave over.
aside() {
    set -m # makes the process group
    (
        set +m
        TABLE=() FAILURES=0
        renice -n 19 "$BASHPID" >/dev/null
        export CARGO_TARGET_DIR=$CARGO_TARGET_DIR/$1
        "$1"
        printf '%s\n' "${TABLE[@]}" >"$SCRATCH/$1.table"
        exit "$FAILURES"
    ) >"$SCRATCH/$1.log" 2>&1 </dev/null &
    ASIDE[$1]=$!
    set +m
}

# rejoin: waits for the sections beside, and prints what they have printed.
rejoin() {
    local name failures rows
    for name in "${!ASIDE[@]}"; do
        failures=0
        wait "${ASIDE[$name]}" || failures=$?
        cat "$SCRATCH/$name.log"
        mapfile -t rows <"$SCRATCH/$name.table"
        TABLE+=("${rows[@]}")
        FAILURES=$((FAILURES + failures))
    done
    ASIDE=()
}

# not_run NAME WHY
not_run() {
    printf '\n#### NOT RUN: %s: %s\n' "$1" "$2"
    TABLE+=("$(printf '%-9s %6s %6s  %s: %s' 'NOT RUN' - - "$1" "$2")")
}

# report: prints the table. The status is 1 if a section failed.
report() {
    printf '\n==== %d min %02d s; behind each section its time, and that of the processors\n' $((SECONDS / 60)) $((SECONDS % 60))
    printf '%s\n' "${TABLE[@]}"
    [ "$FAILURES" -eq 0 ] || { printf 'FAILED: %d of %d\n' "$FAILURES" "${#TABLE[@]}"; exit 1; }
}

# needs COMMAND PACKAGE...: installs Debian's packages if the command is missing.
needs() {
    have "$1" || section "$1" install "${@:2}"
}

needs cc gcc libc6-dev
needs git git
needs python3 python3
