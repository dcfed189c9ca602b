//! What all kinds of lock have in common: a line of waiters at a path, and the ways into it.
//!
//! The public kinds (`mutex`, `rw_lock`, ..) are thin names around [`Line`].

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
    directory::Directory,
    error::Error,
    guard::Guard,
    hold::Attempt,
    line::Place,
    metrics::{LockMetrics, Recorder, Traffic},
    participants::{Participant, participants},
    rank::{self, Kind},
};

/// A line of waiters, and as what we stand in it.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    client: Client,
    directory: Arc<Directory>,
    kind: Kind,
    recorder: Arc<Recorder>,
}

impl Line {
    pub(crate) fn new(client: &Client, path: &str, kind: Kind) -> Result<Self, PathError> {
        path::check(path).map_err(|problem| PathError::new(path, problem))?;
        let recorder = Arc::new(Recorder::of(path, kind.name(), Arc::default()));
        let directory = Directory::new(client, path, Bytes::new(), recorder.traffic.clone());
        Ok(Self {
            client: client.patient(),
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

    pub(crate) fn traffic(&self) -> &Arc<Traffic> {
        &self.directory.traffic
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn path(&self) -> &str {
        &self.directory.path
    }

    pub(crate) async fn lock(&self) -> Result<Guard, Error> {
        self.lock_looking(|_| {}).await
    }

    pub(crate) async fn lock_timeout(&self, wait: Duration) -> Result<Guard, Error> {
        const UNKNOWN: usize = usize::MAX;
        let ahead = AtomicUsize::new(UNKNOWN);
        let lock = self.lock_looking(|now| ahead.store(now, Ordering::Relaxed));
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
        let mut place = self.take_place().await?;
        if place.ahead() > 0 {
            attempt.refused();
            return Ok(None);
        }
        place.turn(|_| {}).await?;
        Guard::new(place.contender, attempt).map(Some)
    }

    /// Enters the line for somebody who may take his time until he waits: if it is our turn already, the end of our node is
    /// to be told, too.
    pub(crate) async fn enqueue<G>(&self) -> Result<Ticket<G>, Error> {
        let mut ticket = self.enter().await?;
        ticket.place.watch_own()?;
        Ok(ticket)
    }

    pub(crate) async fn enter<G>(&self) -> Result<Ticket<G>, Error> {
        let attempt = Attempt::new(&self.recorder);
        let place = self.take_place().await?;
        if place.ahead() > 0 {
            attempt.contended();
        }
        Ok(Ticket {
            place,
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

    async fn take_place(&self) -> Result<Place, Error> {
        Place::take(&self.client, self.directory.clone(), self.kind).await
    }

    async fn lock_looking(&self, looked: impl FnMut(usize)) -> Result<Guard, Error> {
        let mut ticket = self.enter::<Guard>().await?;
        ticket.place.turn(looked).await?;
        ticket.granted()
    }
}

/// A place in a line. Dropping it leaves the line.
#[must_use = "dropping the ticket leaves the line"]
pub struct Ticket<G = Guard> {
    place: Place,
    attempt: Attempt,
    guard: PhantomData<fn() -> G>,
}

impl<G: From<Guard>> Ticket<G> {
    /// How many contenders were ahead when last looked; 0 when it is our turn.
    #[must_use]
    pub fn position(&self) -> usize {
        self.place.ahead()
    }

    /// Our node in the line.
    #[must_use]
    pub fn path(&self) -> String {
        self.place.contender.path()
    }

    /// Waits until the lock is ours.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    /// Dropped, it leaves the line.
    pub async fn wait(mut self) -> Result<G, Error> {
        self.place.turn(|_| {}).await?;
        self.granted()
    }

    fn granted(self) -> Result<G, Error> {
        Guard::new(self.place.contender, self.attempt).map(G::from)
    }
}

impl<G> fmt::Debug for Ticket<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("path", &self.place.contender.path())
            .field("ahead", &self.place.ahead())
            .finish_non_exhaustive()
    }
}
