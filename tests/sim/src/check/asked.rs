//! Holders that must release: because a client asks them to, or because their hold has a limit.
//!
//! Not here: holds that end because the node or the session is lost (`ends`).

use super::{
    Bounds, Rule, Violation,
    holds::{Granted, Hold, Holds},
};
use crate::history::End;

pub(super) fn check(holds: &Holds<'_>, bounds: &Bounds, found: &mut Vec<Violation>) {
    for hold in holds.all.values() {
        if let Some(granted) = hold.granted {
            hears(holds, bounds, hold, granted, found);
            ends(bounds, hold, found);
        }
    }
}

/// A listening holder hears each request to release its node, and hears no request that was not
/// made.
fn hears(
    holds: &Holds<'_>,
    bounds: &Bounds,
    hold: &Hold<'_>,
    granted: Granted<'_>,
    found: &mut Vec<Violation>,
) {
    let Some(listens) = hold.listens else {
        return;
    };
    let node = granted.node;
    if let Some(heard) = hold.heard {
        if holds.asking.get(node).is_none_or(|asking| *asking > heard) {
            let text = format!("{hold} heard a request to release that no client made");
            found.push(Violation::new(heard, Rule::Asked, text));
        }
        return;
    }
    let is_over =
        holds.over.contains_key(&granted.session) || holds.broken(node, granted.session).is_some();
    let until = hold.let_go.map(|(at, _)| at);
    let until = until.or(hold.ended.map(|(at, _)| at));
    if let (Some(asked), Some(until), false) = (holds.asked.get(node), until, is_over)
        && until > listens.max(*asked).saturating_add(bounds.news)
    {
        let text = format!("{hold} was asked to release {node} and did not hear of it");
        found.push(Violation::new(until, Rule::Asked, text));
    }
}

/// A hold that outlasts its limit does not end with a successful release.
fn ends(bounds: &Bounds, hold: &Hold<'_>, found: &mut Vec<Violation>) {
    if let (Some(limit), Some((let_go, _)), Some((ended, End::Released))) =
        (hold.limit, hold.let_go, hold.ended)
        && let_go > limit.saturating_add(bounds.news)
    {
        let text = format!("{hold} was released successfully after its limit at {limit:.3?}");
        found.push(Violation::new(ended, Rule::Overdue, text));
    }
}
