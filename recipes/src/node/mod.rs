//! A node of ours in the queue: created once and for certain, deleted for certain.
//!
//! Whatever await its owner is dropped at, no node stays behind while the session lives. A create whose reply was lost
//! is looked for by its protection *and* its ephemeral owner, behind a barrier: a delete of a name that never exists.
//! It fails, but like any write of a session it is ordered behind all that the session wrote before, over earlier
//! connections too, and a listing behind it shows what those writes left. A plain listing from a server that lags would
//! miss the node, and it would block everybody until the session ends.
//!
//! Clean-up runs in the client's own task, never under its caller's deadline, and outlives the caller.
//! Not here: whose turn it is (`rank`), waiting for it (`line`).

pub(crate) mod directory;
pub(crate) mod identity;
pub(crate) mod name;

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use futures::future::FutureExt;
use lockkeeper_proto::{
    CreateMode, ErrorCode, EventType, Request, Response, SessionId,
    multi::{MultiOp, MultiRequest},
    path,
};
use lockkeeper_session::{Client, Error as SessionError, PendingReply, Watcher};

use crate::{
    error::{Error, Loss},
    node::directory::Directory,
    node::identity::{Deleted, Naming, Node, NodeIdentity, deleted, is_lost, node_of},
    node::name::Protection,
};

/// How often a directory that vanishes between two requests is made again: an empty container may be reaped any time.
const DIRECTORY_ATTEMPTS: u32 = 8;

/// What is known of the node.
#[derive(Debug)]
enum Stage {
    /// The create is on its way.
    Creating(PendingReply),
    /// The create was sent, and its reply is lost.
    Unknown,
    /// The node is there.
    There(Node),
    /// Its delete is on its way.
    Deleting(Node, PendingReply),
    /// There is nothing to clean up.
    Nothing,
}

/// A contender: a node of ours, or one that may be.
#[derive(Debug)]
pub(crate) struct LockNode {
    identity: NodeIdentity,
    stage: Stage,
    /// The watch on the node, once there was a reason to leave one. It is kept until the node is gone: a watch given up
    /// earlier would be taken off the server by a request of its own. Behind a lock because a guard is looked at by many.
    own: Mutex<Option<Watcher>>,
    /// Whether somebody has begun to delete the node: this contender, or whoever ends a hold that lasts too long. Only one of
    /// them may, since a second delete could hit somebody else's node where the name is everybody's.
    delete_started: Arc<AtomicBool>,
}

impl LockNode {
    /// Asks for the node, as soon as there is room for that. The listing is the one that was sent behind the create.
    ///
    /// # Cancel safety
    /// Dropped, nothing was sent.
    pub(crate) async fn enter(identity: NodeIdentity) -> (Self, Option<PendingReply>) {
        let mut lock_node = Self {
            identity,
            stage: Stage::Nothing,
            own: Mutex::new(None),
            delete_started: Arc::default(),
        };
        let list = lock_node.send_create().await;
        (lock_node, list)
    }

    async fn send_create(&mut self) -> Option<PendingReply> {
        self.stage = Stage::Nothing;
        let (create, list) = self.identity.create().await;
        self.stage = Stage::Creating(create);
        list
    }

    /// One write with everything that a missing directory takes: its levels, the node, the listing. The levels that are
    /// there fail, and nobody minds: the create behind them will tell.
    fn make_directory_and_create(&mut self) -> Option<PendingReply> {
        let in_queue = self.identity.is_queued();
        let mut requests = self.identity.directory.make_requests();
        requests.push(self.identity.create_request());
        requests.extend(in_queue.then(|| self.identity.directory.list_request()));
        let mut replies = self.identity.client.submit_all(requests);
        let list = if in_queue { replies.pop() } else { None };
        self.stage = replies.pop().map_or(Stage::Nothing, Stage::Creating);
        list
    }

    /// Waits until the node is there. `list` is the listing sent behind the create; returns the one to look at.
    ///
    /// # Cancel safety
    /// Dropping the future keeps what is known; dropping the contender cleans up.
    pub(crate) async fn created(
        &mut self,
        mut list: Option<PendingReply>,
    ) -> Result<Option<PendingReply>, Error> {
        let mut attempts = 0;
        loop {
            match &mut self.stage {
                Stage::There(_) => return Ok(list),
                Stage::Unknown => match self.identity.find().await {
                    Ok(Some(node)) => {
                        self.stage = Stage::There(node);
                        list = None;
                    }
                    // It never happened, or it belonged to a session that is over.
                    Ok(None) => list = self.start_anew().await,
                    Err(error) if self.may_start_anew(&error) => list = self.start_anew().await,
                    Err(error) => return Err(Error::of_session(error)),
                },
                Stage::Creating(reply) => match reply.await {
                    Ok(Response::Create2(created)) => self.stage = Stage::There(node_of(&created)),
                    Err(error) if error.is_no_node() && attempts < DIRECTORY_ATTEMPTS => {
                        attempts += 1;
                        list = self.make_directory_and_create();
                    }
                    Err(error) if is_lost(&error) => self.stage = Stage::Unknown,
                    Err(error) if self.may_start_anew(&error) => list = self.start_anew().await,
                    Err(error) => {
                        self.stage = Stage::Nothing;
                        return Err(Error::of_session(on_path(error, self.directory())));
                    }
                    Ok(_) => self.stage = Stage::Unknown,
                },
                // Nobody waits for a node that was given up.
                Stage::Deleting(..) | Stage::Nothing => return Err(Error::Lost(Loss::Deleted)),
            }
        }
    }

    /// A create under a fresh protection, so that nothing late can be taken for the new node.
    async fn start_anew(&mut self) -> Option<PendingReply> {
        self.identity.protection = Protection::random(&self.identity.client);
        self.send_create().await
    }

    /// Whether an attempt that had no place in the line yet can go on in the next session.
    fn may_start_anew(&self, error: &SessionError) -> bool {
        matches!(error, SessionError::SessionExpired { .. }) && !self.identity.client.is_closed()
    }

    /// The node, once it is there.
    pub(crate) fn node(&self) -> Option<&Node> {
        match &self.stage {
            Stage::There(node) | Stage::Deleting(node, _) => Some(node),
            _ => None,
        }
    }

    /// The watch on the node.
    pub(crate) fn own_watch(&mut self) -> &mut Option<Watcher> {
        self.own.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the watch on the node has told that somebody deleted it. The event is told once.
    pub(crate) fn saw_deletion(&self) -> bool {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(event) = own.as_mut().and_then(FutureExt::now_or_never) else {
            return false;
        };
        *own = None;
        matches!(event, Ok(event) if event.event_type == EventType::NODE_DELETED)
    }

    pub(crate) fn client(&self) -> &Client {
        &self.identity.client
    }

    pub(crate) fn directory(&self) -> &Arc<Directory> {
        &self.identity.directory
    }

    /// What the node is known by.
    pub(crate) fn identity(&self) -> &NodeIdentity {
        &self.identity
    }

    /// Whether somebody has begun to delete the node; to be set by whoever does so.
    pub(crate) fn delete_started(&self) -> &Arc<AtomicBool> {
        &self.delete_started
    }

    /// The node's path as the client names it.
    pub(crate) fn path(&self) -> String {
        let name = self.node().map_or("", |node| node.name.as_str());
        path::join(&self.directory().path, name)
    }

    /// Deletes the node and waits until it is gone for certain.
    ///
    /// `Ok` says that it was there until now. Whatever happens, there is nothing left to clean up afterwards.
    ///
    /// # Cancel safety
    /// The delete goes on when the future is dropped.
    pub(crate) async fn delete(mut self) -> Result<(), Error> {
        self.start_delete();
        let mut uncertain = false;
        loop {
            let Stage::Deleting(_, reply) = &mut self.stage else {
                return Err(Error::Lost(Loss::Deleted));
            };
            match deleted(reply.await) {
                // Nobody but us deletes a node with our name, so one that is missing after a lost reply was deleted by us.
                Deleted::Missing if uncertain => break,
                Deleted::Done => break,
                Deleted::Missing => return Err(self.gone()),
                Deleted::Again { perhaps: false } => self.start_delete(),
                Deleted::Again { perhaps: true } => {
                    uncertain = true;
                    if self.may_still_be_there().await? {
                        self.start_delete();
                    } else {
                        break;
                    }
                }
                Deleted::Failed(error) => {
                    self.forget();
                    return Err(Error::of_session(error));
                }
            }
        }
        self.forget();
        Ok(())
    }

    /// Whether the node can still be there after a delete whose reply was lost.
    ///
    /// # Cancel safety
    /// The node is looked for, and deleted, when the contender is dropped meanwhile.
    async fn may_still_be_there(&mut self) -> Result<bool, Error> {
        let stage = std::mem::replace(&mut self.stage, Stage::Unknown);
        match self.identity.is_still_there().await {
            Ok(there) => {
                self.stage = stage;
                Ok(there)
            }
            Err(error) => {
                self.forget();
                Err(Error::of_session(error))
            }
        }
    }

    /// How the node was lost with its session, if it was.
    pub(crate) fn session_loss(&self) -> Option<Loss> {
        session_loss(self.client(), self.node()?.session_id)
    }

    /// Whether the node's session is sure to live. Otherwise what was heard of the line may be long over: the process may
    /// have slept, and the listing or event been there since before.
    pub(crate) fn has_valid_lease(&self) -> bool {
        let lease = self.client().lease();
        let is_ours = |node: &Node| node.session_id == lease.session_id;
        lease.is_valid && self.node().is_some_and(is_ours)
    }

    /// Somebody deleted the node, or its session ended with it: there is nothing to clean up any more.
    pub(crate) fn gone(&mut self) -> Error {
        let loss = self.session_loss().unwrap_or(Loss::Deleted);
        self.forget();
        Error::Lost(loss)
    }

    /// There is nothing to clean up any more: the node is gone, or is somebody else's business.
    pub(crate) fn forget(&mut self) {
        self.stage = Stage::Nothing;
    }

    /// Puts a reader's node in the place of this writer's, in one transaction.
    ///
    /// # Cancel safety
    /// Dropped at any time, neither node stays behind.
    pub(crate) async fn downgrade(mut self) -> Result<Self, Error> {
        let Some(writer) = self.node().cloned() else {
            return Err(self.gone());
        };
        let number = name::parse(&writer.name, &[name::WRITE]).map_or(0, |(_, number)| number);
        let (client, directory) = (self.client(), self.directory());
        let identity = NodeIdentity::new(client, directory.clone(), Naming::Sequential(name::READ));
        let name = format!("{}{number:010}", identity.protection.name(name::READ));
        let replace = || {
            let (data, mode) = (directory.data.clone(), CreateMode::Ephemeral);
            let create = directory.create_request(&name, mode, data);
            let delete = directory.delete_request(&writer.name);
            let [reply] = client.submit_within(writer.session_id, [transaction([create, delete])]);
            Stage::Creating(reply)
        };
        let mut reader = Self {
            stage: replace(),
            identity,
            own: Mutex::new(None),
            delete_started: Arc::default(),
        };
        loop {
            match &mut reader.stage {
                Stage::Creating(reply) => match reply.await {
                    Ok(Response::Multi(_)) => {
                        reader.stage = Stage::There(Node {
                            name: name.clone(),
                            ..writer.clone()
                        });
                    }
                    Err(error) if !is_lost(&error) => {
                        reader.forget();
                        return Err(match error {
                            // Our place in the line is not there any more.
                            SessionError::TransactionRefused { code, .. }
                                if code == ErrorCode::NO_NODE =>
                            {
                                self.gone()
                            }
                            error => Error::of_session(error),
                        });
                    }
                    _ => reader.stage = Stage::Unknown,
                },
                Stage::Unknown => match reader.identity.find().await? {
                    Some(node) => reader.stage = Stage::There(node),
                    None => reader.stage = replace(),
                },
                _ => break,
            }
        }
        self.forget();
        Ok(reader)
    }

    fn start_delete(&mut self) {
        let node = match std::mem::replace(&mut self.stage, Stage::Nothing) {
            Stage::There(node) if !self.delete_started.swap(true, Ordering::AcqRel) => node,
            Stage::Deleting(node, _) => node,
            _ => return,
        };
        let reply = self.identity.delete(&node);
        self.stage = Stage::Deleting(node, reply);
    }
}

/// Sends the delete at once, in the order of the session, so that a create after it finds the line free. The rest goes on
/// in the client's task.
impl Drop for LockNode {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::There(_)) {
            self.start_delete();
        }
        let stage = std::mem::replace(&mut self.stage, Stage::Nothing);
        if matches!(stage, Stage::Nothing) {
            return;
        }
        let (client, identity) = (&self.identity.client, self.identity.detached());
        let own = self
            .own
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match stage {
            Stage::Nothing => {}
            Stage::Deleting(node, reply) => client.run_in_background(async move {
                identity.finish_delete(&node, reply).await;
                drop(own);
            }),
            Stage::Creating(reply) => client.run_in_background(async move {
                identity.clean_up(Some(reply)).await;
            }),
            Stage::Unknown | Stage::There(_) => client.run_in_background(async move {
                identity.clean_up(None).await;
            }),
        }
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

/// The requests as one transaction; those that cannot be part of one are left out.
fn transaction(requests: [Request; 2]) -> Request {
    let op = |request| match request {
        Request::Create2(create) => Some(MultiOp::Create2(create)),
        Request::Delete(delete) => Some(MultiOp::Delete(delete)),
        _ => None,
    };
    Request::Multi(MultiRequest {
        ops: requests.into_iter().filter_map(op).collect(),
    })
}

fn on_path(mut error: SessionError, directory: &Directory) -> SessionError {
    if let SessionError::Refused { path, .. } = &mut error {
        directory.path.clone_into(path);
    }
    error
}
