//! What the clients of the demo tell, in the order in which it happened.
//!
//! All of them tell it into one bounded queue, each before it takes its next step: so the end of a hold is in the queue
//! before the lock is released, and before the next holder's grant.

use std::time::Instant;

/// Something that a client did.
#[derive(Clone, Debug)]
pub(super) struct Event {
    /// When.
    pub(super) at: Instant,
    /// Which client, counted from 0.
    pub(super) client: usize,
    /// What.
    pub(super) what: What,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    /// It wants the lock.
    Queued,
    /// It got it.
    Granted { token: u64 },
    /// It is about to release it. `ended` is earlier than now when the lock had been lost before.
    Released { ended: Instant, write: Write },
    /// It holds the lock and stops, as a process does that is suspended.
    Stopped { lease_until: Instant },
    /// It goes on, with the guard that it had. Does the guard say that the lock is still held?
    Woke { trusts: bool },
    /// What became of the write that it made then.
    Late { value: u64, write: Write },
    /// Something did not work.
    Trouble(String),
    /// It has closed its session.
    Left,
}

/// What became of a write to the counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// It is done.
    Done,
    /// The server refused it, since the lock was not held.
    Refused(String),
    /// Its reply was lost.
    InDoubt(String),
    /// Nothing was written, for a reason that has nothing to do with the lock.
    Failed(String),
}
