//! What must hold in every state.

use crate::{
    name::Marker,
    scenario::Scenario,
    state::{Contender, Node, Phase, State},
    violation::Violation,
};

/// What is wrong with a state.
pub(crate) fn check(state: &State, scenario: &Scenario) -> Option<Violation> {
    if state.violation.is_some() {
        return state.violation;
    }
    let holders = holders(state, scenario);
    let is_wrong = |(is_wrong, violation): (bool, Violation)| is_wrong.then_some(violation);
    let rules = [
        (is_skipped(state, scenario), Violation::NotAlone),
        (scenario.is_plain() && holders > 1, Violation::NotAlone),
        (
            scenario.is_semaphore()
                && scenario.limit_changes.is_none()
                && holders > usize::from(scenario.limit),
            Violation::TooMany,
        ),
        (has_orphan(state, scenario), Violation::Orphan),
    ];
    rules.into_iter().find_map(is_wrong)
}

fn live_nodes(state: &State) -> impl Iterator<Item = &Node> + Clone {
    state.nodes().iter().filter(|node| node.is_live())
}

/// Whether the contender takes the lock for held.
fn claims(state: &State, scenario: &Scenario, i: usize) -> bool {
    state.contenders[i].claims() && state.sessions[scenario.clients[i]].has_lease
}

/// How many take the lock for held. A holder whose node an operator has deleted does not count.
fn holders(state: &State, scenario: &Scenario) -> usize {
    let has_node = |i: usize| {
        let mut nodes = live_nodes(state);
        let own = state.contenders[i].node();
        nodes.any(|node| usize::from(node.owner) == i && Some(node.name) == own)
    };
    let is_by_hand = scenario.faults.by_hand > 0;
    let holders = (0..state.contenders.len()).filter(|i| claims(state, scenario, *i));
    holders.filter(|i| !is_by_hand || has_node(*i)).count()
}

/// Whether somebody holds the lock of a queue behind a live node with which it must not be shared.
fn is_skipped(state: &State, scenario: &Scenario) -> bool {
    if scenario.is_plain() || scenario.is_semaphore() {
        return false;
    }
    (0..state.contenders.len()).any(|i| {
        let is_own = |node: &Node| usize::from(node.owner) == i;
        let mut held = live_nodes(state).filter(|node| is_own(node) && !node.is_former);
        claims(state, scenario, i)
            && held.any(|own| {
                let mut others = live_nodes(state).filter(|node| !is_own(node));
                others.any(|other| other.name.number <= own.name.number && conflict(*own, *other))
            })
    })
}

fn conflict(one: Node, other: Node) -> bool {
    let is_reader = |node: Node| node.name.marker == Marker::Read;
    !(is_reader(one) && is_reader(other))
}

/// Whether there is a node of a live session that nobody will delete.
fn has_orphan(state: &State, scenario: &Scenario) -> bool {
    live_nodes(state).any(|node| {
        let owner = usize::from(node.owner);
        let lives = state.sessions[scenario.clients[owner]].lives();
        lives && !is_cared_for(&state.contenders[owner], *node)
    })
}

fn is_cared_for(owner: &Contender, node: Node) -> bool {
    if node.is_leaving {
        return true;
    }
    if node.is_place {
        return owner.place == Some(node.name);
    }
    let is_over = owner.phase == Phase::Done || owner.life.end().is_some();
    match owner.life.node() {
        Some(known) => known.name == node.name,
        // It will look for the node.
        None => !is_over && !node.is_former,
    }
}
