//! The plain lock: one node with a fixed name. The client that creates it holds the lock.
//!
//! Not here: what to do next (`plain_turn`), creating and deleting the node for certain (`node`).

use std::{sync::Arc, time::Duration};

use lockkeeper_proto::path::PathError;
use lockkeeper_session::{
    AsRaw, Client,
    sync::select::{Either, select},
};

use super::plain_turn::{Next, PlainTurn};
use crate::{
    backoff::Rounds,
    error::LockError,
    guard::{Attempt, Guard},
    inspect::children,
    node::{BoxedNode, Node, directory::Directory},
    order::name::{self, Kind},
    queue::{
        other_kinds,
        stall::{Role, StallCheck},
        timeout::timeout,
    },
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
/// # The data of the node
/// The data of [`with_data`](Self::with_data) stand behind 40 bytes that identify the attempt.
///
/// # Deleting the node by hand
/// All contenders use the same name, and ZooKeeper deletes by name. A delete of this client does not
/// hit the node of a later holder by itself, with the exception below. The client sends it only within the session that
/// created our node, and looks whose node is there before it repeats the delete. But suppose that
/// an operator deletes the node, and the holder does not notice (it notices while [`Guard::lost`]
/// is polled). Then a second client takes the lock, and the release of the first one ends the hold
/// of the second. Transactions of the first one succeed, too. [`Mutex`](crate::Mutex) has no such
/// weakness: each of its nodes has a name of its own.
///
/// A server whose link to its leader hangs does the same without an operator. It may keep a delete
/// of this client while the session moves to another server and repeats the delete there. When the
/// session comes back to the first server, the old delete is applied, perhaps to the node of a later
/// holder. So the client does not go back to such a server in this session while it may try another
/// one. If each server owes it such an answer, or several servers stand behind its only address,
/// nothing prevents it. A late create may in the same way leave a node that blocks the path until
/// its session ends.
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
    pub(super) client: Client,
    pub(super) directory: Arc<Directory>,
}

impl PlainMutex {
    /// The lock at this path. Sends nothing. The client makes the path when it first needs it, as
    /// containers, which the server removes when they stay empty.
    ///
    /// # Errors
    /// [`PathError`] for an invalid path.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        Ok(Self {
            client: client.without_deadline(),
            directory: Directory::new(client, path, None, Kind::Plain)?,
        })
    }

    /// Waits for the lock.
    ///
    /// Lost connections and expired sessions cost only time: there is no place in a queue to lose.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    /// Dropped at any time, it leaves no node behind.
    pub async fn lock(&self) -> Result<Guard, LockError> {
        self.granted(&mut false).await
    }

    /// Waits for the lock as [`lock`](Self::lock) does. Sets `contended` when another contender had
    /// the lock at first.
    async fn granted(&self, contended: &mut bool) -> Result<Guard, LockError> {
        let (attempt, mut rounds) = (Attempt::new(&self.directory), Rounds::default());
        loop {
            match self.turn(&attempt, Some(&mut *contended)).await {
                Ok(Some(node)) => return attempt.guard(node),
                // Who waits is not refused.
                Ok(None) => {}
                Err(error) => rounds.again(&self.client, error.at(self.path())).await?,
            }
        }
    }

    /// Waits for the lock as [`lock`](Self::lock) does, but for at most `wait` in all.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and [`LockError::TimedOut`]. There one contender is ahead, the
    /// holder: waiters of a plain lock have no nodes.
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn try_lock_for(&self, wait: Duration) -> Result<Guard, LockError> {
        let mut contended = false;
        let granted = Box::pin(self.granted(&mut contended));
        let granted = timeout(&self.client, self.path(), wait, granted).await;
        granted.map_err(|error| error.behind(contended.then_some(1)))
    }

    /// Takes the lock if no client has it. It reads before it creates anything: a refused try costs
    /// one read and no write.
    ///
    /// # Errors
    /// As [`Mutex::try_lock`](crate::Mutex::try_lock).
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn try_lock(&self) -> Result<Option<Guard>, LockError> {
        let directory = self.directory.for_try();
        let tries = Self {
            directory,
            ..self.clone()
        };
        let attempt = Attempt::new(&self.directory);
        let node = tries.turn(&attempt, None).await;
        attempt.ended(node)
    }

    /// The node of the lock. Without `contended` it is a try, which is refused if another contender
    /// has the lock.
    async fn turn(
        &self,
        attempt: &Attempt,
        mut contended: Option<&mut bool>,
    ) -> Result<Option<BoxedNode>, LockError> {
        let directory = &self.directory;
        if contended.is_none() {
            let children = children(&directory.client, self.path()).await?;
            if children.iter().any(|child| child == name::PLAIN) {
                return Ok(None);
            }
            other_kinds::refuse(directory, Kind::Plain, children.iter()).await?;
        }
        let new_node = || Node::new(&self.client, directory.clone(), Kind::Plain);
        let (mut turn, mut node, mut rounds) =
            (PlainTurn::default(), new_node(), Rounds::default());
        let mut stall = StallCheck::default();
        loop {
            match turn.next(&node.facts()) {
                Err(_) => return Err(node.gone()),
                Ok(Next::Grant) => return Ok(Some(node)),
                Ok(Next::Create) => turn.created(node.create().await?),
                Ok(Next::Renew) => node.renew_lease().await?,
                Ok(Next::Wait) => {
                    let Some(contended) = &mut contended else {
                        return Ok(None);
                    };
                    **contended = true;
                    attempt.contended();
                    let ends = stall.ends(directory, Role::Watching, &[name::PLAIN]);
                    let waited = select(self.wait_for_event(), ends).await;
                    if let Either::Left(event) = waited {
                        event?;
                        stall.gone(name::PLAIN);
                    }
                    rounds.pause(&self.client).await;
                    node = new_node();
                    turn.event();
                }
            }
        }
    }

    /// Waits until the node of the other contender was deleted or changed, or its watch has ended.
    async fn wait_for_event(&self) -> Result<(), LockError> {
        // The watch begins at the reply that said that the node exists, so nothing is missed.
        let group = self.directory.client.raw().watch_group();
        group.watch(&self.directory.server_path, vec![name::PLAIN.into()]);
        Ok(group.next().await.map(drop)?)
    }
}
