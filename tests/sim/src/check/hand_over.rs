//! When nothing goes wrong, a waiter has the lock soon after what it waited for is over, and then
//! has enough of its lease left.
//!
//! A waiter in a queue that learns by an event has it after a few messages. One that waits for a
//! timer has not.
//!
//! Not here: how long an attempt may take at all (`ends`).

use std::time::Duration;

use super::{
    Bounds, Rule, Violation,
    holds::{Granted, Hold, Holds},
};

pub(super) fn check(holds: &Holds<'_>, bounds: &Bounds, found: &mut Vec<Violation>) {
    let Some((since, within)) = bounds.hand_over else {
        return;
    };
    for hold in holds.all.values() {
        if let (Some((left, timeout)), Some(granted)) = (hold.scant, hold.granted) {
            // A client that has waited for its lease for a quarter accepts one that reaches half a
            // session timeout from the beginning of the wait. Its clock may be fast.
            let waited = within * 11 / 10;
            if granted.at >= since + within && left + waited < timeout / 2 {
                let lock = hold.lock;
                let text = format!("{lock} granted to {hold} with {left:.3?} of its lease left");
                found.push(Violation::new(granted.at, Rule::Scant, text));
            }
        }
        let (Some(waiting), Some(granted)) = (hold.waiting, hold.granted) else {
            continue;
        };
        let free = free_since(holds, hold, granted).max(waiting).max(since);
        let took = granted.at.saturating_sub(free);
        if took > within {
            let lock = hold.lock;
            let text = format!("{lock} granted to {hold} {took:.3?} after the last one ahead left");
            found.push(Violation::new(granted.at, Rule::HandOver, text));
        }
    }
}

/// The last moment before a grant at which another contender for the lock did something, or any
/// session was over.
///
/// If the others do nothing more, the waiter has nothing left to wait for.
fn free_since(holds: &Holds<'_>, hold: &Hold<'_>, granted: Granted<'_>) -> Duration {
    let others = holds
        .all
        .values()
        .filter(|other| other.lock == hold.lock && other.attempt != hold.attempt);
    let moments = others.flat_map(|other| {
        [
            other.granted.map(|theirs| theirs.at),
            other.downgraded.map(|(at, _)| at),
            other.let_go.map(|(at, _)| at),
            other.limit,
            other.ended.map(|(at, _)| at),
        ]
    });
    let ends = holds.over.values().copied();
    let before = moments.flatten().chain(ends).filter(|at| *at <= granted.at);
    before.max().unwrap_or_default()
}
