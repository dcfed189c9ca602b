#!/usr/bin/env bash
# Builds lockkeeper's benchmark program and those for other clients into one directory. Usage: build.sh [NAME...]
#
# Names: lockkeeper rust go-zk c c-recipe curator. Without a name, the script builds all of them. kazoo needs no build.
# When a program cannot be built, the script builds the others, and then prints its name and exits with status 1.
#
#   BENCH_BUILD     the directory to build into (default: .build beside this file)
#   ZOOKEEPER_JARS  jars of ZooKeeper and Curator (default: $BENCH_BUILD/jars, which Maven fills)
#   GO_ZK_SOURCE    a checkout of go-zookeeper/zk to build against (default: the module that go-zk/go.mod names)
#   ZOO_LOCK        the directory of zoo_lock.c in ZooKeeper's zookeeper-recipes-lock (needed for c-recipe)
set -uo pipefail
PEERS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
BUILD=${BENCH_BUILD:-$PEERS/.build}
ZOOKEEPER_JARS=${ZOOKEEPER_JARS:-$BUILD/jars}
mkdir -p "$BUILD"

# Same optimisation as the other Rust programs: see peers/Cargo.toml.
build_lockkeeper() {
    cargo build --release --locked --package lockkeeper-bench --features tls --manifest-path "$PEERS/../Cargo.toml" \
        --config 'profile.release.lto="thin"' --config profile.release.codegen-units=1 \
        --target-dir "$BUILD/target-lockkeeper" &&
        cp "$BUILD"/target-lockkeeper/release/lockkeeper-{bench,crowd} "$BUILD/"
}

build_rust() {
    cargo build --release --locked --manifest-path "$PEERS/Cargo.toml" --target-dir "$BUILD/target" || return
    local name
    for name in tokio-zookeeper zookeeper-client; do
        cp "$BUILD/target/release/bench-$name" "$BUILD/" || return
    done
}

build_go-zk() {
    mkdir -p "$BUILD/go-zk" && cp "$PEERS/go-zk/main.go" "$PEERS/go-zk/go.mod" "$BUILD/go-zk/" && cd "$BUILD/go-zk" || return
    [ -z "${GO_ZK_SOURCE:-}" ] || go mod edit -replace "github.com/go-zookeeper/zk=$GO_ZK_SOURCE" || return
    GOFLAGS=-mod=mod go build -o "$BUILD/bench-go-zk" .
}

build_c() {
    gcc -O2 -Wall -Wno-unused-function -o "$BUILD/bench-c" "$PEERS/c/bench.c" -lzookeeper_mt -lpthread
}

build_c-recipe() {
    gcc -O2 -w -DZKR -DTHREADED -include sys/types.h -I"${ZOO_LOCK:?is not set}" -I/usr/include/zookeeper \
        -o "$BUILD/bench-c-recipe" "$PEERS/c/bench.c" "$ZOO_LOCK/zoo_lock.c" -lzookeeper_mt -lpthread
}

build_curator() {
    [ -d "$ZOOKEEPER_JARS" ] ||
        mvn -q -f "$PEERS/curator/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$ZOOKEEPER_JARS" || return
    mkdir -p "$BUILD/curator" && javac -cp "$ZOOKEEPER_JARS/*" -d "$BUILD/curator" "$PEERS/curator/Bench.java"
}

[ $# -gt 0 ] || set -- lockkeeper rust go-zk c c-recipe curator
failed=()
for name in "$@"; do
    printf -- '---- %s\n' "$name"
    (declare -F "build_$name" >/dev/null && "build_$name") || failed+=("$name")
done
[ "${#failed[@]}" -eq 0 ] || { echo "not built: ${failed[*]}" >&2; exit 1; }
