//! Leader election: a queue, as for the locks. Its first contender is the leader.
//!
//! Not here: the queue (`queue`), the held leadership (`guard`).

use std::{fmt, future::Future, pin::pin, time::Duration};

use lockkeeper_proto::path::PathError;
use lockkeeper_session::{
    AsRaw, Changes, Client,
    sync::{
        changes::Sender,
        oneshot,
        select::{Either, select},
    },
};

use crate::{
    backoff::Rounds,
    error::{LockError, Loss},
    guard::{FencingToken, Guard, LockState},
    order::name::Kind,
    queue::lock_queue::LockQueue,
};

/// How long a latch waits after an error before it enters the election again. If a server refuses
/// it (because of an ACL, for instance), an immediate retry would be refused, too.
const PAUSE: Duration = Duration::from_secs(1);
/// How long [`Latch::elected`] gives the task of the latch, whose lease has ended or was renewed.
const SOON: Duration = Duration::from_millis(20);

/// An election: one of its contenders at a time is the leader.
///
/// - [`lead`](Self::lead) runs some work as the leader.
/// - [`lead_until`](Self::lead_until) does so in a program that may shut down meanwhile.
/// - [`elect`](Self::elect) returns a guard, as a lock does.
/// - [`latch`](Self::latch) takes part in the background.
///
/// [`inspect`](crate::inspect) shows who leads to a program that does not take part:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = lockkeeper_server::Server::start().await?;
/// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
/// # mod lockkeeper { pub use lockkeeper_recipes::Election; pub mod locks { pub use lockkeeper_recipes::{Kind, inspect}; } }
/// use lockkeeper::{Election, locks::{Kind, inspect}};
///
/// let election = Election::new(&client, "/leader")?.with_data("10.0.0.7:8080");
/// let leads = election.elect().await?;
/// let entries = inspect(&client, "/leader").await?;
/// let leader = entries.iter().find(|it| it.kind == Kind::Latch && it.holds);
/// let leader = leader.expect("a leader");
/// assert_eq!(leader.data.as_deref(), Some(&b"10.0.0.7:8080"[..]));
/// assert_eq!(leader.path, leads.path());
/// # Ok(()) }
/// ```
///
/// Cheap to clone. Compatible with Curator's `LeaderLatch` on the same path. (Curator's
/// `LeaderSelector` is a mutex: use [`Mutex`](crate::Mutex) with it.)
#[derive(Clone, Debug)]
pub struct Election {
    pub(super) queue: LockQueue,
}

impl Election {
    /// The election at this path. Sends nothing. The client makes the path when it first needs it.
    ///
    /// # Errors
    /// [`PathError`] for an invalid path.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        LockQueue::new(client, path, Kind::Latch).map(|queue| Self { queue })
    }

    /// Waits until this contender is the leader, runs `work`, and resigns when the work is done.
    ///
    /// If the leadership can no longer be relied on, `work` is dropped at its current await. This
    /// happens before another contender can be the leader. `Ok` says that the leadership was held
    /// from the beginning of the work to its end.
    ///
    /// # Errors
    /// As [`Mutex::with`](crate::Mutex::with).
    ///
    /// # Cancel safety
    /// Dropping the future drops the work, and leaves the election.
    pub async fn lead<T>(&self, work: impl AsyncFnOnce(&Guard) -> T) -> Result<T, LockError> {
        self.elect().await?.hold_during(work).await
    }

    /// Leads as [`lead`](Self::lead) does, for a program that is to shut down: leaves the election
    /// when `shutdown` completes while this contender waits. The result is `None` then, and `work`
    /// was not called. A `shutdown` that is complete from the beginning sends nothing.
    ///
    /// The output of `shutdown` is dropped at once. A leader finishes its work, for at most `limit`
    /// after the shutdown. That replaces a limit of
    /// its own that the work has set ([`Guard::limit_hold`]), and does not bound the release after the
    /// work. Work that does not end by itself needs a handle of its own to hear of the shutdown, as in
    /// the example.
    ///
    /// # Errors
    /// - As [`lead`](Self::lead).
    /// - [`LockError::Lost`] with [`Loss::Overdue`] when the work took longer than `limit` after the
    ///   shutdown: it was dropped, and the leadership given up.
    ///
    /// # Cancel safety
    /// As [`lead`](Self::lead).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # use lockkeeper_recipes as lockkeeper;
    /// use std::time::Duration;
    /// use lockkeeper::Election;
    /// use tokio::sync::watch;
    ///
    /// let stop = watch::Sender::new(false); // a signal handler sends `true`
    /// let (mut waiting, working) = (stop.subscribe(), stop.subscribe());
    /// # let one_round = move |round| { if round == 3 { stop.send_replace(true); } std::future::ready(()) };
    /// let election = Election::new(&client, "/leader")?;
    /// let led = tokio::spawn(async move {
    ///     let shutdown = waiting.wait_for(|stop| *stop);
    ///     let limit = Duration::from_secs(10);
    ///     let work = election.lead_until(shutdown, limit, async |_| {
    ///         let mut rounds = 0;
    ///         while !*working.borrow() {
    ///             rounds += 1;
    ///             one_round(rounds).await;
    ///         }
    ///         rounds
    ///     });
    ///     work.await
    /// });
    /// match led.await?? {
    ///     None => println!("told to stop before it led"),
    ///     Some(rounds) => assert_eq!(rounds, 3),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn lead_until<T>(
        &self,
        shutdown: impl Future,
        limit: Duration,
        work: impl AsyncFnOnce(&Guard) -> T,
    ) -> Result<Option<T>, LockError> {
        let mut shutdown = pin!(shutdown);
        let guard = match select(shutdown.as_mut(), pin!(self.elect())).await {
            Either::Left(_) => return Ok(None),
            Either::Right(elected) => elected?,
        };
        let led = guard.hold_during(async |guard| {
            let mut work = pin!(work(guard));
            // The output of the shutdown may be a lock, or not `Send`: it is dropped before the
            // next await.
            let done = match select(shutdown, work.as_mut()).await {
                Either::Left(_) => None,
                Either::Right(output) => Some(output),
            };
            if let Some(output) = done {
                return output;
            }
            guard.limit_hold(limit);
            work.await
        });
        led.await.map(Some)
    }

    /// Waits until this contender is the leader, and returns a guard, as
    /// [`Mutex::lock`](crate::Mutex::lock) does. To release or drop the guard is to resign.
    ///
    /// The caller watches for the loss by itself, with [`Guard::lost`]. [`lead`](Self::lead) does
    /// that for its work.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # use lockkeeper_recipes as lockkeeper;
    /// let election = lockkeeper::Election::new(&client, "/leader")?;
    /// let leader = election.elect().await?;
    /// assert!(leader.is_valid() && leader.fencing_token().get() > 0);
    /// leader.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn elect(&self) -> Result<Guard, LockError> {
        self.queue.lock().await
    }

    /// Waits for the leadership as [`elect`](Self::elect) does, but for at most `wait`.
    ///
    /// # Errors
    /// As [`elect`](Self::elect), and [`LockError::TimedOut`].
    ///
    /// # Cancel safety
    /// As [`elect`](Self::elect).
    pub async fn try_elect_for(&self, wait: Duration) -> Result<Guard, LockError> {
        self.queue.try_lock_for(wait).await
    }

    /// Takes part in the election in the background until the latch is dropped. After a loss of the
    /// leadership, the latch enters the election again. While another kind of lock is used at the
    /// path ([`LockError::OtherKind`]), the latch stays a follower and writes warnings to the log.
    ///
    /// The work runs in the client's own task, so the method may be called outside a runtime.
    pub fn latch(&self) -> Latch {
        let leadership = Follower(Sender::new(None));
        let changes = leadership.0.changes();
        let (stop, stopped) = oneshot::channel();
        let queue = self.queue.detached();
        self.queue.client.raw().run_in_background(async move {
            select(stopped, pin!(run_latch(queue, &leadership))).await;
        });
        Latch {
            election: self.clone(),
            leadership: changes,
            _stop: stop,
        }
    }
}

/// A contender of an election in the background. Made by [`Election::latch`]. Dropping it resigns.
#[must_use = "dropping the latch resigns"]
pub struct Latch {
    /// Keeps the session open.
    election: Election,
    leadership: Changes<Option<FencingToken>>,
    _stop: oneshot::Sender<()>,
}

impl Latch {
    /// Whether this latch is the leader. Local: asks no server. It turns false before another
    /// contender can be the leader.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.token().is_some()
    }

    /// The fencing token of the leadership; `None` while this latch is not the leader. Local: asks
    /// no server.
    #[must_use]
    pub fn token(&self) -> Option<FencingToken> {
        // The task that updates `leadership` may not have run yet, so the lease is checked here, too.
        let token = self.leadership.latest();
        token.filter(|_| self.election.queue.client.lease().is_valid)
    }

    /// A receiver of each change of the leadership: the fencing token, or `None` while this latch is
    /// not the leader.
    #[must_use]
    pub fn changes(&self) -> Changes<Option<FencingToken>> {
        self.leadership.clone()
    }

    /// Waits until this latch is the leader, and returns the fencing token.
    ///
    /// # Errors
    /// [`LockError::Lost`] when the client is closed.
    ///
    /// # Cancel safety
    /// The future may be dropped, and the method called again. The latch stays in the election
    /// meanwhile.
    pub async fn elected(&self) -> Result<FencingToken, LockError> {
        let (mut changes, client) = (self.changes(), &self.election.queue.client);
        // The task that updates `leadership` may not have run yet, or not have ended.
        while changes.wait_for(Option::is_some).await.is_ok() && !client.is_closed() {
            if let Some(token) = self.token() {
                return Ok(token);
            }
            client.raw().sleep(SOON).await;
        }
        Err(LockError::lost(Loss::Closed).at(self.election.path()))
    }
}

impl fmt::Debug for Latch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latch")
            .field("leadership", &self.leadership.latest())
            .finish_non_exhaustive()
    }
}

/// What a latch tells its users. The client drops it when it ends: the latch follows then.
struct Follower(Sender<Option<FencingToken>>);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.set(None, true);
    }
}

/// Enters the election, leads, and enters it again after each loss, until the client ends.
async fn run_latch(queue: LockQueue, Follower(leadership): &Follower) {
    let (client, path) = (&queue.client, &*queue.directory.path);
    let mut rounds = Rounds::default();
    loop {
        rounds.pause(client).await;
        let guard = match queue.lock().await {
            Ok(guard) => guard,
            Err(_) if client.is_closed() => return,
            Err(error) => {
                if matches!(error, LockError::OtherKind { .. }) {
                    tracing::warn!(path, %error, "no election here, another kind of lock is used at the path");
                } else {
                    tracing::debug!(path, %error, "could not enter the election, retrying after a pause");
                }
                client.raw().sleep(PAUSE).await;
                continue;
            }
        };
        loop {
            leadership.set(Some(guard.fencing_token()), false);
            let loss = guard.lost().await;
            leadership.set(None, false);
            let why = loss.map(tracing::field::display);
            tracing::info!(path, loss = why, "leadership lost");
            // A lease that has ended may be renewed. Then the latch still leads.
            while guard.state() == LockState::Elapsed && guard.lease_renewed().await {}
            if !guard.is_valid() {
                break;
            }
        }
    }
}
