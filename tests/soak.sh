#!/usr/bin/env bash
# The soak of docs/CONTRIBUTING.md, on a real ZooKeeper that this script kills every few seconds.
# Usage: tests/soak.sh [SECONDS]
#
# The server runs from Debian's jars, with its data on disk. The script kills it with SIGKILL and SIGTERM in turn, and
# starts it again immediately. The checks are in session/examples/soak.rs. Nothing runs this script automatically.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tests/lib/common.sh
. tests/lib/zookeeper.sh

readonly LENGTH=${1:-600} # seconds
readonly UP=4             # seconds from a start of the server to the next kill
readonly CALM=20          # seconds without a kill at the end, because the soak then asks the server for its watches

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
server_jars || die "the soak needs a server that it can kill: install Debian's packages default-jdk-headless libzookeeper-java"
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
    run_jars || die "the server did not start again after $restarts restarts: $(tail -n 20 "$SCRATCH/zookeeper/log")"
    restarts=$((restarts + 1))
done
status=0
wait "$SOAK" || status=$?
say "$restarts restarts of the server"
exit "$status"
