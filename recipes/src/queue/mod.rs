//! What all kinds of lock have in common: a line of waiters at a path, and the ways into it.
//!
//! The public kinds (`mutex`, `rw_lock`, ..) are thin names around [`LockQueue`].

pub mod rank;
pub(crate) mod waiter;

use std::{
    fmt,
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use lockkeeper_proto::path::{self, PathError};
use lockkeeper_session::Client;
use tokio::time::timeout;

use crate::{
    error::Error,
    guard::Guard,
    guard::hold::Attempt,
    metrics::{LockMetrics, Recorder, RequestCounters},
    node::directory::Directory,
    participants::{Participant, participants},
    queue::rank::Kind,
    queue::waiter::Waiter,
};

/// A line of waiters, and as what we stand in it.
#[derive(Clone, Debug)]
pub(crate) struct LockQueue {
    client: Client,
    directory: Arc<Directory>,
    kind: Kind,
    recorder: Arc<Recorder>,
}

impl LockQueue {
    pub(crate) fn new(client: &Client, path: &str, kind: Kind) -> Result<Self, PathError> {
        path::check(path).map_err(|problem| PathError::new(path, problem))?;
        let recorder = Arc::new(Recorder::of(path, kind.name(), Arc::default()));
        let directory = Directory::new(client, path, Bytes::new(), recorder.counters.clone());
        Ok(Self {
            client: client.without_deadline(),
            directory: Arc::new(directory),
            kind,
            recorder,
        })
    }

    pub(crate) fn with_data(self, data: Bytes) -> Self {
        Self {
            directory: Arc::new(self.directory.with_data(data)),
            ..self
        }
    }

    /// The same line, which does not keep the session open.
    pub(crate) fn detached(self) -> Self {
        Self {
            client: self.client.downgrade(),
            ..self
        }
    }

    pub(crate) fn counters(&self) -> &Arc<RequestCounters> {
        &self.directory.counters
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn path(&self) -> &str {
        &self.directory.path
    }

    pub(crate) async fn lock(&self) -> Result<Guard, Error> {
        self.lock_reporting(|_| {}).await
    }

    pub(crate) async fn lock_timeout(&self, wait: Duration) -> Result<Guard, Error> {
        const UNKNOWN: usize = usize::MAX;
        let ahead = AtomicUsize::new(UNKNOWN);
        let lock = self.lock_reporting(|now| ahead.store(now, Ordering::Relaxed));
        if let Ok(result) = timeout(wait, lock).await {
            return result;
        }
        let ahead = Some(ahead.into_inner()).filter(|ahead| *ahead != UNKNOWN);
        Err(Error::TimedOut {
            waited: wait,
            ahead,
        })
    }

    pub(crate) async fn try_lock(&self) -> Result<Option<Guard>, Error> {
        let attempt = Attempt::new(&self.recorder);
        let children = self.children().await?;
        if rank::is_contended(self.kind, children.iter().map(String::as_str)) {
            attempt.refused();
            return Ok(None);
        }
        let mut waiter = self.enter_queue().await?;
        if waiter.ahead() > 0 {
            attempt.refused();
            return Ok(None);
        }
        waiter.wait_for_turn(|_| {}).await?;
        Guard::new(waiter.lock_node, attempt).map(Some)
    }

    /// Enters the line for somebody who may take his time until he waits: if it is our turn already, the end of our node is
    /// to be told, too.
    pub(crate) async fn enqueue<G>(&self) -> Result<Ticket<G>, Error> {
        let mut ticket = self.enter().await?;
        ticket.waiter.watch_own()?;
        Ok(ticket)
    }

    pub(crate) async fn enter<G>(&self) -> Result<Ticket<G>, Error> {
        let attempt = Attempt::new(&self.recorder);
        let waiter = self.enter_queue().await?;
        if waiter.ahead() > 0 {
            attempt.contended();
        }
        Ok(Ticket {
            waiter,
            attempt,
            guard: PhantomData,
        })
    }

    pub(crate) fn metrics(&self) -> LockMetrics {
        self.recorder.snapshot()
    }

    pub(crate) async fn participants(&self) -> Result<Vec<Participant>, Error> {
        let names = rank::in_order(self.kind, self.children().await?);
        participants(&self.client, self.path(), names).await
    }

    /// The directory's children; none when there is no directory.
    async fn children(&self) -> Result<Vec<String>, Error> {
        self.directory.count_listing();
        match self.client.get_children(self.path()).await {
            Err(error) if error.is_no_node() => Ok(Vec::new()),
            children => Ok(children?),
        }
    }

    async fn enter_queue(&self) -> Result<Waiter, Error> {
        Waiter::take(&self.client, self.directory.clone(), self.kind).await
    }

    async fn lock_reporting(&self, report: impl FnMut(usize)) -> Result<Guard, Error> {
        let mut ticket = self.enter::<Guard>().await?;
        ticket.waiter.wait_for_turn(report).await?;
        ticket.granted()
    }
}

/// A waiter in a line. Dropping it leaves the line.
#[must_use = "dropping the ticket leaves the line"]
pub struct Ticket<G = Guard> {
    waiter: Waiter,
    attempt: Attempt,
    guard: PhantomData<fn() -> G>,
}

impl<G: From<Guard>> Ticket<G> {
    /// How many contenders were ahead when last report; 0 when it is our turn.
    #[must_use]
    pub fn position(&self) -> usize {
        self.waiter.ahead()
    }

    /// Our node in the line.
    #[must_use]
    pub fn path(&self) -> String {
        self.waiter.lock_node.path()
    }

    /// Waits until the lock is ours.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    /// Dropped, it leaves the line.
    pub async fn wait(mut self) -> Result<G, Error> {
        self.waiter.wait_for_turn(|_| {}).await?;
        self.granted()
    }

    fn granted(self) -> Result<G, Error> {
        Guard::new(self.waiter.lock_node, self.attempt).map(G::from)
    }
}

impl<G> fmt::Debug for Ticket<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("path", &self.waiter.lock_node.path())
            .field("ahead", &self.waiter.ahead())
            .finish_non_exhaustive()
    }
}
