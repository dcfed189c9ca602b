//! Sends the requests that a node's life needs, hands it the replies, and goes on without a caller
//! if it must.
//!
//! Not here: what to send (`life`), who owns the node (`lock_node`).

use std::{mem, sync::Arc};

use futures::future::BoxFuture;
use lockkeeper_proto::{Request, Response, path};
use lockkeeper_session::{Error as SessionError, PendingReply, Raw};

use super::{
    identity::{NodeIdentity, OwnNode, Tag, created_node, replacement},
    life::{Answer, Ask, Failure, Next, NodeLife},
    look::Look,
};
use crate::{
    backoff::Backoff,
    error::{LockError, Loss},
    order::crowd::Member,
};

/// The replies that a node's life waits for.
#[derive(Debug, Default)]
enum Pending {
    #[default]
    Nothing,
    Create(PendingReply),
    /// The transaction that creates this reader's node.
    Replace(PendingReply),
    Look(Arc<Look>),
    /// The next node of the last look.
    Next,
    Check(PendingReply),
    Delete(PendingReply),
}

/// A node's life, and the requests that it has under way.
#[derive(Debug)]
pub(super) struct NodeTask {
    pub(super) identity: NodeIdentity,
    pub(super) life: NodeLife<Arc<str>, Tag>,
    pending: Pending,
    /// The listing behind the create.
    pub(super) listing: Option<PendingReply>,
    /// The node's part in the crowd of contenders of this client.
    pub(super) member: Option<Member>,
    trouble: Option<Box<Trouble>>,
    /// The first delete counts as a clean-up: nobody has known of the node.
    counts_clean_up: bool,
}

/// What came of requests that failed. Few nodes have it.
#[derive(Debug, Default)]
struct Trouble {
    /// Why the last request failed.
    error: Option<SessionError>,
    /// What the last look has shown, and how much of it was gone through.
    found: Option<(Arc<[String]>, usize)>,
    /// Why the reply to a delete was lost.
    lost_delete: Option<SessionError>,
    /// The pause before the next request, if the last one was throttled or refused.
    backoff: Backoff,
    /// Whether a server has refused to delete the node.
    is_stuck: bool,
}

impl NodeTask {
    pub(super) fn new(identity: NodeIdentity, life: NodeLife<Arc<str>, Tag>) -> Self {
        Self {
            identity,
            life,
            pending: Pending::Nothing,
            listing: None,
            member: None,
            trouble: None,
            counts_clean_up: false,
        }
    }

    /// Goes on until the node is there, or nothing is left of it.
    ///
    /// # Cancel safety
    /// What is known of the node is kept.
    pub(super) fn settle(&mut self) -> BoxFuture<'_, Result<(), LockError>> {
        Box::pin(async move {
            loop {
                match self.life.next() {
                    Next::Rest => return Ok(()),
                    Next::Send(ask) => {
                        self.pause().await;
                        self.send(ask).await;
                    }
                    Next::Await => self.receive().await?,
                }
            }
        })
    }

    /// Waits for the end of the pause before the next request, if there is one.
    async fn pause(&mut self) {
        if let Some(trouble) = &mut self.trouble {
            trouble.backoff.pause().await;
        }
    }

    fn trouble(&mut self) -> &mut Trouble {
        self.trouble.get_or_insert_default()
    }

    /// Sends a request, as soon as there is capacity for it.
    pub(super) async fn send(&mut self, ask: Ask<Arc<str>, Tag>) {
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
                let request = identity.replace_request(&writer.name);
                let raw = identity.client.raw().within(writer.tag.session_id);
                let reply = raw.submit_with_backpressure(request).await;
                Pending::Replace(reply)
            }
            Ask::Find => {
                // A reply that is too long to be read ends no connection: the present one may be
                // that of the create.
                let error = self.trouble.as_ref().and_then(|it| it.error.as_ref());
                let is_open = matches!(error, Some(SessionError::ReplyTooLarge { .. }));
                Pending::Look(match self.life.bound() {
                    Some(node) => Look::alone(identity, Some(node.tag.session_id)),
                    None if is_open => Look::alone(identity, None),
                    None => Look::shared(identity),
                })
            }
            Ask::FindNext => Pending::Next,
            Ask::Check(name) => {
                let request = identity.check_request(&name);
                let raw = look(identity, &self.life);
                let reply = raw.submit_with_backpressure(request).await;
                Pending::Check(reply)
            }
            Ask::Delete(node) => {
                if mem::take(&mut self.counts_clean_up) {
                    let (path, name) = (&*identity.directory.path, &*node.name);
                    tracing::debug!(path, name, "deleting the node of an abandoned attempt");
                    identity.directory.counters.cleaned_up.count();
                }
                let (raw, request) = delete(identity, &node);
                let reply = raw.submit_with_backpressure(request).await;
                Pending::Delete(reply)
            }
        };
        self.life.sent();
    }

    /// Sends the delete at once. It takes from the reserve of request capacity, since a `Drop`
    /// cannot wait.
    pub(super) fn send_delete_now(&mut self) {
        let trouble = self.trouble.as_ref();
        if trouble.is_some_and(|trouble| trouble.backoff.is_due()) {
            return;
        }
        if let Next::Send(Ask::Delete(node)) = self.life.next() {
            let (raw, request) = delete(&self.identity, &node);
            let [reply] = raw.submit([request]);
            self.pending = Pending::Delete(reply);
            self.life.sent();
        }
    }

    /// Waits for a reply, and hands it to the node's life.
    async fn receive(&mut self) -> Result<(), LockError> {
        let answer = match &mut self.pending {
            Pending::Nothing => Answer::Found(Err(Failure::NotApplied)),
            Pending::Create(reply) => {
                let result = match reply.await {
                    Ok(Response::Create2(created)) => Ok(created_node(&created)),
                    Ok(_) => Err(Failure::Unknown),
                    Err(error) => Err(self.failed(error)),
                };
                if result.is_err() {
                    // It may have been sent on a later connection than the create, and not show the
                    // node.
                    self.listing = None;
                }
                Answer::Created(result)
            }
            Pending::Replace(reply) => Answer::Created(match reply.await {
                Ok(response) => replacement(&response).ok_or(Failure::Unknown),
                Err(error) => Err(self.failed(error)),
            }),
            Pending::Look(look) => match look.found().await {
                Ok(names) => {
                    let prefix = self.identity.prefix();
                    let begin = names.partition_point(|name| *name < prefix);
                    self.trouble().found = Some((names, begin));
                    Answer::Found(Ok(self.next_found()))
                }
                Err(Some(error)) => Answer::Found(Err(self.failed(error))),
                Err(None) => Answer::Found(Err(Failure::Unknown)),
            },
            Pending::Next => Answer::Found(Ok(self.next_found())),
            Pending::Check(reply) => Answer::Checked(match reply.await {
                Ok(Response::GetData(read)) => {
                    let seen = self.identity.seen(&read, self.life.bound());
                    seen.ok_or_else(|| self.distrusted())
                }
                Ok(_) => Err(Failure::Unknown),
                Err(error) => Err(self.failed(error)),
            }),
            Pending::Delete(reply) => Answer::Deleted(match reply.await {
                Ok(_) => Ok(()),
                Err(error) => {
                    let failure = self.failed(error);
                    if failure == Failure::Unknown {
                        let trouble = self.trouble();
                        trouble.lost_delete = trouble.error.take();
                    }
                    Err(failure)
                }
            }),
        };
        self.pending = Pending::Nothing;
        self.life
            .answered(answer)
            .map_err(|failure| self.report(failure))
    }

    /// The next node of the last look that may be ours.
    fn next_found(&mut self) -> Option<Arc<str>> {
        let (identity, trouble) = (&self.identity, self.trouble.get_or_insert_default());
        let (names, next) = trouble.found.as_mut()?;
        let prefix = identity.prefix();
        while let Some(name) = names.get(*next).filter(|name| name.starts_with(&prefix)) {
            *next += 1;
            if identity.may_be(name) {
                return Some(name.as_str().into());
            }
        }
        trouble.found = None;
        None
    }

    /// A reply cannot be true. The client asks again after a pause.
    fn distrusted(&mut self) -> Failure {
        let trouble = self.trouble.get_or_insert_default();
        trouble.backoff.begin(&self.identity.client);
        Failure::Throttled
    }

    fn failed(&mut self, error: SessionError) -> Failure {
        let failure = self.identity.failure(&error);
        let trouble = self.trouble.get_or_insert_default();
        if matches!(failure, Failure::Refused | Failure::Throttled) {
            trouble.backoff.begin(&self.identity.client);
        }
        trouble.error = Some(error);
        failure
    }

    /// A server refused to delete the node, or to say where it is. The client repeats the request
    /// while the session lives.
    pub(super) fn note_stuck(&mut self, error: &LockError) {
        if mem::replace(&mut self.trouble().is_stuck, true) {
            return;
        }
        let directory = &self.identity.directory;
        let name = self.life.node().map_or("", |node| &*node.name);
        directory.counters.not_deleted.count();
        let path: &str = &directory.path;
        tracing::warn!(path, name, %error, "node not deleted, trying again while the session lives");
    }

    /// The error of a delete whose reply was lost.
    pub(super) fn take_lost_delete(&mut self) -> LockError {
        let lost = self.trouble().lost_delete.take();
        lost.map_or(LockError::lost(Loss::Deleted), LockError::Session)
    }

    /// What the caller is told of a failure.
    fn report(&mut self, failure: Failure) -> LockError {
        let error = match (failure, self.trouble().error.take()) {
            (Failure::SessionOver { closed: true }, _) | (_, None) => {
                return LockError::lost(Loss::Closed);
            }
            (Failure::SessionOver { closed: false }, _) => return LockError::lost(Loss::Expired),
            (_, Some(error)) => error,
        };
        let directory = &self.identity.directory;
        let path = match self.life.node() {
            Some(node) => path::join(&directory.path, &node.name),
            None => directory.path.to_string(),
        };
        LockError::from(on_path(error, path))
    }

    /// Takes over what there is to do. It does not keep the client open.
    pub(super) fn detach(&mut self) -> Self {
        let settled = NodeLife::new(self.identity.is_fixed());
        Self {
            pending: mem::take(&mut self.pending),
            trouble: self.trouble.take(),
            ..Self::new(
                self.identity.detached(),
                mem::replace(&mut self.life, settled),
            )
        }
    }

    /// Goes on without a caller, until nothing is left of the node. `was_known` says that the
    /// caller knew of the node.
    pub(super) async fn clean_up(mut self, was_known: bool) {
        self.counts_clean_up = !was_known;
        while let Err(error) = self.settle().await {
            self.note_stuck(&error);
        }
    }
}

/// Sends the create, and for a queue a listing behind it in the same write: the listing shows the
/// new node. A missing directory is made in the same write, too: all its levels, the highest first.
/// Levels that exist fail, which does no harm.
async fn send_create(
    identity: &NodeIdentity,
    makes_directory: bool,
) -> (Option<PendingReply>, Option<PendingReply>) {
    let raw = identity.client.raw();
    if makes_directory {
        // Not together with the create: a long list is sent in parts, and this future may be
        // dropped between two of them.
        let requests = identity.directory.make_requests();
        drop(raw.submit_all_with_backpressure(requests).await);
    }
    if identity.lists {
        let (create, list) = (identity.create_request(), identity.list_request());
        let [create, list] = raw.submit_both_with_backpressure(create, list).await;
        (Some(create), Some(list))
    } else {
        let create = raw
            .submit_with_backpressure(identity.create_request())
            .await;
        (Some(create), None)
    }
}

/// Deletes go out within the session that created the node. In a later session the node is gone
/// already, and a fixed name may belong to another contender by then.
fn delete<'a>(identity: &'a NodeIdentity, node: &OwnNode) -> (Raw<'a>, Request) {
    let raw = identity.client.raw().within(node.tag.session_id);
    (raw, identity.directory.delete_request(&node.name))
}

/// A look for a node goes out in any session, unless it is about one that was known.
fn look<'a>(identity: &'a NodeIdentity, life: &NodeLife<Arc<str>, Tag>) -> Raw<'a> {
    let raw = identity.client.raw();
    match life.bound() {
        Some(node) => raw.within(node.tag.session_id),
        None => raw,
    }
}

fn on_path(mut error: SessionError, of_node: String) -> SessionError {
    if let SessionError::Refused { path, .. } = &mut error {
        *path = of_node;
    }
    error
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use lockkeeper_proto::{CreateMode, ErrorCode, OpCode, Version};
    use lockkeeper_server::{Server, When};
    use lockkeeper_session::Client;

    use super::*;
    use crate::{
        node::{directory::Directory, identity::Naming},
        order::name,
    };

    impl NodeTask {
        /// Goes on until the node is there, or a request like this comes next.
        async fn settle_until(&mut self, is_last: impl Fn(&Ask<Arc<str>, Tag>) -> bool) {
            for _ in 0..3_000 {
                match self.life.next() {
                    Next::Send(ask) if is_last(&ask) => return,
                    Next::Send(ask) => self.send(ask).await,
                    Next::Await => self.receive().await.unwrap(),
                    Next::Rest => return,
                }
            }
            panic!("it goes on without an end");
        }
    }

    async fn identity(client: &Client) -> NodeIdentity {
        client
            .create("/lock", "", CreateMode::Persistent)
            .await
            .unwrap();
        let directory = Directory::new(client, "/lock", Bytes::new(), Arc::default());
        NodeIdentity::new(client, Arc::new(directory), Naming::Sequential(name::LOCK))
    }

    /// An attempt whose create was lost.
    fn lost(identity: &NodeIdentity) -> NodeTask {
        let mut life = NodeLife::new(false);
        life.sent();
        life.answered(Answer::Created(Err(Failure::Unknown)))
            .unwrap();
        NodeTask::new(identity.clone(), life)
    }

    /// A listing that was asked for on the connection of the create may be older than the node,
    /// which would then block everybody.
    #[tokio::test]
    async fn a_look_of_the_connection_of_the_create_is_not_used() {
        let server = Server::start().await.unwrap();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let identity = identity(&client).await;
        let looks = |task: &NodeTask| match &task.pending {
            Pending::Look(look) => look.clone(),
            other => panic!("{other:?}"),
        };
        let (mut one, mut other) = (lost(&identity), lost(&identity));
        one.send(Ask::Find).await;
        other.send(Ask::Find).await;
        let shared = looks(&one);
        assert!(Arc::ptr_eq(&shared, &looks(&other)));
        one.receive().await.unwrap();

        let mut created = identity.clone();
        created.renew();
        let mut created = NodeTask::new(created, NodeLife::new(false));
        server.faults().lose_reply(When::create());
        created.settle_until(|ask| *ask == Ask::Find).await;
        created.send(Ask::Find).await;
        assert!(!Arc::ptr_eq(&shared, &looks(&created)));
        created.receive().await.unwrap();
        assert!(matches!(created.life.next(), Next::Send(Ask::Check(_))));
        // It serves those whose creates were lost before.
        other.pending = Pending::Nothing;
        other.send(Ask::Find).await;
        assert!(!Arc::ptr_eq(&shared, &looks(&other)));
    }

    /// Another contender sees our protection in a listing, and may create nodes under it. Each of
    /// 256 cost a barrier and a listing, and beyond that the client asked for ever: 22,000 requests
    /// in three seconds.
    #[tokio::test]
    async fn nodes_of_others_under_our_protection_cost_one_read_each() {
        const PLANTED: u64 = 300;
        let server = Server::start().await.unwrap();
        let ours = Client::connect(&server.connect_string()).await.unwrap();
        let other = Client::connect(&server.connect_string()).await.unwrap();
        let identity = identity(&ours).await;
        let path = path::join("/lock", &identity.prefix());
        let mode = CreateMode::EphemeralSequential;
        for _ in 0..PLANTED {
            other.create(&path, "", mode).await.unwrap();
        }
        let mine = ours.create(&path, "", mode).await.unwrap();
        let of = |op| server.counters().requests_of(op);
        for is_there in [true, false] {
            let (looks, reads) = (of(OpCode::GET_CHILDREN), of(OpCode::GET_DATA));
            let mut task = lost(&identity);
            task.settle_until(|ask| matches!(ask, Ask::Create { .. }))
                .await;
            assert_eq!(task.life.node().is_some(), is_there);
            assert_eq!(of(OpCode::GET_CHILDREN) - looks, 1);
            assert_eq!(of(OpCode::GET_DATA) - reads, PLANTED + u64::from(is_there));
            ours.delete(&mine.path, Version::ANY).await.ok();
        }
    }

    /// Curator's lock takes the dying node of its own former session for its own.
    #[tokio::test]
    async fn a_node_with_our_name_in_another_session_is_not_ours() {
        let server = Server::start().await.unwrap();
        let ours = Client::connect(&server.connect_string()).await.unwrap();
        let other = Client::connect(&server.connect_string()).await.unwrap();
        let identity = identity(&ours).await;
        let of_other = NodeIdentity {
            client: other.clone(),
            ..identity.clone()
        };
        // The node of a create whose reply was lost, found behind a barrier.
        let find = async |identity: &NodeIdentity| {
            let mut task = lost(identity);
            task.settle_until(|ask| matches!(ask, Ask::Create { .. }))
                .await;
            task.life.node().cloned()
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
        // The fencing token is the transaction that created the node, whatever has happened to the
        // node since.
        let changed = ours.set_data(&mine.path, "", Version::ANY).await;
        assert!(changed.unwrap().mzxid > mine.stat.czxid);
        assert_eq!(find(&identity).await, Some(created_node(&mine)));
        assert_eq!(find(&of_other).await, Some(created_node(&node)));
    }

    /// Only a delete that fails for the missing node has gone through all earlier writes of the
    /// session.
    #[tokio::test]
    async fn a_barrier_that_was_refused_is_repeated() {
        let server = Server::start().await.unwrap();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let directory = Directory::new(&client, "/lock", Bytes::new(), Arc::default());
        let naming = Naming::Sequential(name::LOCK);
        let identity = NodeIdentity::new(&client, Arc::new(directory), naming);
        let mut task = NodeTask::new(identity, NodeLife::new(false));
        server.faults().lose_reply(When::create());
        for nth in 1..=3 {
            let barrier = When::op(OpCode::DELETE).nth(nth);
            server.faults().refuse(barrier, ErrorCode::THROTTLED_OP);
        }
        task.settle().await.unwrap();
        assert!(task.life.is_live());
        assert_eq!(server.counters().requests_of(OpCode::DELETE), 4);
    }
}
