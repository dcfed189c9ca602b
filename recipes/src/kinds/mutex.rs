//! The fair mutex.

use std::time::Duration;

use bytes::Bytes;
use lockkeeper_proto::path::PathError;
use lockkeeper_session::Client;

use crate::{
    error::Error,
    guard::Guard,
    metrics::LockMetrics,
    participants::Participant,
    queue::rank::Kind,
    queue::{lock_queue::LockQueue, ticket::Ticket},
};

/// A lock that one contender holds at a time, in the order in which they came; not reentrant.
///
/// It is compatible with Curator's `InterProcessMutex` and go-zk's `Lock` on the same path, in both directions. kazoo's
/// `Lock` can share the path only as a subclass with `_NODE_NAME = "-lock-"` and `_EXCLUDE_NAMES = ["-lock-"]`: under its
/// default names we wait for it, but it sees nobody else, and takes the lock while others hold it.
///
/// Cheap to clone. Each `lock` is a contender of its own, also among tasks of one client, and its guard may be released
/// by any task.
///
/// # Cost
/// Uncontended, one round trip: the node is created and the line listed in one write. A waiter watches with one request
/// more, and is granted the lock by the event that its predecessor is gone. Releasing is one delete.
#[derive(Clone, Debug)]
pub struct Mutex {
    queue: LockQueue,
}

impl Mutex {
    /// The mutex at this path. Nothing is sent; the path is made when it is first needed, as containers, which the
    /// server removes when they stay empty.
    ///
    /// # Errors
    /// [`PathError`] for a path that breaks a rule.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        LockQueue::new(client, path, Kind::Mutex).map(|queue| Self { queue })
    }

    /// The same mutex, whose nodes hold `data`: who the contender is, for people who look.
    #[must_use]
    pub fn with_data(self, data: impl Into<Bytes>) -> Self {
        Self {
            queue: self.queue.with_data(data.into()),
        }
    }

    /// The path of the mutex.
    #[must_use]
    pub fn path(&self) -> &str {
        self.queue.path()
    }

    /// What this mutex has cost its users in this process, over all its clones.
    #[must_use]
    pub fn metrics(&self) -> LockMetrics {
        self.queue.metrics()
    }

    /// Waits until the lock is ours.
    ///
    /// Connections that are lost meanwhile cost nothing but time: the place in the line is kept.
    ///
    /// # Errors
    /// [`Error::Lost`] when the session expires or somebody deletes the node while it waits; [`Error::Session`] when no
    /// server is reached or one refuses; [`Error::SequenceExhausted`].
    ///
    /// # Cancel safety
    /// Dropped at any time, it leaves no node behind and holds nobody up.
    pub async fn lock(&self) -> Result<Guard, Error> {
        self.queue.lock().await
    }

    /// As [`lock`](Self::lock), for at most `wait`: one deadline for everything, from the first request to the grant.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and [`Error::TimedOut`].
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn lock_timeout(&self, wait: Duration) -> Result<Guard, Error> {
        self.queue.lock_timeout(wait).await
    }

    /// Takes the lock if nobody has it or waits for it.
    ///
    /// It looks before it creates anything: a refused try costs one read and writes nothing.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn try_lock(&self) -> Result<Option<Guard>, Error> {
        self.queue.try_lock().await
    }

    /// Enters the line and returns once the place in it is known.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn enqueue(&self) -> Result<Ticket, Error> {
        self.queue.enqueue().await
    }

    /// Who holds the lock, first, and who waits for it, in order; Curator's, go-zk's and kazoo's contenders too.
    ///
    /// # Errors
    /// [`Error::Session`].
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        self.queue.participants().await
    }
}
