//! Leader election, on the same line of waiters as the locks.

use std::{fmt, time::Duration};

use bytes::Bytes;
use futures::future::{Either, select};
use lockkeeper_proto::path::PathError;
use lockkeeper_session::Client;
use tokio::sync::{oneshot, watch};

use crate::{
    error::{Error, Loss},
    guard::{FencingToken, Guard, LockState},
    metrics::LockMetrics,
    participants::Participant,
    queue::lock_queue::LockQueue,
    queue::rank::Kind,
};

/// How long a candidate that was refused waits before it stands again. A refusal (by an ACL, say) is not cured by haste.
const PAUSE: Duration = Duration::from_secs(1);

/// An election of one leader among those who stand for it.
///
/// It is compatible with Curator's `LeaderLatch` on the same path. (Curator's `LeaderSelector` is a mutex: use
/// [`Mutex`](crate::Mutex) with it.)
#[derive(Clone, Debug)]
pub struct Election {
    queue: LockQueue,
}

impl Election {
    /// The election at this path. Nothing is sent; the path is made when it is first needed.
    ///
    /// # Errors
    /// [`PathError`] for a path that breaks a rule.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        LockQueue::new(client, path, Kind::Latch).map(|queue| Self { queue })
    }

    /// The same election, in which we stand as `id`: what others see of us.
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

    /// Waits until we lead, runs `work` while we do, and resigns when it is done. Work is dropped, where it stands, as soon
    /// as the leadership cannot be relied on any more: before anybody else can lead.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock), before we lead. Afterwards the outcome tells.
    ///
    /// # Cancel safety
    /// Dropped at any time, we do not stand, or lead, any more.
    pub async fn lead<T>(
        &self,
        work: impl AsyncFnOnce(&Guard) -> T,
    ) -> Result<LeadOutcome<T>, Error> {
        let guard = self.queue.lock().await?;
        let outcome = {
            let work = std::pin::pin!(work(&guard));
            let lost = std::pin::pin!(guard.lost());
            match select(work, lost).await {
                Either::Left((output, _)) => Ok(output),
                Either::Right((why, _)) => Err(why),
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
                    Err(Error::Lost(loss)) => Some(loss),
                    // The server cannot say; the last word that there was is that of the lease.
                    Err(_) => Some(Loss::Elapsed),
                };
                Ok(LeadOutcome {
                    output: Some(output),
                    loss,
                })
            }
        }
    }

    /// Stands in the background until the latch is dropped, again and again: whoever loses the lead stands anew.
    ///
    /// It runs in the client's task, and may be called outside a runtime.
    pub fn latch(&self) -> Latch {
        let (leadership, receiver) = watch::channel(Leadership::Follower);
        let (stop, stopped) = oneshot::channel();
        let standing = run_latch(self.queue.clone().detached(), leadership);
        self.queue.client().raw().run_in_background(async move {
            let (stopped, standing) = (std::pin::pin!(stopped), std::pin::pin!(standing));
            select(stopped, standing).await;
        });
        Latch {
            leadership: receiver,
            client: self.queue.client().clone(),
            _stop: stop,
        }
    }

    /// Who leads, first, and who else stands, in order. Their data are their ids.
    ///
    /// # Errors
    /// [`Error::Session`].
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        self.queue.participants().await
    }
}

/// What came of having been the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeadOutcome<T> {
    /// What the work came to; `None` when it was dropped because the lead was lost.
    pub output: Option<T>,
    /// How the lead was lost; `None` when we led from the beginning of the work to its end.
    pub loss: Option<Loss>,
}

/// Whether we lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leadership {
    /// Somebody else does, or nobody.
    Follower,
    /// We do, with this token.
    Leader(FencingToken),
}

/// Stands for an election in the background. Dropping it resigns.
#[must_use = "dropping the latch resigns"]
pub struct Latch {
    leadership: watch::Receiver<Leadership>,
    /// Keeps the session open.
    client: Client,
    _stop: oneshot::Sender<()>,
}

impl Latch {
    /// Whether we lead. Local; turns to false before anybody else can lead.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.token().is_some()
    }

    /// The fencing token of our lead; `None` while we do not lead.
    #[must_use]
    pub fn token(&self) -> Option<FencingToken> {
        match *self.leadership.borrow() {
            // The lease is looked at, too: the task that follows it may not have run yet.
            Leadership::Leader(token) if self.client.lease().is_valid => Some(token),
            _ => None,
        }
    }

    /// Follows whether we lead.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }

    /// Waits until we lead.
    ///
    /// # Errors
    /// [`Error::Lost`] when the client is closed.
    ///
    /// # Cancel safety
    /// It may be dropped and called again; we stand meanwhile.
    pub async fn elected(&self) -> Result<FencingToken, Error> {
        let mut changes = self.changes();
        let leads = |now: &Leadership| matches!(now, Leadership::Leader(_));
        match changes.wait_for(leads).await.as_deref() {
            Ok(Leadership::Leader(token)) => Ok(*token),
            _ => Err(Error::Lost(Loss::Closed)),
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

/// Stands, leads, and stands again, until the client ends.
async fn run_latch(queue: LockQueue, leadership: watch::Sender<Leadership>) {
    loop {
        let guard = match queue.lock().await {
            Ok(guard) => guard,
            Err(_) if queue.client().is_closed() => return,
            Err(error) => {
                tracing::debug!(path = queue.path(), %error, "not standing for the election");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let mut snapshots = queue.client().snapshots();
        loop {
            leadership.send_replace(Leadership::Leader(guard.fencing_token()));
            let loss = guard.lost().await;
            leadership.send_replace(Leadership::Follower);
            tracing::info!(path = queue.path(), %loss, "lead lost");
            // A lease that has run out may turn out not to have been lost.
            while guard.state() == LockState::Elapsed && snapshots.changed().await.is_ok() {}
            if !guard.is_valid() {
                break;
            }
        }
    }
}
