//! Every attempt ends in time, and no caller is told of a loss that did not happen.
//!
//! Not here: holders that must release on request or at their limit (`asked`).

use super::{
    Bounds, Rule, Violation,
    holds::{Hold, Holds},
};
use crate::history::End;

pub(super) fn check(holds: &Holds<'_>, bounds: &Bounds, found: &mut Vec<Violation>) {
    for hold in holds.all.values() {
        let who = format!("{hold} at {}", hold.lock);
        let Some((ended, end)) = hold.ended else {
            let text = format!("{who} never ended");
            found.push(Violation::new(holds.end, Rule::Endless, text));
            continue;
        };
        let answered = hold.granted.map_or(ended, |granted| granted.at);
        let since = hold.asked.max(bounds.calm);
        let waited = answered.saturating_sub(since);
        if bounds.max_wait.is_some_and(|max_wait| waited > max_wait) {
            let text = format!("{who} took {waited:.3?} without disturbances");
            found.push(Violation::new(answered, Rule::Endless, text));
        }
        let reason = match end {
            // When a session ends, its server may report the deletion of the node first.
            End::LostDeleted => {
                was_deleted(holds, hold)
                    || !bounds.knows_sessions
                    || session_ended(holds, bounds, hold)
            }
            End::LostOverdue => hold.limit.is_some_and(|limit| limit <= ended),
            End::LostSession if bounds.knows_sessions => session_ended(holds, bounds, hold),
            _ => true,
        };
        if !reason {
            let text = format!("{who} was told {end:?}, but that did not happen");
            found.push(Violation::new(ended, Rule::FalseLoss, text));
        }
    }
}

/// Whether a third party deleted the node of the attempt.
///
/// If the history does not have that node: whether it deleted any node of the lock since the
/// attempt began. An attempt at several locks fails as a whole, with the error of one of them.
fn was_deleted(holds: &Holds<'_>, hold: &Hold<'_>) -> bool {
    let own = hold.granted.map(|granted| granted.node);
    let own = own.or(hold.placed.map(|(_, node, _)| node));
    let Some(own) = own else {
        let step = |other: &&Hold<'_>| (other.client, other.asked, other.ended.map(|(at, _)| at));
        let is_same = |other: &&Hold<'_>| step(other) == step(&hold);
        let mut locks = holds
            .all
            .values()
            .filter(is_same)
            .map(|other| &**other.lock);
        return locks.any(|lock| {
            let mut deleted = holds.deleted.iter();
            deleted.any(|(node, (at, _))| node.starts_with(lock) && *at >= hold.asked)
        });
    };
    holds.deleted.contains_key(own) || holds.reader_deleted(hold).is_some()
}

/// Whether the session of the attempt is over. If the history does not have that session: whether
/// the client may have learned since the attempt began that any session is over.
fn session_ended(holds: &Holds<'_>, bounds: &Bounds, hold: &Hold<'_>) -> bool {
    let own = hold.granted.map(|granted| granted.session);
    let own = own.or(hold.placed.map(|(_, _, session)| session));
    if let Some(session) = own {
        return holds.over.contains_key(&session);
    }
    let mut ends = holds.over.values();
    ends.any(|over| over.saturating_add(bounds.news) >= hold.asked)
}
