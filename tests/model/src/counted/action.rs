//! What can happen next, by name, and in words for whoever reads a trace.

use crate::history::{NEVER, Time};

use super::{
    scenario::Counted,
    state::{Node, NodeIndex, Phase, State},
};

/// One step. The number is the contender's, or the client's where a session is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// It looks, or creates its node, or enters the line of those who want leases.
    Start(usize),
    /// Its turn has come in that line; or its place there is gone.
    Turn(usize),
    /// The servers commit the write under way.
    Commit(usize),
    /// The servers commit a write that was under way when the connection was lost.
    CommitLate(usize),
    /// The server answers the request under way, from this point of the history.
    Reply(usize, Time),
    /// The server tells of what is waited for.
    Tell(usize),
    /// The caller's future is polled.
    Poll(usize),
    /// A create whose reply is lost is looked for.
    Find(usize),
    Release(usize),
    Cancel(usize),
    /// A place in the line is deleted for somebody who needs it no more.
    LeaveLine(NodeIndex),
    /// The connection is lost.
    Cut(usize),
    /// The server closes the connection of a session that is over.
    Close(usize),
    Connect(usize),
    /// The client does not hear of a server until its lease is over.
    Pause(usize),
    /// The servers end the session.
    Expire(usize),
    /// A ping is answered: the lease runs again.
    Ping(usize),
    DeleteByHand(NodeIndex),
    SetLimit(u8),
    /// A limit of 0 is raised at last.
    RaiseLimit(u8),
    Again(usize),
}

impl Action {
    /// Whether it happens by itself sooner or later. The others are faults, or a user's whim.
    pub(super) fn is_progress(self) -> bool {
        match self {
            Self::Start(_)
            | Self::Turn(_)
            | Self::Commit(_)
            | Self::Reply(..)
            | Self::Tell(_)
            | Self::Poll(_)
            | Self::Find(_)
            | Self::Release(_)
            | Self::LeaveLine(_)
            | Self::Close(_)
            | Self::Connect(_)
            | Self::Ping(_)
            | Self::RaiseLimit(_) => true,
            Self::CommitLate(_)
            | Self::Cancel(_)
            | Self::Cut(_)
            | Self::Pause(_)
            | Self::Expire(_)
            | Self::DeleteByHand(_)
            | Self::SetLimit(_)
            | Self::Again(_) => false,
        }
    }
}

/// A step in words, told by the states around it.
pub(super) fn describe(
    before: &State,
    scenario: &Counted,
    action: Action,
    after: &State,
) -> String {
    let clients = |client: usize| {
        let tasks = scenario.tasks(client).map(|task| who(task).to_string());
        tasks.collect::<Vec<_>>().join(" and ")
    };
    let step = match action {
        Action::Start(i) => format!("{} {}", who(i), starts(after, i)),
        Action::Turn(i) => {
            let turn = match after.contenders[i].phase {
                Phase::Creating => "is the first in the line, and sends the create of its lease",
                _ => "learns that its place in the line is gone",
            };
            format!("{} {turn}", who(i))
        }
        Action::Commit(i) => format!(
            "the servers commit {}'s {}",
            who(i),
            write(before, after, i)
        ),
        Action::CommitLate(i) => {
            let is_delete = before.contenders[i].leaving;
            let write = if is_delete { "delete" } else { "create" };
            format!(
                "the servers commit {}'s {write} of the connection before",
                who(i)
            )
        }
        Action::Reply(i, view) => {
            let (request, lag) = (request(before, i), lag(before, view));
            format!("{} gets the reply to its {request}{lag}", who(i))
        }
        Action::Tell(i) => format!("{} is told of a change", who(i)),
        Action::Poll(i) => format!("{} {}", who(i), looks(before, after, i)),
        Action::Find(i) => format!("{} looks for the node of its lost create", who(i)),
        Action::Release(i) => format!("{} releases: sends its delete", who(i)),
        Action::Cancel(i) => format!("{}'s caller gives up", who(i)),
        Action::LeaveLine(node) => format!("{} is deleted", name(before.node(node))),
        Action::Cut(client) => format!("the client of {} loses its connection", clients(client)),
        Action::Close(client) => {
            format!(
                "a server closes the connection of the client of {}",
                clients(client)
            )
        }
        Action::Connect(client) => {
            let is_over = !before.sessions[client].lives();
            let how = if is_over { ", in a new session" } else { "" };
            format!("the client of {} connects again{how}", clients(client))
        }
        Action::Pause(client) => {
            format!(
                "the client of {} is paused until its lease has run out",
                clients(client)
            )
        }
        Action::Expire(client) => {
            format!(
                "the servers end the session of the client of {}",
                clients(client)
            )
        }
        Action::Ping(client) => {
            format!("the lease of the client of {} runs again", clients(client))
        }
        Action::DeleteByHand(node) => format!("an operator deletes {}", name(before.node(node))),
        Action::SetLimit(limit) | Action::RaiseLimit(limit) => {
            format!("an operator sets the limit to {limit}")
        }
        Action::Again(i) => format!("{} wants the lock once more", who(i)),
    };
    let live = after.nodes().filter(|(_, node)| node.is_live());
    let live: Vec<_> = live.map(|(_, node)| name(node)).collect();
    format!("{step:<72} [{}]", live.join(" "))
}

fn who(index: usize) -> char {
    char::from(b"ABC"[index])
}

/// A node in words: its owner, and what it is.
fn name(node: Node) -> String {
    let former = if node.former { "(former)" } else { "" };
    format!("{}.{:?}{former}", who(usize::from(node.owner)), node.what)
}

fn starts(after: &State, index: usize) -> &'static str {
    match after.contenders[index].phase {
        Phase::Trying => "tries: it looks before it creates anything",
        Phase::Lining => "enters the line of those who want leases",
        _ => "sends its create",
    }
}

fn write(before: &State, after: &State, index: usize) -> &'static str {
    let succeeded = after.contenders[index].succeeded;
    match (before.contenders[index].phase, succeeded) {
        (Phase::Creating, true) => "create",
        (Phase::Creating, false) => "create, which fails: there is such a node",
        (Phase::Finding, _) => "barrier",
        (_, true) => "delete",
        (_, false) => "delete, which fails: there is no such node",
    }
}

fn request(before: &State, index: usize) -> &'static str {
    match before.contenders[index].phase {
        Phase::Creating => "create",
        Phase::Finding if before.contenders[index].committed == NEVER => "listing",
        Phase::Finding => "barrier and the listing behind it",
        Phase::Checking => "look at the node found",
        Phase::Listing => "listing of the leases",
        Phase::Limiting => "look at the limit",
        Phase::Waiting => "watch",
        Phase::Deleting => "delete",
        _ => "look whether the node is there",
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

fn looks(before: &State, after: &State, index: usize) -> &'static str {
    match after.contenders[index].phase {
        Phase::Holding => "holds the lock",
        Phase::Creating => "sees nobody's node, and sends its create",
        Phase::Asking => "has a lease that ran out, and asks whether its node is still there",
        Phase::Waiting => "sees no room, and waits",
        Phase::Listing => "lists the leases, with a watch",
        Phase::Limiting => "reads the limit, with a watch",
        Phase::Deleting => "has lost its place in the line: sends its delete",
        _ if before.contenders[index].phase == Phase::Trying => {
            "sees that somebody has it, and gives up"
        }
        _ => "learns that its own node is gone",
    }
}
