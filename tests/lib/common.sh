# shellcheck shell=bash
# Sourced by tests/run.sh: messages, the list of what was left out, and packages. Needs $SCRATCH for logs.

# shellcheck disable=SC2034  # used by the other two
JAR_DIR=/usr/share/java # where Debian puts jars

heading() { printf '\n== %s\n' "$*"; }
say() { printf '   %s\n' "$*"; }
die() {
    printf '\nFAILED: %s\n' "$*" >&2
    exit 1
}

# without NAME: did the caller name NAME in LOCKKEEPER_TEST_WITHOUT? Only then may a test be left out.
without() {
    case " ${LOCKKEEPER_TEST_WITHOUT:-} " in *" $1 "*) return 0 ;; *) return 1 ;; esac
}

# left_out TEXT: say loudly what is not tested, now and, through report_left_out, once more at the end.
LEFT_OUT=()
left_out() {
    LEFT_OUT+=("$*")
    printf '\nNOT TESTED: %s\n' "$*"
}
report_left_out() {
    # (An empty array is an unset one to bash 4.3 and older.)
    [ "${#LEFT_OUT[@]}" -eq 0 ] || printf 'NOT TESTED: %s\n' "${LEFT_OUT[@]}"
}

# have COMMAND...: are they all there?
have() {
    local command
    for command in "$@"; do command -v "$command" >/dev/null 2>&1 || return 1; done
}

# install PACKAGE...: Debian's packages, where we may. Quiet unless it fails.
install() {
    [ "$(id -u)" -eq 0 ] && have apt-get || return 1
    say "installing with apt-get: $*"
    local get=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120)
    "${get[@]}" update >"$SCRATCH/apt.log" 2>&1 || say "apt-get update failed; trying with the package lists that are here"
    "${get[@]}" install --no-install-recommends "$@" >>"$SCRATCH/apt.log" 2>&1 && return 0
    tail -n 20 "$SCRATCH/apt.log" >&2
    return 1
}
