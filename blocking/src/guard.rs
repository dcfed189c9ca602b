//! The guards of held locks, and the tickets of waiters.
//!
//! A guard that is dropped waits for its release, for a limited time (`Held`). What the guards have in common is made by one
//! macro, so that each has it as methods of its own.

use std::{
    ops::Deref,
    time::{Duration, Instant},
};

use lockkeeper_recipes::{self as recipes, FencingToken, LockError, LockState, Loss};
use lockkeeper_session::OpResult;

use crate::{
    Client, GuardedTransaction, Pending,
    host::DROP_WAITS,
    methods::{call, gets, session, waits, wrapped},
    wait,
};

session!(Guard, WriteGuard, ReentrantGuard);
wrapped!(
    recipes::Guard => Guard,
    recipes::WriteGuard => WriteGuard,
    recipes::ReentrantGuard => ReentrantGuard,
    recipes::SemaphoreTicket => SemaphoreTicket
);

/// A guard of the async locks.
pub(crate) trait Release {
    fn release(self) -> impl Future<Output = Result<(), LockError>>;
}

/// Implements [`Release`] for guards, which all have the method.
macro_rules! release {
    ($($guard:ident),*) => {$(
        impl Release for recipes::$guard {
            fn release(self) -> impl Future<Output = Result<(), LockError>> {
                Self::release(self)
            }
        }
    )*};
}

release!(Guard, WriteGuard, ReentrantGuard, MultiGuard);

/// A guard that is released when it is dropped, and waits for that.
#[derive(Debug)]
struct Held<G: Release>(Option<G>);

impl<G: Release> Held<G> {
    fn new(guard: G) -> Self {
        Self(Some(guard))
    }

    #[allow(clippy::expect_used, reason = "only `into_inner` and `drop` take it")]
    fn into_inner(mut self) -> G {
        self.0.take().expect("a guard that is not released")
    }
}

impl<G: Release> Deref for Held<G> {
    type Target = G;

    #[allow(clippy::expect_used, reason = "only `into_inner` and `drop` take it")]
    fn deref(&self) -> &G {
        self.0.as_ref().expect("a guard that is not released")
    }
}

/// On a thread of a tokio runtime, and when the time is over, the future is dropped: then the client releases the lock in its
/// own task.
impl<G: Release> Drop for Held<G> {
    fn drop(&mut self) {
        if let Some(guard) = self.0.take() {
            let _ = wait::block_for(DROP_WAITS, guard.release());
        }
    }
}

/// The methods that all guards of one lock have.
macro_rules! guard {
    ($guard:ident) => {
        impl $guard {
            fn new(guard: recipes::$guard, client: &Client) -> Self {
                Self {
                    inner: Held::new(guard),
                    client: client.clone(),
                }
            }

            gets! { "lockkeeper_recipes::Guard":
                /// The number with which a resource can refuse former holders.
                fn fencing_token() -> FencingToken;
                /// The path of the lock node.
                fn path() -> String;
                /// How sure the lock is. Local: asks no server.
                fn state() -> LockState;
                /// Whether no other client can hold the lock now. Local: asks no server.
                fn is_valid() -> bool;
                /// The instant until which no other client can get the lock; `None` when it is lost.
                fn valid_until() -> Option<Instant>;
                /// How long the lock has been held.
                fn held_for() -> Duration;
                /// How many more contenders the lock's directory can number.
                fn headroom() -> u32;
            }

            waits! { "lockkeeper_recipes::Guard":
                /// Asks the servers whether the lock is held.
                fn confirm() -> Result<(), LockError>;
            }

            /// The client whose session holds the lock.
            #[must_use]
            pub fn client(&self) -> &Client {
                &self.client
            }

            /// The loss of the lock, to wait for on this or another thread. It does not borrow the guard.
            ///
            /// It ends with [`Loss::Deleted`] when the guard is released.
            /// See the async [`lost`](lockkeeper_recipes::Guard::lost).
            pub fn lost(&self) -> Pending<Loss> {
                Pending::new(self.inner.lost())
            }

            /// The request of another client to release the lock, to wait for on this or another thread.
            ///
            /// It never ends once the lock is lost. See the async [`revoked`](lockkeeper_recipes::Guard::revoked).
            pub fn revoked(&self) -> Pending<()> {
                Pending::new(self.inner.revoked())
            }

            /// Gives the lock up if it is still held after `limit`, counted from now.
            ///
            /// See the async [`limit_hold`](lockkeeper_recipes::Guard::limit_hold).
            pub fn limit_hold(&self, limit: Duration) {
                self.inner.limit_hold(limit);
            }

            /// Starts a transaction that is applied only if the lock is still held.
            ///
            /// See the async [`transaction`](lockkeeper_recipes::Guard::transaction).
            #[must_use]
            pub fn transaction(&self) -> GuardedTransaction<'_> {
                let inner = self.inner.transaction();
                GuardedTransaction { inner }
            }

            /// Releases the lock, and waits until the servers have deleted its node.
            ///
            #[doc = concat!("See the async [`release`](lockkeeper_recipes::", stringify!($guard), "::release).")]
            ///
            /// # Errors
            /// As the async method. On a thread of a tokio runtime
            /// [`InsideRuntime`](lockkeeper_session::Error::InsideRuntime): the client releases the lock in the background
            /// then.
            pub fn release(self) -> Result<(), LockError> {
                let Self { inner, client } = self;
                call(&client, inner.into_inner().release())
            }
        }
    };
}

/// The method of the guards that release a lock for certain.
macro_rules! release_with {
    ($($guard:ident),*) => {$(
        impl $guard {
            /// Writes what `build` adds, and releases the lock, in one transaction.
            ///
            #[doc = concat!("See the async [`release_with`](lockkeeper_recipes::", stringify!($guard), "::release_with).")]
            ///
            /// # Errors
            /// As the async method, and as [`release`](Self::release).
            pub fn release_with(
                self,
                build: impl FnOnce(GuardedTransaction<'_>) -> GuardedTransaction<'_>,
            ) -> Result<Vec<OpResult>, LockError> {
                let guard = self.inner.into_inner();
                wait::block_on(
                    guard.release_with(|inner| build(GuardedTransaction { inner }).inner),
                )?
            }
        }
    )*};
}

/// A held lock. Dropping the guard releases the lock, and waits for that for at most one second.
///
/// See the async [`Guard`](lockkeeper_recipes::Guard).
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    inner: Held<recipes::Guard>,
    client: Client,
}

/// A held write lock. Dropping the guard releases the lock, and waits for that for at most one second.
///
/// See the async [`WriteGuard`](lockkeeper_recipes::WriteGuard).
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
pub struct WriteGuard {
    inner: Held<recipes::WriteGuard>,
    client: Client,
}

/// One of the guards of an owner. Dropping the last one releases the lock, and waits for that for
/// at most one second.
///
/// See the async [`ReentrantGuard`](lockkeeper_recipes::ReentrantGuard).
#[derive(Debug)]
#[must_use = "dropping the last guard of the owner releases the lock"]
pub struct ReentrantGuard {
    inner: Held<recipes::ReentrantGuard>,
    client: Client,
}

guard!(Guard);
guard!(WriteGuard);
guard!(ReentrantGuard);

release_with!(Guard, WriteGuard, MultiGuard);

impl WriteGuard {
    /// Becomes a reader.
    ///
    /// See the async [`downgrade`](lockkeeper_recipes::WriteGuard::downgrade).
    ///
    /// # Errors
    /// As the async method, and as [`release`](Self::release).
    pub fn downgrade(self) -> Result<Guard, LockError> {
        let Self { inner, client } = self;
        call(&client, inner.into_inner().downgrade())
    }

    /// The same hold as a plain [`Guard`], which cannot become a reader.
    pub fn into_guard(self) -> Guard {
        let Self { inner, client } = self;
        Guard::new(inner.into_inner().into_guard(), &client)
    }
}

impl ReentrantGuard {
    gets! { "lockkeeper_recipes::ReentrantGuard":
        /// How many guards the owner has.
        fn holds() -> usize;
    }
}

impl Clone for ReentrantGuard {
    fn clone(&self) -> Self {
        Self::new((*self.inner).clone(), &self.client)
    }
}

/// The guard of a [`MultiLock`](crate::MultiLock). Dropping it releases the locks, the last one first, and waits
/// for that for at most one second.
///
/// See the async [`MultiGuard`](lockkeeper_recipes::MultiGuard).
#[derive(Debug)]
#[must_use = "dropping the guard releases the locks"]
pub struct MultiGuard {
    inner: Held<recipes::MultiGuard>,
    /// The clients of the locks: kept open.
    _clients: Vec<Client>,
}

impl MultiGuard {
    pub(crate) fn new(guard: recipes::MultiGuard, clients: &[Client]) -> Self {
        Self {
            inner: Held::new(guard),
            _clients: clients.to_vec(),
        }
    }

    /// The async guards of the locks, in the order of their paths: for their tokens and paths.
    #[must_use = "the guards stay in the multi-guard"]
    pub fn guards(&self) -> &[recipes::Guard] {
        self.inner.guards()
    }

    gets! { "lockkeeper_recipes::MultiGuard":
        /// Whether no other client can hold any of the locks now. Local: asks no server.
        fn is_valid() -> bool;
        /// The worst state of the locks. Local: asks no server.
        fn state() -> LockState;
        /// The earliest instant at which another client can get one of the locks; `None` when one is lost.
        fn valid_until() -> Option<Instant>;
    }

    /// The first loss of one of the locks, to wait for on this or another thread. It does not borrow the guard.
    ///
    /// See the async [`lost`](lockkeeper_recipes::MultiGuard::lost).
    pub fn lost(&self) -> Pending<Loss> {
        Pending::new(self.inner.lost())
    }

    /// Starts a transaction that is applied only if all the locks are still held.
    ///
    /// See the async [`transaction`](lockkeeper_recipes::MultiGuard::transaction).
    #[must_use]
    pub fn transaction(&self) -> GuardedTransaction<'_> {
        let inner = self.inner.transaction();
        GuardedTransaction { inner }
    }

    /// Releases all the locks, the last one first, and waits until the servers have deleted their nodes.
    ///
    /// See the async [`release`](lockkeeper_recipes::MultiGuard::release).
    ///
    /// # Errors
    /// As the async method, and as [`Guard::release`].
    pub fn release(self) -> Result<(), LockError> {
        wait::block_on(self.inner.into_inner().release())?
    }
}

/// A place in the queue of a lock. Dropping it leaves the queue, in the background.
///
/// The type parameter is the async guard. See the async [`Ticket`](lockkeeper_recipes::Ticket).
#[derive(Debug)]
#[must_use = "dropping the ticket leaves the queue"]
pub struct Ticket<G = recipes::Guard> {
    inner: recipes::Ticket<G>,
    client: Client,
}

impl<G> Ticket<G> {
    fn new(inner: recipes::Ticket<G>, client: &Client) -> Self {
        let client = client.clone();
        Self { inner, client }
    }

    gets! { "lockkeeper_recipes::Ticket":
        /// How many contenders were ahead when the queue was last listed; 0 when it is our turn.
        fn position() -> usize;
        /// The path of our node in the queue.
        fn path() -> String;
    }
}

impl<G> crate::methods::Outcome for recipes::Ticket<G> {
    type Blocking = Ticket<G>;

    fn of(self, client: &Client) -> Ticket<G> {
        Ticket::new(self, client)
    }
}

/// Waiting in a queue.
macro_rules! ticket {
    ($($ticket:ty => $guard:ident),*) => {$(
        impl $ticket {
            /// Waits until the lock is granted.
            ///
            /// See the async [`wait`](lockkeeper_recipes::Ticket::wait).
            ///
            /// # Errors
            /// As the async method, and [`InsideRuntime`](lockkeeper_session::Error::InsideRuntime): then the place in the
            /// queue is given up.
            pub fn wait(self) -> Result<$guard, LockError> {
                call(&self.client, self.inner.wait())
            }
        }
    )*};
}

ticket!(Ticket<recipes::Guard> => Guard, Ticket<recipes::WriteGuard> => WriteGuard, SemaphoreTicket => Guard);

/// A place in the queue of a semaphore. Dropping it leaves the queue, in the background.
///
/// See the async [`SemaphoreTicket`](lockkeeper_recipes::SemaphoreTicket).
#[derive(Debug)]
#[must_use = "dropping the ticket leaves the queue"]
pub struct SemaphoreTicket {
    inner: recipes::SemaphoreTicket,
    client: Client,
}

impl SemaphoreTicket {
    fn new(inner: recipes::SemaphoreTicket, client: &Client) -> Self {
        let client = client.clone();
        Self { inner, client }
    }

    gets! { "lockkeeper_recipes::SemaphoreTicket":
        /// How many contenders were ahead when the queue was last listed; 0 when it is our turn.
        fn position() -> usize;
        /// The path of our node in the queue.
        fn path() -> String;
    }
}
