//! The plain lock of the articles: one node with a fixed name, and whoever creates it holds the lock.
//!
//! Not here: making that node for certain and deleting nobody else's (`identity`, `contender`).

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use lockkeeper_proto::path::{self, PathError};
use lockkeeper_session::{Client, Error as SessionError};
use tokio::time::timeout;

use crate::{
    error::Error,
    guard::Guard,
    guard::hold::Attempt,
    metrics::{LockMetrics, Recorder},
    node::LockNode,
    node::directory::Directory,
    node::identity::{Naming, NodeIdentity},
    node::name::{self, Protection},
    participants::{Participant, participants},
};

/// A lock without a queue: the ephemeral node `lock` under its path, and whoever creates it has the lock. Not fair, not
/// reentrant. [`Mutex`](crate::Mutex) is the better one wherever several wait.
///
/// It excludes everybody who locks by creating that node, whatever client they use. Cheap to clone.
///
/// # Cost
/// Uncontended it is the cheapest lock there is: one request, one write for the servers to agree on, and the same for the
/// release. Contended it is the most expensive one. All `n` waiters watch the node; each release wakes them all, each of them
/// sends a create, and all but one of these fail, after a round of agreement among the servers each. To serve `n` waiters
/// takes some `n²/2` creates, and anybody may be overtaken any number of times.
///
/// # Deleting the node by hand
/// The name is everybody's, and ZooKeeper deletes by name. A delete of ours never reaches the node of a later holder on its own:
/// it goes out only within the session that created ours, and is not repeated before a look at whose node is there. But when
/// somebody deletes the node under a holder that does not notice (it notices while [`Guard::lost`] is awaited), and a third one
/// takes the lock, then the first one's release ends the hold of the third, and its transactions pass.
/// [`Mutex`](crate::Mutex), whose nodes have names of their own, has no such weakness.
///
/// For the same reason [`revoke`](crate::revoke) should not be used on a node whose holder may not know yet that it has it.
#[derive(Clone, Debug)]
pub struct PlainMutex {
    client: Client,
    directory: Arc<Directory>,
    recorder: Arc<Recorder>,
}

impl PlainMutex {
    /// The lock at this path. Nothing is sent; the path is made when it is first needed, as containers, which the
    /// server removes when they stay empty.
    ///
    /// # Errors
    /// [`PathError`] for a path that breaks a rule.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        path::check(path).map_err(|problem| PathError::new(path, problem))?;
        let recorder = Arc::new(Recorder::of(path, "plain mutex", Arc::default()));
        let directory = Directory::new(client, path, Bytes::new(), recorder.counters.clone());
        Ok(Self {
            client: client.without_deadline(),
            directory: Arc::new(directory),
            recorder,
        })
    }

    /// The same lock, whose node holds `data`, behind 40 bytes that tell one attempt from another: who the holder is, for
    /// people who look.
    #[must_use]
    pub fn with_data(self, data: impl Into<Bytes>) -> Self {
        Self {
            directory: Arc::new(self.directory.with_data(data.into())),
            ..self
        }
    }

    /// The path of the lock: the parent of its node.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.directory.path
    }

    /// What this lock has cost its users in this process, over all its clones.
    #[must_use]
    pub fn metrics(&self) -> LockMetrics {
        self.recorder.snapshot()
    }

    /// Waits until the lock is ours.
    ///
    /// Connections that are lost meanwhile cost nothing but time, and so do sessions that expire: there is no place to lose.
    ///
    /// # Errors
    /// [`Error::Lost`] when the node was had and the session has expired before that could be told; [`Error::Session`]
    /// when no server is reached or one refuses.
    ///
    /// # Cancel safety
    /// Dropped at any time, it leaves no node behind.
    pub async fn lock(&self) -> Result<Guard, Error> {
        self.lock_telling(&AtomicBool::new(false)).await
    }

    /// Tells, too, whether somebody had it when first looked.
    async fn lock_telling(&self, contended: &AtomicBool) -> Result<Guard, Error> {
        let attempt = Attempt::new(&self.recorder);
        loop {
            if let Some(lock_node) = self.create().await? {
                return Guard::new(lock_node, attempt);
            }
            if !contended.swap(true, Ordering::Relaxed) {
                attempt.contended();
            }
            self.until_something_happens().await?;
        }
    }

    /// As [`lock`](Self::lock), for at most `wait`: one deadline for everything.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and [`Error::TimedOut`], in which one is ahead, who has it: nobody knows of those who wait.
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn lock_timeout(&self, wait: Duration) -> Result<Guard, Error> {
        let contended = AtomicBool::new(false);
        match timeout(wait, self.lock_telling(&contended)).await {
            Ok(locked) => locked,
            Err(_) => Err(Error::TimedOut {
                waited: wait,
                ahead: contended.into_inner().then_some(1),
            }),
        }
    }

    /// Takes the lock if nobody has it. It looks before it creates anything: a refused try costs one read and writes nothing.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn try_lock(&self) -> Result<Option<Guard>, Error> {
        let attempt = Attempt::new(&self.recorder);
        self.directory.count();
        let taken = self.client.exists(&self.node_path()).await?.is_some();
        let lock_node = if taken { None } else { self.create().await? };
        let Some(lock_node) = lock_node else {
            attempt.refused();
            return Ok(None);
        };
        Guard::new(lock_node, attempt).map(Some)
    }

    /// Who holds the lock; `None` when nobody does.
    ///
    /// # Errors
    /// [`Error::Session`].
    pub async fn holder(&self) -> Result<Option<Participant>, Error> {
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

    /// Creates the node; `None` when somebody else has it.
    async fn create(&self) -> Result<Option<LockNode>, Error> {
        let identity = NodeIdentity::new(&self.client, self.directory.clone(), Naming::Fixed);
        let (mut lock_node, list) = LockNode::enter(identity).await;
        match lock_node.created(list).await {
            Ok(_) => {}
            Err(Error::Session(error)) if error.is_node_exists() => return Ok(None),
            Err(error) => return Err(error),
        }
        // What was heard may be long over when the process has slept: any answer of a server tells.
        while !lock_node.has_valid_lease() {
            if lock_node.session_loss().is_some() {
                return Err(lock_node.gone());
            }
            self.directory.count();
            let there = self.client.exists(&self.node_path()).await;
            let is_ours = |czxid| lock_node.node().is_some_and(|node| node.czxid == czxid);
            match there {
                Ok(Some(stat)) if is_ours(stat.czxid) => {}
                Ok(_) => return Err(lock_node.gone()),
                Err(error) if error.is_transient() => {}
                Err(error) => return Err(Error::of_session(error)),
            }
        }
        Ok(Some(lock_node))
    }

    /// Waits until the node that somebody has is gone, or was changed, or nobody can tell any more.
    async fn until_something_happens(&self) -> Result<(), Error> {
        self.directory.count();
        // The answer that somebody has the node is what the watch begins from, so nothing is missed.
        for watcher in self.client.watch_nodes(&[&self.node_path()])? {
            match watcher.await {
                Err(SessionError::SessionExpired { .. }) if !self.client.is_closed() => {}
                event => drop(event.map_err(Error::of_session)?),
            }
        }
        Ok(())
    }
}
