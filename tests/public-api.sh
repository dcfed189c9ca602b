#!/usr/bin/env bash
# Compares the names of the public API with tests/public-api.txt. Usage: tests/public-api.sh [--bless]
#
# A line is an item with its path and kind, the names of a function's arguments, the traits that a type implements, and whether a variant
# may get fields. Types of arguments are not recorded. Run it with --bless after a change that is meant, and tell users in CHANGELOG.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

names=$(mktemp)
trap 'rm -f "$names"' EXIT
# The output format is unstable. With this variable a stable rustdoc has it, too.
document() {
    RUSTC_BOOTSTRAP=1 cargo rustdoc --quiet --locked --lib -p "$@" -- -Zunstable-options --output-format json
}
for crate in jute proto recipes server tls; do document "lockkeeper-$crate"; done
document lockkeeper-session --features digest
document lockkeeper-sasl --all-features
document lockkeeper --all-features
python3 - "${CARGO_TARGET_DIR:-target}"/doc/lockkeeper{,_jute,_proto,_recipes,_sasl,_server,_session,_tls}.json >"$names" <<'PYTHON'
import json, sys

def walk(item, path):
    kind, inner = next(iter(item["inner"].items()))
    if kind == "use":
        target = index.get(str(inner["id"]), {})
        if target.get("crate_id") == 0:  # an item of this crate is listed where it is exported
            walk({**target, "name": inner["name"]}, path)
        else:
            lines.add(f"{path}: use {inner['source']}")
        return
    path, children, extra = f"{path}::{item['name']}", [], ""
    if kind == "function":
        extra = f"({', '.join(name for name, _ in inner['sig']['inputs'])})" + " async" * inner["header"]["is_async"]
    elif kind in ("struct", "enum"):
        impls = [index[str(i)]["inner"]["impl"] for i in inner["impls"]]
        own = [block for block in impls if block["trait"] and not block["is_synthetic"] and not block["blanket_impl"]]
        extra = "".join(sorted({" " + block["trait"]["path"].split("::")[-1] for block in own} - {" StructuralPartialEq"}))
        children = [child for block in impls if not block["trait"] for child in block["items"]]
    elif kind == "variant" and "non_exhaustive" in str(item["attrs"]):
        extra = " non_exhaustive"
    lines.add(f"{path}: {kind}{extra}")
    if kind in ("struct", "variant") and isinstance(inner["kind"], dict):  # one that has fields
        fields = next(iter(inner["kind"].values()))
        children += fields["fields"] if isinstance(fields, dict) else fields
    if kind in ("module", "trait", "enum"):
        children += inner.get("items", []) + inner.get("variants", [])
    for child in children:
        if str(child) in index:  # private fields are not
            walk(index[str(child)], path)

for file in sys.argv[1:]:
    doc = json.load(open(file))
    index, lines = doc["index"], set()
    walk(index[str(doc["root"])], "")
    print("\n".join(sorted(line.removeprefix("::") for line in lines)))
PYTHON
[ "${1:-}" != --bless ] || cat "$names" >tests/public-api.txt
diff -u tests/public-api.txt "$names" || { echo "FAILED: the public API has changed: see tests/public-api.sh" >&2; exit 1; }
echo "$(wc -l <"$names") names, as recorded"
