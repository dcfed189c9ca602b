//! What all kinds of lock share: a queue at a path, and the ways into it. The public kinds are thin
//! types around it.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use lockkeeper_proto::path::{self, PathError};
use lockkeeper_session::Client;

use super::{ticket::Ticket, waiter::Waiter};
use crate::{
    error::LockError,
    guard::{Guard, hold::Attempt},
    metrics::{Counters, LockMeter, LockMetrics, Recorder},
    node::directory::Directory,
    order::{
        crowd::{Crowd, Crowds},
        rank::{self, Kind},
    },
    participants::{Participant, children, participants},
    timeout::{timed_out, timeout},
};

/// A queue, and the role of its contenders.
#[derive(Clone)]
pub(crate) struct LockQueue {
    client: Client,
    directory: Arc<Directory>,
    kind: Kind,
    /// The other contenders of this client, if they may use each other's listings.
    crowd: Option<Arc<Crowd>>,
    recorder: Arc<Recorder>,
}

impl LockQueue {
    pub(crate) fn new(client: &Client, path: &str, kind: Kind) -> Result<Self, PathError> {
        path::check(path).map_err(|problem| PathError::new(path, problem))?;
        let directory = Directory::new(client, path, Bytes::new(), Arc::default());
        let counters = directory.counters.clone();
        let recorder = Arc::new(Recorder::of(client, &directory.path, kind.name(), counters));
        Ok(Self {
            client: client.without_deadline(),
            crowd: kind.is_plain_queue().then(|| {
                let crowds = client.raw().extension::<Crowds>();
                crowds.at(&directory.server_path, kind)
            }),
            directory: Arc::new(directory),
            kind,
            recorder,
        })
    }

    /// The same queue. Our nodes in it have these data.
    pub(crate) fn with_data(self, data: Bytes) -> Self {
        Self {
            directory: Arc::new(self.directory.with_data(data)),
            ..self
        }
    }

    /// The same queue. This meter counts its attempts and requests.
    pub(crate) fn with_meter(self, meter: &LockMeter) -> Self {
        Self {
            recorder: Arc::new(self.recorder.metered(meter)),
            ..self.requests_counted_by(meter.counters().clone())
        }
    }

    /// The same queue. These counters count its requests, but not its attempts.
    pub(crate) fn requests_counted_by(self, counters: Arc<Counters>) -> Self {
        Self {
            directory: Arc::new(self.directory.counted_by(counters)),
            ..self
        }
    }

    /// The same queue, which does not keep the session open.
    pub(crate) fn detached(self) -> Self {
        Self {
            client: self.client.raw().downgrade(),
            ..self
        }
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.directory.counters
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn path(&self) -> &str {
        &self.directory.path
    }

    /// In a box, so that the whole of it stands once in a program, and not in each future that
    /// waits for a lock.
    pub(crate) fn lock(&self) -> BoxFuture<'_, Result<Guard, LockError>> {
        Box::pin(async { self.granted(&mut None).await })
    }

    pub(crate) async fn lock_timeout(&self, wait: Duration) -> Result<Guard, LockError> {
        let mut ahead = None;
        let granted = timeout(&self.client, wait, Box::pin(self.granted(&mut ahead))).await;
        granted.unwrap_or_else(|| Err(timed_out(&self.client, self.path(), wait, ahead)))
    }

    pub(crate) async fn try_lock(&self) -> Result<Option<Guard>, LockError> {
        let attempt = Attempt::new(&self.recorder);
        let children = self.children().await?;
        if rank::is_contended(self.kind, children.iter().map(String::as_str)) {
            attempt.refused();
            return Ok(None);
        }
        // Only a listing says whether somebody is ahead: members of the crowd may have lost their
        // nodes.
        let waiter = self.waiter(None).await?;
        if waiter.ahead() > 0 {
            attempt.refused();
            return Ok(None);
        }
        let ticket = Ticket::<Guard>::new(waiter, attempt);
        ticket.granted(&mut None).await.map(Some)
    }

    /// Enters the queue for a caller that may wait later. If it is its turn already, a deletion of
    /// its node must be reported, too.
    pub(crate) async fn enqueue<G>(&self) -> Result<Ticket<G>, LockError> {
        let mut ticket = self.enter().await?;
        ticket.watch_own();
        Ok(ticket)
    }

    pub(crate) async fn enter<G>(&self) -> Result<Ticket<G>, LockError> {
        let attempt = Attempt::new(&self.recorder);
        let waiter = self.waiter(self.crowd.as_ref()).await?;
        if waiter.ahead() > 0 {
            attempt.contended();
        }
        Ok(Ticket::new(waiter, attempt))
    }

    pub(crate) fn metrics(&self) -> LockMetrics {
        self.recorder.counters.snapshot()
    }

    pub(crate) async fn participants(&self) -> Result<Vec<Participant>, LockError> {
        let names = rank::in_order(self.kind, self.children().await?);
        participants(&self.client, self.path(), names).await
    }

    /// The directory's children; none without a directory.
    async fn children(&self) -> Result<Vec<String>, LockError> {
        self.directory.count_listing();
        let children = children(&self.client, self.path()).await;
        children.map_err(|error| error.at(self.path()))
    }

    async fn waiter(&self, crowd: Option<&Arc<Crowd>>) -> Result<Waiter, LockError> {
        let directory = self.directory.clone();
        let entered = Waiter::enter(&self.client, directory, self.kind, crowd).await;
        entered.map_err(|error| error.at(self.path()))
    }

    /// Waits for the lock, and notes how many contenders are ahead.
    async fn granted(&self, ahead: &mut Option<usize>) -> Result<Guard, LockError> {
        let ticket = self.enter::<Guard>().await?;
        ticket.granted(ahead).await
    }
}

impl fmt::Debug for LockQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockQueue")
            .field("path", &self.path())
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}
