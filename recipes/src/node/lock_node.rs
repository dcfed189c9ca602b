//! A node of ours: sends what its life needs, and cleans up when its owner goes.
//!
//! The owner may be dropped at any await: no node stays behind while the session lives. Clean-up runs in the client's own task,
//! without the caller's deadline, and outlives the caller.
//!
//! Not here: what to send (`life`), whose turn it is (`queue`).

use std::{
    mem,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use lockkeeper_proto::{EventType, Request, Response, SessionId, path};
use lockkeeper_session::{
    Client, Error as SessionError, GroupEvent, PendingReply, Raw, WatchGroup,
};

use super::{
    directory::Directory,
    identity::{Naming, NodeIdentity, OwnNode, Tag, created_node, is_replaced},
    life::{Answer, Ask, End, Failure, Next, Node, NodeLife},
    name,
};
use crate::{
    error::{Error, Loss},
    metrics::count,
    queue::turn::Facts,
};

/// The replies that a node's life waits for.
#[derive(Debug, Default)]
enum Pending {
    #[default]
    Nothing,
    Create(PendingReply),
    /// The transaction that creates this reader's node.
    Replace(PendingReply, OwnNode),
    /// The barrier, and the listing behind it.
    Barrier(PendingReply, PendingReply, u8),
    Listing(PendingReply, u8),
    Check(PendingReply),
    Delete(PendingReply),
}

/// A node's life, and the requests that it has under way.
#[derive(Debug)]
struct NodeTask {
    identity: NodeIdentity,
    life: NodeLife<Arc<str>, Tag>,
    pending: Pending,
    /// The listing behind the create.
    listing: Option<PendingReply>,
    /// Why the last request failed.
    error: Option<SessionError>,
}

impl NodeTask {
    fn new(identity: NodeIdentity, life: NodeLife<Arc<str>, Tag>) -> Self {
        Self {
            identity,
            life,
            pending: Pending::Nothing,
            listing: None,
            error: None,
        }
    }

    /// Goes on until the node is there, or nothing is left of it.
    ///
    /// # Cancel safety
    /// What is known of the node is kept.
    async fn settle(&mut self) -> Result<(), Error> {
        loop {
            match self.life.next() {
                Next::Rest => return Ok(()),
                Next::Send(ask) => self.send(ask).await,
                Next::Await => self.receive().await?,
            }
        }
    }

    /// Sends a request, as soon as there is capacity for it.
    async fn send(&mut self, ask: Ask<Arc<str>, Tag>) {
        let identity = &mut self.identity;
        self.pending = match ask {
            Ask::Create { renamed, directory } => {
                if renamed {
                    identity.renew();
                }
                let (create, list) = send_create(identity, directory).await;
                self.listing = list;
                create.map_or(Pending::Nothing, Pending::Create)
            }
            Ask::Replace(writer) => {
                let reader = Node {
                    name: identity.reader_name(&writer.name),
                    tag: writer.tag,
                };
                let request = identity.replace_request(&reader.name, &writer.name);
                let raw = identity.client.raw().within(writer.tag.session_id);
                let [reply] = raw.submit_with_backpressure([request]).await;
                Pending::Replace(reply, reader)
            }
            Ask::Find { skip } => {
                let requests = [
                    identity.barrier_request(),
                    identity.directory.list_request(),
                ];
                let raw = identity.client.raw();
                let [barrier, list] = raw.submit_with_backpressure(requests).await;
                Pending::Barrier(barrier, list, skip)
            }
            Ask::Check(name) => {
                let request = identity.check_request(&name);
                let [reply] = identity
                    .client
                    .raw()
                    .submit_with_backpressure([request])
                    .await;
                Pending::Check(reply)
            }
            Ask::Delete(node) => {
                let (raw, request) = delete(identity, &node);
                let [reply] = raw.submit_with_backpressure([request]).await;
                Pending::Delete(reply)
            }
        };
        self.life.sent();
    }

    /// Sends the delete at once. It takes from the reserve of request capacity, since a `Drop` cannot wait.
    fn send_delete_now(&mut self) {
        if let Next::Send(Ask::Delete(node)) = self.life.next() {
            let (raw, request) = delete(&self.identity, &node);
            let [reply] = raw.submit([request]);
            self.pending = Pending::Delete(reply);
            self.life.sent();
        }
    }

    /// Waits for a reply, and hands it to the node's life.
    async fn receive(&mut self) -> Result<(), Error> {
        let answer = match &mut self.pending {
            Pending::Nothing => Answer::Found(Err(Failure::NotApplied)),
            Pending::Create(reply) => Answer::Created(match reply.await {
                Ok(Response::Create2(created)) => Ok(created_node(&created)),
                Ok(_) => Err(Failure::Unknown),
                Err(error) => Err(self.failed(error)),
            }),
            Pending::Replace(reply, reader) => Answer::Created(match reply.await {
                Ok(response) if is_replaced(&response) => Ok(reader.clone()),
                Ok(_) => Err(Failure::Unknown),
                Err(error) => Err(self.failed(error)),
            }),
            Pending::Barrier(barrier, ..) => match barrier.await {
                Err(error) if !error.is_no_node() => Answer::Found(Err(self.failed(error))),
                _ => {
                    // The barrier has passed: the listing behind it shows everything.
                    if let Pending::Barrier(_, list, skip) = mem::take(&mut self.pending) {
                        self.pending = Pending::Listing(list, skip);
                    }
                    return Ok(());
                }
            },
            Pending::Listing(list, skip) => Answer::Found(match list.await {
                Ok(Response::GetChildren(list)) => {
                    let mut found = list.children;
                    found.retain(|name| self.identity.may_be(name));
                    found.sort();
                    Ok(found
                        .get(usize::from(*skip))
                        .map(|name| name.as_str().into()))
                }
                Ok(_) => Err(Failure::Unknown),
                Err(error) => Err(self.failed(error)),
            }),
            Pending::Check(reply) => Answer::Checked(match reply.await {
                Ok(Response::GetData(read)) => {
                    Ok(self.identity.seen(read.data.as_ref(), &read.stat))
                }
                Ok(_) => Err(Failure::Unknown),
                Err(error) => Err(self.failed(error)),
            }),
            Pending::Delete(reply) => Answer::Deleted(match reply.await {
                Ok(_) => Ok(()),
                Err(error) => Err(self.failed(error)),
            }),
        };
        self.pending = Pending::Nothing;
        self.life
            .answered(answer)
            .map_err(|failure| self.report(failure))
    }

    fn failed(&mut self, error: SessionError) -> Failure {
        let failure = self.identity.failure(&error);
        self.error = Some(error);
        failure
    }

    /// What the caller is told of a failure.
    fn report(&mut self, failure: Failure) -> Error {
        let error = match (failure, self.error.take()) {
            (Failure::SessionOver { closed: true }, _) | (_, None) => {
                return Error::Lost(Loss::Closed);
            }
            (Failure::SessionOver { closed: false }, _) => return Error::Lost(Loss::Expired),
            (_, Some(error)) => error,
        };
        Error::of_session(on_path(error, &self.identity.directory))
    }

    /// Goes on without a caller, until nothing is left of the node. `was_known` says that the caller knew of the node.
    async fn clean_up(mut self, was_known: bool) {
        let mut is_counted = was_known;
        loop {
            match self.life.next() {
                Next::Rest => return,
                Next::Send(ask) => {
                    let (directory, path) =
                        (&self.identity.directory, &self.identity.directory.path);
                    if let Ask::Delete(node) = &ask
                        && !mem::replace(&mut is_counted, true)
                    {
                        let name = &*node.name;
                        tracing::debug!(path, name, "deleting the node of an abandoned attempt");
                        count(&directory.counters.cleaned_up);
                    }
                    self.send(ask).await;
                }
                Next::Await => {
                    if let Err(error) = self.receive().await {
                        let path = &self.identity.directory.path;
                        tracing::warn!(path, %error, "node not deleted, it goes with the session");
                    }
                }
            }
        }
    }
}

/// Sends the create, and for a queue a listing behind it in the same write: the listing shows the new node. A missing
/// directory is made in the same write, too: all its levels, the highest first. Levels that exist fail, which does no harm.
async fn send_create(
    identity: &NodeIdentity,
    makes_directory: bool,
) -> (Option<PendingReply>, Option<PendingReply>) {
    let (raw, directory) = (identity.client.raw(), &identity.directory);
    let is_queued = !identity.is_fixed();
    if makes_directory {
        let mut requests = directory.make_requests();
        requests.push(identity.create_request());
        requests.extend(is_queued.then(|| directory.list_request()));
        let mut replies = raw.submit_all_with_backpressure(requests).await;
        let list = if is_queued { replies.pop() } else { None };
        return (replies.pop(), list);
    }
    let create = identity.create_request();
    if is_queued {
        let requests = [create, directory.list_request()];
        let [create, list] = raw.submit_with_backpressure(requests).await;
        (Some(create), Some(list))
    } else {
        let [create] = raw.submit_with_backpressure([create]).await;
        (Some(create), None)
    }
}

/// Deletes go out within the session that created the node. In a later session the node is gone already, and a fixed name
/// may belong to another contender by then.
fn delete<'a>(identity: &'a NodeIdentity, node: &OwnNode) -> (Raw<'a>, Request) {
    let raw = identity.client.raw().within(node.tag.session_id);
    (raw, identity.directory.delete_request(&node.name))
}

fn on_path(mut error: SessionError, directory: &Directory) -> SessionError {
    if let SessionError::Refused { path, .. } = &mut error {
        directory.path.clone_into(path);
    }
    error
}

/// A node of ours, or one that may be created.
#[derive(Debug)]
pub(crate) struct LockNode {
    /// In a box: the node moves from the waiter to the guard.
    task: Box<NodeTask>,
    /// The watch on this node and, in a queue, on the nodes ahead. The own watch is kept until the node is gone: to give it up
    /// earlier would cost a request that removes it from the server.
    watches: Option<WatchGroup>,
    /// Set when the hold has a limit: whether the delete has begun, here or by the limit. A second delete could hit the node
    /// of another contender if the name is fixed.
    delete_started: OnceLock<Arc<AtomicBool>>,
}

impl LockNode {
    /// A node that is to be created.
    pub(crate) fn new(client: &Client, directory: Arc<Directory>, naming: Naming) -> Self {
        let identity = NodeIdentity::new(client, directory, naming);
        let life = NodeLife::new(identity.is_fixed());
        Self {
            task: Box::new(NodeTask::new(identity, life)),
            watches: None,
            delete_started: OnceLock::new(),
        }
    }

    /// Begins the delete. False if the limit of the hold has begun it.
    fn begin_delete(&self) -> bool {
        let started = self.delete_started.get();
        started.is_none_or(|started| !started.swap(true, Ordering::AcqRel))
    }

    /// Creates the node, and waits until it is there. For a fixed name: returns false when another contender has it.
    ///
    /// # Cancel safety
    /// Dropping the future keeps what is known. Dropping the node cleans up.
    pub(crate) async fn create(&mut self) -> Result<bool, Error> {
        self.task.settle().await?;
        match self.task.life.end() {
            None => Ok(true),
            Some(End::Taken) => Ok(false),
            Some(_) => Err(Error::Lost(Loss::Deleted)),
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

    /// The node, once it is there.
    pub(crate) fn node(&self) -> Option<&OwnNode> {
        self.task.life.node()
    }

    /// The name of the node; empty while it is not known.
    pub(crate) fn name(&self) -> &str {
        self.node().map_or("", |node| &node.name)
    }

    pub(crate) fn client(&self) -> &Client {
        &self.task.identity.client
    }

    pub(crate) fn directory(&self) -> &Arc<Directory> {
        &self.task.identity.directory
    }

    /// The path of the node, as the client names it.
    pub(crate) fn path(&self) -> String {
        path::join(&self.directory().path, self.name())
    }

    /// Watches nodes of the directory with one request, and gives up the watches on others.
    pub(crate) fn watch(&mut self, names: Vec<Arc<str>>, is_wanted: impl Fn(&str) -> bool) {
        if let Some(watches) = &self.watches {
            watches.retain(is_wanted);
        }
        if names.is_empty() {
            return;
        }
        let directory = self.task.identity.directory.clone();
        directory.count();
        let client = &self.task.identity.client;
        let watches = self
            .watches
            .get_or_insert_with(|| client.raw().watch_group());
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
    pub(crate) fn facts(&self) -> Facts {
        let lease = self.client().lease();
        let is_ours = |node: &OwnNode| node.tag.session_id == lease.session_id;
        Facts {
            session_loss: self.session_loss(),
            is_lease_valid: lease.is_valid && self.node().is_some_and(is_ours),
            connection: self.client().snapshot().connections,
        }
    }

    /// How the node was lost with its session, if it was.
    pub(crate) fn session_loss(&self) -> Option<Loss> {
        session_loss(self.client(), self.node()?.tag.session_id)
    }

    /// The node is gone: there is nothing to clean up. Returns what the caller is told.
    pub(crate) fn gone(&mut self) -> Error {
        let loss = self.session_loss().unwrap_or(Loss::Deleted);
        self.forget();
        Error::Lost(loss)
    }

    /// There is nothing to clean up: the node is gone, or another one deletes it.
    pub(crate) fn forget(&mut self) {
        self.task.life.settle(End::Gone);
    }

    /// Deletes the node, and waits until it is gone for certain.
    ///
    /// `Ok` says that the node existed until now. There is nothing left to clean up afterwards, whatever the result.
    ///
    /// # Cancel safety
    /// The delete goes on when the future is dropped.
    pub(crate) async fn delete(mut self) -> Result<(), Error> {
        if !self.begin_delete() {
            self.forget();
            return Err(Error::Lost(Loss::Deleted));
        }
        let session_id = self.node().map(|node| node.tag.session_id);
        self.task.life.release();
        self.task.settle().await?;
        let loss = |session_id| session_loss(self.client(), session_id);
        match self.task.life.end() {
            Some(End::Deleted) => Ok(()),
            Some(End::SessionOver { closed: true }) => Err(Error::Lost(Loss::Closed)),
            Some(End::SessionOver { closed: false }) => Err(Error::Lost(Loss::Expired)),
            _ => Err(Error::Lost(
                session_id.and_then(loss).unwrap_or(Loss::Deleted),
            )),
        }
    }

    /// Puts a reader's node in the place of this writer's, in one transaction.
    ///
    /// # Cancel safety
    /// Dropped at any time, neither node stays behind.
    pub(crate) async fn downgrade(mut self) -> Result<Self, Error> {
        let session_id = self.node().map(|node| node.tag.session_id);
        let (client, directory) = (self.client().clone(), self.directory().clone());
        self.task.identity = NodeIdentity::new(&client, directory, Naming::Sequential(name::READ));
        self.task.life.replace();
        self.task.settle().await?;
        if self.task.life.is_live() {
            return Ok(self);
        }
        let loss = session_id.and_then(|session_id| session_loss(&client, session_id));
        Err(Error::Lost(loss.unwrap_or(Loss::Deleted)))
    }

    /// Deletes the node in the client's task, on behalf of the limit of a hold. Nothing is sent if the delete has begun.
    pub(crate) fn deleter(&self) -> Option<Deleter> {
        let node = self.node()?.clone();
        let mut life = NodeLife::live(node, self.task.identity.is_fixed());
        life.release();
        Some(Deleter {
            task: NodeTask::new(self.task.identity.detached(), life),
            delete_started: self.delete_started.get_or_init(Arc::default).clone(),
        })
    }
}

/// Deletes a node on behalf of the limit of its hold.
#[derive(Debug)]
pub(crate) struct Deleter {
    task: NodeTask,
    delete_started: Arc<AtomicBool>,
}

impl Deleter {
    /// Begins the delete. False if somebody else has begun it.
    pub(crate) fn begin(&self) -> bool {
        !self.delete_started.swap(true, Ordering::AcqRel)
    }

    /// Deletes the node, and goes on until it is gone.
    pub(crate) async fn finish(self) {
        self.task.clean_up(true).await;
    }
}

/// Sends the delete at once, in the order of the session: a create after it finds the queue free. The rest goes on in the
/// client's task.
impl Drop for LockNode {
    fn drop(&mut self) {
        let was_known = self.task.life.is_live();
        if was_known && !self.begin_delete() {
            self.forget();
        }
        self.task.life.abandon();
        self.task.send_delete_now();
        if self.task.life.end().is_some() {
            return;
        }
        let watches = self.watches.take();
        if let Some(watches) = &watches {
            watches.retain(|name| name == self.name());
        }
        let settled = NodeLife::new(self.task.identity.is_fixed());
        let task = NodeTask {
            pending: mem::take(&mut self.task.pending),
            ..NodeTask::new(
                self.task.identity.detached(),
                mem::replace(&mut self.task.life, settled),
            )
        };
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use lockkeeper_proto::CreateMode;
    use lockkeeper_server::Server;

    use super::*;

    /// Curator's lock takes the dying node of its own former session for its own.
    #[tokio::test]
    async fn a_node_with_our_name_in_another_session_is_not_ours() {
        let server = Server::start().await.unwrap();
        let ours = Client::connect(&server.connect_string()).await.unwrap();
        let other = Client::connect(&server.connect_string()).await.unwrap();
        ours.create("/lock", "", CreateMode::Persistent)
            .await
            .unwrap();
        let directory = Arc::new(Directory::new(&ours, "/lock", Bytes::new(), Arc::default()));
        let identity = NodeIdentity::new(&ours, directory, Naming::Sequential(name::LOCK));
        let of_other = NodeIdentity {
            client: other.clone(),
            ..identity.clone()
        };
        // The node of a create whose reply was lost, found behind a barrier.
        let find = async |identity: &NodeIdentity| {
            let mut life = NodeLife::new(false);
            life.sent();
            life.answered(Answer::Created(Err(Failure::Unknown)))
                .unwrap();
            let mut task = NodeTask::new(identity.clone(), life);
            loop {
                match task.life.next() {
                    Next::Send(Ask::Create { .. }) => return None,
                    Next::Send(ask) => task.send(ask).await,
                    Next::Await => task.receive().await.unwrap(),
                    Next::Rest => return task.life.node().cloned(),
                }
            }
        };
        let Request::Create2(create) = identity.create_request() else {
            panic!("a queue creates its nodes with create2");
        };
        let path = create.path;
        let mode = CreateMode::EphemeralSequential;
        let node = other.create(&path, "", mode).await.unwrap();
        assert_eq!(find(&identity).await, None);
        let mine = ours.create(&path, "", mode).await.unwrap();
        let found = find(&identity).await;
        assert_eq!(found, Some(created_node(&mine)), "behind the other one");
        assert_eq!(find(&of_other).await, Some(created_node(&node)));
    }
}
