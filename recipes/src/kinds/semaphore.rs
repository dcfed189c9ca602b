//! The semaphore: a limited number of leases.
//!
//! It has Curator's layout. The directory `locks` is the queue of a mutex: it orders the contenders. The first waiter of that
//! queue creates its leases in the directory `leases`, and counts the nodes there.
//!
//! Not here: what the first waiter does next (`lease_turn`).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::{Either, select};
use lockkeeper_proto::{
    CreateMode, Response, Version,
    path::{self, PathError},
};
use lockkeeper_session::{Client, Error as SessionError, Watcher};
use tokio::time::timeout;

use super::lease_turn::{LeaseTurn, Next};
use crate::{
    error::{Error, Loss},
    guard::{Guard, hold::Attempt},
    metrics::{LockMetrics, Recorder},
    node::{directory::Directory, identity::Naming, lock_node::LockNode, name},
    participants::{Participant, participants},
    queue::{
        lock_queue::LockQueue,
        rank::{self, Kind},
        ticket::Ticket,
        turn::Facts,
    },
};

/// A lock that so many holders share, each with one lease or several, in the order in which they came.
///
/// It is compatible with Curator's `InterProcessSemaphoreV2` on the same path. All users of a path must agree on the limit,
/// or share it through a node ([`with_shared_limit`](Self::with_shared_limit)), which can then be changed while leases
/// are held: a lower limit takes no lease away, it lets nobody in until enough have come back.
///
/// Cheap to clone.
///
/// # Cost
/// Two round trips when a lease is free: one for the head of the line, one for the lease.
#[derive(Clone, Debug)]
pub struct Semaphore {
    client: Client,
    path: String,
    queue: LockQueue,
    leases: Arc<Directory>,
    limit: Limit,
    recorder: Arc<Recorder>,
}

#[derive(Clone, Debug)]
enum Limit {
    Fixed(usize),
    /// A node whose data are the limit, as Curator's `SharedCount` writes it: four bytes, big-endian.
    Shared(String),
}

impl Semaphore {
    /// The semaphore at this path, with `limit` leases. Nothing is sent; nodes are made when they are first needed.
    ///
    /// # Errors
    /// [`PathError`] for a path that breaks a rule.
    pub fn new(client: &Client, path: &str, limit: usize) -> Result<Self, PathError> {
        Self::with_limit(client, path, Limit::Fixed(limit))
    }

    /// The semaphore at this path, whose limit is kept in the node `limit_path`: see [`set_limit`](Self::set_limit), which
    /// somebody has to call first: until then whoever wants a lease is told that there is no such node.
    ///
    /// # Errors
    /// [`PathError`] for a path that breaks a rule.
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
        let queue = LockQueue::new(client, &path::join(path, name::LOCKS), Kind::Mutex)?;
        let counters = queue.counters().clone();
        let leases = path::join(path, name::LEASES);
        let leases = Directory::new(client, &leases, Bytes::new(), counters.clone());
        let recorder = Recorder::of(path, "semaphore", counters);
        let (client, path) = (client.without_deadline(), path.to_owned());
        Ok(Self {
            client,
            path,
            queue,
            leases: Arc::new(leases),
            limit,
            recorder: Arc::new(recorder),
        })
    }

    /// The same semaphore, whose nodes hold `data`: who the contender is, for people who look.
    #[must_use]
    pub fn with_data(self, data: impl Into<Bytes>) -> Self {
        let data = data.into();
        Self {
            leases: Arc::new(self.leases.with_data(data.clone())),
            queue: self.queue.with_data(data),
            ..self
        }
    }

    /// The path of the semaphore.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What this semaphore has cost its users in this process, over all its clones.
    #[must_use]
    pub fn metrics(&self) -> LockMetrics {
        self.recorder.snapshot()
    }

    /// Waits for one lease.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock); [`Error::OverLimit`] when a fixed limit is 0.
    ///
    /// # Cancel safety
    /// Dropped at any time, it leaves no node behind and holds nobody up.
    pub async fn acquire(&self) -> Result<Guard, Error> {
        one(self.acquire_many(1).await?)
    }

    /// Waits for several leases, all or none. Of none it is none at once.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); [`Error::OverLimit`] for more than a fixed limit.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_many(&self, count: usize) -> Result<Vec<Guard>, Error> {
        if count == 0 {
            return Ok(Vec::new());
        }
        // Before it waits: nobody would ever give it so many.
        self.allow(count)?;
        let attempt = Attempt::new(&self.recorder);
        let place = self.queue.enter::<Guard>().await?;
        if place.position() > 0 {
            attempt.contended();
        }
        self.lease(place.wait().await?, count, attempt).await
    }

    /// As [`acquire`](Self::acquire), for at most `wait`: one deadline for everything.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`Error::TimedOut`].
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, wait: Duration) -> Result<Guard, Error> {
        one(self.acquire_many_timeout(1, wait).await?)
    }

    /// As [`acquire_many`](Self::acquire_many), for at most `wait`: one deadline for everything.
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many), and [`Error::TimedOut`].
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_many_timeout(
        &self,
        count: usize,
        wait: Duration,
    ) -> Result<Vec<Guard>, Error> {
        match timeout(wait, self.acquire_many(count)).await {
            Ok(acquired) => acquired,
            Err(_) => Err(Error::TimedOut {
                waited: wait,
                ahead: None,
            }),
        }
    }

    /// Takes a lease if one is free and nobody waits. A refused try writes nothing.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>, Error> {
        self.try_acquire_many(1).await?.map(one).transpose()
    }

    /// Takes several leases if they are free and nobody waits, all or none. A refused try writes nothing.
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire_many(&self, count: usize) -> Result<Option<Vec<Guard>>, Error> {
        if count == 0 {
            return Ok(Some(Vec::new()));
        }
        self.allow(count)?;
        let attempt = Attempt::new(&self.recorder);
        if self.available().await? < count {
            attempt.refused();
            return Ok(None);
        }
        let Some(place) = self.queue.try_lock().await? else {
            attempt.refused();
            return Ok(None);
        };
        // Nobody else can take one now, but leases may have been taken since.
        if self.available().await? < count {
            attempt.refused();
            return Ok(None);
        }
        self.lease(place, count, attempt).await.map(Some)
    }

    /// Enters the line and returns once the place in it is known.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn enqueue(&self) -> Result<SemaphoreTicket, Error> {
        let attempt = Attempt::new(&self.recorder);
        let ticket = self.queue.enqueue().await?;
        Ok(SemaphoreTicket {
            semaphore: self.clone(),
            ticket,
            attempt,
        })
    }

    /// How many leases are free, as this client's server knows it.
    ///
    /// # Errors
    /// [`Error::Session`].
    pub async fn available(&self) -> Result<usize, Error> {
        let (limit, _) = self.read_limit().await?;
        self.leases.count_listing();
        let taken = match self.client.get_children(&self.leases.path).await {
            Err(error) if error.is_no_node() => 0,
            children => rank::leases(children?.iter().map(String::as_str)).count(),
        };
        Ok(limit.saturating_sub(taken))
    }

    /// Sets a limit that is shared through a node; it holds for everybody at once. Makes the node if it is missing.
    ///
    /// # Errors
    /// [`Error::FixedLimit`] where it is not shared; [`Error::OverLimit`] for one above 2^31-1; [`Error::Session`].
    pub async fn set_limit(&self, limit: usize) -> Result<(), Error> {
        let Limit::Shared(path) = &self.limit else {
            let path = self.path.clone();
            return Err(Error::FixedLimit { path });
        };
        let count = i32::try_from(limit).map_err(|_| Error::OverLimit {
            asked: limit,
            limit: i32::MAX.unsigned_abs() as usize,
        })?;
        let data = Bytes::copy_from_slice(&count.to_be_bytes());
        loop {
            match self.client.set_data(path, data.clone(), Version::ANY).await {
                Err(error) if error.is_no_node() => {}
                Err(error) => return Err(error.into()),
                Ok(_) => return Ok(()),
            }
            let create = self
                .client
                .create(path, data.clone(), CreateMode::Persistent);
            match create.await {
                // Somebody else has made it meanwhile, with another limit.
                Err(error) if error.is_node_exists() => {}
                Err(error) => return Err(error.into()),
                Ok(_) => return Ok(()),
            }
        }
    }

    /// Who holds leases.
    ///
    /// # Errors
    /// [`Error::Session`].
    pub async fn holders(&self) -> Result<Vec<Participant>, Error> {
        let children = match self.client.get_children(&self.leases.path).await {
            Err(error) if error.is_no_node() => Vec::new(),
            children => children?,
        };
        let leases = rank::leases(children.iter().map(String::as_str));
        let names = leases.map(str::to_owned).collect();
        participants(&self.client, &self.leases.path, names).await
    }

    /// Who waits, in order; the first one of them may be just about to get its lease.
    ///
    /// # Errors
    /// [`Error::Session`].
    pub async fn waiters(&self) -> Result<Vec<Participant>, Error> {
        self.queue.participants().await
    }

    /// Creates leases, as the first waiter of the queue, and waits until they are within the limit. Then it leaves the queue.
    async fn lease(
        &self,
        place: Guard,
        count: usize,
        attempt: Attempt,
    ) -> Result<Vec<Guard>, Error> {
        self.allow(count)?;
        let (mut nodes, first) = self.create_leases(count).await?;
        let is_of_place = |node: &LockNode| {
            let node = node.node();
            node.is_none_or(|node| node.tag.session_id == place.session_id())
        };
        if !nodes.iter().all(is_of_place) {
            // The place in the queue has gone with its session, and another waiter may be the first one by now.
            return Err(Error::Lost(Loss::Expired));
        }
        let (mut turn, mut leases, mut changed) = (LeaseTurn::default(), Vec::new(), None);
        if let Some(first) = first {
            leases = first;
            turn.listed(false);
        }
        let mut limit_changed = None;
        loop {
            match turn.next(&facts(&nodes)) {
                Err(loss) => return Err(gone(&mut nodes, &leases).unwrap_or(Error::Lost(loss))),
                Ok(Next::Grant) => break,
                Ok(Next::List) => match self.list_leases().await {
                    Err(error) if error.is_transient() => {}
                    // An operator deleted the directory. Our leases are gone with it.
                    Err(error) if error.is_no_node() => {
                        leases.clear();
                        turn.listed(false);
                    }
                    listed => {
                        let watcher;
                        (leases, watcher) = listed?;
                        changed = Some(watcher);
                        turn.listed(true);
                    }
                },
                Ok(Next::ReadLimit) => {
                    let limit;
                    (limit, limit_changed) = self.read_limit().await?;
                    let own = nodes.iter().map(LockNode::name);
                    if let Err(loss) = turn.counted(leases.iter().map(String::as_str), own, limit) {
                        return Err(gone(&mut nodes, &leases).unwrap_or(Error::Lost(loss)));
                    }
                }
                Ok(Next::Wait) => {
                    if let Some(changed) = changed.take() {
                        wait_for_change(&place, changed, limit_changed.take()).await?;
                    }
                    turn.changed();
                }
            }
        }
        drop((changed, limit_changed, place));
        let mut attempts = vec![attempt];
        attempts.resize_with(nodes.len(), || Attempt::new(&self.recorder));
        let granted = nodes.into_iter().zip(attempts);
        granted
            .map(|(node, attempt)| Guard::new(node, attempt))
            .collect()
    }

    /// Creates leases, all of them before it waits for the first reply. Returns them with the listing behind the last create,
    /// which shows all of them, if there is one. That listing sets no watch.
    async fn create_leases(
        &self,
        count: usize,
    ) -> Result<(Vec<LockNode>, Option<Vec<String>>), Error> {
        let mut nodes = Vec::with_capacity(count);
        for _ in 0..count {
            let naming = Naming::Sequential(name::LEASE);
            let mut node = LockNode::new(&self.client, self.leases.clone(), naming);
            node.begin().await;
            nodes.push(node);
        }
        let mut listing = None;
        for node in &mut nodes {
            node.create().await?;
            listing = node.take_listing();
        }
        let Some(listing) = listing else {
            return Ok((nodes, None));
        };
        match listing.await {
            Ok(Response::GetChildren(list)) => Ok((nodes, Some(list.children))),
            Err(error) if !(error.is_transient() || error.is_no_node()) => Err(error.into()),
            _ => Ok((nodes, None)),
        }
    }

    /// More leases than a fixed limit are never to be had.
    fn allow(&self, count: usize) -> Result<(), Error> {
        match self.limit {
            Limit::Fixed(limit) if count > limit => Err(Error::OverLimit {
                asked: count,
                limit,
            }),
            _ => Ok(()),
        }
    }

    /// The leases now, and what tells of their next change.
    async fn list_leases(&self) -> Result<(Vec<String>, Watcher), SessionError> {
        self.leases.count_listing();
        self.client.get_children_and_watch(&self.leases.path).await
    }

    /// The limit now, and what tells of its next change.
    async fn read_limit(&self) -> Result<(usize, Option<Watcher>), Error> {
        let path = match &self.limit {
            Limit::Fixed(limit) => return Ok((*limit, None)),
            Limit::Shared(path) => path,
        };
        loop {
            self.leases.count();
            match self.client.get_data_and_watch(path).await {
                Err(error) if error.is_transient() => {}
                read => {
                    let (node, changed) = read?;
                    let data = node
                        .data
                        .as_deref()
                        .and_then(|data| data.first_chunk::<4>());
                    let count = data.map_or(0, |data| i32::from_be_bytes(*data));
                    return Ok((usize::try_from(count).unwrap_or(0), Some(changed)));
                }
            }
        }
    }
}

/// Waits for a reason to count the leases again. Any result of the watches is a reason, also their end: the next look shows
/// what is wrong. The end of the session's lease is one, too: it may be renewed.
async fn wait_for_change(
    place: &Guard,
    leases: Watcher,
    limit: Option<Watcher>,
) -> Result<(), Error> {
    let limit = async {
        match limit {
            Some(limit) => drop(limit.await),
            None => std::future::pending().await,
        }
    };
    let (limit, lost) = (std::pin::pin!(limit), std::pin::pin!(place.lost()));
    match select(leases, select(limit, lost)).await {
        Either::Right((Either::Right((why, _)), _)) if why != Loss::Elapsed => {
            Err(Error::Lost(why))
        }
        _ => Ok(()),
    }
}

/// What is known of the sessions of all these nodes.
fn facts(nodes: &[LockNode]) -> Facts {
    let all = nodes.iter().map(LockNode::facts);
    let worse = |one: Facts, other: Facts| Facts {
        session_loss: one.session_loss.or(other.session_loss),
        is_lease_valid: one.is_lease_valid && other.is_lease_valid,
        connection: other.connection,
    };
    all.reduce(worse).unwrap_or(Facts::NONE)
}

/// Forgets the first lease that is gone, by this listing or with its session. Returns what the caller is told. The others are
/// deleted when they are dropped.
fn gone(nodes: &mut [LockNode], listed: &[String]) -> Option<Error> {
    let is_gone = |node: &&mut LockNode| {
        node.session_loss().is_some() || !listed.iter().any(|lease| lease == node.name())
    };
    nodes.iter_mut().find(is_gone).map(LockNode::gone)
}

/// The one lease that was asked for.
fn one(mut leases: Vec<Guard>) -> Result<Guard, Error> {
    leases.pop().ok_or(Error::OverLimit { asked: 1, limit: 0 })
}

/// A place in the line of a semaphore. Dropping it leaves the queue.
#[derive(Debug)]
#[must_use = "dropping the ticket leaves the line"]
pub struct SemaphoreTicket {
    semaphore: Semaphore,
    ticket: Ticket,
    attempt: Attempt,
}

impl SemaphoreTicket {
    /// How many contenders were ahead when last looked.
    #[must_use]
    pub fn position(&self) -> usize {
        self.ticket.position()
    }

    /// Our node in the queue.
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
    /// Dropped, it leaves the queue.
    pub async fn wait(self) -> Result<Guard, Error> {
        let place = self.ticket.wait().await?;
        one(self.semaphore.lease(place, 1, self.attempt).await?)
    }
}
