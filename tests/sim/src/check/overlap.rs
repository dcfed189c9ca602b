//! No two holders at once, by their leases; a semaphore grants no more permits than its limit.
//!
//! Not here: until when a hold excludes others (`holds`).

use std::time::Duration;

use super::{
    Bounds, Rule, Violation,
    holds::{Granted, Hold, Holds},
};
use crate::history::Mode;

pub(super) fn check(holds: &Holds<'_>, bounds: &Bounds, found: &mut Vec<Violation>) {
    for (lock, grants) in holds.grants(bounds) {
        // The earlier holds that still exclude others at the present grant.
        let mut current: Vec<(&Hold<'_>, Granted<'_>, Duration)> = Vec::new();
        for (hold, granted) in grants {
            current.retain(|(_, _, reach)| *reach > granted.at);
            let mode = hold.mode;
            let others: Vec<_> = current
                .iter()
                .filter(|(other, _, _)| !other.mode_at(granted.at).tolerates(mode))
                .collect();
            let allowed = match mode {
                Mode::Permit { limit } => usize::try_from(limit).unwrap_or(usize::MAX),
                _ => 1,
            };
            if others.len() >= allowed {
                let describe = |(other, theirs, reach): &&(&Hold<'_>, Granted<'_>, Duration)| {
                    let (at, token) = (theirs.at, theirs.token);
                    format!("{other} since {at:.3?} with token {token}, valid until {reach:.3?}")
                };
                let held_by: Vec<_> = others.iter().map(describe).collect();
                let (token, held_by) = (granted.token, held_by.join(", and "));
                let text =
                    format!("{lock} granted to {hold} with token {token} while held by {held_by}");
                found.push(Violation::new(granted.at, Rule::Overlap, text));
            }
            let reach = holds.reach(hold, granted);
            current.push((hold, granted, reach));
        }
    }
}

/// How many grants came after the lease of a holder had ended that did not release the lock.
///
/// Only its lease has kept that holder from taking itself for the only one.
pub(super) fn leases_that_ended(holds: &Holds<'_>, bounds: &Bounds) -> u64 {
    let mut ended = 0;
    for grants in holds.grants(bounds).values() {
        for (index, (hold, granted)) in grants.iter().enumerate() {
            let after = |moment: Option<Duration>| moment.is_none_or(|at| at > granted.at);
            let outlived = grants.iter().take(index).any(|(other, theirs)| {
                other.mode.conflicts(hold.mode)
                    && other.until <= granted.at
                    && other.until > theirs.at
                    && after(other.let_go.map(|(at, _)| at))
                    && after(other.ended.map(|(at, _)| at))
                    && after(holds.broken(theirs.node, theirs.session))
            });
            ended += u64::from(outlived);
        }
    }
    ended
}
