//! What happened to locks in a run, as a list of events: the format that the checker reads.
//!
//! Whoever records a history, a simulation or a test on real servers,
//!
//! - notes each event when it happens, in the order of time; events of one instant in the order in which they happened;
//! - gives *true* time: what a clock shows that all parties agree on. The machine's own, where everything runs on one;
//! - numbers attempts from 0, over all clients: an attempt is one call of `lock`, `try_lock`, `acquire` and so on, and the hold
//!   that comes of it.
//!
//! Order of the events of one attempt: [`Asked`](What::Asked), perhaps [`Placed`](What::Placed), then either
//! [`Ended`](What::Ended), or [`Granted`](What::Granted), any number of [`Valid`](What::Valid),
//! [`Stored`](What::Stored), perhaps [`Downgrading`](What::Downgrading) and [`Downgraded`](What::Downgraded),
//! [`LetGo`](What::LetGo), `Ended`.
//!
//! Not here: what is right and what is wrong (`check`).

use std::{fmt, sync::Arc, time::Duration};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in true time since the start of the run.
    pub at: Duration,
    /// Whose doing it was, or whom it concerns; what clients are numbered is up to the recorder.
    pub client: u32,
    /// What it was.
    pub what: What,
}

/// An attempt at a lock, and the hold that comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(pub u64);

/// With whom a hold may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// With nobody: a mutex, a writer, a leader.
    Exclusive,
    /// With other shared ones: a reader.
    Shared,
    /// With so many of its kind less one: a lease of a semaphore.
    Lease {
        /// How many there may be at a time.
        limit: u32,
    },
}

impl Mode {
    /// Whether both may hold at once without being counted.
    pub(crate) fn tolerates(self, other: Self) -> bool {
        self == Self::Shared && other == Self::Shared
    }

    /// Whether the order of two grants says something: one of them had to wait for the other.
    pub(crate) fn conflicts(self, other: Self) -> bool {
        let is_lease = |mode| matches!(mode, Self::Lease { .. });
        !self.tolerates(other) && !is_lease(self) && !is_lease(other)
    }
}

/// What may happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// An attempt at the lock at this path begins.
    Asked {
        /// Its number.
        attempt: Attempt,
        /// The path; what has one path is one line.
        lock: Arc<str>,
        /// What is asked for.
        mode: Mode,
    },
    /// The attempt has its place in the line: its node, by its whole path, and the session that the node belongs to.
    /// Recorded where it can be known, for instance after `enqueue`.
    Placed {
        /// Which.
        attempt: Attempt,
        /// The node.
        node: String,
        /// Its owner.
        session: i64,
    },
    /// The lock is ours.
    Granted {
        /// Which.
        attempt: Attempt,
        /// The fencing token.
        token: u64,
        /// The node.
        node: String,
        /// Its owner.
        session: i64,
    },
    /// The guard says that nobody else can hold the lock before `until`. To be recorded right after the grant, and as
    /// often as wanted; the last one counts.
    Valid {
        /// Which.
        attempt: Attempt,
        /// In true time, as the holder's clock tells it.
        until: Duration,
    },
    /// The lock gives itself up by force at this moment, should the holder not have let go by then.
    Limited {
        /// Which.
        attempt: Attempt,
        /// In true time.
        until: Duration,
    },
    /// The holder wants to hear when it is asked to let go.
    Listening {
        /// Which.
        attempt: Attempt,
    },
    /// The holder hears that it is asked to let go.
    Heard {
        /// Which.
        attempt: Attempt,
    },
    /// Somebody is about to ask the owner of this node to let go.
    Asking {
        /// The node.
        node: String,
    },
    /// The owner of this node has been asked to let go: the node says so.
    AskedToLetGo {
        /// The node.
        node: String,
    },
    /// A writer begins to become a reader, and claims no more than one does from here on.
    Downgrading {
        /// Which.
        attempt: Attempt,
    },
    /// A writer has become a reader, whose node is this one.
    Downgraded {
        /// Which.
        attempt: Attempt,
        /// The reader's node.
        node: String,
    },
    /// A write of this holder has reached a store that takes tokens no lower than the highest it has seen.
    Stored {
        /// Which.
        attempt: Attempt,
        /// The store: each has seen what it has seen.
        store: Arc<str>,
        /// The token that the write came with.
        token: u64,
        /// Whether the store took it.
        accepted: bool,
    },
    /// The holder begins to release the lock, by whatever means. It claims nothing from here on.
    LetGo {
        /// Which.
        attempt: Attempt,
    },
    /// The attempt, or the hold, is over.
    Ended {
        /// Which.
        attempt: Attempt,
        /// How.
        end: End,
    },
    /// A third party deleted this node by hand. What its owner was promised does not hold from here on.
    Deleted {
        /// The node.
        node: String,
    },
    /// A third party ended this session by force, before its time. As `Deleted`, for all its nodes.
    Killed {
        /// The session.
        session: i64,
    },
    /// The servers have ended this session: it was silent too long, or closed. Only a recorder that sees the servers' side
    /// can know; see [`Bounds::knows_sessions`](crate::check::Bounds::knows_sessions).
    SessionOver {
        /// The session.
        session: i64,
    },
    /// A client has read a node and left a watch on it.
    Watching {
        /// The number of the watch, over all clients.
        watch: u64,
        /// The node.
        path: Arc<str>,
        /// What was read with the watch: the node's `mzxid`; -1 for a node that is not there.
        version: i64,
    },
    /// The watch has fired, or has ended with its session, or nobody waits for it any more.
    Fired {
        /// Which.
        watch: u64,
    },
    /// The client has read a node again. Watches that have fired by then must have been recorded before.
    Read {
        /// The node.
        path: Arc<str>,
        /// Its `mzxid`; -1 for a node that is not there.
        version: i64,
    },
    /// A write was answered.
    Answered {
        /// The number of the write, over all clients.
        write: u64,
        /// What was said.
        answer: Answer,
    },
    /// At the end of the run: how often that write was applied.
    Applied {
        /// The number of the write.
        write: u64,
        /// How often.
        times: u32,
    },
    /// At the end of the run, when everybody has let go: this node is there though its session lives.
    Left {
        /// The node.
        node: String,
        /// Its owner.
        session: i64,
    },
}

/// How an attempt or a hold ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Released, and the release was answered: the lock was held until then.
    Released,
    /// The guard was dropped, or nobody knows what became of the release.
    Dropped,
    /// A try found the lock taken.
    Refused,
    /// It was not granted in time.
    TimedOut,
    /// The caller gave the attempt up.
    GivenUp,
    /// Lost: the node was deleted by somebody else.
    LostDeleted,
    /// Lost with its session, or with its client.
    LostSession,
    /// Given up by force, because it was held for too long.
    LostOverdue,
    /// Lost, or given up by the lock itself, for another reason than these.
    Failed(String),
}

/// What the caller of a write was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It succeeded.
    Applied,
    /// It was refused, or never sent.
    NotApplied,
    /// Nobody knows.
    Unknown,
    /// What became of some other write.
    Another,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at.as_secs_f64();
        write!(f, "{seconds:9.3}  c{}  {}", self.client, self.what)
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked {
                attempt,
                lock,
                mode,
            } => match mode {
                Mode::Exclusive => write!(f, "{attempt} asks for {lock}"),
                Mode::Shared => write!(f, "{attempt} asks to share {lock}"),
                Mode::Lease { limit } => write!(f, "{attempt} asks for one of {limit} of {lock}"),
            },
            Self::Placed { attempt, node, .. } => write!(f, "{attempt} stands in line as {node}"),
            Self::Granted {
                attempt,
                token,
                node,
                session,
            } => write!(
                f,
                "{attempt} GRANTED with token {token} as {node} of {session:#x}"
            ),
            Self::Valid { attempt, until } => {
                write!(f, "{attempt} is valid until {:.3}", until.as_secs_f64())
            }
            Self::Limited { attempt, until } => {
                write!(f, "{attempt} is to end at {:.3}", until.as_secs_f64())
            }
            Self::Listening { attempt } => write!(f, "{attempt} listens"),
            Self::Heard { attempt } => write!(f, "{attempt} hears that it is to let go"),
            Self::Asking { node } => write!(f, "{node} will be asked to let go"),
            Self::AskedToLetGo { node } => write!(f, "{node} has been asked to let go"),
            Self::Downgrading { attempt } => write!(f, "{attempt} is to become a reader"),
            Self::Downgraded { attempt, node } => write!(f, "{attempt} becomes a reader as {node}"),
            Self::Stored {
                attempt,
                store,
                token,
                accepted,
            } => {
                let verdict = if *accepted { "taken" } else { "refused" };
                write!(f, "{attempt} write to {store} with token {token} {verdict}")
            }
            Self::LetGo { attempt } => write!(f, "{attempt} lets go"),
            Self::Ended { attempt, end } => write!(f, "{attempt} ended: {end:?}"),
            Self::Deleted { node } => write!(f, "{node} deleted by hand"),
            Self::Killed { session } => write!(f, "session {session:#x} ended by force"),
            Self::SessionOver { session } => write!(f, "session {session:#x} is over"),
            Self::Watching {
                watch,
                path,
                version,
            } => write!(f, "watch {watch} on {path} at version {version}"),
            Self::Fired { watch } => write!(f, "watch {watch} fires"),
            Self::Read { path, version } => write!(f, "reads {path} at version {version}"),
            Self::Answered { write, answer } => write!(f, "write {write} answered: {answer:?}"),
            Self::Applied { write, times } => write!(f, "write {write} was applied {times} times"),
            Self::Left { node, session } => write!(f, "{node} of {session:#x} was left behind"),
        }
    }
}
