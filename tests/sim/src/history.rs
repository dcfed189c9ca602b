//! The history of a run: a list of events about locks, in the format that the checker reads.
//!
//! The recorder of a history is a simulation or a test on real servers. It does three things:
//!
//! - It records each event when it happens, in order of time. Events of one instant are in the
//!   order in which they happened.
//! - It gives *true* time: the time of one clock for all parties. If all run on one machine, that
//!   machine's clock will do.
//! - It numbers attempts; each number is unique over all clients. An attempt is one call of `lock`,
//!   `try_lock`, `acquire` and so on, together with the hold that may follow.
//!
//! The events of one attempt come in this order:
//!
//! 1. [`Asked`](What::Asked), then perhaps [`Placed`](What::Placed) and [`Waiting`](What::Waiting).
//! 2. If the lock is granted: [`Granted`](What::Granted), any number of [`Valid`](What::Valid) and
//!    [`Stored`](What::Stored), perhaps [`Downgrading`](What::Downgrading) and
//!    [`Downgraded`](What::Downgraded), then [`LetGo`](What::LetGo).
//! 3. [`Ended`](What::Ended).
//!
//! A lost lock may end without `LetGo`, and a `Stored` may come after `Ended`: a write can arrive
//! late.
//!
//! Not here: the rules that a history must keep (`check`).

use std::{fmt, sync::Arc, time::Duration};

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in true time since the start of the run.
    pub at: Duration,
    /// The client that did it, or that it concerns. The recorder chooses the numbers of clients.
    pub client: u32,
    /// What happened.
    pub what: What,
}

/// The number of an attempt at a lock, and of the hold that may follow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(pub u64);

/// Which other holds of the same lock a hold may overlap with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// None: a mutex, a writer, a leader.
    Exclusive,
    /// Other shared holds: a reader.
    Shared,
    /// Up to `limit - 1` other permits: a permit of a semaphore.
    Permit {
        /// How many permits there may be at a time.
        limit: u32,
    },
}

impl Mode {
    /// Whether any number of holds in these two modes may overlap.
    pub(crate) fn tolerates(self, other: Self) -> bool {
        self == Self::Shared && other == Self::Shared
    }

    /// Whether one of the two must wait for the other, so that the order of their grants matters.
    pub(crate) fn conflicts(self, other: Self) -> bool {
        let is_permit = |mode| matches!(mode, Self::Permit { .. });
        !self.tolerates(other) && !is_permit(self) && !is_permit(other)
    }
}

/// The kinds of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// An attempt at the lock at this path begins.
    Asked {
        /// Its number.
        attempt: Attempt,
        /// The path of the lock. Each path has one queue.
        lock: Arc<str>,
        /// The mode that the caller asks for.
        mode: Mode,
    },
    /// The attempt has its place in the queue. A recorder writes this where it knows the node, for
    /// instance after `enqueue`.
    Placed {
        /// The attempt.
        attempt: Attempt,
        /// The full path of its node.
        node: String,
        /// The session that owns the node.
        session: i64,
    },
    /// From here on, the caller of the attempt waits for its turn and for nothing else. The checker
    /// looks at the time of a hand-over only for such attempts.
    Waiting(Attempt),
    /// The attempt has the lock.
    Granted {
        /// The attempt.
        attempt: Attempt,
        /// The fencing token.
        token: u64,
        /// The full path of its node.
        node: String,
        /// The session that owns the node.
        session: i64,
    },
    /// At the grant, less than a quarter of the session timeout was left of the lease. Both are on
    /// the holder's clock.
    Scant {
        /// The attempt.
        attempt: Attempt,
        /// What was left.
        left: Duration,
        /// The session timeout.
        timeout: Duration,
    },
    /// The guard says that no other client can hold the lock before `until`. The recorder writes
    /// this right after the grant, and again as often as it wants. The latest `until` counts.
    Valid {
        /// The attempt.
        attempt: Attempt,
        /// The end of the lease on the holder's clock, as true time.
        until: Duration,
    },
    /// The hold has a limit. If the holder still has the lock at `until`, the guard releases it by
    /// force.
    Limited {
        /// The attempt.
        attempt: Attempt,
        /// In true time.
        until: Duration,
    },
    /// The holder begins to listen for requests to release the lock.
    Listening(Attempt),
    /// The holder hears a request to release the lock.
    Heard(Attempt),
    /// A client is about to ask the owner of this node to release the lock.
    Asking(String),
    /// A client has asked the owner of this node to release the lock: the request is in the node's
    /// data.
    AskedToLetGo(String),
    /// A writer begins to become a reader. From here on it claims no more than a reader does.
    Downgrading(Attempt),
    /// A writer has become a reader.
    Downgraded {
        /// The attempt.
        attempt: Attempt,
        /// The reader's node.
        node: String,
    },
    /// A write of this holder has reached a store. A store accepts no token lower than the highest
    /// that it has seen.
    Stored {
        /// The attempt.
        attempt: Attempt,
        /// The store. Each store remembers its own highest token.
        store: Arc<str>,
        /// The token of the write.
        token: u64,
        /// Whether the store accepted the write.
        accepted: bool,
    },
    /// The holder hands the lock over: another attempt may be granted its node and its token.
    HandedOver(Attempt),
    /// The holder begins to release the lock, in any way. From here on it claims nothing.
    LetGo(Attempt),
    /// The attempt or the hold is over.
    Ended {
        /// The attempt.
        attempt: Attempt,
        /// How it ended.
        end: End,
    },
    /// A third party deleted this node by hand. From here on, the promises to its owner are void.
    Deleted(String),
    /// A third party ended this session by force, before it expired. This is like `Deleted` for all
    /// its nodes.
    Killed(i64),
    /// The servers have ended this session: it expired or was closed. Only a recorder that sees the
    /// servers' side can know this; see
    /// [`Bounds::knows_sessions`](crate::check::Bounds::knows_sessions).
    SessionOver(i64),
    /// A client has read a node and set a watch on it.
    Watching {
        /// The number of the watch, unique over all clients.
        watch: u64,
        /// The node.
        path: Arc<str>,
        /// The node's `mzxid`, read together with the watch; -1 for a node that does not exist.
        version: i64,
    },
    /// The watch has fired, or has ended with its session, or no task waits for it any more.
    Fired(u64),
    /// The client has read a node again. The recorder writes all watches that have fired before
    /// this event.
    Read {
        /// The node.
        path: Arc<str>,
        /// Its `mzxid`; -1 for a node that does not exist.
        version: i64,
    },
    /// The holder begins a write in a transaction under the lock.
    Writing {
        /// The attempt.
        attempt: Attempt,
        /// The number of the write.
        write: u64,
    },
    /// The caller of a write has its result.
    Answered {
        /// The number of the write, unique over all clients.
        write: u64,
        /// The result.
        answer: Answer,
    },
    /// At the end of the run: how often a write was applied.
    Applied {
        /// The number of the write.
        write: u64,
        /// How often.
        times: u32,
    },
    /// At the end of the run, after all releases: this node still exists, and its session is alive.
    Left {
        /// The node.
        node: String,
        /// The session that owns it.
        session: i64,
    },
    /// At the end of the run, in the election in which each process stands.
    Standing {
        /// How many latches there are.
        latches: usize,
        /// How many of them lead.
        leaders: usize,
    },
    /// A server has more bytes of replies in its memory than it has room for.
    Drowned {
        /// The server.
        server: u32,
        /// How many bytes.
        bytes: usize,
    },
    /// A lock is granted with a node or a token that the servers do not have.
    Believed(Attempt),
    /// At the end of a run in which nothing failed: how many connections a client has made.
    Deserted(u64),
    /// At the end of the run: the server of a client has a watch that the client does not want, or
    /// the other way round.
    Strayed {
        /// The path, and the type of the watch.
        watch: String,
        /// The session of the client.
        session: i64,
        /// Whether the server has it.
        is_set: bool,
    },
}

/// How an attempt or a hold ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The release succeeded: the lock was held until then.
    Released,
    /// The guard was dropped, or the outcome of the release is unknown.
    Dropped,
    /// `try_lock` found the lock taken.
    Refused,
    /// The lock was not granted in time.
    TimedOut,
    /// The caller cancelled the attempt.
    GivenUp,
    /// Lost: another party deleted the node.
    LostDeleted,
    /// Lost with its session, or with its client.
    LostSession,
    /// Released by force, because the hold reached its limit.
    LostOverdue,
    /// Lost or failed for another reason, which the text names.
    Failed(String),
}

/// The result that the caller of a write got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The write succeeded.
    Applied,
    /// The server refused the write, or the client never sent it.
    NotApplied,
    /// The reply was lost, so the caller does not know.
    Unknown,
    /// The caller got the result of another write.
    Another,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at.as_secs_f64();
        write!(f, "{seconds:9.3}  c{}  {:?}", self.client, self.what)
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}
