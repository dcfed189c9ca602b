#!/usr/bin/env python3
"""The names that are promised, from rustdoc's JSON. Usage: public_api.py FOLDER

Promised is what `lockkeeper` and `lockkeeper-server` have without the feature `unstable`. The other crates are parts of `lockkeeper`:
an item of theirs stands here by the path that users write. A line is an item with its path and kind, the names of a function's
arguments, and the traits that a type implements; types of arguments are not recorded. Behind them stand the types of our parts that
users can meet and cannot name. Fails when a type of another crate appears that the table in ARCHITECTURE.md lacks, or the reverse.
"""
import json, re, sys

PROMISED, PARTS = ["lockkeeper", "lockkeeper_server"], ["jute", "proto", "recipes", "sasl", "session", "tls"]
DOCS = {}
for name in PROMISED + [f"lockkeeper_{part}" for part in PARTS]:
    DOCS[name] = json.load(open(f"{sys.argv[1]}/{name}.json"))
    DOCS[name]["name"] = name
    # Where a public item lies in a private module, some paths are those of the module.
    DOCS[name]["named"] = {it["name"]: id for id, it in DOCS[name]["index"].items() if it["crate_id"] == 0 and it["name"]}
    DOCS[name]["own"] = {"::".join(it["path"]): id for id, it in DOCS[name]["paths"].items() if it["crate_id"] == 0}

lines, seen, used = set(), set(), set()


def crate_of(doc, path):
    return doc["external_crates"].get(str(path["crate_id"]), {}).get("name", doc["name"])


def note_types(doc, part):
    """Notes the types that a signature, a field, a bound or an implemented trait names."""
    if isinstance(part, dict):
        path = doc["paths"].get(str(part.get("id")))
        if path and ("args" in part or "path" in part):
            used.add((crate_of(doc, path), "::".join(path["path"])))
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else []:
        note_types(doc, each)


def walk(doc, item, path):
    index = doc["index"]
    kind, inner = next(iter(item["inner"].items()))
    if kind == "use":
        here, there = index.get(str(inner["id"]), {}), doc["paths"].get(str(inner["id"]))
        if here.get("crate_id") == 0:
            return walk(doc, {**here, "name": inner["name"]}, path)
        far = there and DOCS.get(crate_of(doc, there))
        target = far and far["index"].get(far["own"].get("::".join(there["path"])) or far["named"].get(there["path"][-1]))
        if target:
            return walk(far, {**target, "name": inner["name"]}, path)
        return lines.add(f"{path}: use {inner['source']}")
    if kind in ("struct", "enum", "trait", "type_alias") and (doc["name"], item["id"]) in seen:
        return  # it has a path already
    path, children, extra = f"{path}::{item['name']}", [], ""
    if kind in ("struct", "enum", "trait", "type_alias"):
        seen.add((doc["name"], item["id"]))
    if kind == "function":
        extra = f"({', '.join(name for name, _ in inner['sig']['inputs'])})" + " async" * inner["header"]["is_async"]
        note_types(doc, [inner["sig"], inner["generics"]])
    elif kind in ("struct", "enum"):
        impls = [index[str(i)]["inner"]["impl"] for i in inner["impls"]]
        own = [block for block in impls if block["trait"] and not block["is_synthetic"] and not block["blanket_impl"]]
        note_types(doc, [block["trait"] for block in own if not hidden(doc, block["trait"])])
        extra = "".join(sorted({" " + block["trait"]["path"].split("::")[-1] for block in own} - {" StructuralPartialEq"}))
        children = [child for block in impls if not block["trait"] for child in block["items"]]
    elif kind == "variant" and "non_exhaustive" in str(item["attrs"]):
        extra = " non_exhaustive"
    elif kind == "trait":
        note_types(doc, inner["bounds"])
    elif kind in ("struct_field", "constant", "assoc_type", "assoc_const"):
        note_types(doc, inner)
    lines.add(f"{path}: {kind}{extra}")
    if kind in ("struct", "variant") and isinstance(inner["kind"], dict):  # one that has fields
        fields = next(iter(inner["kind"].values()))
        children += fields["fields"] if isinstance(fields, dict) else fields
    if kind in ("module", "trait", "enum"):
        children += inner.get("items", []) + inner.get("variants", [])
    # The shortest path of an item counts, and that is the first one if modules come last.
    children = [index[str(child)] for child in children if str(child) in index]  # private fields are not
    for child in sorted(children, key=lambda child: "module" in child["inner"]):
        walk(doc, child, path)


def hidden(doc, trait):
    """Is it a trait of our parts? Users cannot name it, so that a type has it is no promise."""
    path = doc["paths"].get(str(trait["id"]))
    return bool(path) and crate_of(doc, path).startswith("lockkeeper")


for name in PROMISED:
    walk(DOCS[name], DOCS[name]["index"][str(DOCS[name]["root"])], "")
print("\n".join(sorted(line.removeprefix("::") for line in lines)))

named = {(doc, "::".join(DOCS[doc]["paths"][str(id)]["path"])) for doc, id in seen if str(id) in DOCS[doc]["paths"]}
ours = {path for crate, path in used if crate.startswith("lockkeeper") and (crate, path) not in named}
print("\n".join(f"met, but named only with `unstable`: {path}" for path in sorted(ours)))

theirs = {(crate, path.split("::")[-1]) for crate, path in used if not crate.startswith("lockkeeper")}
theirs = {(crate, name) for crate, name in theirs if crate not in ("std", "core", "alloc")}
table = open("ARCHITECTURE.md").read().partition("## Public dependencies")[2].partition("\n## ")[0]
rows = [[re.findall("`([^`]+)`", cell) for cell in row.split("|")] for row in table.splitlines() if row.startswith("| `")]
stated = {(row[1][0].replace("-", "_"), name) for row in rows for name in row[3]}
if stated != theirs:
    sys.exit(f"ARCHITECTURE.md, Public dependencies: lacks {sorted(theirs - stated)}, and should not have {sorted(stated - theirs)}")
