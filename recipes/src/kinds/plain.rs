//! The plain lock: one node with a fixed name. The client that creates it holds the lock.
//!
//! Not here: what to do next (`plain_turn`), creating and deleting the node for certain (`node`).

use std::{mem, sync::Arc, time::Duration};

use bytes::Bytes;
use lockkeeper_proto::path::{self, PathError};
use lockkeeper_session::{Client, Error as SessionError};

use super::plain_turn::{Next, PlainTurn};
use crate::{
    backoff::Rounds,
    error::LockError,
    guard::{Guard, hold::Attempt},
    metrics::{LockMeter, LockMetrics, Recorder},
    node::{directory::Directory, identity::Naming, lock_node::LockNode},
    order::{
        name::{self, Protection},
        recipe::Recipe,
    },
    participants::{Participant, children, participants},
    queue::other_kinds,
    timeout::{timed_out, timeout},
};

/// A lock without a queue: the client that creates the ephemeral node `lock` under its path holds
/// it. Not fair, not reentrant.
///
/// [`Mutex`](crate::Mutex) is better wherever several clients wait. The plain lock excludes every
/// client that locks by creating that node, whatever library it uses. Cheap to clone.
///
/// # Cost
/// Uncontended it is the cheapest lock: one request, which is one write for the servers, and the
/// same for the release. Contended it is the most expensive one. All `n` waiters watch the node.
/// Each release wakes all of them, each sends a create, and all but one fail, after a round of
/// agreement among the servers each. Serving `n` waiters takes about `n²/2` creates, and a waiter
/// may be overtaken any number of times.
///
/// # Deleting the node by hand
/// All contenders use the same name, and ZooKeeper deletes by name. A delete of this client never
/// hits the node of a later holder by itself. The client sends it only within the session that
/// created our node, and looks whose node is there before it repeats the delete. But suppose that
/// an operator deletes the node, and the holder does not notice (it notices while [`Guard::lost`]
/// is polled). Then a second client takes the lock, and the release of the first one ends the hold
/// of the second. Transactions of the first one succeed, too. [`Mutex`](crate::Mutex) has no such
/// weakness: each of its nodes has a name of its own.
///
/// For the same reason, do not [`revoke`](crate::revoke) a node whose holder may not know yet that
/// it has it.
///
/// # Other kinds of lock on the path
/// [`lock`](Self::lock) creates its node and lists nothing, so it does not see another kind of lock
/// on the same path. Every other kind sees the node of a plain lock and is refused
/// ([`LockError::OtherKind`]), and [`try_lock`](Self::try_lock) sees all of them. But a plain lock
/// that is taken while another kind is held is granted.
#[derive(Clone, Debug)]
pub struct PlainMutex {
    client: Client,
    directory: Arc<Directory>,
    recorder: Arc<Recorder>,
}

impl PlainMutex {
    /// The lock at this path. Sends nothing. The client makes the path when it first needs it, as
    /// containers, which the server removes when they stay empty.
    ///
    /// # Errors
    /// [`PathError`] for an invalid path.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        path::check(path).map_err(|problem| PathError::new(path, problem))?;
        let directory = Directory::new(client, path, Bytes::new(), Arc::default());
        let counters = directory.counters.clone();
        let recorder = Arc::new(Recorder::of(
            client,
            &directory.path,
            "plain mutex",
            counters,
        ));
        Ok(Self {
            client: client.without_deadline(),
            directory: Arc::new(directory),
            recorder,
        })
    }

    /// The same lock. Its node has `data`, behind 40 bytes that identify the attempt. People who
    /// look at the node see who holds the lock.
    #[must_use]
    pub fn with_data(self, data: impl Into<Bytes>) -> Self {
        Self {
            directory: Arc::new(self.directory.with_data(data.into())),
            ..self
        }
    }

    /// The same lock, but this meter counts: see [`LockMeter`](crate::LockMeter).
    #[must_use]
    pub fn with_meter(self, meter: &LockMeter) -> Self {
        Self {
            directory: Arc::new(self.directory.counted_by(meter.counters().clone())),
            recorder: Arc::new(self.recorder.metered(meter)),
            ..self
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The path of the lock: the parent of its node.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.directory.path
    }

    /// What this lock has cost its users in this process, over all its clones.
    #[must_use]
    pub fn metrics(&self) -> LockMetrics {
        self.recorder.counters.snapshot()
    }

    /// Waits for the lock.
    ///
    /// Lost connections and expired sessions cost only time: there is no place in a queue to lose.
    ///
    /// # Errors
    /// [`LockError::Lost`] when the node was created, and the session expired before the client
    /// knew. [`LockError::Session`] when no server is reached or one refuses.
    ///
    /// # Cancel safety
    /// Dropped at any time, it leaves no node behind.
    pub async fn lock(&self) -> Result<Guard, LockError> {
        self.lock_reporting(&mut false).await
    }

    /// As [`lock`](Self::lock). Sets `contended` when another contender had the lock at first.
    async fn lock_reporting(&self, contended: &mut bool) -> Result<Guard, LockError> {
        let granted = self.granted(contended).await;
        granted.map_err(|error| error.at(self.path()))
    }

    async fn granted(&self, contended: &mut bool) -> Result<Guard, LockError> {
        let attempt = Attempt::new(&self.recorder);
        let (mut turn, mut node) = (PlainTurn::default(), self.node());
        let mut rounds = Rounds::default();
        loop {
            match turn.next(&node.facts()) {
                Err(_) => return Err(node.gone()),
                Ok(Next::Grant) => return Guard::new(node, attempt),
                Ok(Next::Create) => turn.created(node.create().await?),
                Ok(Next::Wait) => {
                    if !mem::replace(contended, true) {
                        attempt.contended();
                    }
                    self.wait_for_event().await?;
                    rounds.pause(&self.client).await;
                    turn.event();
                    node = self.node();
                }
                Ok(Next::Renew) => node.renew_lease().await?,
            }
        }
    }

    /// As [`lock`](Self::lock), for at most `wait`: one deadline for everything.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and [`LockError::TimedOut`]. There one contender is ahead, the
    /// holder: waiters of a plain lock have no nodes.
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn lock_timeout(&self, wait: Duration) -> Result<Guard, LockError> {
        let mut contended = false;
        let lock = Box::pin(self.lock_reporting(&mut contended));
        let granted = timeout(&self.client, wait, lock).await;
        let ahead = contended.then_some(1);
        granted.unwrap_or_else(|| Err(timed_out(&self.client, self.path(), wait, ahead)))
    }

    /// Takes the lock if no client has it. It reads before it creates anything: a refused try costs
    /// one read and no write.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn try_lock(&self) -> Result<Option<Guard>, LockError> {
        self.tried().await.map_err(|error| error.at(self.path()))
    }

    async fn tried(&self) -> Result<Option<Guard>, LockError> {
        let attempt = Attempt::new(&self.recorder);
        self.directory.count_listing();
        let children = children(&self.client, self.path()).await?;
        let is_taken = children.iter().any(|child| child == name::PLAIN);
        let (mut turn, mut node) = (PlainTurn::default(), self.node());
        if is_taken {
            turn.created(false);
        } else {
            let children = children.iter().map(String::as_str);
            other_kinds::refuse(&self.client, &self.directory, Recipe::Plain, children).await?;
        }
        loop {
            match turn.next(&node.facts()) {
                Err(_) => return Err(node.gone()),
                Ok(Next::Grant) => return Guard::new(node, attempt).map(Some),
                Ok(Next::Create) => turn.created(node.create().await?),
                Ok(Next::Wait) => {
                    attempt.refused();
                    return Ok(None);
                }
                Ok(Next::Renew) => node.renew_lease().await?,
            }
        }
    }

    /// The holder of the lock; `None` when it is free.
    ///
    /// # Errors
    /// [`LockError::Session`].
    pub async fn holder(&self) -> Result<Option<Participant>, LockError> {
        let names = vec![name::PLAIN.to_owned()];
        let mut holder = participants(&self.client, self.path(), names).await?.pop();
        if let Some(data) = holder.as_mut().and_then(|holder| holder.data.as_mut()) {
            *data = Protection::unmarked(data);
        }
        Ok(holder)
    }

    fn node_path(&self) -> String {
        path::join(self.path(), name::PLAIN)
    }

    /// A node that is to be created.
    fn node(&self) -> LockNode {
        LockNode::new(&self.client, self.directory.clone(), Naming::Fixed)
    }

    /// Waits until the node of the other contender was deleted or changed, or its watch has ended.
    async fn wait_for_event(&self) -> Result<(), LockError> {
        self.directory.count();
        // The watch begins at the reply that said that the node exists, so nothing is missed.
        for watcher in self.client.raw().watch_nodes(&[&self.node_path()])? {
            match watcher.await {
                Err(SessionError::SessionExpired { .. }) if !self.client.is_closed() => {}
                event => drop(event.map_err(LockError::from)?),
            }
        }
        Ok(())
    }
}
