#!/usr/bin/env bash
# The dependency budget: what somebody who adds `lockkeeper` to a program has to compile and trust. Run by .ci/run.
#
# Of the crates from outside the workspace that are linked into a program using lockkeeper with default features on Linux:
#   - at most 20;
#   - none is a proc-macro, since one brings syn and its compile time with it;
#   - none but libc has a build script, which runs with the builder's rights;
#   - none is another ZooKeeper client, since this one is written from the wire up.
# Prints the list and the count; fails naming each breach. Other platforms link other system crates and are not counted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

MOST=20
TARGET=x86_64-unknown-linux-gnu

# The tree knows which crates are really linked (features, kinds of dependencies); the metadata knows which have a build script.
tree=$(cargo tree --locked -p lockkeeper -e normal --prefix none --target "$TARGET")
metadata=$(mktemp)
trap 'rm -f "$metadata"' EXIT
cargo metadata --locked --format-version 1 --filter-platform "$TARGET" >"$metadata"

MOST=$MOST METADATA=$metadata TREE=$tree python3 - <<'PYTHON'
import json, os, sys

# A line of the tree: `NAME vVERSION[ (proc-macro)][ (PATH)][ (*)]`.
crates = {}
for line in os.environ["TREE"].splitlines():
    name, version, *marks = line.split()
    if not name.startswith("lockkeeper"):
        crates.setdefault((name, version.removeprefix("v")), set()).update(marks)

with open(os.environ["METADATA"]) as file:
    kinds = {
        (package["name"], package["version"]): {kind for target in package["targets"] for kind in target["kind"]}
        for package in json.load(file)["packages"]
    }

breaches = []
for (name, version), marks in sorted(crates.items()):
    if (name, version) not in kinds:
        sys.exit(f"cannot read `cargo tree`: {name} {version} is not in `cargo metadata`")
    print(f"   {name} {version}")
    if "(proc-macro)" in marks or "proc-macro" in kinds[name, version]:
        breaches.append(f"{name} is a proc-macro")
    if "custom-build" in kinds[name, version] and name != "libc":
        breaches.append(f"{name} has a build script")
    if "zookeeper" in name or "zk" in name:
        breaches.append(f"{name} looks like another ZooKeeper client")

most = int(os.environ["MOST"])
print(f"{len(crates)} crates from outside the workspace; the budget is {most}")
if not crates:
    breaches.append("no crate found at all: the check is broken")
if len(crates) > most:
    breaches.append(f"{len(crates)} crates are more than {most}")
sys.exit("\n".join(f"FAILED: {breach}" for breach in breaches) or None)
PYTHON
