//! What can happen next, by name, and in words for people who read a history.

use crate::{
    history::Time,
    lies::Lie,
    name::Marker,
    scenario::Scenario,
    state::{Contender, Decider, Node, Phase, Read, Reply, Request, State},
};

/// One step. `usize` is a contender, unless something else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// It looks, or creates its node, or enters the queue of a semaphore.
    Start(usize),
    /// The servers commit the write under way.
    Commit(usize),
    /// The servers commit a write that was under way when the connection was lost.
    CommitLate(usize),
    /// The server answers the first request under way, from this point of the history.
    Reply(usize, Time),
    /// The server answers its create, which has succeeded, with a lie.
    Lie(usize, Lie),
    /// The server to which all clients are connected dies.
    Die,
    /// The event of one of its watches arrives.
    Tell(usize, usize),
    /// The event arrives that a waiter for a lease waits for.
    TellChange(usize),
    /// Its future is polled, and does something.
    Poll(usize),
    Release(usize),
    Downgrade(usize),
    /// Its future is dropped.
    Cancel(usize),
    Again(usize),
    /// The place of a semaphore's queue with this index among the nodes is deleted.
    LeaveQueue(usize),
    /// The connection of a client is lost.
    Cut(usize),
    /// A server closes the connection of a client whose session is over.
    Close(usize),
    Connect(usize),
    /// The client connects, but its tasks are not polled before. What they submit, they submit in
    /// the new session.
    ConnectLate(usize),
    /// A client hears of no server until its lease has ended.
    Pause(usize),
    /// The servers end the session of a client.
    Expire(usize),
    /// A ping of a client is answered: its lease is renewed.
    Ping(usize),
    /// An operator deletes the node with this index.
    DeleteByHand(usize),
    /// An operator changes the data of the node of a watch.
    Touch(usize, usize),
    SetLimit(u8),
    /// The limit was 0, and is raised in the end.
    RaiseLimit(u8),
}

impl Action {
    /// Whether the step is taken sooner or later. The others are faults, or what users may do or
    /// not.
    pub(crate) fn is_progress(self) -> bool {
        match self {
            Self::Start(_)
            | Self::Commit(_)
            | Self::Reply(..)
            | Self::Tell(..)
            | Self::TellChange(_)
            | Self::Poll(_)
            | Self::Release(_)
            | Self::LeaveQueue(_)
            | Self::Close(_)
            | Self::Connect(_)
            | Self::Ping(_)
            | Self::RaiseLimit(_) => true,
            Self::CommitLate(_)
            | Self::Lie(..)
            | Self::Die
            | Self::Downgrade(_)
            | Self::Cancel(_)
            | Self::Again(_)
            | Self::Cut(_)
            | Self::ConnectLate(_)
            | Self::Pause(_)
            | Self::Expire(_)
            | Self::DeleteByHand(_)
            | Self::Touch(..)
            | Self::SetLimit(_) => false,
        }
    }
}

/// A step in words, from the states before and after it, with the live nodes after it.
pub(crate) fn describe(
    before: &State,
    scenario: &Scenario,
    action: Action,
    after: &State,
) -> String {
    let client = |client: usize| {
        let tasks = scenario.tasks(client).map(|task| who(task).to_string());
        format!("the client of {}", tasks.collect::<Vec<_>>().join(" and "))
    };
    let watched = |i: usize, at: usize| {
        let name = before.contenders[i].watches[at].name();
        let node = name.and_then(|name| before.nodes().iter().find(|node| node.name == name));
        node.map_or_else(|| "a node".to_owned(), |node| name_of(*node))
    };
    let step = match action {
        Action::Start(i) => format!("{} {}", who(i), starts(&after.contenders[i])),
        Action::Commit(i) => {
            let contender = &after.contenders[i];
            let fails = !contender.succeeded && !matches!(contender.request, Request::Find);
            let result = if fails { ", which fails" } else { "" };
            let request = request(&before.contenders[i]);
            format!("the servers commit {}'s {request}{result}", who(i))
        }
        Action::CommitLate(i) => {
            let floating = Contender {
                request: before.contenders[i].floating,
                ..before.contenders[i]
            };
            let request = request(&floating);
            format!(
                "the servers commit {}'s {request} of the lost connection",
                who(i)
            )
        }
        Action::Reply(i, view) => {
            let contender = &before.contenders[i];
            let (request, is_write) = (request(contender), contender.request.is_write());
            let lag = if is_write {
                String::new()
            } else {
                lag(before, view)
            };
            format!("{} receives the reply to its {request}{lag}", who(i))
                + follows(before, after, i)
        }
        Action::Lie(i, lie) => {
            format!("{}'s create is answered with {}", who(i), told(before, lie))
        }
        Action::Die => "a server dies, with the connections of all clients".to_owned(),
        Action::Tell(i, at) => {
            format!(
                "{} receives an event of its watch on {}",
                who(i),
                watched(i, at)
            )
        }
        Action::TellChange(i) => format!("{} receives the event of a change", who(i)),
        Action::Poll(i) => {
            format!(
                "{} {}",
                who(i),
                polls(&before.contenders[i], &after.contenders[i])
            )
        }
        Action::Release(i) => format!("{} releases the lock: sends its delete", who(i)),
        Action::Downgrade(i) => format!("{} asks to become a reader", who(i)),
        Action::Cancel(i) => format!("{}'s future is dropped", who(i)),
        Action::Again(i) => format!("{} wants the lock again", who(i)),
        Action::LeaveQueue(at) => format!("{} is deleted", name_of(before.nodes()[at])),
        Action::Cut(i) => format!("{} loses its connection", client(i)),
        Action::Close(i) => format!("a server closes the connection of {}", client(i)),
        Action::Connect(i) | Action::ConnectLate(i) => {
            let is_over = !before.sessions[i].lives();
            let how = if is_over { ", with a new session" } else { "" };
            let is_late = matches!(action, Action::ConnectLate(_));
            let late = if is_late {
                ", before its tasks run"
            } else {
                ""
            };
            format!("{} connects{how}{late}", client(i))
        }
        Action::Pause(i) => format!("{} is paused until its lease has ended", client(i)),
        Action::Expire(i) => format!("the servers end the session of {}", client(i)),
        Action::Ping(i) => format!("a ping renews the lease of {}", client(i)),
        Action::DeleteByHand(at) => {
            format!("an operator deletes {}", name_of(before.nodes()[at]))
        }
        Action::Touch(i, at) => {
            format!(
                "an operator has changed the data of {}: {} is told",
                watched(i, at),
                who(i)
            )
        }
        Action::SetLimit(limit) | Action::RaiseLimit(limit) => {
            format!("an operator sets the limit to {limit}")
        }
    };
    let live = after.nodes().iter().filter(|node| node.is_live());
    let live: Vec<_> = live.map(|node| name_of(*node)).collect();
    format!("{step:<72} [{}]", live.join(" "))
}

fn who(i: usize) -> char {
    char::from(b"ABC"[i])
}

/// A node in words: its owner, its role, its number.
fn name_of(node: Node) -> String {
    let former = if node.is_former { "(former)" } else { "" };
    let owner = who(usize::from(node.owner));
    let role = match node.name.marker {
        _ if node.is_place => "place",
        Marker::Lock => "lock",
        Marker::Write => "write",
        Marker::Read => "read",
        Marker::Lease => "lease",
        Marker::Plain => return format!("{owner}.lock{former}"),
    };
    format!("{owner}.{role}.{}{former}", node.name.number)
}

fn starts(contender: &Contender) -> &'static str {
    match contender.phase {
        Phase::Trying => "tries: it looks before it creates anything",
        Phase::Queueing => "enters the queue of the semaphore",
        _ => "sends its create",
    }
}

fn told(state: &State, lie: Lie) -> String {
    match lie {
        Lie::Node { name, .. } => {
            let mut nodes = state.nodes().iter().filter(|node| node.name == name);
            name_of(*nodes.next().expect("a node that is there"))
        }
        Lie::Transaction => "another transaction".to_owned(),
    }
}

/// The first request under way.
fn request(contender: &Contender) -> &'static str {
    match (contender.request, contender.read) {
        (Request::Create, _) => "create",
        (Request::Replace(_), _) => "change from writer to reader",
        (Request::Find, _) => "barrier and listing",
        (Request::Check(_), _) => "look at the node found",
        (Request::Delete(_), _) => "delete",
        _ if contender.watches.iter().any(|watch| watch.is_requested()) => "watches",
        (_, Some((Read::Limit, _))) => "look at the limit",
        (_, Some((Read::Renew, _))) => "look at its node",
        _ => "listing",
    }
}

/// Whether its node is there and it lists nothing.
fn follows(before: &State, after: &State, i: usize) -> &'static str {
    let contender = &after.contenders[i];
    let is_placed = before.contenders[i].phase != contender.phase;
    if is_placed && contender.phase == Phase::Deciding && contender.read.is_none() {
        ", and waits for one ahead"
    } else {
        ""
    }
}

/// How old an answer is.
fn lag(state: &State, view: Time) -> String {
    match state.now.saturating_sub(view) {
        0 => String::new(),
        1 => ", from before the last transaction".to_owned(),
        many => format!(", from before the last {many} transactions"),
    }
}

fn polls(before: &Contender, after: &Contender) -> &'static str {
    match (after.phase, after.read) {
        (Phase::Holding, _) => "holds the lock",
        (Phase::Entering, _) => "sends its create",
        (Phase::Done, _) if before.phase == Phase::Trying => {
            "sees that it would wait, and ends its try"
        }
        (Phase::Done, _) => "learns that its node is gone",
        (Phase::Leaving, _) => "gives up, and deletes its node",
        (_, Some((Read::Limit, Reply::Pending))) => "reads the limit",
        (_, Some((Read::Renew, Reply::Pending))) => "asks whether its node is there",
        (_, Some((_, Reply::Pending))) => "sends another listing",
        _ if matches!(after.turn, Decider::Plain(_)) => "watches the node of the holder",
        _ => "waits",
    }
}
