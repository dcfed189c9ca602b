//! The fair read/write lock: two roles in one queue.
//!
//! Not here: which contenders conflict (`order::rank`), the held lock (`guard`).

use std::{ops::Deref, time::Duration};

use lockkeeper_proto::path::PathError;
use lockkeeper_session::{Client, OpResult};

use crate::{
    error::LockError,
    guard::{Guard, transaction::GuardedTransaction},
    order::name::Kind,
    queue::lock_queue::{Finish, LockQueue, Ticket},
};

/// A fair lock that many readers or one writer hold at a time, in the order in which they arrived.
///
/// A reader waits for the last writer ahead of it, and for no other contender. A writer waits for
/// all contenders ahead of it. A writer can become a reader, and no other contender gets the lock
/// in between ([`WriteGuard::downgrade`]). A reader cannot become a writer: two readers that tried
/// would wait for each other for ever.
///
/// Cheap to clone. Each call is a contender of its own, also among the tasks of one client.
///
/// # Compatibility
/// It is compatible with Curator's `InterProcessReadWriteLock` on the same path, with one
/// exception. Before Curator 5.5, a Curator writer that becomes a reader loses its place in the
/// queue. A waiting writer, of Curator or of this crate, then gets the lock while that reader holds
/// it.
#[derive(Clone, Debug)]
pub struct RwLock {
    pub(super) readers: LockQueue,
    pub(super) writers: LockQueue,
}

impl RwLock {
    /// The lock at this path. Sends nothing. The client makes the path when it first needs it.
    ///
    /// # Errors
    /// [`PathError`] for an invalid path.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        let readers = LockQueue::new(client, path, Kind::Read)?;
        let writers = LockQueue::new(client, path, Kind::Write)?;
        Ok(Self { readers, writers })
    }

    /// Waits for the lock as a reader.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`](crate::Mutex::lock).
    pub async fn read(&self) -> Result<Guard, LockError> {
        self.readers.lock().await
    }

    /// Waits for the lock as [`read`](Self::read) does, but for at most `wait` in all.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`LockError::TimedOut`].
    ///
    /// # Cancel safety
    /// As [`read`](Self::read).
    pub async fn try_read_for(&self, wait: Duration) -> Result<Guard, LockError> {
        self.readers.try_lock_for(wait).await
    }

    /// Takes the lock as a reader if no writer holds it or waits for it; otherwise returns `None`.
    ///
    /// A try that finds a writer costs one read and no write.
    ///
    /// # Errors
    /// As [`Mutex::try_lock`](crate::Mutex::try_lock).
    ///
    /// # Cancel safety
    /// As [`read`](Self::read).
    pub async fn try_read(&self) -> Result<Option<Guard>, LockError> {
        self.readers.try_lock().await
    }

    /// Enters the queue as a reader, and returns a ticket as soon as the number of writers ahead is
    /// known.
    ///
    /// # Errors
    /// As [`Mutex::enqueue`](crate::Mutex::enqueue).
    ///
    /// # Cancel safety
    /// As [`read`](Self::read).
    pub async fn enqueue_read(&self) -> Result<Ticket, LockError> {
        self.readers.enqueue(Finish::Guard(|guard| guard)).await
    }

    /// Waits for the lock as the writer.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`](crate::Mutex::lock).
    pub async fn write(&self) -> Result<WriteGuard, LockError> {
        self.writers.lock().await.map(WriteGuard)
    }

    /// Waits for the lock as [`write`](Self::write) does, but for at most `wait` in all.
    ///
    /// # Errors
    /// As [`write`](Self::write), and [`LockError::TimedOut`].
    ///
    /// # Cancel safety
    /// As [`write`](Self::write).
    pub async fn try_write_for(&self, wait: Duration) -> Result<WriteGuard, LockError> {
        self.writers.try_lock_for(wait).await.map(WriteGuard)
    }

    /// Takes the lock as the writer if no contender holds it or waits for it; otherwise returns
    /// `None`.
    ///
    /// A try that finds another contender costs one read and no write.
    ///
    /// # Errors
    /// As [`Mutex::try_lock`](crate::Mutex::try_lock).
    ///
    /// # Cancel safety
    /// As [`write`](Self::write).
    pub async fn try_write(&self) -> Result<Option<WriteGuard>, LockError> {
        Ok(self.writers.try_lock().await?.map(WriteGuard))
    }

    /// Enters the queue as a writer, and returns a ticket as soon as the place in the queue is
    /// known.
    ///
    /// # Errors
    /// As [`Mutex::enqueue`](crate::Mutex::enqueue).
    ///
    /// # Cancel safety
    /// As [`write`](Self::write).
    pub async fn enqueue_write(&self) -> Result<Ticket<WriteGuard>, LockError> {
        self.writers.enqueue(Finish::Guard(WriteGuard)).await
    }
}

/// The guard of a write lock: a [`Guard`] that can also become a reader. Dropping it releases the
/// lock in the background.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock, also by `let _ =`: keep it, as in `let _guard =`"]
pub struct WriteGuard(Guard);

impl WriteGuard {
    /// Becomes a reader. Waiting readers that have no other writer ahead get the lock, too. Waiting
    /// writers do not.
    ///
    /// One transaction creates the reader's node and deletes the writer's. The reader has the
    /// writer's place in the queue. It keeps the writer's fencing token, which is lower than that
    /// of any later writer.
    ///
    /// # Errors
    /// - [`LockError::Lost`] when the lock was lost.
    /// - [`LockError::Session`] when the request fails; the lock is released in the background
    ///   then.
    ///
    /// # Cancel safety
    /// Dropping the future releases the lock, whether it is a write lock or already a read lock.
    pub async fn downgrade(self) -> Result<Guard, LockError> {
        self.0.downgrade().await
    }

    /// Releases the lock: see [`Guard::release`].
    ///
    /// # Errors
    /// As [`Guard::release`].
    ///
    /// # Cancel safety
    /// As [`Guard::release`].
    pub async fn release(self) -> Result<(), LockError> {
        self.0.release().await
    }

    /// Writes, and releases the lock, in one transaction: see [`Guard::release_with`].
    ///
    /// # Errors
    /// As [`Guard::release_with`].
    ///
    /// # Cancel safety
    /// As [`Guard::release_with`].
    pub async fn release_with(
        self,
        build: impl FnOnce(GuardedTransaction<'_>) -> GuardedTransaction<'_>,
    ) -> Result<Vec<OpResult>, LockError> {
        self.0.release_with(build).await
    }

    /// Turns the guard into a plain [`Guard`] of the hold, which cannot become a reader.
    pub fn into_guard(self) -> Guard {
        self.0
    }
}

impl Deref for WriteGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.0
    }
}
