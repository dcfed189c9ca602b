//! The semaphore: a limited number of permits.
//!
//! It has Curator's layout. The directory `locks` is the queue of a mutex: it orders the
//! contenders. The first waiter of that queue creates its permits in the directory `leases`, and
//! counts the nodes there.
//!
//! Not here: how the first waiter gets its permits (`first_waiter`), the limit (`limit`).

use std::{
    sync::{Arc, atomic::AtomicI64},
    time::Duration,
};

use lockkeeper_proto::path::{self, PathError};
use lockkeeper_session::{Client, sync::BoxFuture};

use super::limit::{self, Limit};
use crate::{
    backoff::Rounds,
    error::LockError,
    guard::{Attempt, Guard},
    inspect::children,
    node::{BoxedNode, directory::Directory},
    order::{
        name::{self, Kind},
        rank,
    },
    queue::{
        lock_queue::{Finish, LockQueue, Ticket},
        timeout::timeout,
    },
};

/// A fair lock with a limited number of permits. A holder has one permit or several. Permits are
/// granted in the order of arrival.
///
/// Cheap to clone. Compatible with Curator's `InterProcessSemaphoreV2` on the same path.
///
/// # The limit
/// All users of a path must agree on the limit, or share it through a node
/// ([`with_shared_limit`](Self::with_shared_limit)). A limit that differs from that of the present
/// holders is refused ([`LockError::OtherLimit`]); Curator does not check it. A shared limit can be
/// changed while permits are held. A lower limit takes no permit away: it grants no further permit
/// until enough permits were released.
///
/// # Cost
/// Two round trips when a permit is free: one to become the first waiter of the queue, one for the
/// permit. The first use takes up to four more: it looks for other kinds of lock and for another
/// limit.
#[derive(Clone, Debug)]
pub struct Semaphore {
    pub(super) queue: LockQueue,
    pub(super) permits: Arc<Directory>,
    /// The last transaction that created the directory of the permits, or set its data, when this
    /// semaphore last looked at it and above it; 0 before.
    pub(super) looked_at: Arc<AtomicI64>,
    pub(super) limit: Limit,
}

impl Semaphore {
    /// The semaphore at this path, with `limit` permits. Sends nothing. The client makes the nodes
    /// when it first needs them.
    ///
    /// # Errors
    /// [`LockError::Session`] for an invalid path, [`LockError::OverLimit`] for a limit of 0, with
    /// which nobody would ever get a permit.
    pub fn new(client: &Client, path: &str, limit: usize) -> Result<Self, LockError> {
        if limit == 0 {
            return Err(LockError::OverLimit { asked: 1, limit });
        }
        Ok(Self::with_limit(client, path, Limit::Fixed(limit))?)
    }

    /// The semaphore at this path. The node `limit_path` has the limit.
    ///
    /// Call [`set_limit`](Self::set_limit) before the first use, in any client: it makes the node.
    /// Without the node, an attempt to get a permit fails with "no node".
    ///
    /// # Errors
    /// [`PathError`] for an invalid path.
    pub fn with_shared_limit(
        client: &Client,
        path: &str,
        limit_path: &str,
    ) -> Result<Self, PathError> {
        path::check(limit_path)?;
        Self::with_limit(client, path, Limit::Shared(limit_path.to_owned()))
    }

    fn with_limit(client: &Client, path: &str, limit: Limit) -> Result<Self, PathError> {
        let queue = Directory::new(client, path, Some(name::LOCKS), Kind::Semaphore)?;
        let mut permits = Directory::new(client, path, Some(name::LEASES), Kind::Semaphore)?;
        Arc::make_mut(&mut permits).about = limit.text();
        Ok(Self {
            queue: LockQueue::at(client, queue, Kind::Mutex),
            permits,
            looked_at: Arc::default(),
            limit,
        })
    }

    pub(super) fn client(&self) -> &Client {
        &self.queue.client
    }

    /// Waits for one permit.
    ///
    /// # Errors
    /// - As [`Mutex::lock`](crate::Mutex::lock).
    /// - [`LockError::OverLimit`] when a shared limit is 0.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time. The client then deletes its nodes, so that they block
    /// no other contender.
    pub async fn acquire(&self) -> Result<Guard, LockError> {
        one(self.acquire_many(1).await?)
    }

    /// Waits for several permits, and returns all of them together. With a `count` of 0 it returns
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
        let (attempt, mut rounds) = (Attempt::new(&self.permits), Rounds::default());
        loop {
            match self.acquired(&attempt, count, true).await {
                Ok(Some(nodes)) => return attempt.guards(nodes),
                // Who waits is not refused.
                Ok(None) => {}
                Err(error) => rounds.again(self.client(), error).await?,
            }
        }
    }

    /// Gets all of these permits. It `waits` for them, or it is a try, which is refused if some are
    /// not free.
    async fn acquired(
        &self,
        attempt: &Attempt,
        count: usize,
        waits: bool,
    ) -> Result<Option<Vec<BoxedNode>>, LockError> {
        if count == 0 {
            return Ok(Some(Vec::new()));
        }
        let acquired = async {
            // Checked before it waits: with too high a count it would wait for ever.
            self.limit.allow(count, &self.permits).await?;
            let place = if waits {
                Some(self.queue.turn(attempt, &mut None).await?)
            } else if self.available().await? < count {
                None
            } else {
                self.queue.try_turn().await?
            };
            match place {
                Some(place) => self.take_permits(place, count, attempt, waits).await,
                None => Ok(None),
            }
        };
        acquired.await.map_err(|error| error.at(self.path()))
    }

    /// Waits for one permit as [`acquire`](Self::acquire) does, but for at most `wait` in all.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`LockError::TimedOut`].
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire_for(&self, wait: Duration) -> Result<Guard, LockError> {
        one(self.try_acquire_many_for(1, wait).await?)
    }

    /// Waits for several permits as [`acquire_many`](Self::acquire_many) does, but for at most
    /// `wait` in all.
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many), and [`LockError::TimedOut`].
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire_many_for(
        &self,
        count: usize,
        wait: Duration,
    ) -> Result<Vec<Guard>, LockError> {
        let permits = Box::pin(self.acquire_many(count));
        timeout(self.client(), self.path(), wait, permits).await
    }

    /// Takes a permit if one is free and no contender waits; otherwise returns `None`. A try that
    /// finds no free permit writes nothing.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and as [`Mutex::try_lock`](crate::Mutex::try_lock): it is one
    /// attempt.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        let permits = self.try_acquire_many(1).await?;
        Ok(permits.and_then(|mut permits| permits.pop()))
    }

    /// Takes several permits if all of them are free and no contender waits; otherwise returns
    /// `None`. A try that finds too few free permits writes nothing.
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many) and [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire_many(&self, count: usize) -> Result<Option<Vec<Guard>>, LockError> {
        let tries = Self {
            queue: self.queue.for_try(),
            permits: self.permits.for_try(),
            ..self.clone()
        };
        let attempt = Attempt::new(&self.permits);
        match tries.acquired(&attempt, count, false).await? {
            Some(nodes) => attempt.guards(nodes).map(Some),
            None => Ok(attempt.refused()),
        }
    }

    /// Enters the queue, and returns a ticket as soon as the place in the queue is known.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire): a ticket is one place in the queue.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn enqueue(&self) -> Result<Ticket, LockError> {
        let semaphore = self.clone();
        let finish = Box::new(|place, attempt| {
            let acquired = async move {
                let nodes = semaphore.take_permits(place, 1, &attempt, true).await?;
                one(attempt.guards(nodes.unwrap_or_default())?)
            };
            Box::pin(acquired) as BoxFuture<'static, _>
        });
        self.queue.enqueue(Finish::Then(finish)).await
    }

    /// How many permits are free, as far as the server of this client knows.
    ///
    /// # Errors
    /// [`LockError::Session`] when a request fails, or the node of a shared limit does not exist.
    pub async fn available(&self) -> Result<usize, LockError> {
        let (limit, _) = self.limit.read(&self.permits).await?;
        let children = children(&self.permits.client, &self.permits.parent).await?;
        let taken = rank::permits(children.iter());
        Ok(limit.saturating_sub(taken))
    }

    /// Sets a shared limit, for all clients. Makes the node of the limit if it is missing, with the
    /// client's [default ACL](lockkeeper_session::Builder::default_acl).
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
            let path = self.path().to_owned();
            return Err(LockError::FixedLimit { path });
        };
        limit::set(self.client(), path, limit).await
    }
}

/// The only permit of a request for one.
fn one(mut permits: Vec<Guard>) -> Result<Guard, LockError> {
    let (asked, limit) = (1, 0);
    permits.pop().ok_or(LockError::OverLimit { asked, limit })
}
