//! A node of ours in the line: created once and for certain, deleted for certain.
//!
//! Whatever await its owner is dropped at, no node stays behind while the session lives. A create whose reply was lost
//! is looked for by its protection *and* its ephemeral owner, behind a barrier: a delete of a name that never exists.
//! It fails, but like any write of a session it is ordered behind all that the session wrote before, over earlier
//! connections too, and a listing behind it shows what those writes left. A plain listing from a server that lags would
//! miss the node, and it would block everybody until the session ends.
//!
//! Clean-up runs in the client's own task, never under its caller's deadline, and outlives the caller.
//! Not here: whose turn it is (`rank`), waiting for it (`line`).

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::FutureExt;
use lockkeeper_proto::{
    CreateMode, ErrorCode, EventType, Request, Response, SessionId, Zxid,
    multi::{MultiOp, MultiRequest},
    path,
    records::Create2Response,
};
use lockkeeper_session::{Client, Error as SessionError, Reply, Watcher};

use crate::{
    cleanup::{Deleted, clean_up, deleted, find_lost, finish_delete, is_lost},
    directory::Directory,
    error::{Error, Loss},
    name::{self, Protection},
};

/// How often a directory that vanishes between two requests is made again: an empty container may be reaped any time.
const DIRECTORY_ATTEMPTS: u32 = 8;

/// A node of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Its name in the directory.
    pub(crate) name: String,
    /// The transaction that created it.
    pub(crate) czxid: Zxid,
    /// The session that it belongs to.
    pub(crate) session_id: SessionId,
}

/// What is known of the node.
#[derive(Debug)]
enum Stage {
    /// The create is on its way.
    Creating(Reply),
    /// The create was sent, and its reply is lost.
    Unknown,
    /// The node is there.
    There(Node),
    /// Its delete is on its way.
    Deleting(Node, Reply),
    /// There is nothing to clean up.
    Nothing,
}

/// A contender: a node of ours, or one that may be.
#[derive(Debug)]
pub(crate) struct Contender {
    client: Client,
    directory: Arc<Directory>,
    protection: Protection,
    marker: &'static str,
    stage: Stage,
    /// The watch on the node, once there was a reason to leave one. It is kept until the node is gone: a watch given up
    /// earlier would be taken off the server by a request of its own. Behind a lock because a guard is looked at by many.
    own: Mutex<Option<Watcher>>,
}

impl Contender {
    /// Sends the create and a listing behind it, in one write; the listing shows the new node.
    pub(crate) fn enter(
        client: &Client,
        directory: Arc<Directory>,
        marker: &'static str,
    ) -> (Self, Reply) {
        let mut contender = Self {
            client: client.clone(),
            directory,
            protection: Protection::random(client),
            marker,
            stage: Stage::Nothing,
            own: Mutex::new(None),
        };
        let list = contender.send_create();
        (contender, list)
    }

    fn send_create(&mut self) -> Reply {
        let name = self.protection.name(self.marker);
        let create = self
            .directory
            .create_request(&name, CreateMode::EphemeralSequential);
        let [create, list] = self.client.submit([create, self.directory.list_request()]);
        self.stage = Stage::Creating(create);
        list
    }

    /// Waits until the node is there. `list` is the listing sent behind the create; returns the one to look at.
    ///
    /// # Cancel safety
    /// Dropping the future keeps what is known; dropping the contender cleans up.
    pub(crate) async fn created(&mut self, mut list: Reply) -> Result<Reply, Error> {
        let mut attempts = 0;
        loop {
            match &mut self.stage {
                Stage::There(_) => return Ok(list),
                Stage::Unknown => match self.find_lost().await {
                    Ok(Some(node)) => {
                        self.stage = Stage::There(node);
                        [list] = self.client.submit([self.directory.list_request()]);
                    }
                    // It never happened, or it belonged to a session that is over.
                    Ok(None) => list = self.start_anew(),
                    Err(error) if self.may_start_anew(&error) => list = self.start_anew(),
                    Err(error) => return Err(Error::of_session(error)),
                },
                Stage::Creating(reply) => match reply.await {
                    Ok(Response::Create2(created)) => self.stage = Stage::There(node_of(&created)),
                    Err(error) if error.is_no_node() && attempts < DIRECTORY_ATTEMPTS => {
                        attempts += 1;
                        self.stage = Stage::Nothing;
                        if let Some(behind) = self.make_directory_and_create() {
                            list = behind;
                        }
                    }
                    Err(error) if is_lost(&error) => self.stage = Stage::Unknown,
                    Err(error) if self.may_start_anew(&error) => list = self.start_anew(),
                    Err(error) => {
                        self.stage = Stage::Nothing;
                        return Err(Error::of_session(on_path(error, &self.directory.path)));
                    }
                    Ok(_) => self.stage = Stage::Unknown,
                },
                // Nobody waits for a node that was given up.
                Stage::Deleting(..) | Stage::Nothing => return Err(Error::Lost(Loss::Deleted)),
            }
        }
    }

    /// One write with everything that a missing directory takes: its levels, the node, the listing. What the levels
    /// are answered does not matter: the create behind them will tell.
    fn make_directory_and_create(&mut self) -> Option<Reply> {
        let name = self.protection.name(self.marker);
        let mut requests = self.directory.make_requests();
        requests.push(
            self.directory
                .create_request(&name, CreateMode::EphemeralSequential),
        );
        requests.push(self.directory.list_request());
        let mut replies = self.client.submit_all(requests);
        let list = replies.pop();
        self.stage = replies.pop().map_or(Stage::Nothing, Stage::Creating);
        list
    }

    /// A create under a fresh protection, so that nothing late can be taken for the new node.
    fn start_anew(&mut self) -> Reply {
        self.protection = Protection::random(&self.client);
        self.send_create()
    }

    /// Whether an attempt that had no place in the line yet can go on in the next session.
    fn may_start_anew(&self, error: &SessionError) -> bool {
        matches!(error, SessionError::SessionExpired { .. }) && !self.client.is_closed()
    }

    /// Looks for a node whose create may or may not have happened. `None` when it did not, and never will.
    async fn find_lost(&self) -> Result<Option<Node>, SessionError> {
        find_lost(&self.client, &self.directory, &self.protection).await
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
    pub(crate) fn is_told_deleted(&self) -> bool {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(event) = own.as_mut().and_then(FutureExt::now_or_never) else {
            return false;
        };
        *own = None;
        matches!(event, Ok(event) if event.event_type == EventType::NODE_DELETED)
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// The node's path as the client names it.
    pub(crate) fn path(&self) -> String {
        let name = self.node().map_or("", |node| node.name.as_str());
        path::join(&self.directory.path, name)
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
                Deleted::Again => {
                    uncertain = true;
                    self.start_delete();
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

    /// How the node was lost with its session, if it was.
    pub(crate) fn session_loss(&self) -> Option<Loss> {
        session_loss(&self.client, self.node()?.session_id)
    }

    /// Whether the node's session is sure to live. Otherwise what was heard of the line may be long over: the process may
    /// have slept, and the listing or event been there since before.
    pub(crate) fn is_sure(&self) -> bool {
        let lease = self.client.lease();
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
        let protection = Protection::random(&self.client);
        let name = format!("{}{number:010}", protection.name(name::READ));
        let replace = || {
            let create = self.directory.create_request(&name, CreateMode::Ephemeral);
            let delete = self.directory.delete_request(&writer.name);
            let [reply] = self.client.submit([transaction([create, delete])]);
            Stage::Creating(reply)
        };
        let mut reader = Self {
            client: self.client.clone(),
            directory: self.directory.clone(),
            protection,
            marker: name::READ,
            stage: replace(),
            own: Mutex::new(None),
        };
        loop {
            match &mut reader.stage {
                Stage::Creating(reply) => match reply.await {
                    Ok(Response::Multi(response)) => {
                        if let Some((index, code)) = response.failure() {
                            reader.forget();
                            if code == ErrorCode::NO_NODE {
                                return Err(self.gone());
                            }
                            let refused = SessionError::TransactionRefused { index, code };
                            return Err(Error::Session(refused));
                        }
                        reader.stage = Stage::There(Node {
                            name: name.clone(),
                            ..writer.clone()
                        });
                    }
                    Err(error) if !is_lost(&error) => {
                        reader.forget();
                        return Err(Error::of_session(error));
                    }
                    _ => reader.stage = Stage::Unknown,
                },
                Stage::Unknown => match reader.find_lost().await? {
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
        if let Stage::There(node) | Stage::Deleting(node, _) =
            std::mem::replace(&mut self.stage, Stage::Nothing)
        {
            let [reply] = self
                .client
                .submit([self.directory.delete_request(&node.name)]);
            self.stage = Stage::Deleting(node, reply);
        }
    }
}

/// Sends the delete at once, in the order of the session, so that a create after it finds the line free. The rest goes on
/// in the client's task.
impl Drop for Contender {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::There(_)) {
            self.start_delete();
        }
        let stage = std::mem::replace(&mut self.stage, Stage::Nothing);
        let (client, directory) = (self.client.downgrade(), self.directory.clone());
        let protection = self.protection.clone();
        let own = self.own_watch().take();
        match stage {
            Stage::Nothing => {}
            Stage::Deleting(node, reply) => self.client.run_in_background(async move {
                finish_delete(&client, &directory, &node.name, reply).await;
                drop(own);
            }),
            Stage::Creating(reply) => self.client.run_in_background(async move {
                clean_up(&client, &directory, &protection, Some(reply)).await;
            }),
            Stage::Unknown | Stage::There(_) => self.client.run_in_background(async move {
                clean_up(&client, &directory, &protection, None).await;
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

fn node_of(created: &Create2Response) -> Node {
    Node {
        name: path::name(&created.path).to_owned(),
        czxid: created.stat.czxid,
        session_id: created.stat.ephemeral_owner,
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

fn on_path(mut error: SessionError, node: &str) -> SessionError {
    if let SessionError::Refused { path, .. } = &mut error {
        node.clone_into(path);
    }
    error
}
