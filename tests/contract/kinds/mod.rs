//! The kinds of lock, with the same interface for the rules.
//!
//! A [`Kind`] is a value that a rule gets. A [`Contender`] acquires the lock in the same way as the
//! users of its kind do, and gets a [`Hold`]. Nothing here checks a promise. Not here: how a
//! contender takes part in an election (`election`).

mod election;

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures::future::BoxFuture;
use lockkeeper::{
    Client, Election, FencingToken, Guard, LockError, Mutex, RwLock, Semaphore,
    error::Loss,
    locks::{
        GuardView, Member, MultiGuard, MultiLock, PlainMutex, ReentrantGuard, ReentrantMutex,
        WriteGuard,
    },
};

/// A kind of lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Mutex,
    Plain,
    /// A read/write lock, as a writer.
    Writer,
    /// A read/write lock, as a reader.
    Reader,
    /// A semaphore with this number of permits.
    Permits(usize),
    Reentrant,
    /// A multi-lock of a mutex and the write side of a read/write lock.
    Both,
    /// An election: who is elected leads in the foreground, by [`Election::lead`].
    Leader,
    /// An election: the candidates are in the background, by [`Election::latch`].
    Latch,
}

impl Kind {
    /// How many contenders may hold it at the same time.
    pub(crate) fn holders(self) -> usize {
        match self {
            Self::Reader => usize::MAX,
            Self::Permits(permits) => permits,
            _ => 1,
        }
    }

    /// Whether there is a queue, in which each waiter has a numbered node.
    pub(crate) fn has_queue(self) -> bool {
        !matches!(self, Self::Plain)
    }

    /// How many nodes of a rival are in the first directory.
    pub(crate) fn rivals_in_queue(self) -> usize {
        usize::from(!matches!(self, Self::Permits(_) | Self::Both))
    }

    /// Names of children that are contenders of another kind and not of this one.
    pub(crate) fn strangers(self) -> &'static [&'static str] {
        match self {
            Self::Leader | Self::Latch => &["x-lock-0000000000", "x__WRIT__0000000000"],
            _ => &["x-latch-0000000000"],
        }
    }

    /// The directories of its nodes. Contenders wait in the first one.
    pub(crate) fn directories(self, path: &str) -> Vec<String> {
        match self {
            Self::Permits(_) => vec![format!("{path}/locks"), format!("{path}/leases")],
            Self::Both => vec![format!("{path}/a"), format!("{path}/b")],
            _ => vec![path.to_owned()],
        }
    }

    /// A contender at this path.
    pub(crate) fn at(self, client: &Client, path: &str) -> Contender {
        let rw_lock = |path: &str| RwLock::new(client, path).unwrap();
        let election = || Election::new(client, path).unwrap();
        match self {
            Self::Mutex => Contender::Mutex(Mutex::new(client, path).unwrap()),
            Self::Plain => Contender::Plain(PlainMutex::new(client, path).unwrap()),
            Self::Writer => Contender::Writer(rw_lock(path)),
            Self::Reader => Contender::Reader(rw_lock(path)),
            Self::Permits(permits) => {
                Contender::Permits(Semaphore::new(client, path, permits).unwrap())
            }
            Self::Reentrant => {
                let mutex = ReentrantMutex::new(client, path).unwrap();
                Contender::Reentrant(mutex, Owner::new())
            }
            Self::Both => {
                let mutex = Mutex::new(client, &format!("{path}/a")).unwrap();
                let members = [
                    Member::write(&rw_lock(&format!("{path}/b"))),
                    Member::from(&mutex),
                ];
                Contender::Both(MultiLock::new(members).unwrap())
            }
            Self::Leader => Contender::Leader(election()),
            Self::Latch => Contender::Latch(election(), client.clone()),
        }
    }

    /// Acquires it in a way that excludes every contender, and waits for all present holders.
    pub(crate) async fn rival(self, client: &Client, path: &str) -> Result<Rival, LockError> {
        let rival = match self {
            // Readers exclude a writer, too.
            Self::Writer => Self::Reader.at(client, path),
            Self::Reader => Self::Writer.at(client, path),
            // The second lock only: a contender for both holds the first one while it waits.
            Self::Both => Self::Writer.at(client, &format!("{path}/b")),
            Self::Permits(all) => {
                let semaphore = Semaphore::new(client, path, all).unwrap();
                return Ok(Box::new(semaphore.acquire_many(all).await?));
            }
            _ => self.at(client, path),
        };
        Ok(Box::new(rival.lock().await?))
    }
}

/// Dropping it releases. See [`Kind::rival`].
pub(crate) type Rival = Box<dyn Send>;

/// The three ways to ask for a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Wait,
    Within(Duration),
    /// Without waiting.
    Try,
}

/// What a contender gets; `None` if a try finds the lock taken.
pub(crate) type Entered = Result<Option<Hold>, LockError>;

/// A contender of one kind.
#[derive(Clone)]
pub(crate) enum Contender {
    Mutex(Mutex),
    Plain(PlainMutex),
    Writer(RwLock),
    Reader(RwLock),
    Permits(Semaphore),
    Reentrant(ReentrantMutex, Owner),
    Both(MultiLock),
    Leader(Election),
    Latch(Election, Client),
}

impl Contender {
    pub(crate) async fn lock(&self) -> Result<Hold, LockError> {
        Ok(self.enter(How::Wait).await?.expect("waited for"))
    }

    pub(crate) async fn try_lock_for(&self, wait: Duration) -> Result<Hold, LockError> {
        Ok(self.enter(How::Within(wait)).await?.expect("waited for"))
    }

    pub(crate) async fn try_lock(&self) -> Entered {
        self.enter(How::Try).await
    }

    pub(crate) fn enter(&self, how: How) -> BoxFuture<'_, Entered> {
        /// Calls the method of a lock that asks in this way.
        macro_rules! ask {
            ($lock:ident, $wait:ident, $within:ident, $try:ident $(, $owner:ident)?) => {
                match how {
                    How::Wait => boxed($lock.$wait($($owner)?).await.map(Some)),
                    How::Within(wait) => boxed($lock.$within($($owner,)? wait).await.map(Some)),
                    How::Try => boxed($lock.$try($($owner)?).await),
                }
            };
        }
        Box::pin(async move {
            match self {
                Self::Mutex(it) => ask!(it, lock, try_lock_for, try_lock),
                Self::Plain(it) => ask!(it, lock, try_lock_for, try_lock),
                Self::Writer(it) => ask!(it, write, try_write_for, try_write),
                Self::Reader(it) => ask!(it, read, try_read_for, try_read),
                Self::Permits(it) => ask!(it, acquire, try_acquire_for, try_acquire),
                Self::Reentrant(it, Owner(me)) => ask!(it, lock, try_lock_for, try_lock, me),
                Self::Both(it) => ask!(it, lock, try_lock_for, try_lock),
                Self::Leader(it) => election::within(it, how, election::lead(it)).await,
                Self::Latch(it, client) => {
                    election::within(it, how, election::latch(it, client)).await
                }
            }
        })
    }
}

fn boxed(entered: Result<Option<impl Held + 'static>, LockError>) -> Entered {
    Ok(entered?.map(|held| Box::new(held) as Hold))
}

/// The owner of a reentrant mutex. Each contender is a separate one, also each clone.
pub(crate) struct Owner(String);

impl Owner {
    fn new() -> Self {
        static OWNERS: AtomicUsize = AtomicUsize::new(0);
        Self(OWNERS.fetch_add(1, Ordering::Relaxed).to_string())
    }
}

impl Clone for Owner {
    fn clone(&self) -> Self {
        Self::new()
    }
}

pub(crate) type Hold = Box<dyn Held>;

/// A hold of one kind.
pub(crate) trait Held: Send {
    /// Its nodes. The fencing token belongs to the first one.
    fn nodes(&self) -> Vec<String>;

    fn token(&self) -> FencingToken;

    /// Waits for the loss. Returns its cause if the kind reports one.
    fn lost(&self) -> BoxFuture<'static, Option<Loss>>;

    /// A view of each guard; none if the kind has no guards.
    fn views(&self) -> Vec<GuardView>;

    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), LockError>>;
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

            fn lost(&self) -> BoxFuture<'static, Option<Loss>> {
                let $it = self;
                Box::pin($lost)
            }

            fn views(&self) -> Vec<GuardView> {
                let $it = self;
                $guards.iter().map(|guard| guard.view()).collect()
            }

            fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), LockError>> {
                Box::pin(Self::release(*self))
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
