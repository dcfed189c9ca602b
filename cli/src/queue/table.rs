//! The table that `lockkeeper queue` prints for people.

use lockkeeper::locks::{Kind, QueueEntry};

use super::author;
use crate::text;

/// A terminal that is narrower than this gets no column for the session.
const WIDE: usize = 76;

/// A heading, and a row for each contender.
pub(super) fn text(
    path: &str,
    entries: &[QueueEntry],
    long: bool,
    exists: bool,
    width: Option<usize>,
) -> String {
    let path = text::harmless(path);
    if entries.is_empty() {
        let why = if exists {
            ""
        } else {
            "; there is no such node"
        };
        return format!("{path}: free, and nobody waits{why}\n");
    }
    let holders = entries.iter().filter(|it| it.holds).count();
    let waiting = entries.len() - holders;
    let is_narrow = width.is_some_and(|width| width < WIDE);
    let head = ["", "AHEAD", "AGE", "AS", "SESSION", "WHO"].map(str::to_owned);
    let rows = entries.iter().map(|it| row(it, long));
    let rows = std::iter::once(head).chain(rows).map(|row| {
        let mut row = row.to_vec();
        if is_narrow {
            row.remove(4);
        }
        row
    });
    let text = format!(
        "{path}: {holders} {}, {waiting} {}\n{}",
        if holders == 1 { "holds" } else { "hold" },
        if waiting == 1 { "waits" } else { "wait" },
        text::table(&rows.collect::<Vec<_>>())
    );
    fitted(&text, width)
}

/// The lines of a text, cut to the width of the terminal.
pub(super) fn fitted(text: &str, width: Option<usize>) -> String {
    let line = |line| match width {
        Some(width) => text::cut(line, width) + "\n",
        None => format!("{line}\n"),
    };
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
pub(super) fn who(standing: &QueueEntry, long: bool) -> String {
    let unreadable = || "(may not be read)".to_owned();
    let data = (standing.is_readable).then(|| text::data_in_a_line(standing.data.as_deref()));
    let data = data.unwrap_or_else(unreadable);
    let endless = !expires(standing);
    let mark = endless.then(|| "(never expires)".to_owned());
    let other = author::of(standing).filter(|program| *program != "lockkeeper");
    let other = other.map(|program| format!("({program})"));
    let node = long.then(|| text::harmless(&standing.path));
    let parts = [mark, other, Some(data), node].into_iter().flatten();
    let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
    parts.join("  ")
}

/// Whether the contender's node goes when its session ends. Somebody has made the others by mistake.
pub(super) fn expires(standing: &QueueEntry) -> bool {
    text::owner(&standing.stat).is_some() || !standing.is_readable
}

/// The role of a contender, in both outputs.
pub(super) fn role(kind: Kind) -> &'static str {
    match kind {
        Kind::Mutex => "mutex",
        Kind::Read => "reader",
        Kind::Write => "writer",
        Kind::Latch => "leader",
        Kind::Semaphore => "lease",
        Kind::Plain => "plain",
        _ => "other",
    }
}
