//! The fair mutex.
//!
//! Not here: the queue (`queue`), the held lock (`guard`).

use std::time::Duration;

use lockkeeper_proto::path::PathError;
use lockkeeper_session::Client;

use crate::{
    error::LockError,
    guard::Guard,
    order::name::Kind,
    queue::lock_queue::{Finish, LockQueue, Ticket},
};

/// A fair lock: one contender holds it at a time, in the order in which the contenders arrived. Not
/// reentrant.
///
/// Cheap to clone. Each call of `lock` is a contender of its own, also among the tasks of one
/// client. Any task may release the guard.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = lockkeeper_server::Server::start().await?;
/// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
/// # use lockkeeper_recipes as lockkeeper;
/// let mutex = lockkeeper::Mutex::new(&client, "/locks/orders")?.with_data("worker 7");
/// let charged = mutex.with(async |guard| format!("with token {}", guard.fencing_token()));
/// println!("charged {}", charged.await?); // success says that the lock was held all the time
/// # Ok(()) }
/// ```
///
/// # Compatibility
/// Curator's `InterProcessMutex` and go-zk's `Lock` on the same path exclude this mutex, and this
/// mutex excludes them.
///
/// kazoo's `Lock` may share the path if it has the option `extra_lock_patterns=["-lock-"]`. Without
/// the option it does not see this mutex, and takes the lock while the mutex is held. (The mutex
/// waits for kazoo's `Lock` in both cases.) So first give every kazoo program the option, then
/// start the first program with this mutex.
///
/// Curator does not see the names of kazoo's nodes. Where Curator shares the path, too, kazoo needs
/// a subclass with `_NODE_NAME = "-lock-"` and `_EXCLUDE_NAMES = ["-lock-"]`. A plain `Lock` and the
/// subclass do not see each other, so all kazoo programs have to stop before the first one with the
/// subclass starts.
///
/// # Cost
/// Uncontended, a lock takes one round trip: one write creates the node and lists the queue. A
/// waiter sends one more request, which sets its watches. It is granted the lock by the event that
/// its predecessor's node was deleted, without another request. A release is one delete.
#[derive(Clone, Debug)]
pub struct Mutex {
    pub(super) queue: LockQueue,
}

impl Mutex {
    /// The mutex at this path. Sends nothing. The client makes the path when it first needs it, as
    /// containers, which the server removes when they stay empty.
    ///
    /// # Errors
    /// [`PathError`] for an invalid path.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        LockQueue::new(client, path, Kind::Mutex).map(|queue| Self { queue })
    }

    /// Waits for the lock.
    ///
    /// An outage costs only time, however long it is: the waiter keeps its place in the queue as long
    /// as its session lives, and then enters again at the end, in the next session.
    ///
    /// # Errors
    /// - [`LockError::Lost`] when another client deletes the node of the waiter, or the client is
    ///   closed.
    /// - [`LockError::Session`] when a server refuses a request, or every server fails for a reason
    ///   that lasts, such as a wrong certificate.
    /// - [`LockError::SequenceExhausted`] when the sequence numbers of the path are used up, or the
    ///   servers gave one twice.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time. The client then deletes the node, so that it blocks
    /// no other contender.
    pub async fn lock(&self) -> Result<Guard, LockError> {
        self.queue.lock().await
    }

    /// Waits for the lock, runs `work` under it, and releases it. Take the three steps by
    /// [`lock`](Self::lock), [`Guard::during`] and [`Guard::release`] to wait for a limited time, or
    /// to have the output of the work although the release fails.
    ///
    /// `Ok` says that the lock was held from the beginning of the work to its end.
    ///
    /// # Errors
    /// - As [`lock`](Self::lock).
    /// - [`LockError::Lost`] when the lock was lost before the work was done: the work was dropped.
    /// - As [`Guard::release`]: the work was done, and its output is dropped. If no server has said
    ///   that the lock was held until then, the [effect](LockError::effect) is unknown.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work, and releases the lock in the background.
    pub async fn with<T>(&self, work: impl AsyncFnOnce(&Guard) -> T) -> Result<T, LockError> {
        self.lock().await?.hold_during(work).await
    }

    /// Waits for the lock as [`lock`](Self::lock) does, but for at most `wait`: one deadline for
    /// everything, from the first request to the grant. In an outage the wait ends at its time,
    /// too, and the error has the reason as its `obstacle`.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and [`LockError::TimedOut`].
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn try_lock_for(&self, wait: Duration) -> Result<Guard, LockError> {
        self.queue.try_lock_for(wait).await
    }

    /// Takes the lock if no contender holds it or waits for it; otherwise returns `None`.
    ///
    /// It reads before it creates anything: a try that finds the lock taken costs one read and no
    /// write.
    ///
    /// # Errors
    /// As [`lock`](Self::lock). And as it is one attempt: [`LockError::Lost`] when the session
    /// expires, [`LockError::Session`] when no server is reached in time, and
    /// [`LockError::TimedOut`] within a second when servers throttle.
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn try_lock(&self) -> Result<Option<Guard>, LockError> {
        self.queue.try_lock().await
    }

    /// Enters the queue, and returns a ticket as soon as the place in the queue is known.
    ///
    /// # Errors
    /// As [`try_lock`](Self::try_lock): a ticket is one place in the queue.
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn enqueue(&self) -> Result<Ticket, LockError> {
        self.queue.enqueue(Finish::Guard(|guard| guard)).await
    }
}
