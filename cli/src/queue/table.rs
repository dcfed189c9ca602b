//! The table that `lockkeeper queue` prints for people.

use lockkeeper::locks::{QueueEntry, Recipe};

use crate::{duration::Long, text};

/// A heading, and a row for each contender.
pub(super) fn text(path: &str, entries: &[QueueEntry], long: bool, exists: bool) -> String {
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
    let head = ["", "AHEAD", "AGE", "AS", "SESSION", "WHO"].map(str::to_owned);
    let rows: Vec<_> = [head]
        .into_iter()
        .chain(entries.iter().map(|it| row(it, long)))
        .collect();
    format!(
        "{path}: {holders} {}, {waiting} {}\n{}",
        if holders == 1 { "holds" } else { "hold" },
        if waiting == 1 { "waits" } else { "wait" },
        text::table(&rows)
    )
}

fn row(standing: &QueueEntry, long: bool) -> [String; 6] {
    let ahead = (!standing.holds).then(|| standing.ahead.to_string());
    [
        (if standing.holds { "holds" } else { "waits" }).to_owned(),
        ahead.unwrap_or_default(),
        age(standing).to_string(),
        role(standing.recipe).to_owned(),
        standing.participant.session_id.to_string(),
        who(standing, long),
    ]
}

/// The age of a contender's node.
pub(super) fn age(standing: &QueueEntry) -> Long {
    Long(text::ago(standing.participant.stat.created()))
}

/// The data of a contender's node, and with `long` also the path of the node.
pub(super) fn who(standing: &QueueEntry, long: bool) -> String {
    let data = text::data_in_a_line(standing.participant.data.as_deref());
    if !long {
        return data;
    }
    let node = text::harmless(&standing.participant.path);
    if data.is_empty() {
        node
    } else {
        format!("{data}  {node}")
    }
}

/// The role of a contender, in both outputs.
pub(super) fn role(recipe: Recipe) -> &'static str {
    match recipe {
        Recipe::Mutex => "mutex",
        Recipe::Read => "reader",
        Recipe::Write => "writer",
        Recipe::Latch => "leader",
        Recipe::Semaphore => "lease",
        Recipe::Plain => "plain",
        _ => "other",
    }
}
