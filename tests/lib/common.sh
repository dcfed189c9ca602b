# shellcheck shell=bash
# Sourced by tests/run.sh: messages, the list of omitted tests, and Debian's packages. Needs $SCRATCH for
# logs.

# shellcheck disable=SC2034  # used by the other files in this folder
JAR_DIR=/usr/share/java # Debian installs jars there

heading() { printf '\n== %s\n' "$*"; }
say() { printf '   %s\n' "$*"; }
die() {
    printf '\nFAILED: %s\n' "$*" >&2
    exit 1
}

# without NAME: succeeds if LOCKKEEPER_TEST_WITHOUT contains NAME. Only then may tests be left out.
without() {
    case " ${LOCKKEEPER_TEST_WITHOUT:-} " in *" $1 "*) return 0 ;; *) return 1 ;; esac
}

# left_out TEXT: prints which tests are left out. report_left_out prints it again at the end.
LEFT_OUT=()
left_out() {
    LEFT_OUT+=("$*")
    printf '\nNOT TESTED: %s\n' "$*"
}
report_left_out() {
    # Bash 4.3 and older treat an empty array as unset.
    [ "${#LEFT_OUT[@]}" -eq 0 ] || printf 'NOT TESTED: %s\n' "${LEFT_OUT[@]}"
}

# have COMMAND...: succeeds if all commands are on the PATH.
have() {
    local command
    for command in "$@"; do command -v "$command" >/dev/null 2>&1 || return 1; done
}

# have_gssapi: is there what libgssapi is built with?
have_gssapi() {
    [ -r /usr/include/gssapi/gssapi_krb5.h ] &&
        { compgen -G '/usr/lib*/*/lib/libclang*.so*' || compgen -G '/usr/lib*/libclang*.so*'; } >/dev/null
}
readonly GSSAPI=(libkrb5-dev libclang-dev) # Debian's packages of these

# features: cargo's arguments for all features of the library and the command. Without Kerberos where it cannot be built.
features() {
    have_gssapi && echo --all-features || echo --features lockkeeper/digest,lockkeeper/digest-md5,lockkeeper/tls,lockkeeper/unstable
}

# install PACKAGE...: installs Debian's packages. Fails if we are not root or there is no apt-get. Quiet unless it fails.
install() {
    [ "$(id -u)" -eq 0 ] && have apt-get || return 1
    say "installing with apt-get: $*"
    local get=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120)
    "${get[@]}" update >"$SCRATCH/apt.log" 2>&1 || say "apt-get update failed; trying with the old package lists"
    "${get[@]}" install --no-install-recommends "$@" >>"$SCRATCH/apt.log" 2>&1 && return 0
    tail -n 20 "$SCRATCH/apt.log" >&2
    return 1
}
