//! The events of the demo. The output, the audit and the picture know nothing else about the clients.
//!
//! Invariant: events come in the order in which they happened. All clients send them to one bounded queue, and each
//! client takes its next step only when its event is in the queue. So the end of a hold is in the queue before the lock
//! is released, and before the grant of the next holder.

use std::{
    fmt,
    time::{Duration, Instant},
};

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
    /// The token, and how long the client has waited.
    Granted(u64, Duration),
    /// The client is about to release the lock. The time is in the past if the lock was lost before.
    Released(Instant, Write),
    /// The client holds the lock and is paused, like a suspended process: its lease lasts until then.
    Paused(Instant),
    /// The lease of the paused client has ended.
    LeaseEnded,
    /// The client went on with its old guard, whose `is_valid` said this, and wrote this value.
    WroteLate(bool, u64, Write),
    Failed(String),
    /// The client has closed its session.
    Left,
}

/// The result of a write to the counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Write {
    Done,
    /// The lock was not held.
    Refused,
    /// Its reply was lost.
    InDoubt(String),
    /// Nothing was written, for a reason other than the lock.
    Failed(String),
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("applied"),
            Self::Refused => f.write_str("refused: lock node gone"),
            Self::InDoubt(why) => write!(f, "in doubt: {why}"),
            Self::Failed(why) => write!(f, "failed: {why}"),
        }
    }
}
