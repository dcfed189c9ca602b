//! Which kind of lock the command runs under.
//!
//! Not here: how long to wait for it (`acquire`).

use std::time::Duration;

use lockkeeper::{Client, Error, Guard, LockError, Mutex, RwLock, Semaphore};

use crate::{args::RunArgs, exit::Failure};

/// A lock at a path, and how this command takes it.
#[derive(Debug)]
pub(super) enum Lock {
    /// Alone.
    Exclusive(Mutex),
    /// With others who share it; not beside one who has it alone.
    Shared(RwLock),
    /// As one of so many.
    OneOfSome(Semaphore),
}

impl Lock {
    /// The lock that the arguments ask for. Its nodes say `who` we are.
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
        lock.map_err(|error| Failure::Lock {
            path: path.to_owned(),
            error: LockError::from(Error::from(error)),
        })
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
