//! Leader election.

use std::time::Duration;

use bytes::Bytes;
use lockkeeper_proto::path::PathError;
use lockkeeper_recipes::{
    self as recipes, FencingToken, LockError, LockMeter, LockMetrics, Loss, Participant,
};

use crate::{
    Client, Guard,
    methods::{builds, gets, session, waits},
    wait,
};

session!(Election, Latch);

/// An election: one of its contenders at a time is the leader. See the async [`Election`](lockkeeper_recipes::Election).
///
/// There is no `lead_until`: a program without async has no future that ends when it is to shut down. Call
/// [`elect_timeout`](Self::elect_timeout) in a loop, and look at a flag of your own in between. Each call enters the queue again.
#[derive(Clone, Debug)]
pub struct Election {
    inner: recipes::Election,
    client: Client,
}

impl Election {
    /// The election at this path. Sends nothing.
    ///
    /// See the async [`new`](lockkeeper_recipes::Election::new).
    ///
    /// # Errors
    /// [`PathError`] for an invalid path.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        Ok(Self {
            inner: recipes::Election::new(&client.inner, path)?,
            client: client.clone(),
        })
    }

    builds! { "lockkeeper_recipes::Election":
        /// The same election, where the contender's node has `id` as its data.
        fn with_id(id: impl Into<Bytes>);
        /// The same election, but this meter counts.
        fn with_meter(meter: &LockMeter);
    }

    gets! { "lockkeeper_recipes::Election":
        /// The path of the election.
        fn path() -> &str;
        /// What this election has cost its users in this process.
        fn metrics() -> LockMetrics;
    }

    waits! { "lockkeeper_recipes::Election":
        /// Waits until this contender is the leader. Dropping the guard resigns.
        fn elect() -> Result<Guard, LockError>;
        /// Waits until this contender is the leader, for at most `wait`.
        fn elect_timeout(wait: Duration) -> Result<Guard, LockError>;
        /// The contenders in the order of the queue: first the leader.
        fn participants() -> Result<Vec<Participant>, LockError>;
    }

    /// Waits until this contender is the leader, runs `work`, and resigns when the work is done.
    ///
    /// The work is not stopped when the leadership is lost: it runs to its end. So it looks at [`Guard::is_valid`] between
    /// its steps. (The async [`lead`](lockkeeper_recipes::Election::lead) drops its work.)
    ///
    /// # Errors
    /// Until this contender is the leader, as [`elect`](Self::elect). After that there is no error: the [`LeadOutcome`] says
    /// how the leadership ended.
    pub fn lead<T>(&self, work: impl FnOnce(&Guard) -> T) -> Result<LeadOutcome<T>, LockError> {
        let guard = self.elect()?;
        let output = work(&guard);
        let loss = match guard.release() {
            Ok(()) => None,
            Err(LockError::Lost { loss, .. }) => Some(loss),
            // No server has said whether the leadership was held until now.
            Err(_) => Some(Loss::Elapsed),
        };
        Ok(LeadOutcome { output, loss })
    }

    /// Takes part in the election in the background until the latch is dropped.
    ///
    /// See the async [`latch`](lockkeeper_recipes::Election::latch).
    pub fn latch(&self) -> Latch {
        Latch {
            inner: self.inner.latch(),
            client: self.client.clone(),
        }
    }
}

/// How a leadership ended: the result of [`Election::lead`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeadOutcome<T> {
    /// The output of the work.
    pub output: T,
    /// How the leadership was lost; `None` when it was held from the beginning of the work to its end.
    ///
    /// It is [`Loss::Elapsed`] when it is unknown whether the leadership was held until the end of the work.
    pub loss: Option<Loss>,
}

/// A contender of an election in the background. Made by [`Election::latch`]. Dropping it resigns, in the background.
///
/// See the async [`Latch`](lockkeeper_recipes::Latch).
#[derive(Debug)]
#[must_use = "dropping the latch resigns"]
pub struct Latch {
    inner: recipes::Latch,
    client: Client,
}

impl Latch {
    gets! { "lockkeeper_recipes::Latch":
        /// Whether this latch is the leader. Local: asks no server.
        fn is_leader() -> bool;
        /// The fencing token of the leadership; `None` while this latch is not the leader. Local: asks no server.
        fn token() -> Option<FencingToken>;
    }

    waits! { "lockkeeper_recipes::Latch":
        /// Waits until this latch is the leader.
        fn elected() -> Result<FencingToken, LockError>;
    }

    /// Waits until this latch is the leader, for at most `limit`. `None` when it is not the leader then.
    ///
    /// # Errors
    /// As [`elected`](Self::elected).
    pub fn elected_timeout(&self, limit: Duration) -> Result<Option<FencingToken>, LockError> {
        wait::block_for(limit, self.inner.elected())?.transpose()
    }
}
