//! The reentrant mutex, counted for each owner.
//!
//! An async task has no identity that a lock could use: a task moves between threads, and shares them. So the caller
//! names the owner.
//!
//! Not here: the mutex itself (`mutex`).

use std::{
    collections::HashMap,
    ops::Deref,
    pin::pin,
    sync::{Arc, Mutex as StdMutex, PoisonError, Weak},
    time::Duration,
};

use bytes::Bytes;
use lockkeeper_proto::path::PathError;
use lockkeeper_session::Client;
use tokio::sync::Mutex as AsyncMutex;

use crate::{
    error::{LockError, Loss},
    guard::{Guard, LockState},
    kinds::mutex::Mutex,
    metrics::LockMeter,
    timeout::timeout,
};

/// A [`Mutex`] that its owner may lock again while it holds it. The owner's last guard releases the lock.
///
/// A key that the caller chooses names the owner: a request id, or the name of a job. The clones of a `ReentrantMutex`
/// share their owners. Two values made by [`new`](Self::new) do not: an owner of one contends with the same key of the
/// other.
#[derive(Clone, Debug)]
pub struct ReentrantMutex {
    mutex: Mutex,
    owners: Arc<StdMutex<HashMap<String, Arc<Owner>>>>,
}

/// The hold of an owner, if there is one. A call that acquires the lock for the owner keeps this inner mutex locked
/// until it is done.
type Owner = AsyncMutex<Weak<Guard>>;

impl ReentrantMutex {
    /// The mutex at this path. Sends nothing.
    ///
    /// # Errors
    /// [`PathError`] for an invalid path.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        Ok(Self {
            mutex: Mutex::new(client, path)?,
            owners: Arc::default(),
        })
    }

    /// The same mutex, with owners of its own. Its nodes have `data`, so that people who look at a node see who the
    /// contender is.
    #[must_use]
    pub fn with_data(self, data: impl Into<Bytes>) -> Self {
        Self {
            mutex: self.mutex.with_data(data),
            owners: Arc::default(),
        }
    }

    /// The same mutex, with the same owners, but this meter counts: see [`LockMeter`](crate::LockMeter).
    #[must_use]
    pub fn with_meter(self, meter: &LockMeter) -> Self {
        Self {
            mutex: self.mutex.with_meter(meter),
            ..self
        }
    }

    /// The [`Mutex`] behind it, with its path, participants and metrics.
    #[must_use]
    pub fn mutex(&self) -> &Mutex {
        &self.mutex
    }

    /// Waits until the owner holds the lock. If the owner holds it already, the call sends nothing.
    ///
    /// # Errors
    /// - As [`Mutex::lock`].
    /// - [`LockError::Lost`] when the owner still has guards of a lock that is lost, or whose lease has ended. Drop these
    ///   guards first.
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn lock(&self, owner: &str) -> Result<ReentrantGuard, LockError> {
        let slot = self.slot(owner);
        let mut hold = slot.lock().await;
        if let Some(guard) = hold.upgrade() {
            return match guard.state() {
                LockState::Held | LockState::Suspended { .. } => Ok(ReentrantGuard(guard)),
                LockState::Elapsed => Err(guard.named(LockError::lost(Loss::Elapsed))),
                LockState::Lost(loss) => Err(guard.named(LockError::lost(loss))),
            };
        }
        let guard = Arc::new(self.mutex.lock().await?);
        *hold = Arc::downgrade(&guard);
        Ok(ReentrantGuard(guard))
    }

    /// As [`lock`](Self::lock), for at most `wait`: one deadline for everything.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and [`LockError::TimedOut`].
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn lock_timeout(
        &self,
        owner: &str,
        wait: Duration,
    ) -> Result<ReentrantGuard, LockError> {
        let place = || (self.mutex.path(), None);
        timeout(self.mutex.client(), wait, pin!(self.lock(owner)), place).await
    }

    /// Takes the lock if the owner holds it, or if no contender holds it or waits for it; otherwise returns `None`.
    ///
    /// It also returns `None` in two other cases:
    ///
    /// - Another call is acquiring the lock for this owner.
    /// - The owner still has guards of a lock that is lost, or whose lease has ended.
    ///
    /// # Errors
    /// As [`Mutex::try_lock`].
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn try_lock(&self, owner: &str) -> Result<Option<ReentrantGuard>, LockError> {
        let slot = self.slot(owner);
        // Another call is acquiring the lock for this owner, and does not have it yet.
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

    /// The owner's slot. Also removes the slots of owners that hold nothing and wait for nothing.
    fn slot(&self, owner: &str) -> Arc<Owner> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.retain(|_, slot| {
            Arc::strong_count(slot) > 1 || slot.try_lock().is_ok_and(|hold| hold.strong_count() > 0)
        });
        owners.entry(owner.to_owned()).or_default().clone()
    }
}

/// One of the guards of an owner. Dropping the last one releases the lock in the background.
#[derive(Clone, Debug)]
#[must_use = "dropping the last guard of the owner releases the lock"]
pub struct ReentrantGuard(Arc<Guard>);

impl ReentrantGuard {
    /// How many guards the owner has.
    #[must_use]
    pub fn holds(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Gives up this guard. For the owner's last guard, it releases the lock and waits until the servers have deleted
    /// the node.
    ///
    /// # Errors
    /// For the last guard, as [`Guard::release`].
    ///
    /// # Cancel safety
    /// As [`Guard::release`].
    pub async fn release(self) -> Result<(), LockError> {
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
