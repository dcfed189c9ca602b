//! Leader election: a queue, as for the locks. Its first contender is the leader.
//!
//! Not here: the queue (`queue`), the held leadership (`guard`).

use std::{fmt, time::Duration};

use bytes::Bytes;
use futures::future::{Either, select};
use lockkeeper_proto::path::PathError;
use lockkeeper_session::Client;
use tokio::sync::{oneshot, watch};

use crate::{
    error::{LockError, Loss},
    guard::{FencingToken, Guard, LockState},
    metrics::LockMetrics,
    participants::Participant,
    queue::lock_queue::LockQueue,
    queue::rank::Kind,
};

/// How long a latch waits after an error before it enters the election again. If a server refuses it (because of an
/// ACL, for instance), an immediate retry would be refused, too.
const PAUSE: Duration = Duration::from_secs(1);

/// An election: one of its contenders at a time is the leader.
///
/// Use [`lead`](Self::lead) to run some work as the leader, and [`latch`](Self::latch) to take part in the background.
///
/// Cheap to clone. Compatible with Curator's `LeaderLatch` on the same path. (Curator's `LeaderSelector` is a mutex:
/// use [`Mutex`](crate::Mutex) with it.)
#[derive(Clone, Debug)]
pub struct Election {
    queue: LockQueue,
}

impl Election {
    /// The election at this path. Sends nothing. The client makes the path when it first needs it.
    ///
    /// # Errors
    /// [`PathError`] for an invalid path.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        LockQueue::new(client, path, Kind::Latch).map(|queue| Self { queue })
    }

    /// The same election. The contender's node has `id` as its data, which others see in
    /// [`participants`](Self::participants).
    #[must_use]
    pub fn with_id(self, id: impl Into<Bytes>) -> Self {
        Self {
            queue: self.queue.with_data(id.into()),
        }
    }

    /// The path of the election.
    #[must_use]
    pub fn path(&self) -> &str {
        self.queue.path()
    }

    /// What this election has cost its users in this process, over all its clones.
    #[must_use]
    pub fn metrics(&self) -> LockMetrics {
        self.queue.metrics()
    }

    /// Waits until this contender is the leader, runs `work`, and resigns when the work is done.
    ///
    /// If the leadership can no longer be relied on, `work` is dropped at its current await. This happens before
    /// another contender can be the leader.
    ///
    /// # Errors
    /// Until this contender is the leader, as [`Mutex::lock`](crate::Mutex::lock). After that there is no error: the
    /// [`LeadOutcome`] says how the leadership ended.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work, and leaves the election.
    pub async fn lead<T>(
        &self,
        work: impl AsyncFnOnce(&Guard) -> T,
    ) -> Result<LeadOutcome<T>, LockError> {
        let guard = self.queue.lock().await?;
        let outcome = {
            let work = std::pin::pin!(work(&guard));
            let lost = std::pin::pin!(guard.lost());
            // The loss first: no work is done when it is known.
            match select(lost, work).await {
                Either::Left((why, _)) => Err(why),
                Either::Right((output, _)) => Ok(output),
            }
        };
        match outcome {
            Err(loss) => Ok(LeadOutcome {
                output: None,
                loss: Some(loss),
            }),
            Ok(output) => {
                let loss = match guard.release().await {
                    Ok(()) => None,
                    Err(LockError::Lost(loss)) => Some(loss),
                    // No server has said whether the leadership was held until now.
                    Err(_) => Some(Loss::Elapsed),
                };
                Ok(LeadOutcome {
                    output: Some(output),
                    loss,
                })
            }
        }
    }

    /// Takes part in the election in the background until the latch is dropped. After a loss of the leadership, the
    /// latch enters the election again. While another kind of lock is used at the path ([`LockError::OtherKind`]), the latch
    /// stays a follower and writes warnings to the log.
    ///
    /// The work runs in the client's own task, so the method may be called outside a runtime.
    pub fn latch(&self) -> Latch {
        let (leadership, receiver) = watch::channel(Leadership::Follower);
        let (stop, stopped) = oneshot::channel();
        let work = run_latch(self.queue.clone().detached(), leadership);
        self.queue.client().raw().run_in_background(async move {
            let (stopped, work) = (std::pin::pin!(stopped), std::pin::pin!(work));
            select(stopped, work).await;
        });
        Latch {
            leadership: receiver,
            client: self.queue.client().clone(),
            _stop: stop,
        }
    }

    /// The contenders in the order of the queue: first the leader, then those that wait. Their data are their ids.
    ///
    /// # Errors
    /// [`LockError::Session`] when a request fails.
    pub async fn participants(&self) -> Result<Vec<Participant>, LockError> {
        self.queue.participants().await
    }
}

/// How a leadership ended: the result of [`Election::lead`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeadOutcome<T> {
    /// The output of the work; `None` when the work was dropped because the leadership was lost.
    pub output: Option<T>,
    /// How the leadership was lost; `None` when it was held from the beginning of the work to its end.
    ///
    /// It is [`Loss::Elapsed`] when the work is done, and it is unknown whether the leadership was held until its end.
    pub loss: Option<Loss>,
}

/// Whether a latch is the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leadership {
    /// It is not: another contender is the leader, or none is.
    Follower,
    /// It is the leader, with this fencing token.
    Leader(FencingToken),
}

/// A contender of an election in the background. Made by [`Election::latch`]. Dropping it resigns.
#[must_use = "dropping the latch resigns"]
pub struct Latch {
    leadership: watch::Receiver<Leadership>,
    /// Keeps the session open.
    client: Client,
    _stop: oneshot::Sender<()>,
}

impl Latch {
    /// Whether this latch is the leader. Local: asks no server. It turns false before another contender can be the
    /// leader.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.token().is_some()
    }

    /// The fencing token of the leadership; `None` while this latch is not the leader. Local: asks no server.
    #[must_use]
    pub fn token(&self) -> Option<FencingToken> {
        match *self.leadership.borrow() {
            // The task that updates `leadership` may not have run yet, so the lease is checked here, too.
            Leadership::Leader(token) if self.client.lease().is_valid => Some(token),
            _ => None,
        }
    }

    /// A receiver of each change of the leadership.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }

    /// Waits until this latch is the leader, and returns the fencing token.
    ///
    /// # Errors
    /// [`LockError::Lost`] when the client is closed.
    ///
    /// # Cancel safety
    /// The future may be dropped, and the method called again. The latch stays in the election meanwhile.
    pub async fn elected(&self) -> Result<FencingToken, LockError> {
        let mut changes = self.changes();
        let leads = |now: &Leadership| matches!(now, Leadership::Leader(_));
        match changes.wait_for(leads).await.as_deref() {
            Ok(Leadership::Leader(token)) => Ok(*token),
            _ => Err(LockError::Lost(Loss::Closed)),
        }
    }
}

impl fmt::Debug for Latch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latch")
            .field("leadership", &*self.leadership.borrow())
            .finish_non_exhaustive()
    }
}

/// Enters the election, leads, and enters it again after each loss, until the client ends.
async fn run_latch(queue: LockQueue, leadership: watch::Sender<Leadership>) {
    loop {
        let guard = match queue.lock().await {
            Ok(guard) => guard,
            Err(_) if queue.client().is_closed() => return,
            Err(error) => {
                let path = queue.path();
                if matches!(error, LockError::OtherKind { .. }) {
                    tracing::warn!(path, %error, "no election here, another kind of lock is used at the path");
                } else {
                    tracing::debug!(path, %error, "could not enter the election, retrying after a pause");
                }
                queue.client().raw().sleep(PAUSE).await;
                continue;
            }
        };
        let mut snapshots = queue.client().snapshots();
        loop {
            leadership.send_replace(Leadership::Leader(guard.fencing_token()));
            let loss = guard.lost().await;
            leadership.send_replace(Leadership::Follower);
            tracing::info!(path = queue.path(), %loss, "leadership lost");
            // A lease that has ended may be renewed. Then the latch still leads.
            while guard.state() == LockState::Elapsed && snapshots.changed().await.is_ok() {}
            if !guard.is_valid() {
                break;
            }
        }
    }
}
