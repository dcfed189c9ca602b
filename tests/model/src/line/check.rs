//! What must hold in every state.

use lockkeeper_recipes::rank::Kind;

use crate::{Violation, history::NEVER};

use super::state::{Marker, Node, Phase, State};

/// What is wrong with a state.
pub(crate) fn check(state: &State) -> Option<Violation> {
    state
        .violation
        .or_else(|| is_skipped(state).then_some(Violation::NotAlone))
        .or_else(|| has_orphan(state).then_some(Violation::Orphan))
}

fn live_nodes(state: &State) -> impl Iterator<Item = Node> {
    state.nodes().filter(|node| node.is_live())
}

/// Whether somebody holds the lock behind a live node with which it must not be shared.
fn is_skipped(state: &State) -> bool {
    state.contenders.iter().enumerate().any(|(i, contender)| {
        let is_own = |node: Node| usize::from(node.owner) == i;
        let mut claimed = live_nodes(state).filter(|node| is_own(*node) && !node.former);
        contender.claims()
            && claimed.any(|own| {
                let mut others = live_nodes(state).filter(|node| !is_own(*node));
                others.any(|other| other.number <= own.number && conflict(own, other))
            })
    })
}

fn conflict(one: Node, other: Node) -> bool {
    let shares = |marker: Marker| marker.kind() == Kind::Read;
    !(shares(one.marker) && shares(other.marker))
}

/// Whether there is a node of a live session that its client does not care for.
fn has_orphan(state: &State) -> bool {
    live_nodes(state).any(|node| {
        let owner = &state.contenders[usize::from(node.owner)];
        let is = |index: u8| index != u8::MAX && state.node(index) == node;
        let is_cared_for = match owner.phase {
            // What it will look for, by its name, and what it knows.
            Phase::Creating | Phase::Unknown | Phase::Finding | Phase::Checking => !node.former,
            Phase::Looking | Phase::Waiting | Phase::Holding | Phase::Deleting => is(owner.node),
            Phase::Idle | Phase::Trying | Phase::Done => false,
        };
        owner.expired == NEVER && !is_cared_for
    })
}
