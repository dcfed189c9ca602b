//! The interface of a kind of lock for the rules, and its implementations for the kinds that return
//! guards.
//!
//! A value of a `Kind` is one contender. [`Kind::lock`] acquires it in the same way as the users of
//! that kind do. Nothing here checks a promise. Not here: the elections, which return no guards
//! (`election`), and the locks for code without async (`blocking`).

mod blocking;
mod election;

use std::{
    future::Future,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use lockkeeper::{
    Client, FencingToken, Guard, LockError, Mutex, RwLock, Semaphore,
    error::Loss,
    locks::{
        Member, MultiGuard, MultiLock, PlainMutex, ReentrantGuard, ReentrantMutex, WriteGuard,
    },
};

pub(crate) use blocking::Blocking;
pub(crate) use election::{Latching, Leading};

/// A contender of one kind.
pub(crate) trait Kind: Clone + Send + Sync + 'static {
    /// The type of a hold.
    type Held: Held;
    /// The type of a rival's hold; dropping it releases. See [`rival`](Self::rival).
    type Rival: Send + 'static;
    /// How many contenders may hold it at the same time.
    const HOLDERS: usize;

    /// A contender at this path.
    fn at(client: &Client, path: &str) -> Self;

    fn lock(&self) -> impl Future<Output = Result<Self::Held, LockError>> + Send;

    fn lock_timeout(
        &self,
        wait: Duration,
    ) -> impl Future<Output = Result<Self::Held, LockError>> + Send;

    /// Whether there is a queue, in which each waiter has a numbered node.
    const HAS_QUEUE: bool = true;

    /// How many nodes of a rival are in the first directory.
    const RIVALS_IN_QUEUE: usize = 1;

    /// Acquires it in a way that excludes every contender, and waits for all present holders.
    fn rival(
        client: &Client,
        path: &str,
    ) -> impl Future<Output = Result<Self::Rival, LockError>> + Send;

    /// The directories of its nodes. Contenders wait in the first one.
    fn directories(path: &str) -> Vec<String> {
        vec![path.to_owned()]
    }

    /// Names of children that are contenders of another kind and not of this one.
    const STRANGERS: &[&str] = &["x-latch-0000000000"];
}

/// A hold of one kind.
pub(crate) trait Held: Send + 'static {
    /// Its nodes. The fencing token belongs to the first one.
    fn nodes(&self) -> Vec<String>;

    fn token(&self) -> FencingToken;

    /// Waits for the loss. Returns its cause if the kind reports one.
    fn lost(&self) -> impl Future<Output = Option<Loss>> + Send + 'static;

    fn release(self) -> impl Future<Output = Result<(), LockError>> + Send;
}

/// A kind that has a try, which does not wait.
pub(crate) trait Tries: Kind {
    fn try_lock(&self) -> impl Future<Output = Result<Option<Self::Held>, LockError>> + Send;
}

/// Implements [`Held`] for guards, which all have the same methods.
macro_rules! held {
    ($($guard:ty),*) => {$(
        impl Held for $guard {
            fn nodes(&self) -> Vec<String> {
                vec![self.path()]
            }

            fn token(&self) -> FencingToken {
                self.fencing_token()
            }

            fn lost(&self) -> impl Future<Output = Option<Loss>> + Send + 'static {
                let lost = Guard::lost(self);
                async move { Some(lost.await) }
            }

            async fn release(self) -> Result<(), LockError> {
                Self::release(self).await
            }
        }
    )*};
}

held!(Guard, WriteGuard, ReentrantGuard);

impl Held for MultiGuard {
    fn nodes(&self) -> Vec<String> {
        self.guards().iter().map(Guard::path).collect()
    }

    fn token(&self) -> FencingToken {
        self.guards()[0].fencing_token()
    }

    fn lost(&self) -> impl Future<Output = Option<Loss>> + Send + 'static {
        let lost = Self::lost(self);
        async move { Some(lost.await) }
    }

    async fn release(self) -> Result<(), LockError> {
        Self::release(self).await
    }
}

impl Kind for Mutex {
    type Held = Guard;
    type Rival = Guard;
    const HOLDERS: usize = 1;

    fn at(client: &Client, path: &str) -> Self {
        Self::new(client, path).unwrap()
    }

    async fn lock(&self) -> Result<Guard, LockError> {
        Self::lock(self).await
    }

    async fn lock_timeout(&self, wait: Duration) -> Result<Guard, LockError> {
        Self::lock_timeout(self, wait).await
    }

    async fn rival(client: &Client, path: &str) -> Result<Guard, LockError> {
        Self::at(client, path).lock().await
    }
}

impl Tries for Mutex {
    async fn try_lock(&self) -> Result<Option<Guard>, LockError> {
        Self::try_lock(self).await
    }
}

impl Kind for PlainMutex {
    type Held = Guard;
    type Rival = Guard;
    const HOLDERS: usize = 1;
    const HAS_QUEUE: bool = false;

    fn at(client: &Client, path: &str) -> Self {
        Self::new(client, path).unwrap()
    }

    async fn lock(&self) -> Result<Guard, LockError> {
        Self::lock(self).await
    }

    async fn lock_timeout(&self, wait: Duration) -> Result<Guard, LockError> {
        Self::lock_timeout(self, wait).await
    }

    async fn rival(client: &Client, path: &str) -> Result<Guard, LockError> {
        Self::at(client, path).lock().await
    }
}

impl Tries for PlainMutex {
    async fn try_lock(&self) -> Result<Option<Guard>, LockError> {
        Self::try_lock(self).await
    }
}

/// A read/write lock, as a writer.
#[derive(Clone)]
pub(crate) struct Writing(RwLock);

impl Kind for Writing {
    type Held = WriteGuard;
    type Rival = Guard;
    const HOLDERS: usize = 1;

    fn at(client: &Client, path: &str) -> Self {
        Self(RwLock::new(client, path).unwrap())
    }

    async fn lock(&self) -> Result<WriteGuard, LockError> {
        self.0.write().await
    }

    async fn lock_timeout(&self, wait: Duration) -> Result<WriteGuard, LockError> {
        self.0.write_timeout(wait).await
    }

    /// A reader: readers exclude a writer, too.
    async fn rival(client: &Client, path: &str) -> Result<Guard, LockError> {
        RwLock::new(client, path).unwrap().read().await
    }
}

impl Tries for Writing {
    async fn try_lock(&self) -> Result<Option<WriteGuard>, LockError> {
        self.0.try_write().await
    }
}

/// A read/write lock, as a reader.
#[derive(Clone)]
pub(crate) struct Reading(RwLock);

impl Kind for Reading {
    type Held = Guard;
    type Rival = WriteGuard;
    const HOLDERS: usize = usize::MAX;

    fn at(client: &Client, path: &str) -> Self {
        Self(RwLock::new(client, path).unwrap())
    }

    async fn lock(&self) -> Result<Guard, LockError> {
        self.0.read().await
    }

    async fn lock_timeout(&self, wait: Duration) -> Result<Guard, LockError> {
        self.0.read_timeout(wait).await
    }

    async fn rival(client: &Client, path: &str) -> Result<WriteGuard, LockError> {
        RwLock::new(client, path).unwrap().write().await
    }
}

impl Tries for Reading {
    async fn try_lock(&self) -> Result<Option<Guard>, LockError> {
        self.0.try_read().await
    }
}

/// A semaphore with `LEASES` leases.
#[derive(Clone)]
pub(crate) struct Leasing<const LEASES: usize>(Semaphore);

impl<const LEASES: usize> Kind for Leasing<LEASES> {
    type Held = Guard;
    type Rival = Vec<Guard>;
    const HOLDERS: usize = LEASES;
    const RIVALS_IN_QUEUE: usize = 0;

    fn at(client: &Client, path: &str) -> Self {
        Self(Semaphore::new(client, path, LEASES).unwrap())
    }

    async fn lock(&self) -> Result<Guard, LockError> {
        self.0.acquire().await
    }

    async fn lock_timeout(&self, wait: Duration) -> Result<Guard, LockError> {
        self.0.acquire_timeout(wait).await
    }

    async fn rival(client: &Client, path: &str) -> Result<Vec<Guard>, LockError> {
        Self::at(client, path).0.acquire_many(LEASES).await
    }

    fn directories(path: &str) -> Vec<String> {
        vec![format!("{path}/locks"), format!("{path}/leases")]
    }
}

impl<const LEASES: usize> Tries for Leasing<LEASES> {
    async fn try_lock(&self) -> Result<Option<Guard>, LockError> {
        self.0.try_acquire().await
    }
}

/// A reentrant mutex. Each contender is a separate owner, also each clone.
pub(crate) struct Reentering {
    mutex: ReentrantMutex,
    owner: String,
}

impl Reentering {
    fn of_new_owner(mutex: ReentrantMutex) -> Self {
        static OWNERS: AtomicUsize = AtomicUsize::new(0);
        let owner = OWNERS.fetch_add(1, Ordering::Relaxed).to_string();
        Self { mutex, owner }
    }
}

impl Clone for Reentering {
    fn clone(&self) -> Self {
        Self::of_new_owner(self.mutex.clone())
    }
}

impl Kind for Reentering {
    type Held = ReentrantGuard;
    type Rival = ReentrantGuard;
    const HOLDERS: usize = 1;

    fn at(client: &Client, path: &str) -> Self {
        Self::of_new_owner(ReentrantMutex::new(client, path).unwrap())
    }

    async fn lock(&self) -> Result<ReentrantGuard, LockError> {
        self.mutex.lock(&self.owner).await
    }

    async fn lock_timeout(&self, wait: Duration) -> Result<ReentrantGuard, LockError> {
        self.mutex.lock_timeout(&self.owner, wait).await
    }

    async fn rival(client: &Client, path: &str) -> Result<ReentrantGuard, LockError> {
        Self::at(client, path).lock().await
    }
}

impl Tries for Reentering {
    async fn try_lock(&self) -> Result<Option<ReentrantGuard>, LockError> {
        self.mutex.try_lock(&self.owner).await
    }
}

/// A multi-lock of a mutex and the write side of a read/write lock.
#[derive(Clone)]
pub(crate) struct Both(MultiLock);

impl Kind for Both {
    type Held = MultiGuard;
    type Rival = WriteGuard;
    const HOLDERS: usize = 1;
    const RIVALS_IN_QUEUE: usize = 0;

    fn at(client: &Client, path: &str) -> Self {
        let [first, second] = [format!("{path}/a"), format!("{path}/b")];
        let mutex = Mutex::new(client, &first).unwrap();
        let lock = RwLock::new(client, &second).unwrap();
        Self(MultiLock::new([Member::write(&lock), Member::from(&mutex)]).unwrap())
    }

    async fn lock(&self) -> Result<MultiGuard, LockError> {
        self.0.lock().await
    }

    async fn lock_timeout(&self, wait: Duration) -> Result<MultiGuard, LockError> {
        self.0.lock_timeout(wait).await
    }

    /// Takes the second lock only: a contender for both holds the first one while it waits.
    async fn rival(client: &Client, path: &str) -> Result<WriteGuard, LockError> {
        let second = RwLock::new(client, &format!("{path}/b")).unwrap();
        second.write().await
    }

    fn directories(path: &str) -> Vec<String> {
        vec![format!("{path}/a"), format!("{path}/b")]
    }
}

impl Tries for Both {
    async fn try_lock(&self) -> Result<Option<MultiGuard>, LockError> {
        self.0.try_lock().await
    }
}
