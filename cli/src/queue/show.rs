//! The output of `lockkeeper queue`: a table or a line for each change, for people, and JSON for programs.

use std::collections::HashMap;

use lockkeeper::locks::{Kind, QueueEntry};
use serde_json::{Value, json};

use super::author;
use crate::{escape, text};

/// A heading, and a row for each contender.
pub(super) fn table(
    path: &str,
    entries: &[QueueEntry],
    long: bool,
    exists: bool,
    width: Option<usize>,
) -> String {
    let path = escape::harmless(path);
    if entries.is_empty() {
        let why = ["; there is no such node", ""][usize::from(exists)];
        return format!("{path}: free, and nobody waits{why}\n");
    }
    let holders = entries.iter().filter(|it| it.holds).count();
    let waiting = entries.len() - holders;
    let head = ["", "AHEAD", "AGE", "AS", "SESSION", "WHO"].map(str::to_owned);
    let mut rows = vec![head];
    rows.extend(entries.iter().map(|it| row(it, long)));
    let text = format!(
        "{path}: {holders} {}, {waiting} {}\n{}",
        if holders == 1 { "holds" } else { "hold" },
        if waiting == 1 { "waits" } else { "wait" },
        text::table(&rows)
    );
    fitted(&text, width)
}

/// The lines of a text, cut to the width of the terminal.
pub(super) fn fitted(text: &str, width: Option<usize>) -> String {
    let line = |line| text::cut(line, width.unwrap_or(usize::MAX)) + "\n";
    text.lines().map(line).collect()
}

fn row(standing: &QueueEntry, long: bool) -> [String; 6] {
    let ahead = (!standing.holds).then(|| standing.ahead.to_string());
    [
        (if standing.holds { "holds" } else { "waits" }).to_owned(),
        ahead.unwrap_or_default(),
        text::age(standing),
        role(standing.kind).to_owned(),
        text::owner(&standing.stat).unwrap_or("-".to_owned()),
        who(standing, long),
    ]
}

/// The data of a contender's node, and with `long` also its path. A mark says that no session ends the node, another one that
/// another program has written it.
fn who(standing: &QueueEntry, long: bool) -> String {
    let unreadable = || "(may not be read)".to_owned();
    let data = (standing.is_readable).then(|| text::data_in_a_line(standing.data.as_deref()));
    let data = data.unwrap_or_else(unreadable);
    let mark = (!expires(standing)).then(|| "(never expires)".to_owned());
    let other = author::of(&standing.path).map(|program| format!("({program})"));
    let node = long.then(|| escape::harmless(&standing.path));
    let parts = [mark, other, Some(data), node].into_iter().flatten();
    let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
    parts.join("  ")
}

/// Whether the contender's node goes when its session ends. Somebody has made the others by mistake.
fn expires(standing: &QueueEntry) -> bool {
    text::owner(&standing.stat).is_some() || !standing.is_readable
}

/// The role of a contender, in both outputs.
fn role(kind: Kind) -> &'static str {
    match kind {
        Kind::Mutex => "mutex",
        Kind::Read => "reader",
        Kind::Write => "writer",
        Kind::Latch => "leader",
        Kind::Semaphore => "permit",
        Kind::Plain => "plain",
        _ => "other",
    }
}

/// The changes between two listings: a line for each contender that came, was granted the lock, or left. One that comes and leaves between
/// two listings has none. Departures come first, because a holder must leave before the next one is granted the lock.
pub(super) fn changes(before: &[QueueEntry], now: &[QueueEntry], long: bool) -> String {
    let holds = |it: &QueueEntry| (it.path.clone(), it.holds);
    let [held_before, there_now] =
        [before, now].map(|all| all.iter().map(holds).collect::<HashMap<_, _>>());
    let gone = before.iter().filter_map(|it| {
        let what = if it.holds { "released" } else { "left" };
        (!there_now.contains_key(&it.path)).then_some((what, it))
    });
    let come = now.iter().filter_map(|it| match held_before.get(&it.path) {
        None if !it.holds => Some(("waits", it)),
        None | Some(false) if it.holds => Some(("granted", it)),
        _ => None,
    });
    let moment = text::moment(text::now());
    let line = |(what, it): (&str, &QueueEntry)| {
        let (role, age, who) = (role(it.kind), text::age(it), who(it, long));
        let line = format!("{moment}  {what:<8}  {role:<6}  {age:>9}  {who}");
        line.trim_end().to_owned() + "\n"
    };
    gone.chain(come).map(line).collect()
}

/// One listing of a lock's queue as JSON: one object in one line. Later versions may add keys, but remove none.
pub(super) fn line(path: &str, entries: &[QueueEntry], exists: bool) -> String {
    let contenders: Vec<Value> = entries.iter().map(contender).collect();
    let look = json!({
        "path": path,
        "exists": exists,
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
        "client": author::of(&standing.path),
        "session": standing.stat.ephemeral_owner.to_string(),
        "expires": expires(standing),
        "czxid": standing.stat.czxid.0,
        "created_ms": standing.stat.ctime,
        "readable": standing.is_readable,
        "data": text.ok().flatten(),
        "data_hex": text.err().and(data).map(hex::encode),
    })
}
