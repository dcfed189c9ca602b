//! Tokens grow in the order of the grants, no queued waiter is skipped, and stores agree with that
//! order.
//!
//! Not here: holds that overlap (`overlap`).

use std::{collections::BTreeMap, time::Duration};

use super::{
    Bounds, Rule, Violation,
    holds::{Granted, Hold, Holds, Stored},
};

pub(super) fn check(holds: &Holds<'_>, bounds: &Bounds, found: &mut Vec<Violation>) {
    for grants in holds.grants(bounds).values() {
        tokens(grants, found);
        for (hold, granted) in grants {
            skipped(holds, bounds, hold, *granted, found);
        }
    }
    if bounds.knows_sessions {
        gone(holds, found);
    }
    stores(holds, found);
}

/// No attempt is granted if its node was deleted by hand before the holder ahead began to release.
///
/// Events come in order, so the waiter learns of its own deletion first.
fn gone(holds: &Holds<'_>, found: &mut Vec<Violation>) {
    for hold in holds.all.values() {
        let Some(granted) = hold.granted else {
            continue;
        };
        if let Some(other) = holds.heard_too_late(hold, granted) {
            let (lock, node) = (hold.lock, granted.node);
            let text = format!(
                "{lock} granted to {hold} as {node}, which was deleted before {other} began to release"
            );
            found.push(Violation::new(granted.at, Rule::Gone, text));
        }
    }
}

/// Of two grants that conflict, the later one has the higher token, or the node and the token of one
/// that was handed over.
fn tokens(grants: &[(&Hold<'_>, Granted<'_>)], found: &mut Vec<Violation>) {
    for (index, (hold, granted)) in grants.iter().enumerate() {
        let earlier = grants.iter().take(index);
        let higher = earlier
            .filter(|(other, _)| other.mode.conflicts(hold.mode))
            .find(|(other, theirs)| {
                let is_handed = other.is_handed_over && theirs.node == granted.node;
                theirs.token > granted.token || theirs.token == granted.token && !is_handed
            });
        if let Some((other, theirs)) = higher {
            let (lock, token, former) = (hold.lock, granted.token, theirs.token);
            let text = format!(
                "{lock} granted to {hold} with token {token} after {other} with token {former}"
            );
            found.push(Violation::new(granted.at, Rule::Tokens, text));
        }
    }
}

/// At a grant, no conflicting waiter with a lower number is in the queue.
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
            let (lock, mine) = (hold.lock, granted.node);
            let text = format!(
                "{lock} granted to {hold} as {mine} while {other} is ahead of it as {node}"
            );
            found.push(Violation::new(granted.at, Rule::Skipped, text));
        }
    }
}

/// The ten digits at the end of a node's name.
fn number(node: &str) -> Option<u32> {
    node.get(node.len().checked_sub(10)?..)?.parse().ok()
}

/// A store accepts no token lower than the highest that it has seen, and refuses no holder with a
/// valid lease.
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
                "{store}: write of {hold} with token {token} accepted after token {highest}"
            );
            found.push(Violation::new(at, Rule::Store, text));
        }
        let is_holder = hold
            .granted
            .is_some_and(|granted| granted.at <= at && at < holds.reach(hold, granted));
        if !write.accepted && is_holder {
            let text = format!(
                "{store}: write of {hold} with token {token} refused, but it holds the lock"
            );
            found.push(Violation::new(at, Rule::Store, text));
        }
        if write.accepted {
            *highest = token.max(*highest);
        }
    }
}
