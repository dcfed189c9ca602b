//! The events of the demo. The output, the audit and the summary know nothing else about the clients.
//!
//! Invariant: events come in the order in which they happened. All clients send them to one bounded queue, and each
//! client takes its next step only when its event is in the queue. So the end of a hold is in the queue before the lock
//! is released, and before the grant of the next holder.

use std::time::{Duration, Instant};

/// A step of a client.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) at: Instant,
    /// The client's number, counted from 0.
    pub(super) client: usize,
    pub(super) what: What,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    /// The client starts to wait for the lock.
    Waiting,
    /// The client got the lock.
    Granted { token: u64, waited: Duration },
    /// The client is about to release the lock. `ended` is in the past if the lock was lost before.
    Released { ended: Instant, write: Write },
    /// The client holds the lock and is paused, like a suspended process.
    Paused { lease_until: Instant },
    /// The client holds the lock, and the link between its server and the leader is cut.
    CutOff(Link),
    /// The lease of the client that is paused or cut off has ended.
    LeaseEnded,
    /// The link is whole again.
    Healed,
    /// The client goes on with its old guard after a pause or a cut. `valid` is what the guard says.
    Woken { valid: bool },
    /// The result of the write that the client made after its pause or cut.
    WroteLate { value: u64, write: Write },
    /// An error that the client reports.
    Failed(String),
    /// The client has closed its session.
    Left,
}

/// The link that is cut, with the numbers of both servers, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) server: u32,
    pub(super) leader: u32,
}

/// The result of a write to the counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// The server has applied it.
    Done,
    /// It was refused, because the lock was not held.
    Refused(String),
    /// Its reply was lost.
    InDoubt(String),
    /// Nothing was written, for a reason other than the lock.
    Failed(String),
}
