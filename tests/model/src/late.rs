//! Writes of lost connections, by server. Such a write lies in its server's queue to the leader,
//! which takes it only from the server that the session is at.
//!
//! A dial of another server makes a late write void. A later dial of the first one, finished or not,
//! makes it valid again, at any moment from then on, until another write of the session has gone
//! through that server: the writes in one queue keep their order. The shipped [`Servers`] says which
//! servers a client dials. When a look has not found a create, its name is not used again. The client
//! notes this name, and deletes the node if it comes (`node::late` in the recipes); here at any
//! moment, but in the end.
//!
//! Most scenarios do not tell servers apart: a client always finds another one that owes nothing.
//! So a late write is applied before the session's next connection is made, or never.
//!
//! Not here: a lost change from writer to reader, which the scenarios with servers do not have.

use std::time::Instant;

use lockkeeper_session::{ConnectString, machine::Servers};

use crate::{
    action::Action,
    name::{Name, marker},
    scenario::{CONTENDERS, Scenario},
    server::{Next, write},
    state::{Request, Session, State},
};

/// How many servers there are at most.
pub(crate) const SERVERS: usize = 3;

/// The servers of a scenario that tells them apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Late {
    /// How many there are.
    pub(crate) count: usize,
    /// Which of them a client dials, for each set of servers that owe. A set has a bit for each server.
    pub(crate) dials: [[bool; SERVERS]; 1 << SERVERS],
    /// Whether a client looks for the nodes of creates that were not found.
    pub(crate) looks: bool,
    /// Whether creates may come late, too, and not only deletes.
    pub(crate) creates: bool,
}

impl Late {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            count,
            dials: std::array::from_fn(|owing| dialed(count, owing)),
            looks: true,
            creates: true,
        }
    }
}

/// Which servers the shipped code dials when these owe.
#[allow(clippy::disallowed_methods, reason = "no time passes")]
fn dialed(count: usize, owing: usize) -> [bool; SERVERS] {
    let now = Instant::now();
    let list = ["a", "b", "c"][..count].join(",");
    let list: ConnectString = list.parse().expect("a list of servers");
    let mut servers = Servers::new(list.endpoints(), 0);
    for (at, server) in list.endpoints().iter().enumerate() {
        if owing >> at & 1 == 1 {
            servers.owes(now, &server.clone().into());
        }
    }
    let mut dialed = [false; SERVERS];
    for _ in 0..2 * count {
        let next = servers.advance(now).expect("a server");
        let at = list.endpoints().iter().position(|it| *it == *next);
        dialed[at.expect("one of the list")] = true;
    }
    dialed
}

/// A server, for one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Server {
    /// As far as the client knows, a write may be late there.
    owes: bool,
    /// The client has dialed it since there was one.
    is_dialed: bool,
}

impl Server {
    pub(crate) const NEW: Self = Self {
        owes: false,
        is_dialed: false,
    };
}

/// The servers that the client may dial.
pub(crate) fn dialable(
    scenario: &Scenario,
    session: &Session,
) -> impl Iterator<Item = usize> + use<> {
    let at = usize::from(session.at);
    let dials = match scenario.late {
        Some(late) if session.lives() => late.dials[owing(session)],
        _ => std::array::from_fn(|server| server == at),
    };
    let count = scenario.late.map_or(1, |late| late.count);
    (0..count).filter(move |server| dials[*server])
}

/// The servers that owe, a bit each.
fn owing(session: &Session) -> usize {
    let servers = session.servers.iter().rev();
    servers.fold(0, |mask, it| mask << 1 | usize::from(it.owes))
}

/// The late writes that may be applied, and the dials that are given up.
pub(crate) fn each_step(state: &State, scenario: &Scenario, next: &mut Next<'_>) {
    for (i, contender) in state.contenders.iter().enumerate() {
        let session = &state.sessions[scenario.clients[i]];
        for (server, request) in contender.floating.into_iter().enumerate() {
            let is_at = server == usize::from(session.at) && !session.is_up;
            let is_valid = is_at || session.servers[server].is_dialed;
            if request != Request::Nothing && is_valid {
                next(Action::CommitLate(i), &|after| {
                    after.contenders[i].floating[server] = Request::Nothing;
                    write(after, scenario, i, request);
                });
            }
        }
    }
    if scenario.late.is_none() {
        return;
    }
    for (client, session) in state.sessions.iter().enumerate() {
        if session.is_up || !session.lives() {
            continue;
        }
        for server in dialable(scenario, session) {
            if has_any(state, scenario, client, server) && !session.servers[server].is_dialed {
                next(Action::Dial(client, server), &|after| {
                    dial(after, scenario, client, server);
                });
            }
        }
    }
}

/// Whether a write of this client is late at this server.
fn has_any(state: &State, scenario: &Scenario, client: usize, server: usize) -> bool {
    let mut tasks = scenario.tasks(client);
    tasks.any(|task| state.contenders[task].floating[server] != Request::Nothing)
}

/// No write of this client at this server will be applied any more.
fn drop_all(after: &mut State, scenario: &Scenario, client: usize, server: usize) {
    for task in scenario.tasks(client) {
        after.contenders[task].floating[server] = Request::Nothing;
    }
    after.sessions[client].servers[server].is_dialed = false;
}

/// The client begins a handshake with this server.
pub(crate) fn dial(after: &mut State, scenario: &Scenario, client: usize, server: usize) {
    if scenario.late.is_none() {
        return drop_all(after, scenario, client, server);
    }
    let is_dialed = has_any(after, scenario, client, server);
    let session = &mut after.sessions[client];
    session.at = u8::try_from(server).expect("few servers");
    session.servers[server].is_dialed = is_dialed;
}

/// The connection is lost, and this write was under way.
pub(crate) fn lost(after: &mut State, scenario: &Scenario, i: usize, is_committed: bool) {
    let session = &mut after.sessions[scenario.clients[i]];
    let contender = &mut after.contenders[i];
    let at = usize::from(session.at);
    session.servers[at].owes = scenario.late.is_some();
    let is_void = scenario.late.is_some_and(|late| match contender.request {
        // A barrier changes nothing when it comes late.
        Request::Find => true,
        Request::Create => !late.creates,
        _ => false,
    });
    if !is_committed && !is_void {
        let floating = &mut contender.floating[at];
        assert!(
            [Request::Nothing, contender.request].contains(floating),
            "one late write of a contender at a server"
        );
        *floating = contender.request;
    }
}

/// The leader has handled a write of the present connection. What the server had before went ahead.
pub(crate) fn committed(after: &mut State, scenario: &Scenario, client: usize) {
    let at = usize::from(after.sessions[client].at);
    drop_all(after, scenario, client, at);
}

/// The client knows that.
pub(crate) fn answered(after: &mut State, client: usize) {
    let session = &mut after.sessions[client];
    session.servers[usize::from(session.at)].owes = false;
}

/// A look has not found the create of this contender, whose name is not used again.
pub(crate) fn not_found(after: &mut State, scenario: &Scenario, i: usize) {
    let Some(late) = scenario.late else {
        return;
    };
    // It may have been applied behind the look.
    for node in after.nodes_mut() {
        if usize::from(node.owner) == i && !node.is_place && !node.is_former {
            node.is_former = true;
            node.is_leaving = late.looks;
        }
    }
    for request in &mut after.contenders[i].floating {
        if *request == Request::Create {
            *request = Request::CreateFormer;
        }
    }
}

/// Such a create is applied. The client finds the node, and deletes it.
pub(crate) fn create(after: &mut State, scenario: &Scenario, i: usize) -> Name {
    let name = after.create(i, marker(scenario.roles[i]), false);
    let node = after.nodes_mut().last_mut().expect("it was created");
    node.is_former = true;
    node.is_leaving = scenario.late.is_some_and(|late| late.looks);
    name
}

/// The session is over.
pub(crate) fn session_over(after: &mut State, scenario: &Scenario, client: usize) {
    for server in 0..SERVERS {
        drop_all(after, scenario, client, server);
        after.sessions[client].servers[server].owes = false;
    }
}

/// Forgets what can never be applied, and renames the servers.
pub(crate) fn forget(state: &mut State, scenario: &Scenario, client: usize) {
    let Some(late) = scenario.late else {
        return;
    };
    let session = &state.sessions[client];
    let (at, is_up, owing) = (usize::from(session.at), session.is_up, owing(session));
    let losses = u32::from(state.faults.cuts) + u32::from(state.faults.deaths);
    // Whether the client may ever dial this server while the server owes.
    let is_dialed_yet = |server: usize| {
        let reached = |later: &usize| {
            later >> server & 1 == 1 && later.count_ones() <= owing.count_ones() + losses
        };
        let mut later = (0..late.dials.len()).filter(reached);
        !(is_up && losses == 0) && later.any(|later| late.dials[later][server])
    };
    for server in 0..late.count {
        let is_valid = state.sessions[client].servers[server].is_dialed || (server == at && !is_up);
        let has_any = has_any(state, scenario, client, server);
        if !has_any || !(is_valid || is_dialed_yet(server)) {
            drop_all(state, scenario, client, server);
        }
    }
    let has_any = (0..late.count).any(|server| has_any(state, scenario, client, server));
    if losses == 0 && (is_up || !has_any) {
        for it in &mut state.sessions[client].servers {
            it.owes = false;
        }
    }
    let mut order: [usize; SERVERS] = std::array::from_fn(|server| server);
    order[..late.count].sort_by_key(|server| {
        let mut floating = [Request::Nothing; CONTENDERS];
        for task in scenario.tasks(client) {
            floating[task] = state.contenders[task].floating[*server];
        }
        let of_session = state.sessions[client].servers[*server];
        (*server != at, of_session, floating)
    });
    for task in scenario.tasks(client) {
        let floating = &mut state.contenders[task].floating;
        *floating = order.map(|server| floating[server]);
    }
    let session = &mut state.sessions[client];
    session.servers = order.map(|server| session.servers[server]);
    session.at = 0;
}
