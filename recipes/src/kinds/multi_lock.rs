//! Several locks at once, all or none.

use std::{
    fmt,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::{BoxFuture, FutureExt, select_all};
use lockkeeper_session::OpResult;
use tokio::time::timeout;

use crate::{
    error::{Error, Loss},
    guard::transaction::{GuardedTransaction, release_with},
    guard::{Guard, LockState},
    kinds::mutex::Mutex,
    kinds::plain::PlainMutex,
    kinds::rw_lock::{RwLock, WriteGuard},
    kinds::semaphore::Semaphore,
};

/// A lock that can be one of several.
#[derive(Clone)]
pub struct Member(Arc<dyn Lockable>);

/// What a member can do.
trait Lockable: Send + Sync {
    fn path(&self) -> &str;
    fn lock(&self) -> BoxFuture<'_, Result<Guard, Error>>;
    fn try_lock(&self) -> BoxFuture<'_, Result<Option<Guard>, Error>>;
}

/// Both mutexes are locked alike.
macro_rules! lockable {
    ($($mutex:ty),*) => {$(
        impl Lockable for $mutex {
            fn path(&self) -> &str {
                self.path()
            }

            fn lock(&self) -> BoxFuture<'_, Result<Guard, Error>> {
                self.lock().boxed()
            }

            fn try_lock(&self) -> BoxFuture<'_, Result<Option<Guard>, Error>> {
                self.try_lock().boxed()
            }
        }

        impl From<&$mutex> for Member {
            fn from(mutex: &$mutex) -> Self {
                Self(Arc::new(mutex.clone()))
            }
        }
    )*};
}

lockable!(Mutex, PlainMutex);

impl Lockable for Semaphore {
    fn path(&self) -> &str {
        self.path()
    }

    fn lock(&self) -> BoxFuture<'_, Result<Guard, Error>> {
        self.acquire().boxed()
    }

    fn try_lock(&self) -> BoxFuture<'_, Result<Option<Guard>, Error>> {
        self.try_acquire().boxed()
    }
}

/// One side of a read/write lock.
struct Side {
    lock: RwLock,
    writes: bool,
}

impl Lockable for Side {
    fn path(&self) -> &str {
        self.lock.path()
    }

    fn lock(&self) -> BoxFuture<'_, Result<Guard, Error>> {
        if self.writes {
            self.lock
                .write()
                .map(|held| held.map(WriteGuard::into_guard))
                .boxed()
        } else {
            self.lock.read().boxed()
        }
    }

    fn try_lock(&self) -> BoxFuture<'_, Result<Option<Guard>, Error>> {
        if self.writes {
            let tried = self.lock.try_write();
            tried
                .map(|held| held.map(|held| held.map(WriteGuard::into_guard)))
                .boxed()
        } else {
            self.lock.try_read().boxed()
        }
    }
}

impl Member {
    /// As a reader.
    #[must_use]
    pub fn read(lock: &RwLock) -> Self {
        Self(Arc::new(Side {
            lock: lock.clone(),
            writes: false,
        }))
    }

    /// As a writer.
    #[must_use]
    pub fn write(lock: &RwLock) -> Self {
        Self(Arc::new(Side {
            lock: lock.clone(),
            writes: true,
        }))
    }
}

impl From<&Semaphore> for Member {
    fn from(semaphore: &Semaphore) -> Self {
        Self(Arc::new(semaphore.clone()))
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Member").field(&self.0.path()).finish()
    }
}

/// Several locks that are taken all or not at all.
///
/// They are taken one after the other in the order of their paths, so that two who want the same ones never wait for each
/// other, and released in reverse. When one cannot be had, those taken already are released and the rest is not tried.
#[derive(Clone, Debug)]
pub struct MultiLock {
    members: Vec<Member>,
}

impl MultiLock {
    /// These locks.
    ///
    /// # Errors
    /// [`Error::SelfDeadlock`] when one path is there twice. It would wait for itself; or, where it can be shared, for
    /// somebody who came in between and waits for it: a writer between two readers, or another who has one lease of two.
    pub fn new(members: impl IntoIterator<Item = Member>) -> Result<Self, Error> {
        let mut members: Vec<_> = members.into_iter().collect();
        members.sort_by(|one, other| one.0.path().cmp(other.0.path()));
        for pair in members.windows(2) {
            if let [one, other] = pair
                && one.0.path() == other.0.path()
            {
                return Err(Error::SelfDeadlock {
                    path: one.0.path().to_owned(),
                });
            }
        }
        Ok(Self { members })
    }

    /// Waits until all are ours.
    ///
    /// # Errors
    /// That of the first lock that could not be had. The others are released, or were not tried.
    ///
    /// # Cancel safety
    /// Dropped at any time, it leaves no node behind and holds nobody up.
    pub async fn lock(&self) -> Result<MultiGuard, Error> {
        let mut held = MultiGuard {
            guards: Vec::with_capacity(self.members.len()),
        };
        for member in &self.members {
            match member.0.lock().await {
                Ok(guard) => held.guards.push(guard),
                Err(error) => {
                    held.release_quietly().await;
                    return Err(error);
                }
            }
        }
        held.if_valid().await
    }

    /// As [`lock`](Self::lock), for at most `wait`: one deadline for all of them.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and [`Error::TimedOut`].
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn lock_timeout(&self, wait: Duration) -> Result<MultiGuard, Error> {
        match timeout(wait, self.lock()).await {
            Ok(locked) => locked,
            Err(_) => Err(Error::TimedOut {
                waited: wait,
                ahead: None,
            }),
        }
    }

    /// Takes all of them if each can be had at once.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn try_lock(&self) -> Result<Option<MultiGuard>, Error> {
        let mut held = MultiGuard {
            guards: Vec::with_capacity(self.members.len()),
        };
        for member in &self.members {
            match member.0.try_lock().await {
                Ok(Some(guard)) => held.guards.push(guard),
                refused => {
                    held.release_quietly().await;
                    return refused.map(|_| None);
                }
            }
        }
        held.if_valid().await.map(Some)
    }
}

/// Several locks, held. Dropping it releases them in the background, the last one first.
#[derive(Debug)]
#[must_use = "dropping the guard releases the locks"]
pub struct MultiGuard {
    guards: Vec<Guard>,
}

impl MultiGuard {
    /// The guards, in the order of their paths.
    #[must_use = "the guards stay in the multi-guard"]
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// Whether nobody else can hold any of them now. Local: asks no server.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.guards.iter().all(Guard::is_valid)
    }

    /// How sure the least sure of them is.
    #[must_use]
    pub fn state(&self) -> LockState {
        let worst = |state: &LockState| match state {
            LockState::Held => 0,
            LockState::Suspended { .. } => 1,
            LockState::Elapsed => 2,
            LockState::Lost(_) => 3,
        };
        self.guards
            .iter()
            .map(Guard::state)
            .max_by_key(worst)
            .unwrap_or(LockState::Held)
    }

    /// Until when nobody else can hold any of them, should no server be heard of any more.
    #[must_use]
    pub fn valid_until(&self) -> Option<Instant> {
        let all: Option<Vec<_>> = self.guards.iter().map(Guard::valid_until).collect();
        all?.into_iter().min()
    }

    /// Waits until one of them cannot be relied on any more: see [`Guard::lost`].
    ///
    /// # Cancel safety
    /// It may be dropped and called again.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + 'static {
        let all: Vec<_> = self
            .guards
            .iter()
            .map(|guard| guard.lost().boxed())
            .collect();
        async move {
            if all.is_empty() {
                return std::future::pending().await;
            }
            let all = pin!(select_all(all));
            all.await.0
        }
    }

    /// Starts a transaction that happens only if all of them are still held: it begins with a check of each lock node.
    /// They must be locks of one client.
    pub fn transaction(&self) -> GuardedTransaction<'_> {
        GuardedTransaction::under(&self.guards)
    }

    /// Writes what `build` adds, and releases all of them, in one transaction: all of it happens while they are held, or
    /// nothing does.
    ///
    /// # Errors
    /// As [`GuardedTransaction::commit`]. They are released in the background then.
    ///
    /// # Cancel safety
    /// Once polled, the transaction may be applied; the locks are released in any case.
    pub async fn release_with(
        mut self,
        build: impl FnOnce(GuardedTransaction<'_>) -> GuardedTransaction<'_>,
    ) -> Result<Vec<OpResult>, Error> {
        release_with(&mut self.guards, build).await
    }

    /// Releases all of them, the last one first, and waits until they are free.
    ///
    /// # Errors
    /// That of the first one whose release failed; the others are released all the same.
    ///
    /// # Cancel safety
    /// All of them are released whether the future is awaited or dropped.
    pub async fn release(mut self) -> Result<(), Error> {
        let mut outcome = Ok(());
        while let Some(guard) = self.guards.pop() {
            let released = guard.release().await;
            outcome = outcome.and(released);
        }
        outcome
    }

    /// All of them, unless the first ones are of a session that was lost while the last one was taken.
    async fn if_valid(self) -> Result<Self, Error> {
        let loss = match self.state() {
            LockState::Held | LockState::Suspended { .. } => return Ok(self),
            LockState::Elapsed => Loss::Elapsed,
            LockState::Lost(loss) => loss,
        };
        self.release_quietly().await;
        Err(Error::Lost(loss))
    }

    async fn release_quietly(self) {
        if let Err(error) = self.release().await {
            tracing::debug!(%error, "a lock was lost before all of them were had");
        }
    }
}

impl Drop for MultiGuard {
    fn drop(&mut self) {
        while let Some(guard) = self.guards.pop() {
            drop(guard);
        }
    }
}
