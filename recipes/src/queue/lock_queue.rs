//! What all kinds of lock with a queue share: the queue at a path, and the ways into it. The public
//! kinds are thin types around it.

use std::{fmt, sync::Arc, time::Duration};

use lockkeeper_proto::path::PathError;
use lockkeeper_session::{AsRaw, Client, sync::BoxFuture};

use super::{timeout::timeout, turn::Next, view::View, waiter::Waiter};
use crate::{
    backoff::Rounds,
    error::LockError,
    guard::{Attempt, Guard},
    inspect::children,
    node::{BoxedNode, directory::Directory, late::LateCreates},
    order::{name::Kind, rank},
};

/// A queue, and the role of its contenders.
#[derive(Clone)]
pub(crate) struct LockQueue {
    pub(crate) client: Client,
    pub(crate) directory: Arc<Directory>,
    kind: Kind,
    /// What the contenders of this client share, if they may use each other's listings.
    view: Option<Arc<View>>,
}

impl LockQueue {
    pub(crate) fn new(client: &Client, path: &str, kind: Kind) -> Result<Self, PathError> {
        let directory = Directory::new(client, path, None, kind)?;
        Ok(Self::at(client, directory, kind))
    }

    pub(crate) fn at(client: &Client, directory: Arc<Directory>, kind: Kind) -> Self {
        Self {
            client: client.without_deadline(),
            view: (kind.is_plain_queue()).then(|| View::at(client, &directory.server_path, kind)),
            directory,
            kind,
        }
    }

    /// The queue with a handle that does not keep the session open.
    pub(crate) fn detached(&self) -> Self {
        Self {
            client: self.client.raw().downgrade(),
            ..self.clone()
        }
    }

    /// In a box, so that the whole of it stands once in a program, and not in each future that
    /// waits for a lock.
    pub(crate) fn lock(&self) -> BoxFuture<'_, Result<Guard, LockError>> {
        Box::pin(async { self.granted(&mut None).await })
    }

    pub(crate) async fn try_lock_for(&self, wait: Duration) -> Result<Guard, LockError> {
        let mut ahead = None;
        let granted = Box::pin(self.granted(&mut ahead));
        let granted = timeout(&self.client, &self.directory.path, wait, granted).await;
        granted.map_err(|error| error.behind(ahead))
    }

    /// The queue for a contender that only tries.
    pub(crate) fn for_try(&self) -> Self {
        Self {
            directory: self.directory.for_try(),
            ..self.clone()
        }
    }

    pub(crate) async fn try_lock(&self) -> Result<Option<Guard>, LockError> {
        let attempt = Attempt::new(&self.directory);
        let node = self.for_try().try_turn().await;
        attempt.ended(node)
    }

    /// Enters the queue for a caller that may wait later, and then wants this of its node.
    pub(crate) async fn enqueue<G>(&self, finish: Finish<G>) -> Result<Ticket<G>, LockError> {
        let attempt = Attempt::new(&self.directory);
        let mut waiter = self.waiter(&self.view.clone().unwrap_or_default());
        let entered = async {
            self.enter(&mut waiter, &attempt).await?;
            if waiter.settle().await? != Next::Wait {
                waiter.watch_own()?;
            }
            Ok(())
        };
        let entered = entered.await;
        entered.map_err(|error: LockError| error.at(&self.directory.path))?;
        Ok(Ticket {
            waiter,
            attempt,
            finish,
        })
    }

    /// Waits for the lock, over outages too, and notes how many contenders are ahead.
    async fn granted(&self, ahead: &mut Option<usize>) -> Result<Guard, LockError> {
        let attempt = Attempt::new(&self.directory);
        let mut rounds = Rounds::default();
        loop {
            // The outcome does not outlive this statement: a future of a waiter is to be small.
            let again = match self.turn(&attempt, ahead).await {
                Ok(node) => return attempt.guard(node),
                Err(error) => rounds.again(&self.client, error.at(&self.directory.path)),
            };
            again.await?;
        }
    }

    /// Waits for the turn of an attempt, and returns its node.
    pub(crate) async fn turn(
        &self,
        attempt: &Attempt,
        ahead: &mut Option<usize>,
    ) -> Result<BoxedNode, LockError> {
        let mut waiter = self.waiter(&self.view.clone().unwrap_or_default());
        self.enter(&mut waiter, attempt).await?;
        waiter.turn(ahead).await?;
        Ok(waiter.node)
    }

    /// The node at its turn, if it is the turn of one who comes now.
    pub(crate) async fn try_turn(&self) -> Result<Option<BoxedNode>, LockError> {
        let children = children(&self.directory.client, &self.directory.parent).await?;
        LateCreates::listed(&self.directory, || children.iter());
        if rank::is_contended(self.kind, children.iter()) {
            return Ok(None);
        }
        // Alone: only a listing says whether somebody is ahead.
        let mut waiter = self.waiter(&Arc::default());
        waiter.enter().await?;
        if waiter.ahead > 0 {
            return Ok(None);
        }
        waiter.turn(&mut None).await?;
        Ok(Some(waiter.node))
    }

    fn waiter(&self, view: &Arc<View>) -> Waiter {
        Waiter::new(&self.client, &self.directory, self.kind, view)
    }

    async fn enter(&self, waiter: &mut Waiter, attempt: &Attempt) -> Result<(), LockError> {
        waiter.enter().await?;
        if waiter.ahead > 0 {
            attempt.contended();
        }
        Ok(())
    }
}

impl fmt::Debug for LockQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockQueue")
            .field("path", &self.directory.path)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// What the owner of a ticket waits for.
pub(crate) enum Finish<G> {
    /// A guard.
    Guard(fn(Guard) -> G),
    /// What this makes of the node whose turn has come.
    Then(Then<G>),
}

type Then<G> =
    Box<dyn FnOnce(BoxedNode, Attempt) -> BoxFuture<'static, Result<G, LockError>> + Send + Sync>;

/// A place in the queue of a lock. Dropping it leaves the queue.
#[must_use = "dropping the ticket leaves the queue"]
pub struct Ticket<G = Guard> {
    waiter: Waiter,
    attempt: Attempt,
    finish: Finish<G>,
}

impl<G> Ticket<G> {
    /// How many contenders were ahead when this client last looked: at a listing of the queue, or
    /// at its own contenders. 0 when it is our turn; for a semaphore, when it is our turn to take
    /// the next free permit.
    #[must_use]
    pub fn position(&self) -> usize {
        self.waiter.ahead
    }

    /// Waits until [`position`](Self::position) is another number, and returns it: 0 at once when it is
    /// our turn. The client does not look only to know the number, so it changes in steps.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use lockkeeper_recipes as lockkeeper;
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// use lockkeeper::Mutex;
    ///
    /// let mutex = Mutex::new(&client, "/locks/report")?;
    /// let mut ticket = mutex.enqueue().await?;
    /// while ticket.moved().await? > 0 {
    ///     println!("{} ahead", ticket.position());
    /// }
    /// let guard = ticket.wait().await?;
    /// # guard.release().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the place stays, and the method may be called again.
    pub async fn moved(&mut self) -> Result<usize, LockError> {
        let moved = Box::pin(self.waiter.moved()).await;
        match moved {
            Ok(()) => Ok(self.waiter.ahead),
            Err(error) => Err(error.at(&self.waiter.node.directory().path)),
        }
    }

    /// The path of our node in the queue.
    #[must_use]
    pub fn path(&self) -> String {
        self.waiter.node.path()
    }

    /// Waits until the lock is granted. The place is lost with its session, and never taken again.
    ///
    /// # Errors
    /// As [`Mutex::try_lock`](crate::Mutex::try_lock); for a semaphore as
    /// [`Semaphore::try_acquire`](crate::Semaphore::try_acquire).
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue.
    pub async fn wait(mut self) -> Result<G, LockError> {
        let directory = self.waiter.node.directory().clone();
        let granted = match self.waiter.turn(&mut None).await {
            Ok(()) => match self.finish {
                Finish::Guard(of) => self.attempt.guard(self.waiter.node).map(of),
                Finish::Then(then) => then(self.waiter.node, self.attempt).await,
            },
            Err(error) => Err(error),
        };
        granted.map_err(|error| error.at(&directory.path))
    }
}

impl<G> fmt::Debug for Ticket<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("path", &self.path())
            .field("ahead", &self.position())
            .finish_non_exhaustive()
    }
}
