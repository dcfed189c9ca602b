//! The events that the clients of the demo report.
//!
//! Invariant: the events come in the order in which they happened. All clients send them to one bounded queue, and
//! each client takes its next step only when its event is in the queue. So the end of a hold is in the queue before the
//! lock is released, and before the grant of the next holder.

use std::time::Instant;

/// A step of a client.
#[derive(Clone, Debug)]
pub(super) struct Event {
    /// When it happened.
    pub(super) at: Instant,
    /// The client's number, counted from 0.
    pub(super) client: usize,
    /// What happened.
    pub(super) what: What,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    /// The client starts to wait for the lock.
    Queued,
    /// The client got the lock.
    Granted { token: u64 },
    /// The client is about to release the lock. `ended` is in the past if the lock was lost before.
    Released { ended: Instant, write: Write },
    /// The client holds the lock and is paused, like a suspended process.
    Stopped { lease_until: Instant },
    /// The paused client goes on with its old guard. `trusts` is true if the guard says that the lock is still held.
    Woke { trusts: bool },
    /// The result of the write that the client made after its pause.
    Late { value: u64, write: Write },
    /// An error that the client reports.
    Trouble(String),
    /// The client has closed its session.
    Left,
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
