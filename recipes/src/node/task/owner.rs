//! What the owner of a node asks of it, and what goes on when the owner is gone.
//!
//! Not here: how requests are sent (`task`), the watches and the lease of the node (`lock_node`).

use std::{future::Future, mem, sync::Arc};

use bytes::Bytes;
use lockkeeper_proto::{ErrorCode, Response, SessionId, Stat, Version, path};
use lockkeeper_session::{AsRaw, Client, PendingReply};

use super::{NodeTask, Pending, bound_to};
use crate::{
    backoff::Backoff,
    error::{LockError, Loss},
    node::{
        directory::Directory,
        identity::{NodeIdentity, OwnNode},
        life::{Answer, Ask, End, Failure, Next, NodeLife},
    },
};

/// How often the data of a plain lock's node are set again because somebody else has changed them
/// meanwhile.
const CONFLICTS: u32 = 8;

impl NodeTask {
    /// The node, once it is there.
    pub(crate) fn node(&self) -> Option<&OwnNode> {
        self.life.node()
    }

    /// The node; an error if it is not there.
    pub(crate) fn own(&self) -> Result<&OwnNode, LockError> {
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

    pub(crate) fn directory(&self) -> &Arc<Directory> {
        &self.identity.directory
    }

    /// The path of the node, as the client names it.
    pub(crate) fn path(&self) -> String {
        path::join(&self.directory().parent, self.name())
    }

    /// Says whether a listing goes out behind the create.
    pub(in crate::node) fn set_lists(&mut self, lists: bool) {
        self.lists = lists;
    }

    /// Sends the create without waiting for its reply.
    pub(crate) async fn begin(&mut self) {
        if let Next::Send(ask) = self.life.next() {
            self.send(ask).await;
        }
    }

    /// Creates the node, and waits until it is there. For a fixed name: returns false when another
    /// contender has it.
    ///
    /// # Cancel safety
    /// Dropping the future keeps what is known. Dropping the owner cleans up.
    pub(crate) async fn create(&mut self) -> Result<bool, LockError> {
        self.settle().await?;
        match self.life.end() {
            None => Ok(true),
            Some(End::Taken) => Ok(false),
            Some(_) => Err(LockError::lost(Loss::Deleted)),
        }
    }

    /// The listing that was sent behind the create, once.
    pub(crate) fn take_listing(&mut self) -> Option<PendingReply> {
        self.listing.take()
    }

    /// Asks the servers whether the node is there. The question is a write: the answer comes from a
    /// majority of them.
    pub(crate) async fn confirm(&self) -> Result<(), LockError> {
        let node = self.own()?;
        let session = Some(node.tag.session_id);
        match self.directory().check(&node.name, session).await {
            Ok(()) => {}
            Err(error) if error.is_no_node() => return Err(self.lost()),
            // It is there, and we may not read it.
            Err(error) if error.code() == Some(ErrorCode::NO_AUTH) => {}
            Err(error) => return Err(error.into()),
        }
        if self.identity.is_fixed() {
            // Others use the same name.
            let stat = self.directory().stat(&node.name).await?;
            if stat.is_none_or(|stat| stat.czxid != node.tag.czxid) {
                return Err(self.lost());
            }
        }
        Ok(())
    }

    /// Reads the data and the metadata of the node.
    pub(crate) async fn read(&self) -> Result<(Option<Bytes>, Stat), LockError> {
        let node = self.own()?;
        let raw = bound_to(&self.identity, Some(node.tag.session_id));
        let request = self.identity.check_request(&node.name);
        let read = raw.submit_one(request).await;
        match read.await {
            Ok(Response::GetData(read)) if read.stat.czxid == node.tag.czxid => {
                let data = read.data.map(|data| self.identity.unmarked(data));
                Ok((data, read.stat))
            }
            Err(error) if !error.is_no_node() => Err(error.into()),
            _ => Err(self.lost()),
        }
    }

    /// Sets the data of the node, if it is held when the request is queued: others may use its name.
    pub(in crate::node) async fn write(
        &self,
        data: Bytes,
        is_held: impl Fn() -> bool + Sync,
    ) -> Result<(), LockError> {
        let node = self.own()?;
        let raw = bound_to(&self.identity, Some(node.tag.session_id));
        let (mut backoff, mut conflicts) = (Backoff::default(), 0);
        loop {
            let version = if self.identity.is_fixed() {
                // Others use the same name.
                self.read().await?.1.version
            } else {
                Version::ANY
            };
            let request = self.identity.set_data_request(&node.name, &data, version);
            let Some([set]) = raw.submit_if([request], &is_held).await else {
                return Err(self.lost());
            };
            match set.await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_no_node() => return Err(self.lost()),
                Err(error)
                    if error.code() == Some(ErrorCode::BAD_VERSION) && conflicts < CONFLICTS =>
                {
                    conflicts += 1;
                    backoff.begin(self.identity.client());
                    backoff.pause().await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// How the node was lost with its session, if it was.
    pub(crate) fn session_loss(&self) -> Option<Loss> {
        session_loss(self.identity.client(), self.session_id()?)
    }

    /// What the caller is told of a node that is gone.
    fn lost(&self) -> LockError {
        self.lost_with(self.session_id())
    }

    /// What the caller is told of a node of this session that is gone.
    fn lost_with(&self, session: Option<SessionId>) -> LockError {
        let loss = session.and_then(|session| session_loss(self.identity.client(), session));
        LockError::lost(loss.unwrap_or(Loss::Deleted))
    }

    /// The node is gone: there is nothing to clean up. Returns what the caller is told.
    pub(crate) fn gone(&mut self) -> LockError {
        let lost = self.lost();
        self.forget();
        lost
    }

    /// There is nothing to clean up: the node is gone, or another one deletes it.
    pub(crate) fn forget(&mut self) {
        self.life.settle(End::Gone);
    }

    /// The reply to a transaction that deletes the node was lost: it may have been applied.
    pub(crate) fn may_be_deleted(&mut self) {
        self.life.release();
        self.life.sent();
        // A delete with an unknown result is no error: the life looks for the node, or repeats the
        // delete.
        let _ = self.life.answered(Answer::Deleted(Err(Failure::Unknown)));
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
        self.life.release();
        if let Err(error) = self.settle().await {
            self.note_stuck(&error);
            return Err(error);
        }
        match self.life.end() {
            Some(End::Deleted) => Ok(()),
            Some(End::DeletedOrGone) => {
                let lost = self.retry().lost_delete.take();
                Err(lost.map_or(LockError::lost(Loss::Deleted), LockError::Session))
            }
            Some(End::SessionOver(loss)) => Err(LockError::lost(loss)),
            _ => Err(self.lost_with(session)),
        }
    }

    /// Puts a reader's node in the place of this writer's, in one transaction.
    ///
    /// # Cancel safety
    /// Dropped at any time, neither node stays behind.
    pub(in crate::node) async fn replace(&mut self) -> Result<(), LockError> {
        let session = self.session_id();
        self.identity.become_reader();
        self.life.replace();
        self.settle().await?;
        if self.life.is_live() {
            return Ok(());
        }
        Err(self.lost_with(session))
    }

    /// Deletes the node on behalf of the limit of its hold, and goes on until it is gone. The
    /// caller has made sure that nobody else deletes it.
    pub(crate) fn delete_for_limit(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        let node = self.node()?.clone();
        let mut life = NodeLife::live(node, self.identity.is_fixed());
        life.release();
        Some(Self::new(self.identity.clone(), life).clean_up())
    }

    /// A node of an attempt that was given up is there after all: deletes it, if it is ours.
    pub(in crate::node) fn found_late(identity: NodeIdentity, name: &str) {
        let (client, mut life) = (identity.client().clone(), NodeLife::new(false));
        for answer in [
            Answer::Created(Err(Failure::Unknown)),
            Answer::Found(Ok(Some(name.into()))),
        ] {
            // Neither is an error.
            let _ = life.answered(answer);
            life.abandon();
        }
        let task = Self {
            counts_clean_up: true,
            ..Self::new(identity, life)
        };
        (client.raw()).run_in_background(task.clean_up());
    }

    /// The owner has gone. Sends a delete at once, in the order of the session: a create after it
    /// finds the queue free. Returns whether there is something left to do.
    pub(in crate::node) fn abandon(&mut self) -> bool {
        self.counts_clean_up = !self.life.is_live();
        self.life.abandon();
        self.send_delete_now();
        self.life.end().is_none()
    }

    /// Takes from the reserve of request capacity, since a `Drop` cannot wait.
    fn send_delete_now(&mut self) {
        let retry = self.retry.as_ref();
        if retry.is_some_and(|retry| retry.backoff.is_due()) {
            return;
        }
        if let Next::Send(Ask::Delete(node)) = self.life.next() {
            let raw = bound_to(&self.identity, Some(node.tag.session_id));
            let [reply] = raw.submit([self.identity.directory.delete_request(&node.name)]);
            self.pending = Pending::Reply(reply);
            self.life.sent();
        }
    }

    /// What is left to do, without the owner.
    pub(in crate::node) fn rest(&mut self) -> impl Future<Output = ()> + Send + use<> {
        let settled = NodeLife::new(self.identity.is_fixed());
        let life = mem::replace(&mut self.life, settled);
        let rest = Self {
            pending: mem::take(&mut self.pending),
            retry: self.retry.take(),
            counts_clean_up: self.counts_clean_up,
            ..Self::new(self.identity.clone(), life)
        };
        rest.clean_up()
    }

    /// Goes on until nothing is left of the node.
    async fn clean_up(mut self) {
        while let Err(error) = self.settle().await {
            self.note_stuck(&error);
        }
    }

    /// A server refused to delete the node, or to say where it is. The client repeats the request
    /// while the session lives.
    fn note_stuck(&mut self, error: &LockError) {
        if mem::replace(&mut self.retry().is_stuck, true) {
            return;
        }
        let (directory, name) = (self.directory(), self.name());
        directory.count(|it| it.not_deleted += 1);
        let path: &str = &directory.parent;
        tracing::warn!(path, name, %error, "node not deleted, trying again while the session lives");
    }
}

/// How a node of this session was lost with it, if it was.
pub(crate) fn session_loss(client: &Client, session_id: SessionId) -> Option<Loss> {
    if client.is_closed() {
        Some(Loss::Closed)
    } else if client.raw().look(|now| now.session_id) == session_id {
        None
    } else {
        Some(Loss::Expired)
    }
}
