//! What the servers, the network and operators do. A client receives at once what a server sends: a
//! reply under way is one that a lagging server has yet to send.

use lockkeeper_recipes::decisions::life::Failure;

use crate::{
    action::Action,
    client,
    decide::{self, is_in_the_way},
    history::{NEVER, Time},
    late,
    name::{Marker, Name, marker},
    scenario::{CONTENDERS, Role, Scenario},
    state::{Contender, Event, LIMITS, Limit, Phase, Reply, Request, Session, State, Watch},
    view,
    violation::Violation,
};

pub(crate) type Next<'a> = dyn FnMut(Action, &dyn Fn(&mut State)) + 'a;

/// All that the servers, the network and operators can do next.
pub(crate) fn each_step(state: &State, scenario: &Scenario, visit: &mut impl FnMut(Action, State)) {
    let mut next = |action, change: &dyn Fn(&mut State)| {
        let mut after = *state;
        change(&mut after);
        visit(action, after);
    };
    for i in 0..CONTENDERS {
        let session = &state.sessions[scenario.clients[i]];
        if session.is_up {
            write_steps(state, scenario, i, &mut |action, change| {
                next(action, change);
                if view::is_shared(scenario, i) && scenario.is_queue() {
                    next(action, &|after| {
                        change(after);
                        decide::enter_unlisted(after, scenario, i);
                    });
                }
            });
            read_steps(state, scenario, i, &mut next);
            event_steps(state, scenario, i, &mut next);
        }
    }
    late::each_step(state, scenario, &mut next);
    for (at, node) in state.nodes().iter().enumerate() {
        let session = &state.sessions[scenario.clients[usize::from(node.owner)]];
        if node.is_leaving && node.is_live() && session.is_up {
            next(Action::LeaveQueue(at), &|after| after.delete_at(at));
        }
    }
    for client in 0..CONTENDERS {
        session_steps(state, scenario, client, &mut next);
    }
    let is_any_up = state.sessions.iter().any(|session| session.is_up);
    if state.faults.deaths > 0 && is_any_up {
        next(Action::Die, &|after| {
            after.faults.deaths -= 1;
            for client in 0..CONTENDERS {
                if after.sessions[client].is_up && !after.is_idle(scenario, client) {
                    cut(after, scenario, client);
                }
            }
        });
    }
    by_operators(state, scenario, &mut next);
}

/// The request of a node's life is committed if it is a write, and answered.
fn write_steps(state: &State, scenario: &Scenario, i: usize, next: &mut Next<'_>) {
    let contender = &state.contenders[i];
    let session = &state.sessions[scenario.clients[i]];
    let is_committed = contender.committed != NEVER;
    match contender.request {
        Request::Nothing => {}
        request if !is_committed && !matches!(request, Request::Check(_)) => {
            if session.lives() {
                next(Action::Commit(i), &|after| {
                    commit(after, scenario, i, request);
                });
            }
        }
        _ if is_restoring(state, scenario, i) => {}
        Request::Check(_) => answers(state, scenario, i, 0, next, reply_to_request),
        // The listing behind a committed barrier shows all writes before it.
        Request::Find => {
            let barrier = contender.committed;
            answers(state, scenario, i, barrier, next, reply_to_request);
        }
        Request::Create | Request::CreateFormer | Request::Replace(_) | Request::Delete(_) => {
            let view = contender.committed;
            if view < first_event(state, scenario, i) {
                next(Action::Reply(i, view), &|after| {
                    show(after, scenario, i, view);
                    reply_to_request(after, scenario, i, view);
                });
            }
        }
    }
}

/// Watches are set, and the read of a contender is answered.
fn read_steps(state: &State, scenario: &Scenario, i: usize, next: &mut Next<'_>) {
    let contender = &state.contenders[i];
    if contender.request != Request::Nothing {
        return;
    }
    if is_restoring(state, scenario, i) && !restores(contender) {
        return;
    }
    if contender.watches.iter().any(|watch| watch.is_requested()) {
        let seen = state.sessions[scenario.clients[i]].view;
        answers(state, scenario, i, 0, next, move |after, _, i, view| {
            set_watches(after, scenario, i, view, seen);
        });
    } else if let Some((read, Reply::Pending)) = contender.read {
        answers(state, scenario, i, 0, next, move |after, _, i, view| {
            after.contenders[i].read = Some((read, Reply::At(view)));
        });
    }
}

/// Whether the first requests of a new connection are not answered, which set the watches of all
/// tasks of this client again. All other replies come after theirs.
pub(crate) fn is_restoring(state: &State, scenario: &Scenario, i: usize) -> bool {
    let mut tasks = scenario.tasks(scenario.clients[i]);
    tasks.any(|task| {
        let contender = &state.contenders[task];
        restores(contender) && contender.request == Request::Nothing
    })
}

fn restores(contender: &Contender) -> bool {
    let mut watches = contender.watches.iter();
    watches.any(|watch| matches!(watch, Watch::Restored(_)))
}

/// The reply to a read, from every point of the history from which it may come.
fn answers(
    state: &State,
    scenario: &Scenario,
    i: usize,
    barrier: Time,
    next: &mut Next<'_>,
    handle: impl Fn(&mut State, &Scenario, usize, Time),
) {
    if state.contenders[i].is_mute {
        return;
    }
    let session = &state.sessions[scenario.clients[i]];
    // Events that are older than a reply come before it.
    let end = first_event(state, scenario, i).min(last_shown(state, *session) + 1);
    for view in (session.view.max(barrier)..end).rev() {
        next(Action::Reply(i, view), &|after| {
            show(after, scenario, i, view);
            handle(after, scenario, i, view);
        });
    }
}

/// The last point of the history that the session can be shown: nothing any more once it is over.
pub(crate) fn last_shown(state: &State, session: Session) -> Time {
    if session.lives() {
        state.now
    } else {
        session.expired - 1
    }
}

/// When the first event comes of which a server has to tell the client of this contender.
pub(crate) fn first_event(state: &State, scenario: &Scenario, i: usize) -> Time {
    let tasks = scenario.tasks(scenario.clients[i]);
    let watches = tasks.flat_map(|task| state.contenders[task].watches);
    let times = watches.map(|watch| match watch {
        Watch::Armed(name, born) => died(state, scenario.clients[i], name, born),
        Watch::Due(_) => 0,
        _ => NEVER,
    });
    times.min().unwrap_or(NEVER)
}

/// When the node with this name was deleted that was created at this time: never, if it is a ghost.
fn died(state: &State, client: usize, name: Name, born: Time) -> Time {
    let nodes = state.nodes().iter().filter(|node| !node.is_place);
    let mut nodes = nodes.filter(|node| node.name == name);
    if nodes.clone().any(|node| node.is_ghost(client)) {
        return NEVER;
    }
    // A ghost at the server of another client may be as old, as far as anybody can tell.
    let node = nodes.rfind(|node| node.born == born);
    node.expect("a watched node is kept").died
}

fn reply_to_request(after: &mut State, scenario: &Scenario, i: usize, view: Time) {
    if after.contenders[i].request.is_write() {
        late::answered(after, scenario.clients[i]);
    }
    let answer = client::answer(after, scenario, i, view);
    client::answered(after, scenario, i, answer);
}

/// The session has seen this. The reply to what was sent after the lease ended says that the
/// session lives.
fn show(after: &mut State, scenario: &Scenario, i: usize, view: Time) {
    let is_stale = after.contenders[i].is_stale;
    let session = &mut after.sessions[scenario.clients[i]];
    session.view = session.view.max(view);
    session.has_lease |= !is_stale && session.lives();
}

/// The server sets the watches. It tells at once of nodes that were deleted or changed since the
/// session had last seen them: in the order of the request. For the watches of an earlier
/// connection the order is any.
fn set_watches(after: &mut State, scenario: &Scenario, i: usize, view: Time, seen: Time) {
    let is_restoring = restores(&after.contenders[i]);
    for at in 0..3 {
        let watch = after.contenders[i].watches[at];
        // The first request of a connection comes before all others.
        if is_restoring && !matches!(watch, Watch::Restored(_)) {
            continue;
        }
        let (Watch::Requested(name) | Watch::Restored(name)) = watch else {
            continue;
        };
        let event = |is_deleted| Event { name, is_deleted };
        let event = match after.node_shown(scenario.clients[i], name, view) {
            Some(node) if node.born <= seen => {
                after.contenders[i].watches[at] = Watch::Armed(name, node.born);
                continue;
            }
            node => event(node.is_none()),
        };
        let contender = &mut after.contenders[i];
        if watch == Watch::Requested(name) {
            contender.watches[at] = Watch::Empty;
            contender.tell(event);
        } else {
            contender.watches[at] = Watch::Due(event);
        }
    }
}

/// The events that can come next. The earliest transaction comes first, but for those that make up
/// for an outage.
fn event_steps(state: &State, scenario: &Scenario, i: usize, next: &mut Next<'_>) {
    let contender = &state.contenders[i];
    let session = &state.sessions[scenario.clients[i]];
    let first = first_event(state, scenario, i);
    for (at, watch) in contender.watches.into_iter().enumerate() {
        let (event, time) = match watch {
            Watch::Due(event) => (event, 0),
            Watch::Armed(name, born) => {
                let is_deleted = true;
                let died = died(state, scenario.clients[i], name, born);
                (Event { name, is_deleted }, died)
            }
            _ => continue,
        };
        if time == first && time <= last_shown(state, *session) {
            next(Action::Tell(i, at), &|after| {
                let session = &mut after.sessions[scenario.clients[i]];
                session.view = session.view.max(time);
                tell(after, scenario, i, watch, event);
            });
            if state.faults.losses > 0 {
                next(Action::Lose(i, at), &|after| {
                    after.faults.losses -= 1;
                    lose(after, scenario, i, watch, event.name);
                });
            }
        }
    }
    if let Some(change) = change_of_permits(state, scenario, i)
        && change <= last_shown(state, *session)
    {
        next(Action::TellChange(i), &|after| {
            let session = &mut after.sessions[scenario.clients[i]];
            session.view = session.view.max(change);
            after.contenders[i].is_change_told = true;
        });
        if state.faults.losses > 0 {
            next(Action::LoseChange(i), &|after| {
                after.faults.losses -= 1;
                let is_limit = after.limits().iter().any(|limit| limit.born == change);
                let contender = &mut after.contenders[i];
                if is_limit {
                    contender.limit_since = NEVER;
                } else {
                    contender.permits_since = NEVER;
                }
            });
        }
    }
}

/// The event of a watch is lost, for all tasks of the client.
fn lose(after: &mut State, scenario: &Scenario, i: usize, fired: Watch, name: Name) {
    for task in scenario.tasks(scenario.clients[i]) {
        let mut watches = after.contenders[task].watches.iter_mut();
        if let Some(watch) = watches.find(|watch| **watch == fired) {
            *watch = Watch::Lost(name);
        }
    }
}

/// The event of a watch arrives. Tasks of one client have one watch on a node, as the server sees
/// it. A task whose request is under way hears of it with the reply (`set_watches`).
fn tell(after: &mut State, scenario: &Scenario, i: usize, fired: Watch, event: Event) {
    for task in scenario.tasks(scenario.clients[i]) {
        let contender = &mut after.contenders[task];
        if let Some(at) = contender.watches.iter().position(|watch| *watch == fired) {
            contender.watches[at] = Watch::Empty;
            contender.tell(event);
        }
    }
}

/// The first change of what a waiter for a permit waits for: the permits, the limit, its place in
/// the queue.
pub(crate) fn change_of_permits(state: &State, scenario: &Scenario, i: usize) -> Option<Time> {
    let contender = &state.contenders[i];
    let is_waiting = contender.phase == Phase::Deciding && contender.read.is_none();
    if !scenario.is_semaphore() || !is_waiting || contender.is_change_told || contender.is_lost {
        return None;
    }
    let permits = state.nodes().iter().filter(|node| !node.is_place);
    let permits = permits.flat_map(|node| [node.born, node.died]);
    let permits = permits.filter(|time| *time > contender.permits_since);
    let limits = state.limits().iter().map(|limit| limit.born);
    let limits = limits.filter(|time| *time > contender.limit_since);
    let place = contender.place.map(|place| state.place_died(place));
    permits.chain(limits).chain(place).min()
}

/// A write happens. Its reply will say what came of it.
fn commit(after: &mut State, scenario: &Scenario, i: usize, request: Request) {
    let created = write(after, scenario, i, request);
    late::committed(after, scenario, scenario.clients[i]);
    let contender = &mut after.contenders[i];
    contender.committed = after.now;
    contender.succeeded = created.is_some();
    contender.created = created.unwrap_or(Name::PLAIN);
}

/// A write. The node that it created or deleted, if it did what it was to do.
pub(crate) fn write(
    after: &mut State,
    scenario: &Scenario,
    i: usize,
    request: Request,
) -> Option<Name> {
    match request {
        // The barrier deletes a name that never exists.
        Request::Nothing | Request::Check(_) | Request::Find => None,
        Request::Create => create(after, scenario, i),
        Request::CreateFormer => Some(late::create(after, scenario, i)),
        Request::Replace(writer) => after.delete(writer).then(|| {
            let reader = Name::new(Marker::Read, writer.number);
            after.insert(i, reader, false);
            reader
        }),
        Request::Delete(name) => {
            let live = after.node_at(name, after.now);
            if live.is_some_and(|node| usize::from(node.owner) != i) {
                after.violation = Some(Violation::DeletedAnothers);
            }
            after.delete(name).then_some(name)
        }
    }
}

fn create(after: &mut State, scenario: &Scenario, i: usize) -> Option<Name> {
    let now = after.now;
    let role = scenario.roles[i];
    if role == Role::Plain && after.node_at(Name::PLAIN, now).is_some() {
        return None;
    }
    let is_try = scenario.tries[i] && !after.contenders[i].saw_free;
    if is_try && is_in_the_way(after, scenario, i, now) {
        after.violation = Some(Violation::WroteInVain);
    }
    Some(after.create(i, marker(role), false))
}

/// What can happen to a session and its connection.
fn session_steps(state: &State, scenario: &Scenario, client: usize, next: &mut Next<'_>) {
    let session = &state.sessions[client];
    if state.is_idle(scenario, client) {
        return;
    }
    if !session.is_up {
        for server in late::dialable(scenario, session) {
            next(Action::Connect(client), &|after| {
                connect(after, scenario, client, server, false);
            });
        }
        let mut nodes = state.nodes().iter();
        if !session.is_leaving && nodes.any(|node| node.is_ghost(client)) {
            next(Action::ConnectAgain(client), &|after| {
                let nodes = after.nodes;
                connect(after, scenario, client, 0, false);
                after.nodes = nodes;
            });
        }
        if !session.lives() {
            next(Action::ConnectLate(client), &|after| {
                connect(after, scenario, client, 0, true);
            });
        }
    } else if !session.lives() {
        next(Action::Close(client), &|after| cut(after, scenario, client));
    } else {
        if session.is_leaving {
            next(Action::Leave(client), &|after| cut(after, scenario, client));
        }
        if !session.has_lease {
            next(Action::Ping(client), &|after| {
                after.sessions[client].has_lease = true;
            });
        }
        if state.faults.cuts > 0 {
            next(Action::Cut(client), &|after| {
                after.faults.cuts -= 1;
                cut(after, scenario, client);
            });
        }
    }
    if session.has_lease && state.faults.pauses > 0 {
        next(Action::Pause(client), &|after| {
            after.faults.pauses -= 1;
            let session = &mut after.sessions[client];
            session.has_lease = false;
            let is_up = session.is_up;
            for task in scenario.tasks(client) {
                after.contenders[task].is_stale = is_up;
            }
        });
    }
    if !session.has_lease && session.lives() {
        next(Action::Expire(client), &|after| {
            expire(after, scenario, client);
        });
        if state.faults.ghosts > 0 {
            ghost_steps(state, scenario, client, next);
        }
    }
}

/// The session ends, and the server of a client keeps one of its nodes.
fn ghost_steps(state: &State, scenario: &Scenario, client: usize, next: &mut Next<'_>) {
    for (at, node) in state.nodes().iter().enumerate() {
        let is_own = scenario.clients[usize::from(node.owner)] == client;
        if !is_own || !node.is_live() || node.is_place {
            continue;
        }
        for other in 0..CONTENDERS {
            if scenario.tasks(other).next().is_some() {
                next(Action::ExpireBut(client, other, at), &|after| {
                    after.faults.ghosts -= 1;
                    expire(after, scenario, client);
                    after.nodes[at].ghost = 1 << other;
                });
            }
        }
    }
}

/// The connection is lost, with what was under way on it.
fn cut(after: &mut State, scenario: &Scenario, client: usize) {
    let lives = after.sessions[client].lives();
    after.sessions[client].is_up = false;
    for task in scenario.tasks(client) {
        let contender = &after.contenders[task];
        if lives && contender.request.is_write() {
            let is_committed = contender.committed != NEVER;
            late::lost(after, scenario, task, is_committed);
        }
        let contender = &mut after.contenders[task];
        for watch in &mut contender.watches {
            if let Some(name) = watch.name() {
                *watch = Watch::Restored(name);
            }
        }
        match &mut contender.read {
            // A try does not wait for another connection: it fails.
            Some((_, Reply::Pending)) if contender.phase == Phase::Trying => {
                client::done(after, task);
            }
            Some((_, reply @ Reply::Pending)) => *reply = Reply::Lost,
            _ => {}
        }
        let request = after.contenders[task].request;
        if let Some(answer) = client::failed(request, Failure::Unknown) {
            client::answered(after, scenario, task, answer);
        }
        after.contenders[task].is_stale = false;
    }
}

/// The next connection. The session goes on, or the client learns that it is over.
fn connect(after: &mut State, scenario: &Scenario, client: usize, server: usize, is_late: bool) {
    let now = after.now;
    late::dial(after, scenario, client, server);
    after.lay_ghosts(client);
    let session = &mut after.sessions[client];
    session.is_leaving = false;
    let is_over = !session.lives();
    session.is_up = true;
    session.connection += 1;
    session.has_lease = true;
    session.expired = NEVER;
    if is_over {
        // The server that makes the new session has seen the end of the former one.
        session.view = now;
    }
    for task in scenario.tasks(client) {
        let contender = &mut after.contenders[task];
        contender.is_stale = false;
        contender.is_mute = false;
        if is_over {
            client::lost_session(after, scenario, task, is_late);
        }
    }
}

/// The session ends, with all its nodes.
fn expire(after: &mut State, scenario: &Scenario, client: usize) {
    after.now += 1;
    let now = after.now;
    after.sessions[client].expired = now;
    late::session_over(after, scenario, client);
    let clients = scenario.clients;
    let nodes = after.nodes_mut().iter_mut();
    let own = nodes.filter(|node| node.is_live() && clients[usize::from(node.owner)] == client);
    own.for_each(|node| node.died = now);
}

/// What operators do: they delete nodes, change their data, and set the limit.
fn by_operators(state: &State, scenario: &Scenario, next: &mut Next<'_>) {
    if state.faults.by_hand > 0 {
        let nodes = state.nodes().iter().enumerate();
        for (at, _) in nodes.filter(|(_, node)| node.is_live()) {
            next(Action::DeleteByHand(at), &|after| {
                after.faults.by_hand -= 1;
                after.delete_at(at);
            });
        }
        for (i, contender) in state.contenders.iter().enumerate() {
            for (at, watch) in contender.watches.into_iter().enumerate() {
                touch(i, at, watch, next);
            }
        }
    }
    if !scenario.is_semaphore() || usize::from(state.limit_count) == LIMITS {
        return;
    }
    let limit = state.limit_at(state.now);
    let is_due = scenario.limit_changes.is_some() && limit == 0;
    for value in 0..=scenario.limit {
        let is_raised = is_due && value == scenario.limit;
        let action = if is_raised {
            Action::RaiseLimit(value)
        } else {
            Action::SetLimit(value)
        };
        if is_raised || (value != limit && state.limit_changes > 0) {
            next(action, &|after| {
                after.limit_changes = after.limit_changes.saturating_sub(1);
                after.now += 1;
                let born = after.now;
                after.limits[usize::from(after.limit_count)..].fill(Limit { value, born });
                after.limit_count += 1;
            });
        }
    }
}

/// The data of a watched node are changed. Nobody but the watch sees it. So it may just as well
/// have been done right after what the session has seen last: no older event is left to come.
fn touch(i: usize, at: usize, watch: Watch, next: &mut Next<'_>) {
    let (Watch::Armed(name, _) | Watch::Restored(name)) = watch else {
        return;
    };
    next(Action::Touch(i, at), &|after| {
        after.faults.by_hand -= 1;
        let event = Event {
            name,
            is_deleted: false,
        };
        let contender = &mut after.contenders[i];
        if watch == Watch::Restored(name) {
            contender.watches[at] = Watch::Due(event);
        } else {
            contender.watches[at] = Watch::Empty;
            contender.tell(event);
        }
    });
}
