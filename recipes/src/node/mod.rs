//! Lock nodes: created once and for certain, deleted for certain. Here is what a [`Node`] consists
//! of, and what a contender or a holder does with it.
//!
//! | file | what |
//! |---|---|
//! | `life` | what to do next about a node, as a pure state machine |
//! | `directory` | the settings, client and meter of a lock, and the requests about its directory |
//! | `identity` | what identifies a node before its name is known, and the requests about it |
//! | `requests` | sending the requests that the life of a node needs, and taking the replies |
//! | `watches` | the watches of a node, and its lease |
//! | `clean_up` | deleting a node whose owner has gone |
//! | `scan` | the scan for nodes whose creates were lost, shared by the attempts of a client |
//! | `late` | nodes that appear although a scan has not found them |

mod clean_up;
pub(crate) mod directory;
pub(crate) mod identity;
pub(crate) mod late;
pub mod life;
mod requests;
mod scan;
mod watches;

use std::{borrow::BorrowMut, sync::Arc};

use bytes::Bytes;
use lockkeeper_proto::{ErrorCode, Response, SessionId, Stat, Version, path};
use lockkeeper_session::{
    AsRaw, Client, Error as SessionError, LeaseKeeper, PendingReply, WatchGroup,
};

use self::{
    directory::Directory,
    identity::{NodeIdentity, OwnNode, Tag},
    life::{Answer, End, Failure, Next, NodeLife},
    scan::Scan,
};
use crate::{
    backoff::{Backoff, Rounds},
    error::{LockError, Loss, NotHandedOver},
    order::name::Kind,
};

/// How often the data of a plain lock's node are set again because somebody else has changed them
/// meanwhile.
const CONFLICTS: u32 = 8;

/// A node of ours, or one that may be created. It has one owner: a contender, then the guard of the
/// lock, or a clean-up.
///
/// The owner may be dropped at any await: no node stays behind while the session lives.
#[derive(Debug)]
pub(crate) struct Node {
    /// Keeps the session open. A clean-up does not: it has none.
    client: Option<Client>,
    identity: NodeIdentity,
    life: NodeLife<Arc<str>, Tag>,
    /// What the life waits for.
    pending: Pending,
    retry: Option<Box<Retry>>,
    /// Whether a listing goes out behind the create.
    lists: bool,
    /// This listing.
    listing: Option<PendingReply>,
    /// The first delete counts as a clean-up: nobody has known of the node.
    counts_clean_up: bool,
    /// The watch on this node and, in a queue, on the nodes ahead. The own watch is kept until the
    /// node is gone: to give it up earlier would cost a request that removes it from the server.
    watches: Option<WatchGroup>,
    /// Keeps the lease of the session valid, once the lock is held or is granted next.
    keeper: Option<LeaseKeeper>,
    /// Whether the lease was renewed just now.
    is_renewed: bool,
}

/// In a box, as it moves from the waiter to the guard.
pub(crate) type BoxedNode = Box<Node>;

/// The node of a guard. Behind a pointer to code, so that each program with guards need not have
/// what it takes to drop a node.
pub(crate) type HeldNode = Box<dyn BorrowMut<Node> + Send + Sync>;

/// What a node's life waits for.
#[derive(Debug, Default)]
enum Pending {
    #[default]
    Nothing,
    Reply(PendingReply),
    Scan(Arc<Scan>),
    /// The next node of the last scan.
    Next,
}

/// What came of requests that failed. Few nodes have it.
#[derive(Debug, Default)]
struct Retry {
    /// Why the last request failed.
    error: Option<SessionError>,
    /// The nodes of the last scan that may be ours and were not checked yet, the last one first.
    found: Vec<Arc<str>>,
    /// How many scans have shown a node that may be ours.
    scans: u32,
    /// The nodes of another session in all scans but the first. A contender that loses creates again
    /// and again, each with new nodes of others under its protection, meets a server that lies.
    strangers: Rounds,
    /// The replies to the requests that make the directory. They say why it is missing if the
    /// create fails.
    levels: Vec<PendingReply>,
    /// Why the reply to a delete was lost.
    lost_delete: Option<SessionError>,
    /// The pause before the next request, if the last one was throttled or refused.
    backoff: Backoff,
    /// The create is not sent again: servers have throttled it for too long, and the caller only
    /// tries, or they close each connection behind it.
    gave_up: Option<LockError>,
    /// Whether a server has refused to delete the node.
    is_stuck: bool,
}

impl Node {
    /// A node that is to be created.
    pub(crate) fn new(client: &Client, directory: Arc<Directory>, kind: Kind) -> BoxedNode {
        let identity = NodeIdentity::new(directory, kind);
        let life = NodeLife::new(identity.is_fixed());
        let mut node = Self::without_client(identity, life);
        node.client = Some(client.clone());
        Box::new(node)
    }

    /// A node that does not keep the session open. Its drop does nothing.
    fn without_client(identity: NodeIdentity, life: NodeLife<Arc<str>, Tag>) -> Self {
        Self {
            client: None,
            lists: !identity.is_fixed(),
            identity,
            life,
            pending: Pending::Nothing,
            retry: None,
            listing: None,
            counts_clean_up: false,
            watches: None,
            keeper: None,
            is_renewed: false,
        }
    }

    /// The node of a lock that another process has handed over. Until this process
    /// [owns](Self::own_by) the node, its drop does nothing.
    pub(crate) fn of_another_process(
        directory: Arc<Directory>,
        kind: Kind,
        node: OwnNode,
    ) -> BoxedNode {
        let identity = NodeIdentity::new(directory, kind);
        let life = NodeLife::live(node, identity.is_fixed());
        Box::new(Self::without_client(identity, life))
    }

    /// From now on the node is this process's to delete.
    pub(crate) fn own_by(&mut self, client: Client) {
        self.client = Some(client);
    }

    /// Sets the data of the node to what they are, if they have this version: only one can do that.
    pub(crate) async fn spend(&self, version: Version) -> Result<(), LockError> {
        let (data, _) = self.read().await?;
        let node = self.own()?;
        let raw = self.identity.raw(Some(node.tag.session_id));
        let request =
            (self.identity).set_data_request(&node.name, &data.unwrap_or_default(), version);
        let set = raw.submit_one(request).await;
        match set.await {
            Ok(_) => Ok(()),
            Err(error) if error.is_no_node() => Err(self.lost()),
            Err(error) if error.code() == Some(ErrorCode::BAD_VERSION) => {
                Err(LockError::not_handed_over(NotHandedOver::Spent))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The handle that keeps the session open, as long as the node has an owner. The requests of the
    /// lock go through that of its directory.
    pub(crate) fn client(&self) -> &Client {
        self.client.as_ref().unwrap_or(self.identity.client())
    }

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

    /// Whether the name is fixed, and others use it too.
    pub(crate) fn is_fixed(&self) -> bool {
        self.identity.is_fixed()
    }

    pub(crate) fn directory(&self) -> &Arc<Directory> {
        &self.identity.directory
    }

    /// The path of the node, as the client names it.
    pub(crate) fn path(&self) -> String {
        path::join(&self.directory().parent, self.name())
    }

    /// How the node was lost with its session, if it was.
    pub(crate) fn session_loss(&self) -> Option<Loss> {
        session_loss(self.identity.client(), self.session_id()?)
    }

    /// Whether a listing goes out behind the create.
    pub(crate) fn lists_behind_create(&mut self, lists: bool) {
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
        let raw = self.identity.raw(Some(node.tag.session_id));
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
    pub(crate) async fn set_data(
        &self,
        data: Bytes,
        is_held: impl Fn() -> bool + Sync,
    ) -> Result<(), LockError> {
        let node = self.own()?;
        let raw = self.identity.raw(Some(node.tag.session_id));
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
                Ok(_) => break,
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
        // The change has fired the watch on the node.
        if let Some(watches) = &self.watches {
            watches.watch(&self.directory().server_path, vec![node.name.clone()]);
        }
        Ok(())
    }

    /// The reply to a transaction that deletes the node was lost, or nobody waits for the reply: the
    /// transaction may have been applied.
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
    pub(crate) async fn downgrade(&mut self) -> Result<(), LockError> {
        let session = self.session_id();
        // The writer's node goes, which is no loss.
        self.keeper = None;
        self.identity.become_reader();
        self.life.replace();
        let replaced = self.settle().await;
        self.keep_lease();
        replaced?;
        if self.life.is_live() {
            return Ok(());
        }
        Err(self.lost_with(session))
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
