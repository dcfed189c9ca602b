//! What contenders and their users do: they send what the life of a node needs, hand over the
//! replies, release, and give up. What to send is decided by [`NodeLife`]. The code around it is
//! that of `node` in the recipes, await by await.
//!
//! Not here: waiting for the turn (`decide`).

use lockkeeper_recipes::{
    Loss,
    decisions::{
        life::{self, Answer, Ask, End, Failure, Next, NodeLife, Seen},
        permit_turn::PermitTurn,
        plain_turn::PlainTurn,
        turn::Turn,
    },
};

use crate::{
    action::Action,
    decide,
    history::{NEVER, Time},
    late,
    name::{Marker, Name, marker},
    scenario::{LAG, Role, Scenario},
    state::{Contender, Decider, Event, Node, Phase, Read, Reply, Request, State, Watch},
};

/// All that contenders and their users can do next.
pub(crate) fn each_step(state: &State, scenario: &Scenario, visit: &mut impl FnMut(Action, State)) {
    for (i, contender) in state.contenders.iter().enumerate() {
        let mut next = |action, change: &dyn Fn(&mut State)| {
            let mut after = *state;
            change(&mut after);
            visit(action, after);
        };
        match contender.phase {
            Phase::Idle if may_start(state, scenario, i) => {
                next(Action::Start(i), &|after| start(after, scenario, i));
            }
            Phase::Trying | Phase::Deciding if decide::may_poll(state, scenario, i) => {
                next(Action::Poll(i), &|after| decide::poll(after, scenario, i));
            }
            Phase::Queueing if decide::has_turn(state, scenario, i) => {
                next(Action::Poll(i), &|after| decide::poll(after, scenario, i));
            }
            Phase::Holding => {
                next(Action::Release(i), &|after| release(after, scenario, i));
                let node = contender.node();
                if node.is_some_and(|node| node.marker == Marker::Write) {
                    next(Action::Downgrade(i), &|after| downgrade(after, scenario, i));
                }
            }
            Phase::Done if may_come_back(state, scenario, i) => next(Action::Again(i), &|after| {
                after.faults.again = after.faults.again.saturating_sub(1);
                forget_nodes(after, i);
                after.contenders[i] = Contender::idle(scenario.roles[i]);
            }),
            _ => {}
        }
        let may_cancel = !(contender.is_at_rest()
            || contender.is_abandoned
            || contender.phase == Phase::Holding);
        if may_cancel && state.faults.cancels > 0 {
            next(Action::Cancel(i), &|after| {
                after.faults.cancels -= 1;
                give_up(after, scenario, i);
            });
        }
    }
}

/// To enter the queue of a semaphore is one step, and takes a session.
fn may_start(state: &State, scenario: &Scenario, i: usize) -> bool {
    let session = &state.sessions[scenario.clients[i]];
    !scenario.is_semaphore() || (session.is_up && session.lives())
}

/// Its requests are sent in order: its node in the queue of a semaphore is deleted before.
fn may_come_back(state: &State, scenario: &Scenario, i: usize) -> bool {
    let is_left = |node: &Node| node.is_live() && usize::from(node.owner) == i;
    let is_clean = state.now <= LAG && !state.nodes().iter().any(is_left);
    state.faults.again > 0 || (scenario.is_for_ever && is_clean)
}

fn start(after: &mut State, scenario: &Scenario, i: usize) {
    if scenario.tries[i] {
        after.contenders[i].phase = Phase::Trying;
        decide::ask(after, scenario, i, Read::Look);
    } else if scenario.is_semaphore() {
        let place = after.create(i, Marker::Lock, true);
        after.contenders[i].place = Some(place);
        after.contenders[i].phase = Phase::Queueing;
    } else {
        enter(after, scenario, i);
    }
}

/// Begins the life of a node.
pub(crate) fn enter(after: &mut State, scenario: &Scenario, i: usize) {
    forget_nodes(after, i);
    let contender = &mut after.contenders[i];
    contender.phase = Phase::Entering;
    contender.life = NodeLife::new(scenario.roles[i] == Role::Plain);
    contender.turn = match scenario.roles[i] {
        Role::Queue(kind) => Decider::Queue(Turn::new(kind)),
        Role::Plain => Decider::Plain(PlainTurn::default()),
        Role::Permit => Decider::Permit(PermitTurn::default()),
    };
    proceed(after, scenario, i);
}

/// The nodes of former attempts are not looked for any more.
fn forget_nodes(after: &mut State, i: usize) {
    let nodes = after.nodes_mut().iter_mut();
    let own = nodes.filter(|node| usize::from(node.owner) == i && !node.is_place);
    own.for_each(|node| node.is_former = true);
}

/// Sends what the life of the node needs next.
fn proceed(after: &mut State, scenario: &Scenario, i: usize) {
    let request = match after.contenders[i].life.next() {
        Next::Await => return,
        Next::Rest => return at_rest(after, scenario, i),
        Next::Send(Ask::Create { renamed, .. }) => {
            if renamed {
                forget_nodes(after, i);
            }
            Request::Create
        }
        Next::Send(Ask::Replace(writer)) => Request::Replace(writer.name),
        Next::Send(Ask::Find) => Request::Find,
        Next::Send(Ask::FindNext) => unreachable!("no two nodes here have the same protection"),
        Next::Send(Ask::Check(name)) => Request::Check(name),
        Next::Send(Ask::Delete(node)) => Request::Delete(node.name),
    };
    let is_mute = !after.sessions[scenario.clients[i]].lives();
    let contender = &mut after.contenders[i];
    contender.life.sent();
    contender.request = request;
    contender.committed = NEVER;
    contender.is_stale = false;
    contender.is_mute = is_mute;
}

/// The node is there, or nothing is left of it.
fn at_rest(after: &mut State, scenario: &Scenario, i: usize) {
    let contender = &mut after.contenders[i];
    if contender.life.is_live() {
        contender.phase = Phase::Deciding;
        match &mut contender.turn {
            // A reader's node has replaced the writer's.
            Decider::Nothing => contender.phase = Phase::Holding,
            Decider::Plain(turn) => turn.created(true),
            // The place in the queue was lost with the session.
            Decider::Permit(_) if contender.place.is_none() => give_up(after, scenario, i),
            Decider::Queue(_) | Decider::Permit(_) => {}
        }
        return;
    }
    let is_taken = contender.life.end() == Some(End::Taken) && !contender.is_abandoned;
    match &mut contender.turn {
        Decider::Plain(turn) if is_taken && !scenario.tries[i] => {
            turn.created(false);
            contender.phase = Phase::Deciding;
            decide::plain(after, scenario, i);
        }
        _ if contender.is_abandoned && scenario.restarts() => {
            forget_nodes(after, i);
            after.contenders[i] = Contender::idle(scenario.roles[i]);
        }
        _ => done(after, i),
    }
}

pub(crate) fn done(after: &mut State, i: usize) {
    leave_queue(after, i);
    after.contenders[i].phase = Phase::Done;
}

/// The reply to the request of the node's life has come.
pub(crate) fn answered(after: &mut State, scenario: &Scenario, i: usize, answer: Answer<Name, ()>) {
    // A listing was sent with the create. If the create was lost, so was the listing.
    let is_created = matches!(answer, Answer::Created(Ok(_)));
    let listing = if is_created {
        Reply::Pending
    } else {
        Reply::Lost
    };
    if matches!(answer, Answer::Found(Ok(None) | Err(Failure::NoNode))) && !scenario.is_plain() {
        late::not_found(after, scenario, i);
    }
    let contender = &mut after.contenders[i];
    contender.request = Request::Nothing;
    contender.committed = NEVER;
    if contender.life.answered(answer).is_err() {
        contender.is_abandoned = true;
        contender.phase = Phase::Leaving;
        contender.life.abandon();
    }
    proceed(after, scenario, i);
    let contender = &mut after.contenders[i];
    let is_listed = matches!(contender.turn, Decider::Queue(_) | Decider::Permit(_));
    if contender.phase == Phase::Deciding && is_listed {
        contender.read = Some((Read::Look, listing));
    }
}

/// The answer to the request under way, as this point of the history shows it.
pub(crate) fn answer(state: &State, scenario: &Scenario, i: usize, view: Time) -> Answer<Name, ()> {
    let contender = &state.contenders[i];
    let client = scenario.clients[i];
    let created = life::Node {
        name: contender.created,
        tag: (),
    };
    let if_succeeded = |failure| {
        if contender.succeeded {
            Ok(())
        } else {
            Err(failure)
        }
    };
    match contender.request {
        Request::Nothing | Request::CreateFormer => unreachable!("a reply without a request"),
        Request::Create => Answer::Created(if_succeeded(Failure::NodeExists).map(|()| created)),
        Request::Replace(_) => Answer::Created(if_succeeded(Failure::NoNode).map(|()| created)),
        Request::Delete(_) => Answer::Deleted(if_succeeded(Failure::NoNode)),
        Request::Find => {
            let marker = match (contender.life.bound(), marker(scenario.roles[i])) {
                (Some(_), Marker::Write) => Marker::Read,
                (_, marker) => marker,
            };
            let may_be = |node: &&Node| {
                let is_marked = usize::from(node.owner) == i && !node.is_former;
                node.name.marker == marker && (is_marked || scenario.is_plain())
            };
            let shown = state.shown_to(client, view);
            let mut found = shown.filter(may_be).map(|node| node.name);
            Answer::Found(Ok(found.next()))
        }
        Request::Check(name) => Answer::Checked(match state.node_shown(client, name, view) {
            Some(node) => Ok(Seen {
                is_of_session: scenario.clients[usize::from(node.owner)] == client
                    && !node.is_ghost(client),
                is_marked: usize::from(node.owner) == i && !node.is_former,
                tag: (),
            }),
            None => Err(Failure::NoNode),
        }),
    }
}

/// The request under way has failed like this.
pub(crate) fn failed(request: Request, failure: Failure) -> Option<Answer<Name, ()>> {
    Some(match request {
        Request::Nothing | Request::CreateFormer => return None,
        Request::Create | Request::Replace(_) => Answer::Created(Err(failure)),
        Request::Find => Answer::Found(Err(failure)),
        Request::Check(_) => Answer::Checked(Err(failure)),
        Request::Delete(_) => Answer::Deleted(Err(failure)),
    })
}

/// The user releases the lock.
fn release(after: &mut State, scenario: &Scenario, i: usize) {
    let contender = &mut after.contenders[i];
    contender.phase = Phase::Leaving;
    contender.life.release();
    proceed(after, scenario, i);
}

/// The user puts a reader's node in the place of the writer's.
fn downgrade(after: &mut State, scenario: &Scenario, i: usize) {
    let contender = &mut after.contenders[i];
    contender.phase = Phase::Entering;
    contender.life.replace();
    proceed(after, scenario, i);
}

/// The attempt is dropped, or a hold that is being released.
pub(crate) fn give_up(after: &mut State, scenario: &Scenario, i: usize) {
    leave_queue(after, i);
    let contender = &mut after.contenders[i];
    if contender.is_lost {
        // Its delete would be refused: it goes out within the session of the node.
        return gone(after, i);
    }
    contender.end_turn();
    contender.is_abandoned = true;
    contender.phase = Phase::Leaving;
    contender.life.abandon();
    proceed(after, scenario, i);
}

/// Sends the delete of the place in the queue of a semaphore, in the background.
pub(crate) fn leave_queue(after: &mut State, i: usize) {
    let Some(place) = after.contenders[i].place.take() else {
        return;
    };
    let mut nodes = after.nodes_mut().iter_mut();
    let place = nodes.find(|node| node.is_place && node.name == place && node.is_live());
    if let Some(place) = place {
        place.is_leaving = true;
    }
}

/// There will be no turn: the node is gone.
pub(crate) fn gone(after: &mut State, i: usize) {
    let contender = &mut after.contenders[i];
    contender.end_turn();
    contender.life.settle(End::Gone);
    done(after, i);
}

/// The client learns that its session is over. If `is_late`, tasks have requests that they have not
/// submitted yet. They submit them in the next session.
pub(crate) fn lost_session(after: &mut State, scenario: &Scenario, i: usize, is_late: bool) {
    let contender = &mut after.contenders[i];
    contender.place = None;
    if contender.request != Request::Nothing {
        if !is_late || contender.life.bound().is_some() || is_within_session(contender.request) {
            let failure = Failure::SessionOver(Loss::Expired);
            let answer = failed(contender.request, failure).expect("a request");
            answered(after, scenario, i, answer);
        }
        return;
    }
    let contender = &mut after.contenders[i];
    match contender.phase {
        Phase::Idle | Phase::Done | Phase::Entering | Phase::Leaving => {}
        // What has come is still to be looked at.
        Phase::Trying if !matches!(contender.read, Some((_, Reply::Pending))) => {}
        Phase::Trying | Phase::Queueing => done(after, i),
        Phase::Holding => gone(after, i),
        // It has no node. The end of the watch is a reason to try again.
        Phase::Deciding if contender.turn == Decider::Plain(PlainTurn::Taken) => {
            contender.watches = [Watch::Empty; 3];
            contender.events = [None; 3];
            contender.tell(Event {
                name: Name::PLAIN,
                is_deleted: false,
            });
        }
        Phase::Deciding => {
            contender.is_lost = true;
            // Who watches nothing is told nothing.
            contender.rests &= contender.watches == [Watch::Empty; 3];
            contender.read = None;
            contender.watches = [Watch::Empty; 3];
            contender.events = [None; 3];
        }
    }
}

/// Whether a request goes out within the session of its node only.
fn is_within_session(request: Request) -> bool {
    matches!(request, Request::Delete(_) | Request::Replace(_))
}
