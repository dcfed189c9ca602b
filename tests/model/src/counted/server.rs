//! What the servers and the network do: as in `line`, what they tell is told at once, and a reply under way is one that a
//! server which lags has yet to give.

use crate::{
    CONTENDERS, Shortcut, Violation,
    history::{NEVER, Time},
};

use super::{
    action::Action,
    client,
    scenario::{Counted, Recipe},
    state::{LIMITS, Limit, NONE, NodeIndex, Phase, Session, State, Watch, What},
};

type Next<'a> = dyn FnMut(Action, &dyn Fn(&mut State)) + 'a;

/// All that the servers and the network can do next.
pub(super) fn each_step(state: &State, scenario: &Counted, visit: &mut impl FnMut(Action, State)) {
    let mut next = |action, change: &dyn Fn(&mut State)| {
        let mut after = *state;
        change(&mut after);
        visit(action, after);
    };
    for (i, contender) in state.contenders.iter().enumerate() {
        let session = &state.sessions[scenario.clients[i]];
        if session.up {
            connected_steps(state, scenario, i, &mut next);
        } else if contender.floating {
            next(Action::CommitLate(i), &|after| {
                let is_delete = after.contenders[i].leaving;
                after.contenders[i].floating = false;
                write(after, scenario, i, is_delete);
            });
        }
    }
    for (index, node) in state.nodes() {
        let session = &state.sessions[scenario.clients[usize::from(node.owner)]];
        if node.leaving && node.is_live() && session.up {
            next(Action::LeaveLine(index), &|after| {
                after.delete(index);
            });
        }
    }
    for client in 0..CONTENDERS {
        session_steps(state, scenario, client, &mut next);
    }
    by_operators(state, scenario, &mut next);
}

/// What can happen to what a contender has under way.
fn connected_steps(state: &State, scenario: &Counted, i: usize, next: &mut Next<'_>) {
    let contender = &state.contenders[i];
    let session = &state.sessions[scenario.clients[i]];
    let awaits_write = contender.committed == NEVER;
    match contender.phase {
        Phase::Creating | Phase::Deleting | Phase::Finding if awaits_write => {
            if contender.phase == Phase::Finding && scenario.takes(Shortcut::PlainListing) {
                answer(state, scenario, i, next);
            } else if session.lives() {
                next(Action::Commit(i), &|after| {
                    commit(after, scenario, i);
                });
            }
        }
        Phase::Creating | Phase::Deleting => {
            let view = contender.committed;
            next(Action::Reply(i, view), &|after| {
                reply(after, scenario, i, view);
            });
        }
        Phase::Trying if contender.listed != NEVER => {}
        Phase::Finding
        | Phase::Checking
        | Phase::Trying
        | Phase::Asking
        | Phase::Listing
        | Phase::Limiting => answer(state, scenario, i, next),
        Phase::Waiting => match contender.watch {
            Watch::Requested => answer(state, scenario, i, next),
            Watch::Armed => tell(state, scenario, i, next),
            Watch::Empty | Watch::Told => {}
        },
        _ => {}
    }
}

/// The reply to the read under way, from every point of the history from which it may come.
fn answer(state: &State, scenario: &Counted, i: usize, next: &mut Next<'_>) {
    let contender = &state.contenders[i];
    if contender.mute {
        return;
    }
    let session = &state.sessions[scenario.clients[i]];
    // A barrier that is committed shows all before it.
    let barrier = match contender.committed {
        NEVER => 0,
        committed => committed,
    };
    for view in (session.view.max(barrier)..=last_shown(state, *session)).rev() {
        next(Action::Reply(i, view), &|after| {
            if contender.phase == Phase::Waiting {
                leave_watch(after, scenario, i, view);
            } else {
                reply(after, scenario, i, view);
            }
        });
    }
}

/// The last point of the history that the session can be shown: nothing any more once it is over.
fn last_shown(state: &State, session: Session) -> Time {
    if session.lives() {
        state.now
    } else {
        session.expired - 1
    }
}

fn reply(after: &mut State, scenario: &Counted, i: usize, view: Time) {
    show(after, scenario, i, view);
    client::replied(after, scenario, i, view);
}

/// The session has seen this. What was sent after the lease ran out says that it lives.
fn show(after: &mut State, scenario: &Counted, i: usize, view: Time) {
    let stale = after.contenders[i].stale;
    let session = &mut after.sessions[scenario.clients[i]];
    session.view = session.view.max(view);
    session.lease |= !stale && session.lives();
}

/// The server leaves the watch on somebody's plain node. It tells at once if there is none, or another than the session has
/// seen.
fn leave_watch(after: &mut State, scenario: &Counted, i: usize, view: Time) {
    let seen = after.sessions[scenario.clients[i]].view;
    show(after, scenario, i, view);
    let shown = after.shown(What::Plain, view).next();
    let contender = &mut after.contenders[i];
    contender.watch = match shown {
        Some((node, shown)) if shown.born <= seen => {
            contender.watched = node;
            Watch::Armed
        }
        None if scenario.takes(Shortcut::MissingIsNoEvent) => Watch::Empty,
        _ => Watch::Told,
    };
}

/// The event that a waiter waits for, as soon as it can come, or later.
fn tell(state: &State, scenario: &Counted, i: usize, next: &mut Next<'_>) {
    let contender = &state.contenders[i];
    let change = if scenario.is_plain() {
        state.node(contender.watched).died
    } else {
        let leases = state.nodes().filter(|(_, node)| node.what == What::Lease);
        let leases = leases.flat_map(|(_, node)| [node.born, node.died]);
        let leases = leases.filter(|time| *time > contender.since);
        let limits = state.limits().iter().map(|limit| limit.born);
        let limits = limits.filter(|time| *time > contender.limit_since);
        let head = match contender.head {
            NONE => NEVER,
            _ if scenario.takes(Shortcut::HeadLostUnnoticed) => NEVER,
            head => state.node(head).died,
        };
        let is_limit_watched = !scenario.takes(Shortcut::NoLimitWatch);
        let limits = limits.filter(|_| is_limit_watched);
        leases.chain(limits).chain([head]).min().unwrap_or(NEVER)
    };
    let session = &state.sessions[scenario.clients[i]];
    if change <= last_shown(state, *session) {
        next(Action::Tell(i), &|after| {
            let session = &mut after.sessions[scenario.clients[i]];
            session.view = session.view.max(change);
            after.contenders[i].watch = Watch::Told;
        });
    }
}

/// The write under way happens.
fn commit(after: &mut State, scenario: &Counted, i: usize) {
    let contender = after.contenders[i];
    let succeeded = match contender.phase {
        Phase::Finding => false,
        phase => write(after, scenario, i, phase == Phase::Deleting),
    };
    after.contenders[i].committed = after.now;
    after.contenders[i].succeeded = succeeded;
}

/// A create or a delete, in time or late. Whether it does what it is to do.
fn write(after: &mut State, scenario: &Counted, i: usize, is_delete: bool) -> bool {
    let taken = after.shown(What::Plain, after.now).next();
    let node = after.contenders[i].node;
    match (scenario.is_plain(), is_delete) {
        (true, true) => {
            // By its name, which is everybody's.
            let Some((index, taken)) = taken else {
                return false;
            };
            let is_own = usize::from(taken.owner) == i && (node == NONE || node == index);
            if !is_own {
                after.violation = Some(Violation::DeletedAnothers);
            }
            after.delete(index)
        }
        (true, false) if taken.is_some() => false,
        (true, false) => {
            let created = after.create(i, What::Plain);
            note(after, scenario, i, created);
            true
        }
        (false, true) => after.delete(node),
        (false, false) => {
            let created = after.create(i, What::Lease);
            note(after, scenario, i, created);
            true
        }
    }
}

/// The reply will tell, unless the connection is lost by now.
fn note(after: &mut State, scenario: &Counted, i: usize, created: NodeIndex) {
    if after.sessions[scenario.clients[i]].up {
        after.contenders[i].node = created;
    }
}

/// What can happen to a session and its connection.
fn session_steps(state: &State, scenario: &Counted, client: usize, next: &mut Next<'_>) {
    let session = &state.sessions[client];
    let mut tasks = scenario.tasks(client);
    if tasks.all(|task| state.contenders[task].is_at_rest()) && *session == Session::NEW {
        return;
    }
    let leaves = state.nodes().any(|(_, node)| {
        node.leaving && node.is_live() && scenario.clients[usize::from(node.owner)] == client
    });
    let mut tasks = scenario.tasks(client);
    if !leaves && tasks.all(|task| state.contenders[task].is_at_rest()) {
        return;
    }
    if !session.up {
        next(Action::Connect(client), &|after| {
            connect(after, scenario, client);
        });
    } else if !session.lives() {
        next(Action::Close(client), &|after| cut(after, scenario, client));
    } else {
        if state.faults.cuts > 0 {
            next(Action::Cut(client), &|after| {
                after.faults.cuts -= 1;
                cut(after, scenario, client);
            });
        }
        if !session.lease {
            next(Action::Ping(client), &|after| {
                after.sessions[client].lease = true;
            });
        }
    }
    if session.lease && state.faults.pauses > 0 {
        next(Action::Pause(client), &|after| {
            after.faults.pauses -= 1;
            after.sessions[client].lease = false;
            for task in scenario.tasks(client) {
                after.contenders[task].stale = after.sessions[client].up;
            }
        });
    }
    if !session.lease && session.lives() {
        next(Action::Expire(client), &|after| {
            expire(after, scenario, client);
        });
    }
}

/// The connection is lost, with what was under way on it. A write may still happen until the next connection is made.
fn cut(after: &mut State, scenario: &Counted, client: usize) {
    let lives = after.sessions[client].lives();
    after.sessions[client].up = false;
    for task in scenario.tasks(client) {
        let contender = &mut after.contenders[task];
        contender.stale = false;
        let lost_write = contender.committed == NEVER && lives;
        match contender.phase {
            Phase::Creating => {
                contender.floating = lost_write;
                contender.leaving = false;
                contender.phase = Phase::Unknown;
                contender.node = NONE;
            }
            Phase::Deleting => {
                contender.floating = lost_write;
                contender.leaving = true;
                if scenario.takes(Shortcut::DeleteOnce) {
                    contender.phase = Phase::Done;
                } else if scenario.is_plain() && lives && !scenario.takes(Shortcut::RepeatDelete) {
                    // What is there may be somebody else's by now.
                    contender.phase = Phase::Finding;
                }
            }
            Phase::Checking => contender.phase = Phase::Finding,
            // A try does not wait for another connection: it fails.
            Phase::Trying if contender.listed == NEVER => contender.phase = Phase::Done,
            // Asked for again; its reply will come on another connection.
            Phase::Waiting if scenario.is_plain() && contender.watch == Watch::Armed => {
                contender.watch = if scenario.takes(Shortcut::NoRewatch) {
                    Watch::Empty
                } else {
                    Watch::Requested
                };
            }
            Phase::Waiting if scenario.takes(Shortcut::NoRewatch) => contender.watch = Watch::Empty,
            _ => {}
        }
        contender.committed = NEVER;
    }
}

/// The next connection. The session goes on, or the client learns that it is over.
fn connect(after: &mut State, scenario: &Counted, client: usize) {
    let is_over = !after.sessions[client].lives();
    let session = &mut after.sessions[client];
    session.up = true;
    session.lease = true;
    session.expired = NEVER;
    for task in scenario.tasks(client) {
        let contender = &mut after.contenders[task];
        contender.floating = false;
        contender.stale = false;
        contender.mute = false;
        if is_over {
            client::lost_session(after, scenario, task);
        }
    }
}

/// The session ends, with all its nodes.
fn expire(after: &mut State, scenario: &Counted, client: usize) {
    after.now += 1;
    let now = after.now;
    after.sessions[client].expired = now;
    for task in scenario.tasks(client) {
        after.contenders[task].floating = false;
        for node in &mut after.nodes[..usize::from(after.node_count)] {
            if usize::from(node.owner) == task && node.is_live() {
                node.died = now;
            }
        }
    }
}

/// What operators do: they delete nodes, and set the limit.
fn by_operators(state: &State, scenario: &Counted, next: &mut Next<'_>) {
    if state.faults.by_hand > 0 {
        for (index, node) in state.nodes() {
            if node.is_live() {
                next(Action::DeleteByHand(index), &|after| {
                    after.faults.by_hand -= 1;
                    after.delete(index);
                });
            }
        }
    }
    let Recipe::Semaphore { limit: most, .. } = scenario.recipe else {
        return;
    };
    let now = state.limit_at(state.now);
    let is_due = scenario.reads_limit() && now == 0;
    for value in 0..=most {
        let may_set = value != now && state.changes > 0;
        if (may_set || (is_due && value == most)) && usize::from(state.limit_count) < LIMITS {
            let action = if is_due && value == most {
                Action::RaiseLimit(value)
            } else {
                Action::SetLimit(value)
            };
            next(action, &|after| {
                after.changes = after.changes.saturating_sub(1);
                after.now += 1;
                let born = after.now;
                after.limits[usize::from(after.limit_count)..].fill(Limit { value, born });
                after.limit_count += 1;
            });
        }
    }
}
