//! The changes of a queue between two listings: a line for each contender that came, was granted the lock, or left.
//!
//! A contender that comes and leaves between two listings has no line.

use std::{collections::HashMap, fmt::Write as _};

use lockkeeper::locks::QueueEntry;

use super::table::{role, who};
use crate::text;

/// The lines for all changes. Departures come first, because a holder must leave before the next one is granted the lock.
pub(super) fn text(before: &[QueueEntry], now: &[QueueEntry], long: bool) -> String {
    let by_node = |entries: &[QueueEntry]| -> HashMap<String, bool> {
        let entry = |it: &QueueEntry| (it.path.clone(), it.holds);
        entries.iter().map(entry).collect()
    };
    let (held_before, there_now) = (by_node(before), by_node(now));
    let moment = text::moment(text::now());
    let mut lines = String::new();
    let mut line = |what: &str, standing: &QueueEntry| {
        let (role, age, who) = (
            role(standing.kind),
            text::age(standing),
            who(standing, long),
        );
        let text = format!("{moment}  {what:<8}  {role:<6}  {age:>9}  {who}");
        // Writing to a string does not fail.
        let _ = writeln!(lines, "{}", text.trim_end());
    };
    for gone in before {
        if !there_now.contains_key(&gone.path) {
            line(if gone.holds { "released" } else { "left" }, gone);
        }
    }
    for present in now {
        match held_before.get(&present.path) {
            None if !present.holds => line("waits", present),
            None | Some(false) if present.holds => line("granted", present),
            _ => {}
        }
    }
    lines
}
