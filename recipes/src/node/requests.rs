//! Sends the requests that the life of a node needs, and hands it the replies.
//!
//! Not here: what to send (`life`), what the owner of the node asks for (the methods in `node`).

use std::{mem, sync::Arc};

use lockkeeper_proto::{Response, path};
use lockkeeper_session::{AsRaw, Cause, Error as SessionError, ErrorKind, sync::BoxFuture};

use super::{
    Node, Pending, Retry,
    identity::{Tag, created_node},
    late::LateCreates,
    life::{Answer, Ask, End, Failure, Next},
    scan::{Found, Scan},
};
use crate::error::{LockError, Loss};

impl Node {
    /// Goes on until the node is there, or nothing is left of it.
    ///
    /// # Cancel safety
    /// What is known of the node is kept.
    pub(super) fn settle(&mut self) -> BoxFuture<'_, Result<(), LockError>> {
        Box::pin(async move {
            loop {
                match self.life.next() {
                    Next::Rest => {
                        // A node that is there may stay for long, and needs none of this.
                        self.retry.take_if(|_| self.life.is_live());
                        return Ok(());
                    }
                    Next::Send(ask) => {
                        if matches!(ask, Ask::Create { .. }) {
                            if let Some(error) = self.gave_up() {
                                self.life.settle(End::NeverCreated);
                                return Err(error);
                            }
                        }
                        if let Some(retry) = &mut self.retry {
                            retry.backoff.pause().await;
                        }
                        self.send(ask).await;
                    }
                    Next::Await => self.receive().await?,
                }
            }
        })
    }

    pub(super) fn retry(&mut self) -> &mut Retry {
        self.retry.get_or_insert_default()
    }

    /// Why the create is not sent again, if it is not.
    fn gave_up(&mut self) -> Option<LockError> {
        self.retry.as_mut()?.gave_up.take()
    }

    /// Sends a request, as soon as there is capacity for it.
    pub(super) async fn send(&mut self, ask: Ask<Arc<str>, Tag>) {
        let identity = &mut self.identity;
        let (mut list, mut within) = (None, None);
        let request = match ask {
            Ask::Create { renamed, directory } => {
                if renamed {
                    identity.renew();
                }
                if directory {
                    // Not together with the create: a long list is sent in parts, and this future
                    // may be dropped between two of them. All take one round trip nevertheless.
                    // Levels that exist fail, which does no harm.
                    let levels = identity.directory.make_requests();
                    let raw = identity.client().raw();
                    let levels = raw.submit_all_with_backpressure(levels).await;
                    self.retry.get_or_insert_default().levels = levels;
                }
                list = self.lists.then(|| identity.list_request());
                identity.create_request()
            }
            Ask::Replace(writer) => {
                identity.renew();
                within = Some(writer.tag.session_id);
                identity.replace_request(&writer.name)
            }
            Ask::Check(name) => {
                within = self.life.bound().map(|node| node.tag.session_id);
                identity.check_request(&name)
            }
            Ask::Delete(node) => {
                if mem::take(&mut self.counts_clean_up) {
                    let (path, name) = (&*identity.directory.parent, &*node.name);
                    tracing::debug!(path, name, "deleting the node of an abandoned attempt");
                    identity.directory.count(|it| it.cleaned_up += 1);
                }
                within = Some(node.tag.session_id);
                identity.directory.delete_request(&node.name)
            }
            Ask::Find => {
                // A reply that is too long to be read ends no connection: the present one may be
                // that of the create.
                let error = self.retry.as_ref().and_then(|it| it.error.as_ref());
                let is_too_long =
                    |error: &SessionError| matches!(error.kind(), ErrorKind::ReplyTooLarge { .. });
                let is_open = error.is_some_and(is_too_long);
                self.pending = Pending::Scan(match self.life.bound() {
                    Some(node) => Scan::alone(identity, Some(node.tag.session_id)),
                    None if is_open => Scan::alone(identity, None),
                    None => Scan::shared(identity),
                });
                return self.life.sent();
            }
            Ask::FindNext => {
                let retry = self.retry.get_or_insert_default();
                if retry.scans > 1 {
                    retry.strangers.pause(identity.client()).await;
                }
                self.pending = Pending::Next;
                return self.life.sent();
            }
        };
        let raw = identity.raw(within);
        let (reply, listing) = if let Some(list) = list {
            // In one write: the listing shows the new node.
            let [reply, list] = raw.submit_with_backpressure([request, list]).await;
            (reply, Some(list))
        } else {
            (raw.submit_one(request).await, None)
        };
        (self.pending, self.listing) = (Pending::Reply(reply), listing);
        self.life.sent();
    }

    /// Waits for a reply, and hands it to the node's life.
    async fn receive(&mut self) -> Result<(), LockError> {
        let answer = match &mut self.pending {
            Pending::Nothing => Answer::Found(Err(Failure::NotApplied)),
            Pending::Reply(reply) => {
                let mut reply = reply.await;
                let levels = self.retry.as_mut().map(|it| mem::take(&mut it.levels));
                // Their replies are there, as they come before that of the create.
                for level in levels.into_iter().flatten().rev() {
                    match level.await {
                        _ if !reply.as_ref().is_err_and(SessionError::is_no_node) => break,
                        Err(error) if error.is_no_node() => {}
                        Err(error) if self.identity.failure(&error) == Failure::Refused => {
                            reply = Err(error);
                        }
                        _ => break,
                    }
                }
                self.answer(reply)
            }
            Pending::Scan(scan) => match scan.found().await {
                // The barrier is shorter than the create, which they refuse as well. A further scan
                // would cost each connection of this client.
                Err(Some(error)) if ends_connections(&error) && self.life.bound().is_none() => {
                    self.pending = Pending::Nothing;
                    self.life.settle(End::NeverCreated);
                    return Err(error.into());
                }
                found => self.found(found),
            },
            Pending::Next => Answer::Found(Ok(self.retry().found.pop())),
        };
        self.pending = Pending::Nothing;
        // Without a number, the name is the same next time.
        if let Answer::Found(Ok(None) | Err(Failure::NoNode)) = answer {
            if !self.identity.is_fixed() {
                LateCreates::note(&self.identity);
            }
        }
        self.life
            .answered(answer)
            .map_err(|failure| self.report(failure))
    }

    /// What a reply means to the node's life.
    fn answer(&mut self, reply: Result<Response, SessionError>) -> Answer<Arc<str>, Tag> {
        let reply = reply.map_err(|error| self.failed(error));
        match self.life.asked() {
            Some(Ask::Check(_)) => Answer::Checked(match reply {
                Ok(Response::GetData(read)) => {
                    let seen = self.identity.seen(&read, self.life.bound());
                    seen.ok_or_else(|| {
                        // The reply cannot be true: the client asks again after a pause.
                        self.begin_pause();
                        Failure::Throttled
                    })
                }
                Ok(_) => Err(Failure::Unknown),
                Err(failure) => Err(failure),
            }),
            Some(Ask::Delete(_)) => {
                if matches!(reply, Err(Failure::Unknown)) {
                    let retry = self.retry();
                    retry.lost_delete = retry.error.take();
                }
                Answer::Deleted(reply.map(drop))
            }
            _ => {
                let directory = &self.identity.directory.server_path;
                let node = |reply| created_node(directory, &reply).ok_or(Failure::Unknown);
                let node = reply.and_then(node);
                if node.is_err() {
                    // It may have been sent on a later connection than the create, and not show the
                    // node.
                    self.listing = None;
                }
                Answer::Created(node)
            }
        }
    }

    /// What a scan means to the node's life: the next node that may be ours.
    fn found(&mut self, found: Found) -> Answer<Arc<str>, Tag> {
        Answer::Found(match found {
            Ok(names) => {
                let (identity, prefix) = (&self.identity, self.identity.prefix());
                let begin = names.partition_point(|(_, name)| name.as_ref() < &*prefix);
                let ours = names.iter().skip(begin).map(|(_, name)| name.as_ref());
                let ours = ours.take_while(|name| name.starts_with(&prefix));
                let ours = ours.filter(|name| identity.may_be(name));
                let mut ours: Vec<_> = ours.map(Arc::from).collect();
                ours.reverse();
                let first = ours.pop();
                let retry = self.retry();
                retry.found = ours;
                retry.scans = retry.scans.saturating_add(u32::from(first.is_some()));
                Ok(first)
            }
            Err(Some(error)) => Err(self.failed(error)),
            Err(None) => Err(Failure::Unknown),
        })
    }

    fn begin_pause(&mut self) {
        let retry = self.retry.get_or_insert_default();
        retry.backoff.begin(self.identity.client());
    }

    fn failed(&mut self, error: SessionError) -> Failure {
        let mut failure = self.identity.failure(&error);
        let is_create = matches!(self.life.asked(), Some(Ask::Create { .. }));
        match failure {
            Failure::Throttled => {
                let retry = self.retry.get_or_insert_default();
                let again = retry.backoff.throttled(&self.identity.directory, &error);
                if let (true, Err(gave_up)) = (is_create, again) {
                    retry.gave_up = Some(gave_up);
                    failure = Failure::Refused;
                }
            }
            Failure::Refused => self.begin_pause(),
            // The connection goes on, so nothing else pauses.
            Failure::Unknown if matches!(error.kind(), ErrorKind::Malformed { .. }) => {
                self.begin_pause();
            }
            // It may have been applied nevertheless: first comes the scan.
            Failure::Unknown if is_create && ends_connections(&error) => {
                self.retry().gave_up = Some(error.clone().into());
            }
            _ => {}
        }
        self.retry().error = Some(error);
        failure
    }

    /// What the caller is told of a failure.
    fn report(&mut self, failure: Failure) -> LockError {
        if let Some(error) = self.gave_up() {
            return error;
        }
        let error = match (failure, self.retry().error.take()) {
            (Failure::SessionOver(loss), _) => return LockError::lost(loss),
            (_, None) => return LockError::lost(Loss::Closed),
            (_, Some(error)) => error,
        };
        let (directory, node) = (&self.identity.directory.parent, self.life.node());
        let path = node.map(|node| path::join(directory, &node.name));
        error.on(path.as_deref().unwrap_or(directory)).into()
    }
}

/// Whether servers close each connection behind this request.
fn ends_connections(error: &SessionError) -> bool {
    let kind = error.kind();
    matches!(
        kind,
        ErrorKind::ConnectionLost(Cause::ClosedAtRequest { .. })
    )
}

#[cfg(test)]
mod tests {
    use lockkeeper_proto::{CreateMode, ErrorCode, OpCode, Version, records::Create2Response};
    use lockkeeper_server::{Server, When};
    use lockkeeper_session::{Client, Created};

    use super::*;
    use crate::{
        node::{
            directory::Directory,
            identity::{NodeIdentity, OwnNode},
            life::NodeLife,
        },
        order::name::Kind,
    };

    impl Node {
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

    fn fresh(client: &Client) -> NodeIdentity {
        let directory = Directory::new(client, "/lock", None, Kind::Mutex).unwrap();
        NodeIdentity::new(directory, Kind::Mutex)
    }

    async fn identity(client: &Client) -> NodeIdentity {
        client
            .create("/lock", "", CreateMode::Persistent)
            .await
            .unwrap();
        fresh(client)
    }

    fn node_of(created: Created) -> Option<OwnNode> {
        let (path, stat) = (created.path, created.stat);
        let created = Create2Response { path, stat };
        created_node("/lock", &Response::Create2(created))
    }

    /// An attempt whose create was lost.
    fn lost(identity: &NodeIdentity) -> Node {
        let mut life = NodeLife::new(false);
        life.sent();
        life.answered(Answer::Created(Err(Failure::Unknown)))
            .unwrap();
        Node::without_client(identity.clone(), life)
    }

    /// A listing that was asked for on the connection of the create may be older than the node,
    /// which would then block everybody.
    #[tokio::test]
    async fn a_look_of_the_connection_of_the_create_is_not_used() {
        let server = Server::start().await.unwrap();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let identity = identity(&client).await;
        let scan_of = |task: &Node| match &task.pending {
            Pending::Scan(scan) => scan.clone(),
            other => panic!("{other:?}"),
        };
        let (mut one, mut other) = (lost(&identity), lost(&identity));
        one.send(Ask::Find).await;
        other.send(Ask::Find).await;
        let shared = scan_of(&one);
        assert!(Arc::ptr_eq(&shared, &scan_of(&other)));
        one.receive().await.unwrap();

        let mut created = identity.clone();
        created.renew();
        let mut created = Node::without_client(created, NodeLife::new(false));
        server.faults().lose_reply(When::create());
        created.settle_until(|ask| *ask == Ask::Find).await;
        created.send(Ask::Find).await;
        assert!(!Arc::ptr_eq(&shared, &scan_of(&created)));
        created.receive().await.unwrap();
        assert!(matches!(created.life.next(), Next::Send(Ask::Check(_))));
        // It serves those whose creates were lost before.
        other.pending = Pending::Nothing;
        other.send(Ask::Find).await;
        assert!(!Arc::ptr_eq(&shared, &scan_of(&other)));
    }

    /// It may have been sent on a later connection than the create, to a server that lags.
    #[tokio::test]
    async fn a_listing_behind_a_lost_create_is_not_used() {
        let server = Server::start().await.unwrap();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let directory = identity(&client).await.directory;
        let mut task = Node::new(&client, directory, Kind::Mutex);
        server.faults().lose_reply(When::create());
        task.begin().await;
        assert!(task.listing.is_some());
        task.receive().await.unwrap();
        assert!(task.listing.is_none());
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
            let (scans, reads) = (of(OpCode::GET_CHILDREN), of(OpCode::GET_DATA));
            let mut task = lost(&identity);
            task.settle_until(|ask| matches!(ask, Ask::Create { .. }))
                .await;
            assert_eq!(task.life.node().is_some(), is_there);
            assert_eq!(of(OpCode::GET_CHILDREN) - scans, 1);
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
        let mut identity = identity(&ours).await;
        // The node of a create whose reply was lost, found behind a barrier.
        let find = async |identity: &NodeIdentity| {
            let mut task = lost(identity);
            task.settle_until(|ask| matches!(ask, Ask::Create { .. }))
                .await;
            task.life.node().cloned()
        };
        let path = |identity: &NodeIdentity| path::join("/lock", &identity.prefix());
        let mode = CreateMode::EphemeralSequential;
        other.create(&path(&identity), "", mode).await.unwrap();
        assert_eq!(find(&identity).await, None);
        // A name that was not found is not used again.
        identity.renew();
        let mut of_other = identity.clone();
        Arc::make_mut(&mut of_other.directory).client = other.clone();
        let path = path(&identity);
        let others = other.create(&path, "", mode).await.unwrap();
        let mine = ours.create(&path, "", mode).await.unwrap();
        let found = find(&identity).await;
        assert_eq!(found, node_of(mine.clone()), "behind the other one");
        // The fencing token is the transaction that created the node, whatever has happened to the
        // node since.
        let changed = ours.set_data(&mine.path, "", Version::ANY).await;
        assert!(changed.unwrap().mzxid > mine.stat.czxid);
        assert_eq!(find(&identity).await, node_of(mine));
        assert_eq!(find(&of_other).await, node_of(others));
    }

    /// Only a delete that fails for the missing node has gone through all earlier writes of the
    /// session.
    #[tokio::test]
    async fn a_barrier_that_was_refused_is_repeated() {
        let server = Server::start().await.unwrap();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let mut task = Node::without_client(fresh(&client), NodeLife::new(false));
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
