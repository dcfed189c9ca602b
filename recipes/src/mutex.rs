//! The fair mutex.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use lockkeeper_proto::path::{self, PathError};
use lockkeeper_session::{Client, Error as SessionError};
use tokio::time::timeout;

use crate::{
    contender::Directory,
    error::Error,
    guard::MutexGuard,
    line::Place,
    rank::{self, Kind},
};

/// A lock that one contender holds at a time, in the order in which they came; not reentrant.
///
/// It is compatible with Curator's `InterProcessMutex` and go-zk's `Lock` on the same path, in both directions.
///
/// Cheap to clone. Each `lock` is a contender of its own, also among tasks of one client.
///
/// # Cost
/// Uncontended, one round trip: the node is created and the line listed in one write. A waiter watches with one request
/// more, and is granted the lock by the event that its predecessor is gone. Releasing is one delete.
#[derive(Clone, Debug)]
pub struct Mutex {
    client: Client,
    directory: Arc<Directory>,
}

impl Mutex {
    /// The mutex at this path. Nothing is sent; the path is made when it is first needed, as containers, which the
    /// server removes when they stay empty.
    ///
    /// # Errors
    /// [`PathError`] for a path that breaks a rule.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        path::check(path).map_err(|problem| PathError::new(path, problem))?;
        let directory = Arc::new(Directory::new(client, path, Bytes::new()));
        Ok(Self {
            client: client.clone(),
            directory,
        })
    }

    /// The same mutex, whose nodes hold `data`: who the contender is, for people who look.
    #[must_use]
    pub fn with_data(self, data: impl Into<Bytes>) -> Self {
        let directory = Arc::new(Directory::new(
            &self.client,
            &self.directory.path,
            data.into(),
        ));
        Self { directory, ..self }
    }

    /// The path of the mutex.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.directory.path
    }

    /// Waits until the lock is ours.
    ///
    /// Connections that are lost meanwhile cost nothing but time: the place in the line is kept.
    ///
    /// # Errors
    /// [`Error::Lost`] when the session expires or somebody deletes the node while it waits; [`Error::Session`] when no
    /// server is reached or one refuses; [`Error::SequenceExhausted`].
    ///
    /// # Cancel safety
    /// Dropped at any time, it leaves no node behind and holds nobody up.
    pub async fn lock(&self) -> Result<MutexGuard, Error> {
        self.lock_looking(|_| {}).await
    }

    /// As [`lock`](Self::lock), for at most `wait`: one deadline for everything, from the first request to the grant.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and [`Error::TimedOut`].
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn lock_timeout(&self, wait: Duration) -> Result<MutexGuard, Error> {
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

    /// Takes the lock if nobody has it or waits for it.
    ///
    /// It looks before it creates anything: a refused try costs one read and writes nothing.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn try_lock(&self) -> Result<Option<MutexGuard>, Error> {
        match self.client.get_children(self.path()).await {
            Ok(children)
                if rank::is_contended(Kind::Mutex, children.iter().map(String::as_str)) =>
            {
                return Ok(None);
            }
            Ok(_) => {}
            Err(error) if error.is_no_node() => {}
            Err(error) => return Err(Error::of_session(error)),
        }
        let mut place = self.take_place().await?;
        if place.ahead() > 0 {
            return Ok(None);
        }
        place.turn(|_| {}).await?;
        MutexGuard::new(place).map(Some)
    }

    /// Enters the line and returns once the place in it is known.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn enqueue(&self) -> Result<Ticket, Error> {
        Ok(Ticket {
            place: self.take_place().await?,
        })
    }

    async fn take_place(&self) -> Result<Place, Error> {
        Place::take(&self.client, self.directory.clone(), Kind::Mutex).await
    }

    async fn lock_looking(&self, looked: impl FnMut(usize)) -> Result<MutexGuard, Error> {
        let mut place = self.take_place().await?;
        place.turn(looked).await?;
        MutexGuard::new(place)
    }
}

/// A place in the line of a mutex. Dropping it leaves the line.
#[derive(Debug)]
#[must_use = "dropping the ticket leaves the line"]
pub struct Ticket {
    place: Place,
}

impl Ticket {
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
    /// As [`Mutex::lock`].
    ///
    /// # Cancel safety
    /// Dropped, it leaves the line.
    pub async fn wait(mut self) -> Result<MutexGuard, Error> {
        self.place.turn(|_| {}).await?;
        MutexGuard::new(self.place)
    }
}

impl From<SessionError> for Error {
    fn from(error: SessionError) -> Self {
        Self::of_session(error)
    }
}
