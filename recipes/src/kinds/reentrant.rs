//! The reentrant mutex, counted for each owner.
//!
//! An async task has no identity that a lock could use: a task moves between threads, and shares
//! them. So the caller names the owner.
//!
//! Not here: the mutex itself (`mutex`).

use std::{
    collections::HashMap,
    ops::Deref,
    sync::{Arc, Mutex as StdMutex, Weak},
    time::Duration,
};

use lockkeeper_proto::path::PathError;
use lockkeeper_session::{
    Client,
    sync::{AsyncMutex, os::lock},
};

use crate::{error::LockError, guard::Guard, kinds::mutex::Mutex, queue::timeout::timeout};

/// A [`Mutex`] that its owner may lock again while it holds it. The owner's last guard releases the
/// lock.
///
/// A key that the caller chooses names the owner: a request id, or the name of a job. The clones of
/// a `ReentrantMutex` share their owners. Two values made by [`new`](Self::new) do not: an owner of
/// one contends with the same key of the other.
#[derive(Clone, Debug)]
pub struct ReentrantMutex {
    pub(super) mutex: Mutex,
    owners: Arc<StdMutex<HashMap<String, Arc<Owner>>>>,
}

/// An owner, for as long as it has guards or a call acquires the lock for it.
#[derive(Debug, Default)]
struct Owner {
    /// Locked by the call that acquires the lock for the owner.
    acquiring: AsyncMutex<()>,
    /// The hold, if there is one. Locked while a call looks at the guard. So the look does not
    /// count as a guard of the owner.
    hold: StdMutex<Weak<Guard>>,
}

impl Owner {
    /// Another guard of the hold, if there is one.
    fn again(self: &Arc<Self>) -> Option<Result<ReentrantGuard, LockError>> {
        let hold = lock(&self.hold);
        let guard = hold.upgrade()?;
        if let Err(lost) = guard.ensure_valid() {
            return Some(Err(lost));
        }
        let owner = self.clone();
        Some(Ok(ReentrantGuard { guard, owner }))
    }

    /// The first guard of a new hold.
    fn begin(self: &Arc<Self>, guard: Guard) -> ReentrantGuard {
        let (guard, owner) = (Arc::new(guard), self.clone());
        *lock(&self.hold) = Arc::downgrade(&guard);
        ReentrantGuard { guard, owner }
    }
}

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

    /// Waits until the owner holds the lock. If the owner holds it already, the call sends nothing.
    ///
    /// # Errors
    /// - As [`Mutex::lock`].
    /// - [`LockError::Lost`] when the owner still has guards of a lock that is lost, or whose lease
    ///   has ended. Drop these guards first.
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn lock(&self, owner: &str) -> Result<ReentrantGuard, LockError> {
        let slot = self.slot(owner);
        let _acquiring = slot.acquiring.lock().await;
        match slot.again() {
            Some(again) => again,
            None => Ok(slot.begin(self.mutex.lock().await?)),
        }
    }

    /// Waits for the lock as [`lock`](Self::lock) does, but for at most `wait` in all.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and [`LockError::TimedOut`].
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn try_lock_for(
        &self,
        owner: &str,
        wait: Duration,
    ) -> Result<ReentrantGuard, LockError> {
        let (client, lock) = (&self.mutex.queue.client, Box::pin(self.lock(owner)));
        timeout(client, self.path(), wait, lock).await
    }

    /// Takes the lock if the owner holds it, or if no contender holds it or waits for it; otherwise
    /// returns `None`.
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
        let Ok(_acquiring) = slot.acquiring.try_lock() else {
            return Ok(None);
        };
        match slot.again() {
            Some(again) => Ok(again.ok()),
            None => Ok(self.mutex.try_lock().await?.map(|guard| slot.begin(guard))),
        }
    }

    /// The owner's slot. Also removes the slots of owners that hold nothing and wait for nothing.
    fn slot(&self, owner: &str) -> Arc<Owner> {
        let mut owners = lock(&self.owners);
        owners.retain(|_, slot| Arc::strong_count(slot) > 1);
        owners.entry(owner.to_owned()).or_default().clone()
    }
}

/// One of the guards of an owner. Dropping the last one releases the lock in the background.
#[derive(Clone, Debug)]
#[must_use = "dropping the last guard of the owner releases the lock"]
pub struct ReentrantGuard {
    guard: Arc<Guard>,
    owner: Arc<Owner>,
}

impl ReentrantGuard {
    /// How many guards the owner has.
    #[must_use]
    pub fn holds(&self) -> usize {
        let _unseen = lock(&self.owner.hold);
        Arc::strong_count(&self.guard)
    }

    /// Gives up this guard. For the owner's last guard, it releases the lock and waits until the
    /// servers have deleted the node.
    ///
    /// # Errors
    /// For the last guard, as [`Guard::release`].
    ///
    /// # Cancel safety
    /// As [`Guard::release`].
    pub async fn release(self) -> Result<(), LockError> {
        let Self { guard, owner } = self;
        let last = {
            let _unseen = lock(&owner.hold);
            Arc::into_inner(guard)
        };
        match last {
            Some(guard) => guard.release().await,
            None => Ok(()),
        }
    }
}

impl Deref for ReentrantGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use lockkeeper_server::Server;

    use super::*;
    use crate::Loss;

    /// The look of another call counted as a guard of the owner: the last guard of a lost lock was
    /// released with `Ok`.
    #[tokio::test]
    async fn a_look_of_another_call_does_not_hide_that_the_lock_was_lost() {
        let server = Server::start().await.unwrap();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let mutex = ReentrantMutex::new(&client, "/re").unwrap();
        let last = mutex.lock("owner").await.unwrap();
        last.limit_hold(Duration::ZERO);
        assert_eq!(last.lost().await, Some(Loss::Overdue));
        let (owner, (looking, looked)) = (last.owner.clone(), mpsc::channel());
        let other = thread::spawn(move || {
            let hold = lock(&owner.hold);
            let guard = hold.upgrade();
            looking.send(()).unwrap();
            thread::sleep(Duration::from_millis(50));
            drop((guard, hold));
        });
        looked.recv().unwrap();
        let released = last.release().await;
        assert_eq!(released.unwrap_err().loss(), Some(Loss::Overdue));
        other.join().unwrap();
        let again = mutex.lock("owner").await.unwrap();
        assert_eq!(again.holds(), 1);
    }
}
