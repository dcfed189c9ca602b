//! Long waits. An event may be lost, withheld, or never come from a server with a ghost. So a
//! contender that waits asks the leader whether the node ahead is there. If not, it looks at the
//! queue again, and leaves a server that still shows the node.
//!
//! The code around the machines is that of `stall` in the recipes. A wait is never long here: the
//! question may come at any moment. The answer comes with all that was committed before it, so the
//! question is one step, and is a step only if the answer is that the node is gone. Of the tasks of
//! one client the first one asks. The others look at the queue without a question, at any moment: more
//! often than they would learn that events are missing. Who has no reason to look at the queue
//! acts on what its client has learned since.

use lockkeeper_recipes::decisions::{permit_turn, plain_turn::PlainTurn};

use crate::{
    action::Action,
    decide,
    history::NEVER,
    name::Name,
    scenario::{CONTENDERS, Scenario},
    server::{change_of_permits, first_event, is_restoring},
    state::{Decider, Node, Phase, Read, Reply, Request, State, Watch},
    view,
};

/// All that may come of a long wait.
pub(crate) fn each_step(state: &State, scenario: &Scenario, visit: &mut impl FnMut(Action, State)) {
    for i in (0..CONTENDERS).filter(|i| waits(state, scenario, *i)) {
        if view::is_shared(scenario, i) && scenario.is_queue() {
            let mut after = *state;
            decide::poll(&mut after, scenario, i);
            if after != *state {
                visit(Action::Doubt(i), after);
            }
        }
        if !scenario.has_doubts() {
            continue;
        }
        if let Some(gone) = gone(state, scenario, i)
            && is_first(state, scenario, i)
            && is_up_to_date(state, scenario, i)
        {
            let mut after = *state;
            let session = &mut after.sessions[scenario.clients[i]];
            session.view = after.now;
            after.contenders[i].gone = Some(gone);
            look_again(&mut after, scenario, i);
            visit(Action::Ask(i), after);
        }
        if view::is_shared(scenario, i) {
            let mut after = *state;
            look_again(&mut after, scenario, i);
            visit(Action::Doubt(i), after);
        }
    }
}

/// Whether it waits for an event.
fn waits(state: &State, scenario: &Scenario, i: usize) -> bool {
    let contender = &state.contenders[i];
    let is_deciding = contender.phase == Phase::Deciding && contender.request == Request::Nothing;
    let facts = decide::facts(state, scenario, i);
    let is_waiting = match contender.turn {
        Decider::Nothing => false,
        // It has done all that was to be done.
        Decider::Queue(_) => true,
        Decider::Plain(turn) => turn == PlainTurn::Taken,
        Decider::Permit(turn) => turn.next(&facts) == Ok(permit_turn::Next::Wait),
    };
    is_deciding && is_waiting && contender.read.is_none() && !decide::may_poll(state, scenario, i)
}

/// The node that it waits for, and that the leader does not have.
fn gone(state: &State, scenario: &Scenario, i: usize) -> Option<Name> {
    let contender = &state.contenders[i];
    let is_gone = |name: &Name| state.node_at(*name, state.now).is_none();
    match contender.turn {
        Decider::Nothing => None,
        Decider::Queue(turn) => {
            let ours = view::rests_behind(state, scenario, i);
            ours.or(turn.nearest().copied()).filter(is_gone)
        }
        Decider::Plain(_) => Some(Name::PLAIN).filter(is_gone),
        Decider::Permit(_) => {
            let listed = state.shown_to(scenario.clients[i], contender.permits_at);
            let listed = listed.map(|node| node.name);
            listed.chain(contender.phantom).find(is_gone)
        }
    }
}

/// Whether it is the one of its client that asks. Contenders for the plain lock have no order.
fn is_first(state: &State, scenario: &Scenario, i: usize) -> bool {
    let mut tasks = scenario.tasks(scenario.clients[i]);
    let node = |task: usize| state.contenders[task].node();
    tasks.all(|task| !waits(state, scenario, task) || node(task) >= node(i))
}

/// Whether the answer can come: all events and replies came that are older.
fn is_up_to_date(state: &State, scenario: &Scenario, i: usize) -> bool {
    let (contender, session) = (&state.contenders[i], &state.sessions[scenario.clients[i]]);
    let is_told = first_event(state, scenario, i) == NEVER;
    let is_answered = !contender.watches.iter().any(|watch| watch.is_requested());
    let is_connected = session.is_up && session.lives() && !is_restoring(state, scenario, i);
    let change = change_of_permits(state, scenario, i);
    is_connected && is_told && is_answered && change.is_none_or(|change| change == NEVER)
}

/// It looks at the queue, or tries again to create the plain node, although no event has come.
fn look_again(after: &mut State, scenario: &Scenario, i: usize) {
    let contender = &mut after.contenders[i];
    match &mut contender.turn {
        Decider::Nothing => {}
        Decider::Queue(turn) => turn.forget(),
        Decider::Plain(turn) => {
            turn.event();
            contender.watches = [Watch::Empty; 3];
            let client = scenario.clients[i];
            if contender.gone.take().is_some() {
                let shown = after.node_shown(client, Name::PLAIN, after.now);
                after.sessions[client].is_leaving |= shown.is_some();
            }
        }
        Decider::Permit(turn) => {
            turn.changed();
            contender.permits_since = NEVER;
            contender.limit_since = NEVER;
        }
    }
    decide::poll(after, scenario, i);
}

/// It has listed the queue, or the permits.
pub(crate) fn listed(after: &mut State, scenario: &Scenario, i: usize) {
    let client = scenario.clients[i];
    let Some((Read::Look | Read::WatchedPermits, Reply::At(view))) = after.contenders[i].read
    else {
        return;
    };
    let is_ghost = |node: &&Node| node.is_ghost(client);
    let ghost = after.shown_to(client, view).find(is_ghost).copied();
    after.contenders[i].phantom = ghost.map(|node| node.name);
    if let Some(gone) = after.contenders[i].gone.take()
        && after.node_shown(client, gone, view).is_some()
    {
        after.sessions[client].is_leaving = true;
    }
}
