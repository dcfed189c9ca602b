//! The kind of lock that the command runs under: mutex, read lock or semaphore.
//!
//! Not here: how long to wait for the lock (`acquire`).

use std::time::Duration;

use lockkeeper::{Client, Error, Guard, LockError, Mutex, RwLock, Semaphore};

use super::RunArgs;
use crate::exit::Failure;

/// A lock at a path, and the way in which this command takes it.
#[derive(Debug)]
pub(super) enum Lock {
    /// As the only holder.
    Exclusive(Mutex),
    /// As a reader, together with other readers (`--shared`).
    Shared(RwLock),
    /// As one of a fixed number of holders (`--holders`).
    OneOfSome(Semaphore),
}

impl Lock {
    /// The lock that the arguments ask for. Its node contains `who`.
    pub(super) fn new(client: &Client, args: &RunArgs, who: String) -> Result<Self, Failure> {
        let path = args.path.as_str();
        let lock = if let Some(holders) = args.holders {
            let semaphore = Semaphore::new(client, path, holders.get());
            semaphore.map(|semaphore| Self::OneOfSome(semaphore.with_data(who)))
        } else if args.shared {
            RwLock::new(client, path).map(|lock| Self::Shared(lock.with_data(who)))
        } else {
            Mutex::new(client, path).map(|mutex| Self::Exclusive(mutex.with_data(who)))
        };
        lock.map_err(|error| Failure::lock(path, Error::from(error).into()))
    }

    pub(super) fn path(&self) -> &str {
        match self {
            Self::Exclusive(mutex) => mutex.path(),
            Self::Shared(lock) => lock.path(),
            Self::OneOfSome(semaphore) => semaphore.path(),
        }
    }

    pub(super) async fn try_lock(&self) -> Result<Option<Guard>, LockError> {
        match self {
            Self::Exclusive(mutex) => mutex.try_lock().await,
            Self::Shared(lock) => lock.try_read().await,
            Self::OneOfSome(semaphore) => semaphore.try_acquire().await,
        }
    }

    pub(super) async fn lock(&self) -> Result<Guard, LockError> {
        match self {
            Self::Exclusive(mutex) => mutex.lock().await,
            Self::Shared(lock) => lock.read().await,
            Self::OneOfSome(semaphore) => semaphore.acquire().await,
        }
    }

    pub(super) async fn lock_timeout(&self, wait: Duration) -> Result<Guard, LockError> {
        match self {
            Self::Exclusive(mutex) => mutex.lock_timeout(wait).await,
            Self::Shared(lock) => lock.read_timeout(wait).await,
            Self::OneOfSome(semaphore) => semaphore.acquire_timeout(wait).await,
        }
    }
}
