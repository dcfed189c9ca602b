//! What can happen next, by name, and in words for whoever reads a trace.

use std::fmt::{self, Formatter};

use crate::history::{NEVER, Time};

use super::state::{Node, NodeIndex, Phase, State, Watch};

/// One step. The number is the contender's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// It tries: a listing before anything is created.
    Try(usize),
    /// It enters the line: create and listing, in one write.
    Start(usize),
    /// The servers commit the write under way.
    Commit(usize),
    /// The servers commit a write that was under way when the connection was lost.
    CommitLate(usize),
    /// The server answers the first request under way, from this point of the history.
    Reply(usize, Time),
    /// The server tells of a watched node: 0 our own, 1 the nearest, 2 the second.
    Tell(usize, usize),
    /// The caller's future is polled.
    Poll(usize),
    /// A create whose reply is lost is looked for.
    Find(usize),
    Release(usize),
    Cancel(usize),
    Downgrade(usize),
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
    /// An operator changes the data of a watched node; as for `Tell`.
    Touch(usize, usize),
    Again(usize),
}

impl Action {
    /// Whether it happens by itself sooner or later. The others are faults, or a user's whim.
    pub(crate) fn is_progress(self) -> bool {
        match self {
            Self::Try(_)
            | Self::Start(_)
            | Self::Commit(_)
            | Self::Reply(..)
            | Self::Tell(..)
            | Self::Poll(_)
            | Self::Find(_)
            | Self::Release(_)
            | Self::Close(_)
            | Self::Connect(_)
            | Self::Ping(_) => true,
            Self::CommitLate(_)
            | Self::Cancel(_)
            | Self::Downgrade(_)
            | Self::Cut(_)
            | Self::Pause(_)
            | Self::Expire(_)
            | Self::DeleteByHand(_)
            | Self::Touch(..)
            | Self::Again(_) => false,
        }
    }
}

/// A step in words, told by the states around it.
pub(crate) fn describe(before: &State, action: Action, after: &State) -> String {
    let who = |index: usize| char::from(b"ABC"[index]);
    let watched = |index: usize, watch: usize| {
        let (_, node) = before.contenders[index].watches()[watch];
        name(before.node(node))
    };
    let step = match action {
        Action::Try(i) => format!("{} tries: it looks before it creates anything", who(i)),
        Action::Start(i) => format!("{} sends its create, and a listing behind it", who(i)),
        Action::Commit(i) => format!("the servers commit {}'s {}", who(i), write(before, i)),
        Action::CommitLate(i) => format!(
            "the servers commit {}'s {} of the connection before",
            who(i),
            write(before, i)
        ),
        Action::Reply(i, view) => format!(
            "{} gets the reply to its {}{}",
            who(i),
            request(before, i),
            lag(before, view)
        ),
        Action::Tell(i, watch) => format!("{} is told that {} is gone", who(i), watched(i, watch)),
        Action::Poll(i) => format!("{} {}", who(i), looks(before, after, i)),
        Action::Find(i) => format!("{} looks for the node of its lost create", who(i)),
        Action::Release(i) => format!("{} releases: sends its delete", who(i)),
        Action::Cancel(i) => format!("{}'s caller gives up", who(i)),
        Action::Downgrade(i) => format!("{} asks to become a reader", who(i)),
        Action::Cut(i) => format!("{} loses its connection", who(i)),
        Action::Close(i) => format!("a server closes {}'s connection", who(i)),
        Action::Connect(i) => {
            let over = before.contenders[i].expired != NEVER;
            let how = if over { ", in a new session" } else { "" };
            format!("{} connects again{how}", who(i))
        }
        Action::Pause(i) => format!("{} is paused until its lease has run out", who(i)),
        Action::Expire(i) => format!("the servers end {}'s session", who(i)),
        Action::Ping(i) => format!("{} hears of a server: its lease runs again", who(i)),
        Action::DeleteByHand(node) => {
            format!("an operator deletes {}", name(before.node(node)))
        }
        Action::Touch(i, watch) => format!(
            "{} is told that an operator changed the data of {}",
            who(i),
            watched(i, watch)
        ),
        Action::Again(i) => format!("{} wants the lock once more", who(i)),
    };
    let mut line: Vec<_> = after.nodes().filter(|node| node.is_live()).collect();
    line.sort_by_key(|node| (node.number, node.marker));
    let line: Vec<_> = line.into_iter().map(name).collect();
    format!("{step:<72} [{}]", line.join(" "))
}

/// A node in words: its owner, its number, and as what it stands in the line.
fn name(node: Node) -> String {
    let owner = char::from(b"ABC"[usize::from(node.owner)]);
    let former = if node.former { "(former)" } else { "" };
    format!("{owner}.{:?}.{}{former}", node.marker, node.number)
}

fn write(state: &State, index: usize) -> &'static str {
    let contender = &state.contenders[index];
    match contender.phase {
        Phase::Creating | Phase::Unknown if contender.replacing => "change from writer to reader",
        Phase::Creating | Phase::Unknown => "create",
        Phase::Finding if contender.floating => "lost write",
        Phase::Finding => "barrier",
        _ => "delete",
    }
}

fn request(state: &State, index: usize) -> &'static str {
    let contender = &state.contenders[index];
    match contender.phase {
        Phase::Creating | Phase::Deleting => write(state, index),
        Phase::Trying => "first listing",
        Phase::Finding if contender.committed == NEVER => "listing",
        Phase::Finding => "barrier and the listing behind it",
        Phase::Checking => "look at the node found",
        Phase::Looking if !contender.has_watch(|watch| watch == Watch::Requested) => "listing",
        _ => "watches",
    }
}

/// How old an answer is.
fn lag(state: &State, view: Time) -> impl fmt::Display {
    struct Lag(Time);
    impl fmt::Display for Lag {
        fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
            match self.0 {
                0 => Ok(()),
                1 => f.write_str(", from before the last transaction"),
                many => write!(f, ", from before the last {many} transactions"),
            }
        }
    }
    Lag(state.now.saturating_sub(view))
}

fn looks(before: &State, after: &State, index: usize) -> &'static str {
    let looks_at_listing = before.contenders[index].phase == Phase::Looking;
    if before.contenders[index].phase == Phase::Trying {
        return match after.contenders[index].phase {
            Phase::Creating => {
                "sees nobody in the way, and sends its create, and a listing behind it"
            }
            _ => "sees somebody in the way, and gives up",
        };
    }
    match (after.contenders[index].phase, looks_at_listing) {
        (Phase::Deleting, _) => "sees who is ahead, and gives up: sends its delete",
        (Phase::Holding, true) => "holds the lock: nobody is ahead in its listing",
        (Phase::Holding, false) => "holds the lock: the only one ahead is gone",
        (Phase::Waiting, _) => "sees who is ahead, and sends the watches",
        (Phase::Looking, _) => "sends another listing",
        _ => "learns that its own node is gone",
    }
}
