//! Tokens grow in the order of the grants, nobody is skipped, and stores see it the same way.

use std::{collections::BTreeMap, time::Duration};

use super::{
    Bounds, Rule, Violation,
    holds::{Granted, Hold, Holds, Stored},
};

pub(super) fn check(holds: &Holds<'_>, bounds: &Bounds, found: &mut Vec<Violation>) {
    for line in holds.grants(bounds).values() {
        tokens(line, found);
        for (hold, granted) in line {
            skipped(holds, bounds, hold, *granted, found);
        }
    }
    if bounds.knows_sessions {
        gone(holds, found);
    }
    stores(holds, found);
}

/// Nobody is granted a lock whose node was deleted by hand before the one ahead of it let go: news come in order.
fn gone(holds: &Holds<'_>, found: &mut Vec<Violation>) {
    for hold in holds.all.values() {
        let Some(granted) = hold.granted else {
            continue;
        };
        if let Some(other) = holds.heard_too_late(hold, granted) {
            let text = format!(
                "{} granted to {} of client {} as {}, which was deleted before {} of client {} let go",
                hold.lock, hold.attempt, hold.client, granted.node, other.attempt, other.client,
            );
            found.push(Violation::new(granted.at, Rule::Gone, text));
        }
    }
}

/// A later grant has a higher token, where one had to wait for the other.
fn tokens(line: &[(&Hold<'_>, Granted<'_>)], found: &mut Vec<Violation>) {
    for (index, (hold, granted)) in line.iter().enumerate() {
        let earlier = line.iter().take(index);
        let higher = earlier
            .filter(|(other, _)| other.mode.conflicts(hold.mode))
            .find(|(_, theirs)| theirs.token >= granted.token);
        if let Some((other, theirs)) = higher {
            let text = format!(
                "{} granted to {} of client {} with token {} after {} of client {} with token {}",
                hold.lock,
                hold.attempt,
                hold.client,
                granted.token,
                other.attempt,
                other.client,
                theirs.token,
            );
            found.push(Violation::new(granted.at, Rule::Tokens, text));
        }
    }
}

/// Nobody with a lower number stands in the line when somebody is granted.
fn skipped(
    holds: &Holds<'_>,
    bounds: &Bounds,
    hold: &Hold<'_>,
    granted: Granted<'_>,
    found: &mut Vec<Violation>,
) {
    let Some(number) = number(granted.node).filter(|_| bounds.knows_sessions) else {
        return;
    };
    let before = |moment: Option<Duration>| moment.is_some_and(|moment| moment <= granted.at);
    for other in holds.all.values() {
        let Some((placed, node, session)) = other.placed else {
            continue;
        };
        let theirs = self::number(node);
        let waits = other.lock == hold.lock
            && other.mode.conflicts(hold.mode)
            && theirs.is_some_and(|theirs| theirs < number)
            && placed <= granted.at
            && other
                .granted
                .is_none_or(|theirs| theirs.index > granted.index)
            && !before(other.ended.map(|(at, _)| at))
            && !before(holds.broken(node, session))
            && !before(holds.over.get(&session).copied());
        if waits {
            let text = format!(
                "{} granted to {} of client {} as {} while {} of client {} stands before it as {node}",
                hold.lock, hold.attempt, hold.client, granted.node, other.attempt, other.client,
            );
            found.push(Violation::new(granted.at, Rule::Skipped, text));
        }
    }
}

/// The ten digits at the end of a node's name.
fn number(node: &str) -> Option<u32> {
    node.get(node.len().checked_sub(10)?..)?.parse().ok()
}

/// A store that takes tokens no lower than the highest it has seen.
fn stores(holds: &Holds<'_>, found: &mut Vec<Violation>) {
    let mut writes: Vec<_> = holds
        .all
        .values()
        .flat_map(|hold| hold.stored.iter().map(move |write| (hold, write)))
        .collect();
    writes.sort_by_key(|(_, write)| write.index);
    let mut highest = BTreeMap::new();
    for (hold, write) in writes {
        let &Stored {
            at, store, token, ..
        } = write;
        let highest = highest.entry(store).or_insert(0);
        if write.accepted && token < *highest {
            let text = format!(
                "{store}: write of {} with token {token} taken after one with {highest}",
                hold.attempt
            );
            found.push(Violation::new(at, Rule::Store, text));
        }
        let holds_still = hold
            .granted
            .is_some_and(|granted| granted.at <= at && at < holds.reach(hold, granted));
        if !write.accepted && holds_still {
            let text = format!(
                "{store}: write of {} with token {token} refused though it holds the lock",
                hold.attempt
            );
            found.push(Violation::new(at, Rule::Store, text));
        }
        if write.accepted {
            *highest = token.max(*highest);
        }
    }
}
