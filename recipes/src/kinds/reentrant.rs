//! The reentrant mutex, counted for each owner.
//!
//! An async task has no identity that a lock could go by: it moves between threads and shares them. So the owner is named.

use std::{
    collections::HashMap,
    ops::Deref,
    sync::{Arc, Mutex as StdMutex, PoisonError, Weak},
    time::Duration,
};

use bytes::Bytes;
use lockkeeper_proto::path::PathError;
use lockkeeper_session::Client;
use tokio::{sync::Mutex as AsyncMutex, time::timeout};

use crate::{
    error::{Error, Loss},
    guard::{Guard, LockState},
    kinds::mutex::Mutex,
};

/// A [`Mutex`] that an owner who holds it may take again; it is released when the last of the owner's guards is.
///
/// Owners are told apart by a key that the caller chooses: a request id, a job's name. The clones of a `ReentrantMutex`
/// share their owners; two made by [`new`](Self::new) do not, and contend with each other as strangers do.
#[derive(Clone, Debug)]
pub struct ReentrantMutex {
    mutex: Mutex,
    owners: Arc<StdMutex<HashMap<String, Arc<Owner>>>>,
}

/// The hold of an owner, if there is one. Whoever takes the lock for the owner has the inner mutex meanwhile.
type Owner = AsyncMutex<Weak<Guard>>;

impl ReentrantMutex {
    /// The mutex at this path.
    ///
    /// # Errors
    /// [`PathError`] for a path that breaks a rule.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        Ok(Self {
            mutex: Mutex::new(client, path)?,
            owners: Arc::default(),
        })
    }

    /// The same mutex, with owners of its own, whose nodes hold `data`: who the contender is, for people who look.
    #[must_use]
    pub fn with_data(self, data: impl Into<Bytes>) -> Self {
        Self {
            mutex: self.mutex.with_data(data),
            owners: Arc::default(),
        }
    }

    /// The mutex that is taken: its path, its participants, its metrics.
    #[must_use]
    pub fn mutex(&self) -> &Mutex {
        &self.mutex
    }

    /// Waits until the owner has the lock. If it has it already, nothing is sent.
    ///
    /// # Errors
    /// As [`Mutex::lock`]. [`Error::Lost`] when the owner has guards of a lock that is lost, or whose lease has run out:
    /// drop them first.
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn lock(&self, owner: &str) -> Result<ReentrantGuard, Error> {
        let slot = self.slot(owner);
        let mut hold = slot.lock().await;
        if let Some(guard) = hold.upgrade() {
            return match guard.state() {
                LockState::Held | LockState::Suspended { .. } => Ok(ReentrantGuard(guard)),
                LockState::Elapsed => Err(Error::Lost(Loss::Elapsed)),
                LockState::Lost(loss) => Err(Error::Lost(loss)),
            };
        }
        let guard = Arc::new(self.mutex.lock().await?);
        *hold = Arc::downgrade(&guard);
        Ok(ReentrantGuard(guard))
    }

    /// As [`lock`](Self::lock), for at most `wait`.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and [`Error::TimedOut`].
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn lock_timeout(&self, owner: &str, wait: Duration) -> Result<ReentrantGuard, Error> {
        match timeout(wait, self.lock(owner)).await {
            Ok(locked) => locked,
            Err(_) => Err(Error::TimedOut {
                waited: wait,
                ahead: None,
            }),
        }
    }

    /// Takes the lock if the owner has it, or nobody has it or waits for it.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn try_lock(&self, owner: &str) -> Result<Option<ReentrantGuard>, Error> {
        let slot = self.slot(owner);
        // Somebody is taking it for this owner at this moment: it is not there yet.
        let Ok(mut hold) = slot.try_lock() else {
            return Ok(None);
        };
        if let Some(guard) = hold.upgrade() {
            return Ok(guard.is_valid().then_some(ReentrantGuard(guard)));
        }
        let Some(guard) = self.mutex.try_lock().await? else {
            return Ok(None);
        };
        let guard = Arc::new(guard);
        *hold = Arc::downgrade(&guard);
        Ok(Some(ReentrantGuard(guard)))
    }

    /// The owner's slot. Slots of owners who hold nothing and want nothing are forgotten on the way.
    fn slot(&self, owner: &str) -> Arc<Owner> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.retain(|_, slot| {
            Arc::strong_count(slot) > 1 || slot.try_lock().is_ok_and(|hold| hold.strong_count() > 0)
        });
        owners.entry(owner.to_owned()).or_default().clone()
    }
}

/// One of the holds of an owner. The lock is released with the last of them.
#[derive(Clone, Debug)]
#[must_use = "dropping the last guard of the owner releases the lock"]
pub struct ReentrantGuard(Arc<Guard>);

impl ReentrantGuard {
    /// How many guards the owner has.
    #[must_use]
    pub fn holds(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Gives up this hold. The last one releases the lock and waits until it is free; the others only count down.
    ///
    /// # Errors
    /// As [`Guard::release`], for the last one.
    ///
    /// # Cancel safety
    /// As [`Guard::release`].
    pub async fn release(self) -> Result<(), Error> {
        match Arc::into_inner(self.0) {
            Some(guard) => guard.release().await,
            None => Ok(()),
        }
    }
}

impl Deref for ReentrantGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.0
    }
}
