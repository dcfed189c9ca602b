//! A node's metadata as JSON, for `ls`, `stat` and programs that read them.
//!
//! Invariant: later versions may add keys, but remove none.

use lockkeeper::node::Stat;
use serde_json::{Value, json};

use crate::text;

/// One object in one line.
pub(super) fn line(path: &str, stat: &Stat) -> String {
    format!("{}\n", facts(path, stat))
}

pub(super) fn facts(path: &str, stat: &Stat) -> Value {
    json!({
        "path": path,
        "version": stat.version.0,
        "bytes": stat.data_length,
        "children": stat.num_children,
        "created_ms": stat.ctime,
        "changed_ms": stat.mtime,
        "session": text::owner(stat),
        "czxid": stat.czxid.0,
        "mzxid": stat.mzxid.0,
        "pzxid": stat.pzxid.0,
        "cversion": stat.cversion.0,
        "aversion": stat.aversion.0,
    })
}
