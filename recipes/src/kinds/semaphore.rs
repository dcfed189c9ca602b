//! The semaphore: a limited number of leases.
//!
//! It has Curator's layout. The directory `locks` is the queue of a mutex: it orders the
//! contenders. The first waiter of that queue creates its leases in the directory `leases`, and
//! counts the nodes there.
//!
//! Not here: how the first waiter gets its leases (`first_waiter`), the limit (`limit`).

use std::{
    sync::{Arc, atomic::AtomicI64},
    time::Duration,
};

use bytes::Bytes;
use lockkeeper_proto::path::{self, PathError};
use lockkeeper_session::Client;

use super::limit::{self, Limit};
use crate::{
    error::LockError,
    guard::{Guard, hold::Attempt},
    metrics::{Counters, LockMeter, LockMetrics, Recorder},
    node::directory::Directory,
    order::{
        name,
        rank::{self, Kind},
    },
    participants::{Participant, children, participants, remove_pending_lease},
    queue::{lock_queue::LockQueue, ticket::Ticket},
    timeout::{timed_out, timeout},
};

/// A fair lock with a limited number of leases. A holder has one lease or several. Leases are
/// granted in the order of arrival.
///
/// Cheap to clone. Compatible with Curator's `InterProcessSemaphoreV2` on the same path.
///
/// # The limit
/// All users of a path must agree on the limit, or share it through a node
/// ([`with_shared_limit`](Self::with_shared_limit)). A shared limit can be changed while leases are
/// held. A lower limit takes no lease away: it grants no further lease until enough leases were
/// released.
///
/// # Cost
/// Two round trips when a lease is free: one to become the first waiter of the queue, one for the
/// lease.
#[derive(Clone, Debug)]
pub struct Semaphore {
    pub(super) client: Client,
    pub(super) path: String,
    pub(super) queue: LockQueue,
    pub(super) leases: Arc<Directory>,
    /// The transaction that created the directory of the leases when this semaphore last looked
    /// above it; 0 before.
    pub(super) looked_at: Arc<AtomicI64>,
    pub(super) limit: Limit,
    pub(super) recorder: Arc<Recorder>,
}

impl Semaphore {
    /// The semaphore at this path, with `limit` leases. Sends nothing. The client makes the nodes
    /// when it first needs them.
    ///
    /// # Errors
    /// [`PathError`] for an invalid path.
    pub fn new(client: &Client, path: &str, limit: usize) -> Result<Self, PathError> {
        Self::with_limit(client, path, Limit::Fixed(limit))
    }

    /// The semaphore at this path. The node `limit_path` has the limit.
    ///
    /// Call [`set_limit`](Self::set_limit) before the first use, in any client: it makes the node.
    /// Without the node, an attempt to get a lease fails with "no node".
    ///
    /// # Errors
    /// [`PathError`] for an invalid path.
    pub fn with_shared_limit(
        client: &Client,
        path: &str,
        limit_path: &str,
    ) -> Result<Self, PathError> {
        path::check(limit_path).map_err(|problem| PathError::new(limit_path, problem))?;
        Self::with_limit(client, path, Limit::Shared(limit_path.to_owned()))
    }

    fn with_limit(client: &Client, path: &str, limit: Limit) -> Result<Self, PathError> {
        path::check(path).map_err(|problem| PathError::new(path, problem))?;
        let counters: Arc<Counters> = Arc::default();
        let queue = LockQueue::new(client, &path::join(path, name::LOCKS), Kind::Mutex)?;
        let queue = queue.requests_counted_by(counters.clone());
        let leases = path::join(path, name::LEASES);
        let leases = Directory::new(client, &leases, Bytes::new(), counters.clone());
        let recorder = Recorder::of(client, &path.into(), "semaphore", counters);
        let (client, path) = (client.without_deadline(), path.to_owned());
        Ok(Self {
            client,
            path,
            queue,
            leases: Arc::new(leases),
            looked_at: Arc::default(),
            limit,
            recorder: Arc::new(recorder),
        })
    }

    /// The same semaphore. Its nodes have `data`, so that people who look at a node see who the
    /// contender is.
    #[must_use]
    pub fn with_data(self, data: impl Into<Bytes>) -> Self {
        let data = data.into();
        Self {
            leases: Arc::new(self.leases.with_data(data.clone())),
            queue: self.queue.with_data(data),
            ..self
        }
    }

    /// The same semaphore, but this meter counts: see [`LockMeter`](crate::LockMeter).
    #[must_use]
    pub fn with_meter(self, meter: &LockMeter) -> Self {
        Self {
            leases: Arc::new(self.leases.counted_by(meter.counters().clone())),
            queue: self.queue.requests_counted_by(meter.counters().clone()),
            recorder: Arc::new(self.recorder.metered(meter)),
            ..self
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The path of the semaphore.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What this semaphore has cost its users in this process, over all its clones.
    #[must_use]
    pub fn metrics(&self) -> LockMetrics {
        self.recorder.counters.snapshot()
    }

    /// Waits for one lease.
    ///
    /// # Errors
    /// - As [`Mutex::lock`](crate::Mutex::lock).
    /// - [`LockError::OverLimit`] when the limit is 0.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time. The client then deletes its nodes, so that they block
    /// no other contender.
    pub async fn acquire(&self) -> Result<Guard, LockError> {
        one(self.acquire_many(1).await?)
    }

    /// Waits for several leases, and returns all of them together. With a `count` of 0 it returns
    /// at once.
    ///
    /// # Errors
    /// - As [`acquire`](Self::acquire).
    /// - [`LockError::OverLimit`] when `count` is higher than the limit: at once, or when a shared
    ///   limit is lowered while this contender waits. Others behind it go on.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_many(&self, count: usize) -> Result<Vec<Guard>, LockError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let acquired = self.acquired(count).await;
        acquired.map_err(|error| error.at(&self.path))
    }

    async fn acquired(&self, count: usize) -> Result<Vec<Guard>, LockError> {
        // Checked before it waits: with too high a count it would wait for ever.
        self.limit
            .allow(&self.client, count, self.queue.counters())
            .await?;
        let attempt = Attempt::new(&self.recorder);
        let place = self.queue.enter::<Guard>().await?;
        if place.position() > 0 {
            attempt.contended();
        }
        self.lease(place.wait().await?, count, attempt, true).await
    }

    /// As [`acquire`](Self::acquire), for at most `wait`: one deadline for everything.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`LockError::TimedOut`].
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, wait: Duration) -> Result<Guard, LockError> {
        one(self.acquire_many_timeout(1, wait).await?)
    }

    /// As [`acquire_many`](Self::acquire_many), for at most `wait`: one deadline for everything.
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many), and [`LockError::TimedOut`].
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_many_timeout(
        &self,
        count: usize,
        wait: Duration,
    ) -> Result<Vec<Guard>, LockError> {
        let leases = timeout(&self.client, wait, Box::pin(self.acquire_many(count))).await;
        leases.unwrap_or_else(|| Err(timed_out(&self.client, self.path(), wait, None)))
    }

    /// Takes a lease if one is free and no contender waits; otherwise returns `None`. A try that
    /// finds no free lease writes nothing.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        self.try_acquire_many(1).await?.map(one).transpose()
    }

    /// Takes several leases if all of them are free and no contender waits; otherwise returns
    /// `None`. A try that finds too few free leases writes nothing.
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire_many(&self, count: usize) -> Result<Option<Vec<Guard>>, LockError> {
        if count == 0 {
            return Ok(Some(Vec::new()));
        }
        self.tried(count)
            .await
            .map_err(|error| error.at(&self.path))
    }

    async fn tried(&self, count: usize) -> Result<Option<Vec<Guard>>, LockError> {
        self.limit
            .allow(&self.client, count, self.queue.counters())
            .await?;
        let attempt = Attempt::new(&self.recorder);
        if self.available().await? < count {
            attempt.refused();
            return Ok(None);
        }
        let Some(place) = self.queue.try_lock().await? else {
            attempt.refused();
            return Ok(None);
        };
        // We are the first waiter, so no other contender can take a lease now. Some may have been
        // taken since the first look.
        if self.available().await? < count {
            attempt.refused();
            return Ok(None);
        }
        let leases = self.lease(place, count, attempt, false).await?;
        Ok((!leases.is_empty()).then_some(leases))
    }

    /// Enters the queue, and returns a ticket as soon as the place in the queue is known.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn enqueue(&self) -> Result<SemaphoreTicket, LockError> {
        let attempt = Attempt::new(&self.recorder);
        let ticket = self.queue.enqueue().await?;
        Ok(SemaphoreTicket {
            semaphore: self.clone(),
            ticket,
            attempt,
        })
    }

    /// How many leases are free, as far as the server of this client knows.
    ///
    /// # Errors
    /// [`LockError::Session`] when a request fails, or the node of a shared limit does not exist.
    pub async fn available(&self) -> Result<usize, LockError> {
        let (limit, _) = self.limit.read(&self.client, self.queue.counters()).await?;
        self.leases.count_listing();
        let children = children(&self.client, &self.leases.path).await?;
        let taken = rank::leases(children.iter().map(String::as_str));
        Ok(limit.saturating_sub(taken.count()))
    }

    /// Sets a shared limit, for all clients. Makes the node of the limit if it is missing.
    ///
    /// # Errors
    /// - [`LockError::FixedLimit`] when the limit of this semaphore is not shared.
    /// - [`LockError::OverLimit`] for a limit above 2^31-1.
    /// - [`LockError::Session`] when a request fails. The limit may have been set: see
    ///   [`lockkeeper_session::Error::effect`].
    ///
    /// # Cancel safety
    /// Once polled, the limit may be set, whether the future is awaited or dropped.
    pub async fn set_limit(&self, limit: usize) -> Result<(), LockError> {
        let Limit::Shared(path) = &self.limit else {
            let path = self.path.clone();
            return Err(LockError::FixedLimit { path });
        };
        limit::set(&self.client, path, limit, self.queue.counters()).await
    }

    /// The holders of leases. A holder of several leases appears once for each.
    ///
    /// # Errors
    /// [`LockError::Session`] when a request fails.
    pub async fn holders(&self) -> Result<Vec<Participant>, LockError> {
        let children = children(&self.client, &self.leases.path).await?;
        let leases = rank::leases(children.iter().map(String::as_str));
        let names = leases.map(str::to_owned).collect();
        let mut holders = participants(&self.client, &self.leases.path, names).await?;
        if let Some(first) = self.waiters().await?.first() {
            remove_pending_lease(&mut holders, first);
        }
        Ok(holders)
    }

    /// The waiters, in the order of the queue. The first one may be about to get its lease.
    ///
    /// # Errors
    /// [`LockError::Session`] when a request fails.
    pub async fn waiters(&self) -> Result<Vec<Participant>, LockError> {
        self.queue.participants().await
    }
}

/// The only lease of a request for one.
fn one(mut leases: Vec<Guard>) -> Result<Guard, LockError> {
    leases
        .pop()
        .ok_or(LockError::OverLimit { asked: 1, limit: 0 })
}

/// A place in the queue of a semaphore. Dropping it leaves the queue.
#[derive(Debug)]
#[must_use = "dropping the ticket leaves the queue"]
pub struct SemaphoreTicket {
    semaphore: Semaphore,
    ticket: Ticket,
    attempt: Attempt,
}

impl SemaphoreTicket {
    /// How many contenders were ahead when the queue was last listed; 0 for the first waiter.
    #[must_use]
    pub fn position(&self) -> usize {
        self.ticket.position()
    }

    /// The path of our node in the queue.
    #[must_use]
    pub fn path(&self) -> String {
        self.ticket.path()
    }

    /// Waits for one lease.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue.
    pub async fn wait(self) -> Result<Guard, LockError> {
        let semaphore = &self.semaphore;
        let leased = async {
            let place = self.ticket.wait().await?;
            one(semaphore.lease(place, 1, self.attempt, true).await?)
        };
        leased.await.map_err(|error| error.at(&semaphore.path))
    }
}
