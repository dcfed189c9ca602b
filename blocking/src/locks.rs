//! The kinds of lock.
//!
//! Not here: the guards of held locks (`guard`), leader election (`election`).

use std::time::Duration;

use bytes::Bytes;
use lockkeeper_proto::path::PathError;
use lockkeeper_recipes::{self as recipes, LockError, LockMeter, LockMetrics, Participant};

use crate::{
    Client, Guard, MultiGuard, ReentrantGuard, SemaphoreTicket, Ticket, WriteGuard,
    methods::{builds, gets, session, waits},
    wait,
};

session!(Mutex, PlainMutex, RwLock, Semaphore, ReentrantMutex);

/// A fair lock: one contender holds it at a time, in the order in which the contenders arrived.
///
/// Cheap to clone. Any thread may release the guard. See the async [`Mutex`](lockkeeper_recipes::Mutex).
#[derive(Clone, Debug)]
pub struct Mutex {
    inner: recipes::Mutex,
    client: Client,
}

/// The plain lock: one node, no queue. See the async [`PlainMutex`](lockkeeper_recipes::PlainMutex).
#[derive(Clone, Debug)]
pub struct PlainMutex {
    inner: recipes::PlainMutex,
    client: Client,
}

/// A fair read/write lock. See the async [`RwLock`](lockkeeper_recipes::RwLock).
#[derive(Clone, Debug)]
pub struct RwLock {
    inner: recipes::RwLock,
    client: Client,
}

/// A fair lock with a limited number of leases. See the async [`Semaphore`](lockkeeper_recipes::Semaphore).
#[derive(Clone, Debug)]
pub struct Semaphore {
    inner: recipes::Semaphore,
    client: Client,
}

/// A [`Mutex`] that its owner may lock again while it holds it.
///
/// See the async [`ReentrantMutex`](lockkeeper_recipes::ReentrantMutex).
#[derive(Clone, Debug)]
pub struct ReentrantMutex {
    inner: recipes::ReentrantMutex,
    mutex: Mutex,
    client: Client,
}

/// The constructors of locks that have only a path.
macro_rules! at_path {
    ($($lock:ident),*) => {$(
        impl $lock {
            /// The lock at this path. Sends nothing.
            ///
            #[doc = concat!("See the async [`new`](lockkeeper_recipes::", stringify!($lock), "::new).")]
            ///
            /// # Errors
            /// [`PathError`] for an invalid path.
            pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
                Ok(Self {
                    inner: recipes::$lock::new(&client.inner, path)?,
                    client: client.clone(),
                })
            }
        }
    )*};
}

at_path!(Mutex, PlainMutex, RwLock);

impl Mutex {
    builds! { "lockkeeper_recipes::Mutex":
        /// The same mutex, whose nodes have `data`.
        fn with_data(data: impl Into<Bytes>);
        /// The same lock, but this meter counts.
        fn with_meter(meter: &LockMeter);
    }

    gets! { "lockkeeper_recipes::Mutex":
        /// The path of the mutex.
        fn path() -> &str;
        /// What this mutex has cost its users in this process.
        fn metrics() -> LockMetrics;
    }

    waits! { "lockkeeper_recipes::Mutex":
        /// Waits for the lock.
        fn lock() -> Result<Guard, LockError>;
        /// Waits for the lock, for at most `wait`.
        fn lock_timeout(wait: Duration) -> Result<Guard, LockError>;
        /// Takes the lock if no contender holds it or waits for it; otherwise returns `None`.
        fn try_lock() -> Result<Option<Guard>, LockError>;
        /// Enters the queue, and returns a ticket as soon as the place in the queue is known.
        fn enqueue() -> Result<Ticket, LockError>;
        /// The contenders in the order of the queue.
        fn participants() -> Result<Vec<Participant>, LockError>;
    }
}

impl PlainMutex {
    builds! { "lockkeeper_recipes::PlainMutex":
        /// The same mutex, whose node has `data`.
        fn with_data(data: impl Into<Bytes>);
        /// The same lock, but this meter counts.
        fn with_meter(meter: &LockMeter);
    }

    gets! { "lockkeeper_recipes::PlainMutex":
        /// The path of the mutex.
        fn path() -> &str;
        /// What this mutex has cost its users in this process.
        fn metrics() -> LockMetrics;
    }

    waits! { "lockkeeper_recipes::PlainMutex":
        /// Waits for the lock.
        fn lock() -> Result<Guard, LockError>;
        /// Waits for the lock, for at most `wait`.
        fn lock_timeout(wait: Duration) -> Result<Guard, LockError>;
        /// Takes the lock if no contender holds it; otherwise returns `None`.
        fn try_lock() -> Result<Option<Guard>, LockError>;
        /// The holder, if there is one.
        fn holder() -> Result<Option<Participant>, LockError>;
    }
}

impl RwLock {
    builds! { "lockkeeper_recipes::RwLock":
        /// The same lock, whose nodes have `data`.
        fn with_data(data: impl Into<Bytes>);
        /// The same lock, but this meter counts.
        fn with_meter(meter: &LockMeter);
    }

    gets! { "lockkeeper_recipes::RwLock":
        /// The path of the lock.
        fn path() -> &str;
        /// What the readers have cost in this process.
        fn read_metrics() -> LockMetrics;
        /// What the writers have cost in this process.
        fn write_metrics() -> LockMetrics;
    }

    waits! { "lockkeeper_recipes::RwLock":
        /// Waits for the lock as a reader.
        fn read() -> Result<Guard, LockError>;
        /// Waits for the lock as a reader, for at most `wait`.
        fn read_timeout(wait: Duration) -> Result<Guard, LockError>;
        /// Takes the lock as a reader if that needs no wait; otherwise returns `None`.
        fn try_read() -> Result<Option<Guard>, LockError>;
        /// Enters the queue as a reader.
        fn enqueue_read() -> Result<Ticket, LockError>;
        /// Waits for the lock as a writer.
        fn write() -> Result<WriteGuard, LockError>;
        /// Waits for the lock as a writer, for at most `wait`.
        fn write_timeout(wait: Duration) -> Result<WriteGuard, LockError>;
        /// Takes the lock as a writer if that needs no wait; otherwise returns `None`.
        fn try_write() -> Result<Option<WriteGuard>, LockError>;
        /// Enters the queue as a writer.
        fn enqueue_write() -> Result<Ticket<recipes::WriteGuard>, LockError>;
        /// The contenders in the order of the queue.
        fn participants() -> Result<Vec<Participant>, LockError>;
    }
}

impl Semaphore {
    /// The semaphore at this path, with this limit. Sends nothing.
    ///
    /// See the async [`new`](lockkeeper_recipes::Semaphore::new).
    ///
    /// # Errors
    /// [`PathError`] for an invalid path.
    pub fn new(client: &Client, path: &str, limit: usize) -> Result<Self, PathError> {
        Ok(Self {
            inner: recipes::Semaphore::new(&client.inner, path, limit)?,
            client: client.clone(),
        })
    }

    /// The semaphore at this path, whose limit is the data of the node at `limit_path`. Sends nothing.
    ///
    /// See the async [`with_shared_limit`](lockkeeper_recipes::Semaphore::with_shared_limit).
    ///
    /// # Errors
    /// [`PathError`] for an invalid path.
    pub fn with_shared_limit(
        client: &Client,
        path: &str,
        limit_path: &str,
    ) -> Result<Self, PathError> {
        Ok(Self {
            inner: recipes::Semaphore::with_shared_limit(&client.inner, path, limit_path)?,
            client: client.clone(),
        })
    }

    builds! { "lockkeeper_recipes::Semaphore":
        /// The same semaphore, whose nodes have `data`.
        fn with_data(data: impl Into<Bytes>);
        /// The same lock, but this meter counts.
        fn with_meter(meter: &LockMeter);
    }

    gets! { "lockkeeper_recipes::Semaphore":
        /// The path of the semaphore.
        fn path() -> &str;
        /// What this semaphore has cost its users in this process.
        fn metrics() -> LockMetrics;
    }

    waits! { "lockkeeper_recipes::Semaphore":
        /// Waits for a lease.
        fn acquire() -> Result<Guard, LockError>;
        /// Waits for several leases: all of them, or none.
        fn acquire_many(count: usize) -> Result<Vec<Guard>, LockError>;
        /// Waits for a lease, for at most `wait`.
        fn acquire_timeout(wait: Duration) -> Result<Guard, LockError>;
        /// Waits for several leases, for at most `wait`.
        fn acquire_many_timeout(count: usize, wait: Duration) -> Result<Vec<Guard>, LockError>;
        /// Takes a lease if one is free and no contender waits; otherwise returns `None`.
        fn try_acquire() -> Result<Option<Guard>, LockError>;
        /// Takes several leases if all of them are free and no contender waits; otherwise returns `None`.
        fn try_acquire_many(count: usize) -> Result<Option<Vec<Guard>>, LockError>;
        /// Enters the queue for one lease.
        fn enqueue() -> Result<SemaphoreTicket, LockError>;
        /// How many leases are free.
        fn available() -> Result<usize, LockError>;
        /// Sets the shared limit.
        fn set_limit(limit: usize) -> Result<(), LockError>;
        /// The holders of leases.
        fn holders() -> Result<Vec<Participant>, LockError>;
        /// The waiters in the order of the queue.
        fn waiters() -> Result<Vec<Participant>, LockError>;
    }
}

impl ReentrantMutex {
    /// The mutex at this path. Sends nothing.
    ///
    /// See the async [`new`](lockkeeper_recipes::ReentrantMutex::new).
    ///
    /// # Errors
    /// [`PathError`] for an invalid path.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        let inner = recipes::ReentrantMutex::new(&client.inner, path)?;
        Ok(Self::of(inner, client.clone()))
    }

    fn of(inner: recipes::ReentrantMutex, client: Client) -> Self {
        let mutex = Mutex {
            inner: inner.mutex().clone(),
            client: client.clone(),
        };
        Self {
            inner,
            mutex,
            client,
        }
    }

    /// The same mutex, with owners of its own, whose nodes have `data`.
    ///
    /// See the async [`with_data`](lockkeeper_recipes::ReentrantMutex::with_data).
    #[must_use]
    pub fn with_data(self, data: impl Into<Bytes>) -> Self {
        Self::of(self.inner.with_data(data), self.client)
    }

    /// The same mutex, but this meter counts.
    ///
    /// See the async [`with_meter`](lockkeeper_recipes::ReentrantMutex::with_meter).
    #[must_use]
    pub fn with_meter(self, meter: &LockMeter) -> Self {
        Self::of(self.inner.with_meter(meter), self.client)
    }

    /// The [`Mutex`] behind it, with its path, participants and metrics.
    #[must_use]
    pub fn mutex(&self) -> &Mutex {
        &self.mutex
    }

    waits! { "lockkeeper_recipes::ReentrantMutex":
        /// Waits until the owner holds the lock.
        fn lock(owner: &str) -> Result<ReentrantGuard, LockError>;
        /// Waits until the owner holds the lock, for at most `wait`.
        fn lock_timeout(owner: &str, wait: Duration) -> Result<ReentrantGuard, LockError>;
        /// Takes the lock if the owner holds it, or if it is free; otherwise returns `None`.
        fn try_lock(owner: &str) -> Result<Option<ReentrantGuard>, LockError>;
    }
}

/// One of the locks of a [`MultiLock`]. Made from a lock with `From`, or with [`read`](Self::read) and
/// [`write`](Self::write).
#[derive(Clone, Debug)]
pub struct Member {
    inner: recipes::Member,
    client: Client,
}

impl Member {
    /// The lock as a reader.
    #[must_use]
    pub fn read(lock: &RwLock) -> Self {
        Self {
            inner: recipes::Member::read(&lock.inner),
            client: lock.client.clone(),
        }
    }

    /// The lock as a writer.
    #[must_use]
    pub fn write(lock: &RwLock) -> Self {
        Self {
            inner: recipes::Member::write(&lock.inner),
            client: lock.client.clone(),
        }
    }
}

/// Makes a member of each lock that has only one way to be held.
macro_rules! member {
    ($($lock:ident),*) => {$(
        impl From<&$lock> for Member {
            fn from(lock: &$lock) -> Self {
                Self {
                    inner: (&lock.inner).into(),
                    client: lock.client.clone(),
                }
            }
        }
    )*};
}

member!(Mutex, PlainMutex, Semaphore);

/// Several locks that are acquired together: all of them, or none. See the async [`MultiLock`](lockkeeper_recipes::MultiLock).
#[derive(Clone, Debug)]
pub struct MultiLock {
    inner: recipes::MultiLock,
    clients: Vec<Client>,
}

impl MultiLock {
    /// A multi-lock of these locks. Sends nothing.
    ///
    /// See the async [`new`](lockkeeper_recipes::MultiLock::new).
    ///
    /// # Errors
    /// [`LockError::SelfDeadlock`] when two members have the same path.
    pub fn new(members: impl IntoIterator<Item = Member>) -> Result<Self, LockError> {
        let (members, clients): (Vec<_>, Vec<_>) = members
            .into_iter()
            .map(|member| (member.inner, member.client))
            .unzip();
        let inner = recipes::MultiLock::new(members)?;
        Ok(Self { inner, clients })
    }

    /// Waits for all the locks.
    ///
    /// See the async [`lock`](lockkeeper_recipes::MultiLock::lock).
    ///
    /// # Errors
    /// As the async method, and [`InsideRuntime`](lockkeeper_session::Error::InsideRuntime).
    pub fn lock(&self) -> Result<MultiGuard, LockError> {
        let guard = wait::block_on(self.inner.lock())??;
        Ok(MultiGuard::new(guard, &self.clients))
    }

    /// Waits for all the locks, for at most `wait`.
    ///
    /// See the async [`lock_timeout`](lockkeeper_recipes::MultiLock::lock_timeout).
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and [`LockError::TimedOut`].
    pub fn lock_timeout(&self, wait: Duration) -> Result<MultiGuard, LockError> {
        let guard = wait::block_on(self.inner.lock_timeout(wait))??;
        Ok(MultiGuard::new(guard, &self.clients))
    }

    /// Takes all the locks if each of them is free; otherwise returns `None`.
    ///
    /// See the async [`try_lock`](lockkeeper_recipes::MultiLock::try_lock).
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    pub fn try_lock(&self) -> Result<Option<MultiGuard>, LockError> {
        let guard = wait::block_on(self.inner.try_lock())??;
        Ok(guard.map(|guard| MultiGuard::new(guard, &self.clients)))
    }
}
