//! The interface of a kind of lock for the rules, and its implementations for the kinds that return
//! guards.
//!
//! A value of a `Kind` is one contender. [`Kind::lock`] acquires it in the same way as the users of
//! that kind do. Nothing here checks a promise. Not here: the elections, which return no guards
//! (`election`).

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
        GuardView, Member, MultiGuard, MultiLock, PlainMutex, ReentrantGuard, ReentrantMutex,
        WriteGuard,
    },
};

pub(crate) use election::{Latching, Leading};

/// The three ways to ask for a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Wait,
    Within(Duration),
    /// Without waiting.
    Try,
}

/// What a contender gets; `None` if a try finds the lock taken.
pub(crate) type Entered<H> = Result<Option<H>, LockError>;

/// Dropping it releases. See [`Kind::rival`].
pub(crate) type Rival = Box<dyn Send>;

/// A contender of one kind.
pub(crate) trait Kind: Clone + Send + Sync + 'static {
    /// The type of a hold.
    type Held: Held;

    /// How many contenders may hold it at the same time.
    const HOLDERS: usize = 1;

    /// Whether there is a queue, in which each waiter has a numbered node.
    const HAS_QUEUE: bool = true;

    /// How many nodes of a rival are in the first directory.
    const RIVALS_IN_QUEUE: usize = 1;

    /// Names of children that are contenders of another kind and not of this one.
    const STRANGERS: &[&str] = &["x-latch-0000000000"];

    /// A contender at this path.
    fn at(client: &Client, path: &str) -> Self;

    fn enter(&self, how: How) -> impl Future<Output = Entered<Self::Held>> + Send;

    fn lock(&self) -> impl Future<Output = Result<Self::Held, LockError>> + Send {
        async { Ok(self.enter(How::Wait).await?.expect("waited for")) }
    }

    fn try_lock_for(
        &self,
        wait: Duration,
    ) -> impl Future<Output = Result<Self::Held, LockError>> + Send {
        async move { Ok(self.enter(How::Within(wait)).await?.expect("waited for")) }
    }

    fn try_lock(&self) -> impl Future<Output = Entered<Self::Held>> + Send {
        self.enter(How::Try)
    }

    /// Acquires it in a way that excludes every contender, and waits for all present holders.
    fn rival(client: &Client, path: &str) -> impl Future<Output = Result<Rival, LockError>> + Send {
        let rival = Self::at(client, path);
        async move { boxed(rival.lock().await) }
    }

    /// The directories of its nodes. Contenders wait in the first one.
    fn directories(path: &str) -> Vec<String> {
        vec![path.to_owned()]
    }
}

fn boxed(held: Result<impl Send + 'static, LockError>) -> Result<Rival, LockError> {
    held.map(|held| Box::new(held) as Rival)
}

/// A hold of one kind.
pub(crate) trait Held: Send + 'static {
    /// Its nodes. The fencing token belongs to the first one.
    fn nodes(&self) -> Vec<String>;

    fn token(&self) -> FencingToken;

    /// Waits for the loss. Returns its cause if the kind reports one.
    fn lost(&self) -> impl Future<Output = Option<Loss>> + Send + 'static;

    /// A view of each guard; none if the kind has no guards.
    fn views(&self) -> Vec<GuardView>;

    fn release(self) -> impl Future<Output = Result<(), LockError>> + Send;
}

/// Implements [`Held`] for guards: of the guards of its locks, and of how to wait for the loss.
macro_rules! held {
    ($($held:ty: |$it:ident| $guards:expr, $lost:expr;)*) => {$(
        impl Held for $held {
            fn nodes(&self) -> Vec<String> {
                let $it = self;
                $guards.iter().map(|guard| guard.path()).collect()
            }

            fn token(&self) -> FencingToken {
                let $it = self;
                $guards[0].fencing_token()
            }

            fn lost(&self) -> impl Future<Output = Option<Loss>> + Send + 'static {
                let $it = self;
                $lost
            }

            fn views(&self) -> Vec<GuardView> {
                let $it = self;
                $guards.iter().map(|guard| guard.view()).collect()
            }

            async fn release(self) -> Result<(), LockError> {
                Self::release(self).await
            }
        }
    )*};
}

held! {
    Guard: |it| [it], Guard::lost(it);
    WriteGuard: |it| [it], Guard::lost(it);
    ReentrantGuard: |it| [it], Guard::lost(it);
    MultiGuard: |it| it.guards(), MultiGuard::lost(it);
}

impl Kind for Mutex {
    type Held = Guard;

    fn at(client: &Client, path: &str) -> Self {
        Self::new(client, path).unwrap()
    }

    async fn enter(&self, how: How) -> Entered<Guard> {
        match how {
            How::Wait => Self::lock(self).await.map(Some),
            How::Within(wait) => Self::try_lock_for(self, wait).await.map(Some),
            How::Try => Self::try_lock(self).await,
        }
    }
}

impl Kind for PlainMutex {
    type Held = Guard;
    const HAS_QUEUE: bool = false;

    fn at(client: &Client, path: &str) -> Self {
        Self::new(client, path).unwrap()
    }

    async fn enter(&self, how: How) -> Entered<Guard> {
        match how {
            How::Wait => Self::lock(self).await.map(Some),
            How::Within(wait) => Self::try_lock_for(self, wait).await.map(Some),
            How::Try => Self::try_lock(self).await,
        }
    }
}

/// A read/write lock, as a writer.
#[derive(Clone)]
pub(crate) struct Writing(RwLock);

impl Kind for Writing {
    type Held = WriteGuard;

    fn at(client: &Client, path: &str) -> Self {
        Self(RwLock::new(client, path).unwrap())
    }

    async fn enter(&self, how: How) -> Entered<WriteGuard> {
        match how {
            How::Wait => self.0.write().await.map(Some),
            How::Within(wait) => self.0.try_write_for(wait).await.map(Some),
            How::Try => self.0.try_write().await,
        }
    }

    /// A reader: readers exclude a writer, too.
    async fn rival(client: &Client, path: &str) -> Result<Rival, LockError> {
        boxed(Reading::at(client, path).lock().await)
    }
}

/// A read/write lock, as a reader.
#[derive(Clone)]
pub(crate) struct Reading(RwLock);

impl Kind for Reading {
    type Held = Guard;
    const HOLDERS: usize = usize::MAX;

    fn at(client: &Client, path: &str) -> Self {
        Self(RwLock::new(client, path).unwrap())
    }

    async fn enter(&self, how: How) -> Entered<Guard> {
        match how {
            How::Wait => self.0.read().await.map(Some),
            How::Within(wait) => self.0.try_read_for(wait).await.map(Some),
            How::Try => self.0.try_read().await,
        }
    }

    async fn rival(client: &Client, path: &str) -> Result<Rival, LockError> {
        boxed(Writing::at(client, path).lock().await)
    }
}

/// A semaphore with `PERMITS` permits.
#[derive(Clone)]
pub(crate) struct Permitting<const PERMITS: usize>(Semaphore);

impl<const PERMITS: usize> Kind for Permitting<PERMITS> {
    type Held = Guard;
    const HOLDERS: usize = PERMITS;
    const RIVALS_IN_QUEUE: usize = 0;

    fn at(client: &Client, path: &str) -> Self {
        Self(Semaphore::new(client, path, PERMITS).unwrap())
    }

    async fn enter(&self, how: How) -> Entered<Guard> {
        match how {
            How::Wait => self.0.acquire().await.map(Some),
            How::Within(wait) => self.0.try_acquire_for(wait).await.map(Some),
            How::Try => self.0.try_acquire().await,
        }
    }

    async fn rival(client: &Client, path: &str) -> Result<Rival, LockError> {
        boxed(Self::at(client, path).0.acquire_many(PERMITS).await)
    }

    fn directories(path: &str) -> Vec<String> {
        vec![format!("{path}/locks"), format!("{path}/leases")]
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

    fn at(client: &Client, path: &str) -> Self {
        Self::of_new_owner(ReentrantMutex::new(client, path).unwrap())
    }

    async fn enter(&self, how: How) -> Entered<ReentrantGuard> {
        let Self { mutex, owner } = self;
        match how {
            How::Wait => mutex.lock(owner).await.map(Some),
            How::Within(wait) => mutex.try_lock_for(owner, wait).await.map(Some),
            How::Try => mutex.try_lock(owner).await,
        }
    }
}

/// A multi-lock of a mutex and the write side of a read/write lock.
#[derive(Clone)]
pub(crate) struct Both(MultiLock);

impl Kind for Both {
    type Held = MultiGuard;
    const RIVALS_IN_QUEUE: usize = 0;

    fn at(client: &Client, path: &str) -> Self {
        let [first, second] = [format!("{path}/a"), format!("{path}/b")];
        let mutex = Mutex::new(client, &first).unwrap();
        let lock = RwLock::new(client, &second).unwrap();
        Self(MultiLock::new([Member::write(&lock), Member::from(&mutex)]).unwrap())
    }

    async fn enter(&self, how: How) -> Entered<MultiGuard> {
        match how {
            How::Wait => self.0.lock().await.map(Some),
            How::Within(wait) => self.0.try_lock_for(wait).await.map(Some),
            How::Try => self.0.try_lock().await,
        }
    }

    /// Takes the second lock only: a contender for both holds the first one while it waits.
    async fn rival(client: &Client, path: &str) -> Result<Rival, LockError> {
        boxed(Writing::at(client, &format!("{path}/b")).lock().await)
    }

    fn directories(path: &str) -> Vec<String> {
        vec![format!("{path}/a"), format!("{path}/b")]
    }
}
