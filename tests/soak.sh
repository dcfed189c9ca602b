#!/usr/bin/env bash
# The soak of CONTRIBUTING.md on a real ZooKeeper that is killed every few seconds. Usage: tests/soak.sh [SECONDS]
#
# The server is one of Debian's jars, with its data on disk, killed with SIGKILL or SIGTERM in turn and started again at once. What
# is judged is in session/examples/soak.rs. Not here: anything that runs by itself; this is run by hand.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tests/lib/common.sh
. tests/lib/zookeeper.sh

readonly LENGTH=${1:-600} # seconds
readonly UP=4             # seconds from one start to the next end
readonly CALM=20          # seconds at the end without one: what the server says last is part of the result

SCRATCH=$(mktemp -d)
SOAK=
cleanup() {
    [ -z "$SOAK" ] || kill "$SOAK" 2>/dev/null || true
    zookeeper_down
    rm -rf "$SCRATCH"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

server_jars || install default-jdk-headless libzookeeper-java || true
server_jars || die "a server is needed that can be killed: Debian's packages default-jdk-headless libzookeeper-java"
cargo build --release --locked -p lockkeeper-session --example soak
start_jars
say "ZooKeeper $(zookeeper_version) at $ZOOKEEPER, $ZOOKEEPER_HOW"
"${CARGO_TARGET_DIR:-target}/release/examples/soak" "$LENGTH" "$ZOOKEEPER" &
SOAK=$!

begin=$SECONDS restarts=0
while sleep "$UP" && [ $((SECONDS - begin)) -lt $((LENGTH - CALM)) ] && kill -0 "$SOAK" 2>/dev/null; do
    signal=KILL
    [ $((restarts % 2)) -eq 0 ] || signal=TERM
    kill "-$signal" "$SERVER_PID"
    { wait "$SERVER_PID" || true; } 2>/dev/null
    run_jars || die "the server did not come back after $restarts restarts: $(tail -n 20 "$SCRATCH/zookeeper/log")"
    restarts=$((restarts + 1))
done
status=0
wait "$SOAK" || status=$?
say "$restarts restarts of the server"
exit "$status"
