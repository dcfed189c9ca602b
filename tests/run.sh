#!/usr/bin/env bash
# Every test of the workspace, against a real ZooKeeper too. Usage: tests/run.sh [ARGUMENTS OF cargo test]
#
# Without arguments: all of it, doc tests included. With arguments: `cargo test ARGUMENTS`, in the same surroundings, as in
# `tests/run.sh -p lockkeeper-server --test conformance`.
#
# What it needs beyond Rust it finds, starts or installs, and stops again, in this order:
#   a real ZooKeeper    LOCKKEEPER_TEST_ZOOKEEPER=host:port, which may be written to; else a container, where docker or podman
#                       has a running engine (LOCKKEEPER_TEST_IMAGE, default zookeeper:3.9); else the jars in
#                       /usr/share/java; else Debian's packages, as root
#   Java and Curator    a JDK and the jars in /usr/share/java (or LOCKKEEPER_TEST_CLASSPATH); else Debian's packages, as root
#   servers of a test's own (TLS, SASL; three to kill or to reconfigure)
#                       the jars in /usr/share/java, with netty (or LOCKKEEPER_TEST_SERVER_CLASSPATH); else Debian's packages,
#                       as root
#   kazoo               in a private venv under target/ (or LOCKKEEPER_TEST_PYTHON)
#   Go and go-zk        Go and the library in /usr/share/gocode (or LOCKKEEPER_TEST_GOPATH); else Debian's packages, as root
# What cannot be had is a failure, unless LOCKKEEPER_TEST_WITHOUT names it (zookeeper, ensemble, java, kazoo, go; several
# with blanks).
#
# How the Rust tests take part: one that needs any of this is `#[ignore = "needs ...: tests/run.sh"]` and finds it in
# LOCKKEEPER_TEST_ZOOKEEPER (host:port), LOCKKEEPER_TEST_CLASSPATH (for javac and java), LOCKKEEPER_TEST_SERVER_CLASSPATH (to
# start servers with java), LOCKKEEPER_TEST_PYTHON, LOCKKEEPER_TEST_GOPATH (for go build). One that
# needs an ensemble to kill, Java, kazoo or Go has `needs_ensemble`, `needs_java`, `needs_kazoo` or `needs_go` in its full name,
# which is how it is left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tests/lib/common.sh
. tests/lib/zookeeper.sh
. tests/lib/clients.sh

SCRATCH=$(mktemp -d)
cleanup() {
    zookeeper_down
    rm -rf "$SCRATCH"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

for name in ${LOCKKEEPER_TEST_WITHOUT:-}; do
    case $name in
        zookeeper | ensemble | java | kazoo | go) ;;
        *) die "LOCKKEEPER_TEST_WITHOUT names \"$name\", which is none of: zookeeper ensemble java kazoo go" ;;
    esac
done
have cargo || die "no cargo on the PATH: install Rust first (rustup.rs)"

filters=()
if without zookeeper; then
    left_out "zookeeper: nothing is run against a real ZooKeeper, nor against foreign clients"
    real="nothing (LOCKKEEPER_TEST_WITHOUT=$LOCKKEEPER_TEST_WITHOUT)"
else
    filters+=(--include-ignored)
    heading "A real ZooKeeper"
    zookeeper_up
    export LOCKKEEPER_TEST_ZOOKEEPER=$ZOOKEEPER
    real="ZooKeeper $(zookeeper_version) at $ZOOKEEPER, $ZOOKEEPER_HOW"
    say "$real"

    heading "An ensemble of the tests' own"
    if without ensemble; then
        left_out "ensemble: nothing is run while servers fail (tests named needs_ensemble)"
        filters+=(--skip needs_ensemble)
    else
        # Only who started servers may kill them: neither one that the caller named nor a container will do.
        own_servers_up
        say "three servers, with $LOCKKEEPER_TEST_SERVER_CLASSPATH"
    fi

    heading "Foreign clients"
    if without java; then
        left_out "java: neither Curator nor Apache's Java client, nor servers with TLS and SASL (tests named needs_java)"
        filters+=(--skip needs_java)
    else
        java_up
        say "$(javac -version 2>&1) with $LOCKKEEPER_TEST_CLASSPATH"
        own_servers_up
        say "servers of the tests' own with $LOCKKEEPER_TEST_SERVER_CLASSPATH"
    fi
    if without kazoo; then
        left_out "kazoo: not Python's client (tests named needs_kazoo)"
        filters+=(--skip needs_kazoo)
    else
        kazoo_up
        say "kazoo $KAZOO in $LOCKKEEPER_TEST_PYTHON"
    fi
    if without go; then
        left_out "go: not go-zk (tests named needs_go)"
        filters+=(--skip needs_go)
    else
        go_up
        say "$(go version) with $LOCKKEEPER_TEST_GOPATH"
    fi
fi

# Both runs happen whatever the first one says; either decides the exit status.
failed=()
if [ $# -gt 0 ]; then
    heading "cargo test $*"
    cargo test --locked "$@" -- ${filters[@]+"${filters[@]}"} || failed+=("tests")
else
    heading "Tests"
    # Named targets, not --all-targets: that would run the benchmarks. The examples are built for the tests that run them.
    cargo test --locked --workspace --no-fail-fast --lib --bins --tests --examples -- ${filters[@]+"${filters[@]}"} ||
        failed+=("tests")
    heading "Doc tests"
    cargo test --locked --workspace --no-fail-fast --doc || failed+=("doc tests")
fi

printf '\n'
report_left_out
[ "${#failed[@]}" -eq 0 ] || die "${failed[*]} (the real arm: $real)"
echo "All tests passed; the real arm ran on $real."
