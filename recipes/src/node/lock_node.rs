//! A node of ours: its watches, and what happens when its owner goes.
//!
//! The owner may be dropped at any await: no node stays behind while the session lives. Clean-up
//! runs in the client's own task, without the caller's deadline, and outlives the caller.
//!
//! Not here: what to send (`life`), sending it (`task`), whose turn it is (`queue`).

use std::{mem, sync::Arc};

use bytes::Bytes;
use lockkeeper_proto::{ErrorCode, EventType, Response, SessionId, Stat, Version, path};
use lockkeeper_session::{
    Client, Error as SessionError, GroupEvent, LeaseKeeper, PendingReply, WatchGroup,
};

use super::{
    identity::{Directory, NodeIdentity, OwnNode},
    life::{Answer, End, Facts, Failure, Next, NodeLife},
    task::NodeTask,
};
use crate::{
    backoff::Backoff,
    error::{LockError, Loss},
    order::{
        crowd::{Crowd, Member},
        name::Kind,
    },
};

/// How often the data of a plain lock's node are set again because somebody else has changed them
/// meanwhile.
const CONFLICTS: u32 = 8;

/// A node of ours, or one that may be created.
#[derive(Debug)]
pub(crate) struct LockNode {
    /// Keeps the session open.
    client: Client,
    /// In a box: the node moves from the waiter to the guard.
    task: Box<NodeTask>,
    /// The watch on this node and, in a queue, on the nodes ahead. The own watch is kept until the
    /// node is gone: to give it up earlier would cost a request that removes it from the server.
    watches: Option<WatchGroup>,
    /// Keeps the lease of the session valid, once the lock is held or is granted next.
    keeper: Option<LeaseKeeper>,
    /// Whether the lease was renewed just now.
    is_renewed: bool,
}

impl LockNode {
    /// A node that is to be created.
    pub(crate) fn new(client: &Client, directory: Arc<Directory>, kind: Kind) -> Self {
        let identity = NodeIdentity::new(directory, kind);
        let life = NodeLife::new(identity.is_fixed());
        Self {
            client: client.clone(),
            task: Box::new(NodeTask::new(identity, life)),
            watches: None,
            keeper: None,
            is_renewed: false,
        }
    }

    /// Joins the other contenders of this client in the queue. Only some of them make a listing
    /// behind their create.
    pub(crate) fn join(&mut self, crowd: &Arc<Crowd>) {
        let (member, lists) = crowd.join();
        self.task.identity.lists = lists;
        self.task.member = Some(member);
    }

    /// Once the node is there: the last node of this client ahead of it, and how many are ahead.
    pub(crate) fn last_of_crowd(&mut self) -> Option<(Arc<str>, usize)> {
        let task = &mut *self.task;
        task.member.as_mut()?.entered(&task.life.node()?.name)
    }

    /// Creates the node, and waits until it is there. For a fixed name: returns false when another
    /// contender has it.
    ///
    /// # Cancel safety
    /// Dropping the future keeps what is known. Dropping the node cleans up.
    pub(crate) async fn create(&mut self) -> Result<bool, LockError> {
        self.task.settle().await?;
        match self.task.life.end() {
            None => Ok(true),
            Some(End::Taken) => Ok(false),
            Some(_) => Err(LockError::lost(Loss::Deleted)),
        }
    }

    /// Sends the create without waiting for its reply.
    pub(crate) async fn begin(&mut self) {
        if let Next::Send(ask) = self.task.life.next() {
            self.task.send(ask).await;
        }
    }

    /// The listing that was sent behind the create, once.
    pub(crate) fn take_listing(&mut self) -> Option<PendingReply> {
        self.task.listing.take()
    }

    /// Its part in the crowd of contenders of this client.
    pub(crate) fn member(&self) -> Option<&Member> {
        self.task.member.as_ref()
    }

    /// The node, once it is there.
    pub(crate) fn node(&self) -> Option<&OwnNode> {
        self.task.life.node()
    }

    /// The same, for who needs it.
    fn own(&self) -> Result<&OwnNode, LockError> {
        self.node().ok_or(LockError::lost(Loss::Deleted))
    }

    /// The name of the node; empty while it is not known.
    pub(crate) fn name(&self) -> &str {
        self.node().map_or("", |node| &node.name)
    }

    /// The session that owns the node.
    pub(crate) fn session_id(&self) -> Option<SessionId> {
        self.node().map(|node| node.tag.session_id)
    }

    /// The handle that keeps the session open. The requests of the lock go through that of its
    /// directory.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn directory(&self) -> &Arc<Directory> {
        &self.task.identity.directory
    }

    /// The path of the node, as the client names it.
    pub(crate) fn path(&self) -> String {
        path::join(&self.directory().parent, self.name())
    }

    /// Watches nodes of the directory with one request, and gives up the watches on others.
    pub(crate) fn watch(&mut self, names: Vec<Arc<str>>, is_wanted: impl Fn(&str) -> bool) {
        if let Some(watches) = &self.watches {
            watches.retain(is_wanted);
        }
        if names.is_empty() {
            return;
        }
        let directory = &self.task.identity.directory;
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

    /// Whether the watch on the node has reported its deletion. It is reported once.
    pub(crate) fn saw_deletion(&self) -> bool {
        let is_deletion = |event: GroupEvent| {
            event.event_type == EventType::NODE_DELETED && *event.name == *self.name()
        };
        while let Some(event) = self.try_event() {
            if event.is_ok_and(is_deletion) {
                return true;
            }
        }
        false
    }

    /// What a contender knows of its session now.
    pub(crate) fn facts(&mut self) -> Facts {
        let is_renewed = mem::take(&mut self.is_renewed);
        let is_good = |session| {
            let lease = self.client().lease();
            let is_own = is_renewed && lease.session_id == session;
            is_own && lease.is_valid || self.client().raw().is_lease_good(session)
        };
        Facts {
            session_loss: self.session_loss(),
            is_lease_good: self.session_id().is_some_and(is_good),
        }
    }

    /// Keeps the lease of the session valid from now on.
    pub(crate) fn keep_lease(&mut self) {
        let client = &self.client;
        self.keeper.get_or_insert_with(|| client.raw().keep_lease());
    }

    /// For a contender whose turn has come while its lease is not good for a grant. Asks servers
    /// whether the node is there, until they answer. Then waits until the lease is good or the
    /// session is over.
    pub(crate) async fn renew_lease(&mut self) -> Result<(), LockError> {
        let session_id = self.own()?.tag.session_id;
        self.directory().count(|it| it.renewals.add());
        let mut backoff = Backoff::default();
        loop {
            match self.confirm().await {
                Ok(()) => break,
                Err(_) if self.session_loss().is_some() => return Ok(()),
                Err(LockError::Session(error)) if error.is_transient() => {
                    backoff.after(self.client(), &error).await;
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
    }

    /// Waits until the lease that this contender keeps is good for a grant, or the session is over.
    /// Returns whether it is good.
    pub(crate) async fn lease_renewed(&self, session_id: SessionId) -> bool {
        match &self.keeper {
            Some(keeper) => keeper.renewed(session_id).await,
            None => false,
        }
    }

    /// Asks the servers whether the node is there. The question is a write: the answer comes from a
    /// majority of them.
    pub(crate) async fn confirm(&self) -> Result<(), LockError> {
        let node = self.own()?;
        let (client, path) = (&self.directory().client, self.path());
        let check = client.transaction().within(node.tag.session_id);
        match check.check(&path, Version::ANY).commit().await {
            Ok(_) => {}
            Err(error) if error.is_no_node() => {
                return Err(self.lost_with(self.session_id()));
            }
            // It is there, and we may not read it.
            Err(error) if error.code() == Some(ErrorCode::NO_AUTH) => {}
            Err(error) => return Err(error.into()),
        }
        if self.task.identity.is_fixed() {
            // Others use the same name.
            let stat = client.exists(&path).await?;
            if stat.is_none_or(|stat| stat.czxid != node.tag.czxid) {
                return Err(self.lost_with(self.session_id()));
            }
        }
        Ok(())
    }

    /// Reads the data and the metadata of the node.
    pub(crate) async fn read(&self) -> Result<(Option<Bytes>, Stat), LockError> {
        let (node, identity) = (self.own()?, &self.task.identity);
        let raw = identity.client().raw().within(node.tag.session_id);
        let request = identity.check_request(&node.name);
        let [read] = raw.submit_with_backpressure([request]).await;
        match read.await {
            Ok(Response::GetData(read)) if read.stat.czxid == node.tag.czxid => {
                let data = read.data.map(|data| identity.unmarked(data));
                Ok((data, read.stat))
            }
            Err(error) if !error.is_no_node() => Err(error.into()),
            _ => Err(self.lost_with(self.session_id())),
        }
    }

    /// Sets the data of the node, if it is held when the request is queued: others may use its name.
    pub(crate) async fn set_data(
        &self,
        data: Bytes,
        is_held: impl Fn() -> bool + Sync,
    ) -> Result<(), LockError> {
        let (node, identity) = (self.own()?, &self.task.identity);
        let raw = identity.client().raw().within(node.tag.session_id);
        let (mut backoff, mut conflicts) = (Backoff::default(), 0);
        loop {
            let version = if identity.is_fixed() {
                // Others use the same name.
                self.read().await?.1.version
            } else {
                Version::ANY
            };
            let request = identity.set_data_request(&node.name, &data, version);
            let Some([set]) = raw.submit_if([request], &is_held).await else {
                return Err(self.lost_with(self.session_id()));
            };
            match set.await {
                Ok(_) => break,
                Err(error) if error.is_no_node() => {
                    return Err(self.lost_with(self.session_id()));
                }
                Err(error)
                    if error.code() == Some(ErrorCode::BAD_VERSION) && conflicts < CONFLICTS =>
                {
                    conflicts += 1;
                    backoff.begin(&self.client);
                    backoff.pause().await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        // The change has fired the watch on the node.
        if let Some(watches) = &self.watches {
            watches.watch(&self.directory().server_path, vec![node.name.clone()]);
        }
        Ok(())
    }

    /// How the node was lost with its session, if it was.
    pub(crate) fn session_loss(&self) -> Option<Loss> {
        session_loss(self.client(), self.session_id()?)
    }

    /// The node is gone: there is nothing to clean up. Returns what the caller is told.
    pub(crate) fn gone(&mut self) -> LockError {
        let lost = self.lost_with(self.session_id());
        self.forget();
        lost
    }

    /// The reply to a transaction that deletes the node was lost: it may have been applied.
    pub(crate) fn may_be_deleted(&mut self) {
        self.task.life.release();
        self.task.life.sent();
        // A delete with an unknown result is no error: the life looks for the node, or repeats the
        // delete.
        let _ = self
            .task
            .life
            .answered(Answer::Deleted(Err(Failure::Unknown)));
    }

    /// There is nothing to clean up: the node is gone, or another one deletes it.
    pub(crate) fn forget(&mut self) {
        self.task.life.settle(End::Gone);
    }

    /// Deletes the node, and waits until it is gone for certain.
    ///
    /// `Ok` says that the node existed until now. After an error of a server the client goes on
    /// deleting it.
    ///
    /// # Cancel safety
    /// The delete goes on when the future is dropped.
    pub(crate) async fn delete(&mut self) -> Result<(), LockError> {
        let session = self.session_id();
        self.task.life.release();
        if let Err(error) = self.task.settle().await {
            self.task.note_stuck(&error);
            return Err(error);
        }
        match self.task.life.end() {
            Some(End::Deleted) => Ok(()),
            Some(End::DeletedOrGone) => Err(self.task.take_lost_delete()),
            Some(End::SessionOver(loss)) => Err(LockError::lost(loss)),
            _ => Err(self.lost_with(session)),
        }
    }

    /// What the caller is told of a node of this session that is gone.
    fn lost_with(&self, session: Option<SessionId>) -> LockError {
        let loss = session.and_then(|session| session_loss(self.client(), session));
        LockError::lost(loss.unwrap_or(Loss::Deleted))
    }

    /// Puts a reader's node in the place of this writer's, in one transaction.
    ///
    /// # Cancel safety
    /// Dropped at any time, neither node stays behind.
    pub(crate) async fn downgrade(&mut self) -> Result<(), LockError> {
        let session = self.session_id();
        self.task.identity.become_reader();
        self.task.life.replace();
        self.task.settle().await?;
        if self.task.life.is_live() {
            return Ok(());
        }
        Err(self.lost_with(session))
    }

    /// Deletes the node on behalf of the limit of its hold, and goes on until it is gone. The
    /// caller has made sure that nobody else deletes it.
    pub(crate) fn delete_for_limit(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        let node = self.node()?.clone();
        let mut life = NodeLife::live(node, self.task.identity.is_fixed());
        life.release();
        let task = NodeTask::new(self.task.identity.clone(), life);
        Some(task.clean_up(true))
    }
}

/// Sends the delete at once, in the order of the session: a create after it finds the queue free.
/// The rest goes on in the client's task.
impl Drop for LockNode {
    fn drop(&mut self) {
        let was_known = self.task.life.is_live();
        self.task.life.abandon();
        self.task.send_delete_now();
        if self.task.life.end().is_some() {
            return;
        }
        let watches = self.watches.take();
        if let Some(watches) = &watches {
            watches.retain(|name| name == self.name());
        }
        let task = self.task.detach();
        self.client().raw().run_in_background(async move {
            task.clean_up(was_known).await;
            drop(watches);
        });
    }
}

/// How a node of this session was lost with it, if it was.
pub(crate) fn session_loss(client: &Client, session_id: SessionId) -> Option<Loss> {
    if client.is_closed() {
        Some(Loss::Closed)
    } else if client.snapshot().session_id == session_id {
        None
    } else {
        Some(Loss::Expired)
    }
}
