//! The fair read/write lock.

use std::{ops::Deref, time::Duration};

use bytes::Bytes;
use lockkeeper_proto::path::PathError;
use lockkeeper_session::{Client, OpResult};

use crate::{
    error::Error,
    guard::Guard,
    guard::transaction::GuardedTransaction,
    metrics::LockMetrics,
    participants::Participant,
    queue::rank::Kind,
    queue::{lock_queue::LockQueue, ticket::Ticket},
};

/// A lock that many readers hold at a time, or one writer, in the order in which they came.
///
/// It is compatible with Curator's `InterProcessReadWriteLock` on the same path; but before Curator 5.5 a writer of Curator's
/// that becomes a reader loses its place in the line, and a writer that waits, of either side, is let in beside it.
///
/// A reader waits for the last writer before it, and for nobody else; a writer for everybody before it. A writer can become
/// a reader without letting anybody in between ([`WriteGuard::downgrade`]). A reader cannot become a writer: two who tried
/// would wait for each other for ever.
///
/// Cheap to clone. Each call is a contender of its own, also among tasks of one client.
#[derive(Clone, Debug)]
pub struct RwLock {
    readers: LockQueue,
    writers: LockQueue,
}

impl RwLock {
    /// The lock at this path. Nothing is sent; the path is made when it is first needed.
    ///
    /// # Errors
    /// [`PathError`] for a path that breaks a rule.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        let readers = LockQueue::new(client, path, Kind::Read)?;
        let writers = LockQueue::new(client, path, Kind::Write)?;
        Ok(Self { readers, writers })
    }

    /// The same lock, whose nodes hold `data`: who the contender is, for people who look.
    #[must_use]
    pub fn with_data(self, data: impl Into<Bytes>) -> Self {
        let data = data.into();
        Self {
            readers: self.readers.with_data(data.clone()),
            writers: self.writers.with_data(data),
        }
    }

    /// The path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        self.readers.path()
    }

    /// What reading has cost the users of this lock in this process, over all its clones.
    #[must_use]
    pub fn read_metrics(&self) -> LockMetrics {
        self.readers.metrics()
    }

    /// What writing has cost the users of this lock in this process, over all its clones.
    #[must_use]
    pub fn write_metrics(&self) -> LockMetrics {
        self.writers.metrics()
    }

    /// Waits until we may read.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    /// Dropped at any time, it leaves no node behind and holds nobody up.
    pub async fn read(&self) -> Result<Guard, Error> {
        self.readers.lock().await
    }

    /// As [`read`](Self::read), for at most `wait`: one deadline for everything.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`Error::TimedOut`].
    ///
    /// # Cancel safety
    /// As [`read`](Self::read).
    pub async fn read_timeout(&self, wait: Duration) -> Result<Guard, Error> {
        self.readers.lock_timeout(wait).await
    }

    /// Becomes a reader if no writer is there. A refused try costs one read and writes nothing.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    ///
    /// # Cancel safety
    /// As [`read`](Self::read).
    pub async fn try_read(&self) -> Result<Option<Guard>, Error> {
        self.readers.try_lock().await
    }

    /// Enters the line as a reader and returns once the number of writers before is known.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    ///
    /// # Cancel safety
    /// As [`read`](Self::read).
    pub async fn enqueue_read(&self) -> Result<Ticket, Error> {
        self.readers.enqueue().await
    }

    /// Waits until we may write.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    /// Dropped at any time, it leaves no node behind and holds nobody up.
    pub async fn write(&self) -> Result<WriteGuard, Error> {
        self.writers.lock().await.map(WriteGuard)
    }

    /// As [`write`](Self::write), for at most `wait`: one deadline for everything.
    ///
    /// # Errors
    /// As [`write`](Self::write), and [`Error::TimedOut`].
    ///
    /// # Cancel safety
    /// As [`write`](Self::write).
    pub async fn write_timeout(&self, wait: Duration) -> Result<WriteGuard, Error> {
        self.writers.lock_timeout(wait).await.map(WriteGuard)
    }

    /// Becomes the writer if nobody is there. A refused try costs one read and writes nothing.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    ///
    /// # Cancel safety
    /// As [`write`](Self::write).
    pub async fn try_write(&self) -> Result<Option<WriteGuard>, Error> {
        Ok(self.writers.try_lock().await?.map(WriteGuard))
    }

    /// Enters the line as a writer and returns once the place in it is known.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    ///
    /// # Cancel safety
    /// As [`write`](Self::write).
    pub async fn enqueue_write(&self) -> Result<Ticket<WriteGuard>, Error> {
        self.writers.enqueue().await
    }

    /// Who is in the line, readers and writers, in order.
    ///
    /// # Errors
    /// [`Error::Session`].
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        self.writers.participants().await
    }
}

/// The write lock, held. It can do all that a [`Guard`] can, and become a reader.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
pub struct WriteGuard(Guard);

impl WriteGuard {
    /// Becomes a reader: readers that wait are let in, writers are not.
    ///
    /// Both happen in one transaction, and the reader stands in the writer's place. The fencing token stays the writer's:
    /// a later writer's is higher.
    ///
    /// # Errors
    /// [`Error::Lost`] when the lock was not held any more.
    ///
    /// # Cancel safety
    /// Dropped, the lock is released, whichever of the two it was by then.
    pub async fn downgrade(self) -> Result<Guard, Error> {
        self.0.downgrade().await
    }

    /// Releases the lock: see [`Guard::release`].
    ///
    /// # Errors
    /// As [`Guard::release`].
    ///
    /// # Cancel safety
    /// As [`Guard::release`].
    pub async fn release(self) -> Result<(), Error> {
        self.0.release().await
    }

    /// Writes and releases in one transaction: see [`Guard::release_with`].
    ///
    /// # Errors
    /// As [`Guard::release_with`].
    ///
    /// # Cancel safety
    /// As [`Guard::release_with`].
    pub async fn release_with(
        self,
        build: impl FnOnce(GuardedTransaction<'_>) -> GuardedTransaction<'_>,
    ) -> Result<Vec<OpResult>, Error> {
        self.0.release_with(build).await
    }

    /// The same lock as a plain guard, which cannot become a reader any more.
    pub fn into_guard(self) -> Guard {
        self.0
    }
}

impl Ticket<WriteGuard> {
    /// Waits until the write lock is granted.
    ///
    /// # Errors
    /// As [`RwLock::write`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue.
    pub async fn wait(self) -> Result<WriteGuard, Error> {
        self.granted(|_| {}).await.map(WriteGuard)
    }
}

impl Deref for WriteGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.0
    }
}
