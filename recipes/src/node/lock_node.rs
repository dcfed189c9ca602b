//! The owner of a node: its watches, its lease, and what happens when the owner goes.
//!
//! The owner may be dropped at any await: no node stays behind while the session lives. Clean-up
//! runs in the client's own task, without the caller's deadline, and outlives the caller.
//!
//! Not here: what to send (`life`), sending it (`task`), whose turn it is (`queue`).

use std::{
    borrow::BorrowMut,
    mem,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use bytes::Bytes;
use lockkeeper_proto::{EventType, SessionId};
use lockkeeper_session::{
    AsRaw, Client, Error as SessionError, GroupEvent, LeaseKeeper, WatchGroup, sync::BoxFuture,
};

use super::{directory::Directory, life::Facts, task::NodeTask};
use crate::{
    backoff::Backoff,
    error::LockError,
    order::{
        crowd::{Crowd, Member},
        name::Kind,
    },
};

/// A node of ours, or one that may be created. It is used as its [`NodeTask`].
#[derive(Debug)]
pub(crate) struct LockNode {
    /// Keeps the session open.
    client: Client,
    task: NodeTask,
    /// Its part in the crowd of contenders of this client.
    member: Option<Member>,
    /// The watch on this node and, in a queue, on the nodes ahead. The own watch is kept until the
    /// node is gone: to give it up earlier would cost a request that removes it from the server.
    watches: Option<WatchGroup>,
    /// Keeps the lease of the session valid, once the lock is held or is granted next.
    keeper: Option<LeaseKeeper>,
    /// Whether the lease was renewed just now.
    is_renewed: bool,
}

/// In a box, as it moves from the waiter to the guard.
pub(crate) type BoxedNode = Box<LockNode>;

/// The node of a guard. Behind a pointer to code, so that each program with guards need not have
/// what it takes to drop a node.
pub(crate) type HeldNode = Box<dyn BorrowMut<LockNode> + Send + Sync>;

impl LockNode {
    /// A node that is to be created.
    pub(crate) fn new(client: &Client, directory: Arc<Directory>, kind: Kind) -> BoxedNode {
        Box::new(Self {
            client: client.clone(),
            task: NodeTask::to_create(directory, kind),
            member: None,
            watches: None,
            keeper: None,
            is_renewed: false,
        })
    }

    /// Joins the other contenders of this client in the queue. Only some of them make a listing
    /// behind their create.
    pub(crate) fn join(&mut self, crowd: &Arc<Crowd>) {
        let (member, lists) = crowd.join();
        self.task.set_lists(lists);
        self.member = Some(member);
    }

    /// Once the node is there: the last node of this client ahead of it, and how many are ahead.
    pub(crate) fn last_of_crowd(&mut self) -> Option<(Arc<str>, usize)> {
        self.member.as_mut()?.entered(&self.task.node()?.name)
    }

    /// Its part in the crowd of contenders of this client.
    pub(crate) fn member(&self) -> Option<&Member> {
        self.member.as_ref()
    }

    /// The handle that keeps the session open. The requests of the lock go through that of its
    /// directory.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Watches nodes of the directory with one request, and gives up the watches on others.
    pub(crate) fn watch(&mut self, names: Vec<Arc<str>>, is_wanted: impl Fn(&str) -> bool) {
        if let Some(watches) = &self.watches {
            watches.retain(is_wanted);
        }
        if names.is_empty() {
            return;
        }
        let directory = self.task.directory();
        let watches = self
            .watches
            .get_or_insert_with(|| directory.client.raw().watch_group());
        watches.watch(&directory.server_path, names);
    }

    /// The next event of a watch, if one has arrived.
    pub(crate) fn try_event(&self) -> Option<Result<GroupEvent, SessionError>> {
        self.watches.as_ref().and_then(WatchGroup::try_next)
    }

    /// Waits for the next event of a watch.
    pub(crate) async fn event(&self) -> Result<GroupEvent, SessionError> {
        match &self.watches {
            Some(watches) => watches.next().await,
            None => std::future::pending().await,
        }
    }

    /// Whether the node is known to be gone: a write that proves the lease has not found it, or the
    /// watch on it has reported its deletion, which it does once.
    pub(crate) fn is_gone(&self) -> bool {
        let is_gone = self.keeper.as_ref().is_some_and(LeaseKeeper::is_gone);
        is_gone || shows_deletion(self.name(), || self.try_event())
    }

    /// Tells the same without the node, as long as the node's owner has not replaced it. It keeps
    /// neither the watches nor the lease.
    pub(crate) fn gone_sign(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let name = self.name().to_owned();
        let is_gone = self.keeper.as_ref().map(LeaseKeeper::gone_sign);
        let events = self.watches.as_ref().map(WatchGroup::events);
        move || {
            let is_gone = is_gone.as_ref().is_some_and(|is_gone| is_gone());
            is_gone || shows_deletion(&name, || events.as_ref().and_then(|next| next()))
        }
    }

    /// What a contender knows of its session now.
    pub(crate) fn facts(&mut self) -> Facts {
        let is_renewed = mem::take(&mut self.is_renewed);
        let is_valid = |session| {
            let lease = self.client().lease();
            lease.session_id == session && lease.is_valid
        };
        let is_good =
            |session| is_renewed && is_valid(session) || self.client().raw().is_lease_good(session);
        Facts {
            session_loss: self.session_loss(),
            is_lease_good: self.session_id().is_some_and(is_good),
        }
    }

    /// Keeps the lease of the session valid from now on.
    pub(crate) fn keep_lease(&mut self) {
        if let (None, Some(node)) = (&self.keeper, self.task.node()) {
            let directory = self.task.directory().server_path.clone();
            self.keeper = Some(self.client.raw().keep_lease(directory, node.name.clone()));
        }
    }

    /// Puts a reader's node in the place of this writer's: see [`NodeTask::replace`].
    pub(crate) async fn downgrade(&mut self) -> Result<(), LockError> {
        // The writer's node goes, which is no loss.
        self.keeper = None;
        let replaced = self.task.replace().await;
        self.keep_lease();
        replaced
    }

    /// For a contender whose turn has come while its lease is not good for a grant. Asks servers
    /// whether the node is there, until they answer. Then waits until the lease is good or the
    /// session is over. In a box, as it is rare.
    pub(crate) fn renew_lease(&mut self) -> BoxFuture<'_, Result<(), LockError>> {
        Box::pin(async move {
            let session_id = self.own()?.tag.session_id;
            self.directory().count(|it| it.renewals += 1);
            let mut backoff = Backoff::default();
            loop {
                match self.confirm().await {
                    Ok(()) => break,
                    Err(_) if self.session_loss().is_some() => return Ok(()),
                    Err(LockError::Session(error)) if error.is_transient() => {
                        backoff.after(self.directory(), &error).await?;
                    }
                    Err(error) => {
                        if error.loss().is_some() {
                            self.forget();
                        }
                        return Err(error);
                    }
                }
            }
            self.keep_lease();
            self.is_renewed = self.lease_renewed(session_id).await;
            Ok(())
        })
    }

    /// Waits until the lease that this contender keeps is good for a grant, or the session is over.
    /// Returns whether it is good.
    pub(crate) async fn lease_renewed(&self, session_id: SessionId) -> bool {
        match &self.keeper {
            Some(keeper) => keeper.renewed(session_id).await,
            None => false,
        }
    }

    /// Sets the data of the node, if it is held when the request is queued.
    pub(crate) async fn set_data(
        &self,
        data: Bytes,
        is_held: impl Fn() -> bool + Sync,
    ) -> Result<(), LockError> {
        self.task.write(data, is_held).await?;
        // The change has fired the watch on the node.
        if let (Some(watches), Some(node)) = (&self.watches, self.node()) {
            watches.watch(&self.directory().server_path, vec![node.name.clone()]);
        }
        Ok(())
    }
}

impl Deref for LockNode {
    type Target = NodeTask;

    fn deref(&self) -> &NodeTask {
        &self.task
    }
}

impl DerefMut for LockNode {
    fn deref_mut(&mut self) -> &mut NodeTask {
        &mut self.task
    }
}

/// Whether one of the next events is the deletion of this node.
fn shows_deletion(
    name: &str,
    mut next: impl FnMut() -> Option<Result<GroupEvent, SessionError>>,
) -> bool {
    let is_deletion =
        |event: GroupEvent| event.event_type == EventType::NODE_DELETED && *event.name == *name;
    while let Some(event) = next() {
        if event.is_ok_and(is_deletion) {
            return true;
        }
    }
    false
}

/// The rest goes on in the client's task.
impl Drop for LockNode {
    fn drop(&mut self) {
        if !self.task.abandon() {
            return;
        }
        let watches = self.watches.take();
        if let Some(watches) = &watches {
            watches.retain(|name| name == self.name());
        }
        let rest = self.task.rest();
        self.client().raw().run_in_background(async move {
            rest.await;
            drop(watches);
        });
    }
}
