#!/usr/bin/env bash
# Runs every test of the workspace, also those against a real ZooKeeper.
# Usage: tests/run.sh [--build | ARGUMENTS OF cargo test]
#
# Without arguments it runs all tests, including doc tests. With arguments it runs `cargo test ARGUMENTS` with the same
# programs and variables, for example `tests/run.sh -p lockkeeper --test conformance`. With --build it only finds or
# installs what the tests need, and compiles them.
#
# The script finds, starts or installs these programs, and stops what it has started. It tries the sources in this order:
#   a real ZooKeeper    LOCKKEEPER_TEST_ZOOKEEPER=host:port, a server that the tests may write to; else the jars in
#                       LOCKKEEPER_TEST_SERVER_CLASSPATH; else a container, if docker or podman has a running engine
#                       (LOCKKEEPER_TEST_IMAGE, default zookeeper:3.9); else the jars in /usr/share/java; else Debian's
#                       packages, as root
#   Java and Curator    a JDK and the jars in /usr/share/java (or LOCKKEEPER_TEST_CLASSPATH); else Debian's packages, as root
#   servers that a test starts itself (TLS, SASL; three servers to kill or to reconfigure)
#                       the jars in /usr/share/java, with netty (or LOCKKEEPER_TEST_SERVER_CLASSPATH); else Debian's packages,
#                       as root
#   kazoo               a private venv under target/ (or LOCKKEEPER_TEST_PYTHON)
#   Go and go-zk        Go and the library in /usr/share/gocode (or LOCKKEEPER_TEST_GOPATH); else Debian's packages, as root
#   a KDC, and what the command needs for --kerberos    Debian's packages, as root; else the script says that its tests are left out
#   zsh and fish        on the PATH; else Debian's packages, as root; else the script says that they are left out
# A missing program is a failure, unless LOCKKEEPER_TEST_WITHOUT names it: zookeeper, ensemble, java, kazoo, go, kerberos, or
# several of them separated by spaces.
#
# A Rust test that needs one of these programs is `#[ignore = "needs ...: tests/run.sh"]`. It finds them in these variables:
#   LOCKKEEPER_TEST_ZOOKEEPER           host:port
#   LOCKKEEPER_TEST_CLASSPATH           for javac and java
#   LOCKKEEPER_TEST_SERVER_CLASSPATH    to start servers with java
#   LOCKKEEPER_TEST_PYTHON              the Python that has kazoo
#   LOCKKEEPER_TEST_GOPATH              for go build
# A test that needs servers to kill, Java, kazoo or Go has `needs_ensemble`, `needs_java`, `needs_kazoo` or `needs_go` in its
# full name. The script leaves tests out by these names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tests/lib/common.sh
[ "$(uname -s)" = Linux ] || die "this script needs Linux, as do the tests of the command, and flock and nproc;" \
    "\`cargo test --workspace --exclude lockkeeper-cli --exclude lockkeeper-bench\` needs no other program"
. tests/lib/zookeeper.sh
. tests/lib/clients.sh

SCRATCH=$(mktemp -d)
AT_ONCE= # the process group of the tests that run in the background
cleanup() {
    [ -z "$AT_ONCE" ] || kill -- "-$AT_ONCE" 2>/dev/null || true
    zookeeper_down
    rm -rf "$SCRATCH"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

for name in ${LOCKKEEPER_TEST_WITHOUT:-}; do
    case $name in
        zookeeper | ensemble | java | kazoo | go | kerberos) ;;
        *) die "LOCKKEEPER_TEST_WITHOUT contains \"$name\"; it may contain only: zookeeper ensemble java kazoo go kerberos" ;;
    esac
done
have cargo || die "cargo is not on the PATH: install Rust first (rustup.rs)"

filters=()
if without zookeeper; then
    left_out "zookeeper: no test runs against a real ZooKeeper or with foreign clients"
    real="no server (LOCKKEEPER_TEST_WITHOUT=$LOCKKEEPER_TEST_WITHOUT)"
else
    filters+=(--include-ignored)
    heading "A real ZooKeeper"
    zookeeper_up
    export LOCKKEEPER_TEST_ZOOKEEPER=$ZOOKEEPER
    real="ZooKeeper $(zookeeper_version) at $ZOOKEEPER, $ZOOKEEPER_HOW"
    say "$real"

    heading "An ensemble that the tests start"
    if without ensemble; then
        left_out "ensemble: no test runs while servers fail (tests named needs_ensemble)"
        filters+=(--skip needs_ensemble)
    else
        # These tests kill servers. They may kill only servers that they have started themselves.
        own_servers_up
        say "three servers, with $LOCKKEEPER_TEST_SERVER_CLASSPATH"
    fi

    heading "Foreign clients"
    if without java; then
        left_out "java: Curator, Apache's Java client, servers with TLS and SASL (tests named needs_java)"
        filters+=(--skip needs_java)
    else
        java_up
        say "$(javac -version 2>&1) with $LOCKKEEPER_TEST_CLASSPATH"
        own_servers_up
        say "servers that the tests start, with $LOCKKEEPER_TEST_SERVER_CLASSPATH"
    fi
    if without kazoo; then
        left_out "kazoo: the Python client (tests named needs_kazoo)"
        filters+=(--skip needs_kazoo)
    else
        kazoo_up
        say "kazoo $KAZOO in $LOCKKEEPER_TEST_PYTHON"
    fi
    if without go; then
        left_out "go: the Go client go-zk (tests named needs_go)"
        filters+=(--skip needs_go)
    else
        go_up
        say "$(go version) with $LOCKKEEPER_TEST_GOPATH"
    fi
fi

# The feature needs headers, so that not every machine can build it.
KERBEROS=
if without zookeeper || without java || without kerberos || ! kerberos_up; then
    left_out "kerberos: logins with a ticket (Debian's krb5-kdc krb5-admin-server krb5-user ${GSSAPI[*]})"
else
    own_servers_up
    KERBEROS=--all-features
fi
export KERBEROS

# The completions are tried in real shells. A test that finds this variable demands them.
if have zsh fish || install zsh fish; then
    export LOCKKEEPER_TEST_SHELLS=1
else
    left_out "shells: completions in zsh and fish"
fi

# Most tests wait for servers and time-outs, so more of them run at a time than there are cores.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((2 * $(nproc)))}

# The targets are named, because --all-targets would also run the benchmarks. The examples are built because some tests run them.
tests_of() { cargo test --locked --workspace --no-fail-fast ${KERBEROS:+"$KERBEROS"} "$@"; }
readonly ALL=(--lib --bins --tests --examples)

# at_once: runs what must not be late, or mostly waits: tests that kill servers, not more of them at a time than there are cores, because
# each starts three; then those whose tickets expire in time.
at_once() {
    local failed=0
    if ! without zookeeper && ! without ensemble; then
        RUST_TEST_THREADS=$(nproc) tests_of "${ALL[@]}" -- --include-ignored needs_ensemble || failed=1
    fi
    [ -z "$KERBEROS" ] || tests_of --test command -- --include-ignored needs_kerberos || failed=1
    return "$failed"
}

# beside FILTERS...: runs the test programs and the doc tests, one more side by side than there are cores, because most of them wait, and
# after those of at_once. The longest come first, each alone; the short ones by six. What is printed appears when the programs have ended.
beside() {
    local programs
    programs=$(tests_of "${ALL[@]}" --no-run 2>&1) || { printf '%s\n' "$programs"; return 1; }
    programs=$(sed -nE 's|.*Executable tests/.*/deps/(.*)-[0-9a-f]{16}.*|--test=\1|p' <<<"$programs")
    export -f tests_of
    export SCRATCH
    { printf -- '--test=%s\n' contract conformance explored command real; printf '%s\n' "--lib --bins --examples" --doc "$programs"; } |
        awk '!seen[$0]++ { printf "%s%s", $0, ++n < 8 || n % 6 == 0 ? "\n" : " " } END { print "" }' | grep . | tr '\n' '\0' | nice -n 5 xargs -0 -I{} -P "$(($(nproc) + 1))" bash -c '
            log=$(mktemp -p "$SCRATCH") status=0
            [ "{}" != --doc ] || set --
            tests_of {} -- "$@" >"$log" 2>&1 </dev/null || status=1
            flock "$SCRATCH" cat "$log"
            exit "$status"' beside "$@"
}

# Each part runs even if another fails. The script fails if any of them fails.
failed=()
if [ "$*" = --build ]; then
    tests_of "${ALL[@]}" --no-run
    exit
elif [ $# -gt 0 ]; then
    heading "cargo test $*"
    cargo test --locked "$@" -- ${filters[@]+"${filters[@]}"} || failed+=("tests")
else
    heading "Tests"
    tests_of "${ALL[@]}" --no-run || die "the tests do not compile"
    set -m # makes the process group
    at_once >"$SCRATCH/at-once.log" 2>&1 </dev/null &
    set +m
    AT_ONCE=$!
    beside ${filters[@]+"${filters[@]}"} --skip needs_ensemble --skip needs_kerberos || failed+=("tests")
    heading "Tests that kill servers; tests with tickets that expire in time"
    wait "$AT_ONCE" || failed+=("tests that kill servers, or with tickets")
    AT_ONCE=
    # Most programs have no such test.
    grep -vE '^running 0 tests|^test result: ok\. 0 passed|^ +Running|^$' "$SCRATCH/at-once.log" || true
fi

printf '\n'
report_left_out
[ "${#failed[@]}" -eq 0 ] || die "${failed[*]} (the real arm: $real)"
echo "All tests passed; the real arm ran on $real."
