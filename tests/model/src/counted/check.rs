//! What must hold in every state.

use crate::{Violation, history::NEVER};

use super::{
    scenario::Counted,
    state::{NONE, Node, NodeIndex, Phase, State, What},
};

/// What is wrong with a state.
pub(super) fn check(state: &State, scenario: &Counted) -> Option<Violation> {
    state
        .violation
        .or_else(|| {
            (scenario.is_plain() && holders(state, scenario) > 1).then_some(Violation::NotAlone)
        })
        .or_else(|| {
            let most = state.limits().iter().map(|limit| limit.value).max();
            let most = usize::from(most.unwrap_or(0));
            let is_fixed = !scenario.reads_limit();
            (is_fixed && holders(state, scenario) > most).then_some(Violation::TooMany)
        })
        .or_else(|| has_orphan(state, scenario).then_some(Violation::Orphan))
}

/// How many take the lock for held. Who does not know that an operator deleted its node is no holder.
fn holders(state: &State, scenario: &Counted) -> usize {
    let holders = state
        .contenders
        .iter()
        .enumerate()
        .filter(|(i, contender)| {
            let by_hand = scenario.faults.by_hand > 0 && contender.claims();
            let is_there = !by_hand || state.node(contender.node).is_live();
            contender.claims() && is_there && state.sessions[scenario.clients[*i]].lease
        });
    holders.count()
}

/// Whether there is a node of a live session that its client does not care for.
fn has_orphan(state: &State, scenario: &Counted) -> bool {
    let live = state.nodes().filter(|(_, node)| node.is_live());
    live.into_iter().any(|(index, node)| {
        let owner = usize::from(node.owner);
        let lives = state.sessions[scenario.clients[owner]].expired == NEVER;
        lives && !is_cared_for(state, index, node)
    })
}

fn is_cared_for(state: &State, index: NodeIndex, node: Node) -> bool {
    let owner = &state.contenders[usize::from(node.owner)];
    if node.what == What::Head {
        return node.leaving || owner.head == index;
    }
    match owner.phase {
        // What it will look for, by its protection, and what it knows.
        Phase::Creating | Phase::Unknown | Phase::Finding | Phase::Checking => !node.former,
        Phase::Known
        | Phase::Asking
        | Phase::Listing
        | Phase::Limiting
        | Phase::Counting
        | Phase::Waiting
        | Phase::Holding
        | Phase::Deleting => owner.node == index && index != NONE,
        Phase::Idle | Phase::Trying | Phase::Lining | Phase::Done => false,
    }
}
