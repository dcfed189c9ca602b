//! The output of `lockkeeper queue --json`: one object in one line.
//!
//! Invariant: later versions may add keys, but remove none.

use lockkeeper::locks::QueueEntry;
use serde_json::{Value, json};

use super::{
    author,
    table::{expires, role},
};
use crate::text;

/// One listing of a lock's queue.
pub(super) fn line(path: &str, entries: &[QueueEntry]) -> String {
    let contenders: Vec<Value> = entries.iter().map(contender).collect();
    let look = json!({
        "path": path,
        "time_ms": text::millis(text::now()),
        "contenders": contenders,
    });
    format!("{look}\n")
}

fn contender(standing: &QueueEntry) -> Value {
    let data = standing.data.as_deref();
    let text = data.map(std::str::from_utf8).transpose();
    json!({
        "holds": standing.holds,
        "ahead": standing.ahead,
        "as": role(standing.kind),
        "node": standing.path,
        "client": author::of(standing),
        "session": standing.stat.ephemeral_owner.to_string(),
        "expires": expires(standing),
        "czxid": standing.stat.czxid.0,
        "created_ms": standing.stat.ctime,
        "readable": standing.is_readable,
        "data": text.ok().flatten(),
        "data_hex": text.err().and(data).map(hex::encode),
    })
}
