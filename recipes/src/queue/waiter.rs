//! A contender in a queue: lists the queue, watches the nodes ahead, and waits for its turn.
//!
//! Not here: what to do next (`turn`), what the other contenders of the client know (`view`), the
//! node itself (`node`).

use std::{pin::pin, sync::Arc, time::Instant};

use lockkeeper_proto::{EventType, OpCode, Response, jute::Names};
use lockkeeper_session::{
    AsRaw, Client, Error as SessionError, ErrorKind, GroupEvent, Snapshot,
    machine::Encoded,
    sync::{
        BoxFuture,
        select::{Either, select},
    },
};

use super::{
    other_kinds,
    stall::{Role, StallCheck},
    turn::{Listed, Next, Out, Turn},
    view::{Place, View},
};
use crate::{
    backoff::{Backoff, Rounds},
    error::LockError,
    node::{BoxedNode, Node, directory::Directory, late::LateCreates},
    order::name::{self, Kind},
};

/// A contender in a queue. Dropping it leaves the queue.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) node: BoxedNode,
    turn: Turn<Arc<str>>,
    kind: Kind,
    place: Place,
    /// How many contenders were ahead, as far as was known last; 0 when the lock is granted.
    pub(crate) ahead: usize,
    /// When the watch on the node just ahead last fired.
    nearest_fired: Option<Instant>,
    /// Whether a watch on a node ahead has fired.
    has_heard: bool,
    /// The requests behind the first ones. In a box: futures have several copies of a contender, and
    /// most need no more.
    rounds: Option<Box<Rounds>>,
    stall: StallCheck,
}

impl Waiter {
    /// A contender that has yet to enter the queue. It shares what it knows with those that have the
    /// same view.
    pub(crate) fn new(
        client: &Client,
        directory: &Arc<Directory>,
        kind: Kind,
        view: &Arc<View>,
    ) -> Self {
        let (place, lists) = view.join();
        let mut node = Node::new(client, directory.clone(), kind);
        node.lists_behind_create(lists);
        Self {
            node,
            turn: Turn::new(kind),
            kind,
            place,
            ahead: 0,
            nearest_fired: None,
            has_heard: false,
            rounds: None,
            stall: StallCheck::default(),
        }
    }

    /// Enters the queue, and learns how many are ahead: from a listing, or from the others of this
    /// client.
    pub(crate) async fn enter(&mut self) -> Result<(), LockError> {
        self.node.create().await?;
        if let Some(listing) = self.node.take_listing() {
            let reply = listing.names().await;
            return self.listed(reply).await;
        }
        self.waits()?;
        self.settle().await?;
        Ok(())
    }

    /// Joins those of this client that wait.
    fn waits(&mut self) -> Result<(), LockError> {
        let own = self.node.own()?;
        self.place.in_session(own.tag.session_id);
        self.place.enter(&own.name);
        Ok(())
    }

    /// Waits for its turn, and notes how many contenders are ahead whenever it knows.
    pub(crate) async fn turn(&mut self, ahead: &mut Option<usize>) -> Result<(), LockError> {
        *ahead = Some(self.ahead);
        while !self.is_granted().await? {
            *ahead = Some(self.ahead);
            self.news().await?;
        }
        *ahead = Some(0);
        Ok(())
    }

    /// Waits until its turn has come, or another number of contenders is ahead. What was heard is
    /// not lost with the future.
    pub(crate) async fn moved(&mut self) -> Result<(), LockError> {
        let before = self.ahead;
        while !self.is_granted().await? {
            if self.ahead != before {
                return Ok(());
            }
            self.news().await?;
        }
        self.watch_own()
    }

    /// Does what is to be done, until it is to wait. Returns whether its turn has come instead.
    async fn is_granted(&mut self) -> Result<bool, LockError> {
        loop {
            // The future does not outlive this statement: that of a waiter is to be small.
            let next = self.settle().await?;
            match next {
                Next::Grant => {
                    self.ahead = 0;
                    if let Some(since) = self.nearest_fired.take() {
                        let took = self.node.client().now().saturating_duration_since(since);
                        self.node.directory().count(|it| it.hand_over.record(took));
                    }
                    return Ok(true);
                }
                Next::Renew => {
                    self.node.renew_lease().await?;
                    self.turn.confirmed();
                }
                _ => return Ok(false),
            }
        }
    }

    /// Does what is to be done, until it is to wait, or to be granted.
    pub(crate) async fn settle(&mut self) -> Result<Next<Arc<str>>, LockError> {
        loop {
            while let Some(event) = self.node.try_event() {
                self.event(event)?;
            }
            match self.step()? {
                Next::List => self.look().await?,
                Next::Look(nodes) => self.look_at(nodes).await,
                Next::Watch(missing) => {
                    self.watch(missing)?;
                    if !self.has_heard {
                        return Ok(Next::Wait);
                    }
                    self.pause().await;
                }
                next => return Ok(next),
            }
        }
    }

    fn own(&self) -> Result<&Arc<str>, LockError> {
        self.node.own().map(|node| &node.name)
    }

    /// What to do next. Another thread may have told what came behind an event that was not looked
    /// at yet, or on a connection that is newer: nobody is granted the lock by that.
    fn step(&mut self) -> Result<Next<Arc<str>>, LockError> {
        loop {
            let connection = self.connection();
            let next = self.next(connection)?;
            if next != Next::Grant {
                if self.place.is_next() {
                    // The grant shall not wait for it.
                    self.node.keep_lease();
                }
                return Ok(next);
            }
            if let Some(event) = self.node.try_event() {
                self.event(event)?;
            } else if self.connection() == connection {
                return Ok(next);
            } else {
                self.turn.forget();
            }
        }
    }

    /// The present connection, if there is one.
    fn connection(&self) -> Option<u64> {
        let connected = |now: &Snapshot| now.state.is_connected().then_some(now.connections);
        self.node.client().raw().look(connected)
    }

    /// What to do next on this connection. Before a listing nobody may know how many are ahead.
    fn next(&mut self, connection: Option<u64>) -> Result<Next<Arc<str>>, LockError> {
        let facts = self.node.facts();
        let own = &self.node.own()?.name;
        match self.place.next(&mut self.turn, &facts, own, connection) {
            Ok((next, ahead)) => {
                if next != Next::List {
                    self.ahead = ahead;
                }
                Ok(next)
            }
            // The node goes with its session.
            Err(loss) => Err(self.out(Out::Lost(loss))),
        }
    }

    /// Watches these nodes, and no longer those that are of no use.
    fn watch(&mut self, missing: Vec<Arc<str>>) -> Result<(), LockError> {
        let own = self.own()?.clone();
        let turn = &self.turn;
        self.node.watch(missing, |name| turn.watches(name, &own));
        Ok(())
    }

    /// For one whose turn has come, and who does not take the lock yet: watches our own node, unless
    /// it is watched, and keeps the lease.
    pub(crate) fn watch_own(&mut self) -> Result<(), LockError> {
        if self.turn.watch_own() {
            self.watch(vec![self.own()?.clone()])?;
            self.node.keep_lease();
        }
        Ok(())
    }

    /// Waits for an event, or until there is another reason to look what to do.
    async fn news(&mut self) -> Result<(), LockError> {
        let heard = {
            // Pinned one by one: an async function has two copies of what it is given.
            let pause = pin!(self.stall.pause(self.node.client()));
            let wakes = pin!(self.place.wakes());
            let event = pin!(self.node.event());
            select(event, pin!(select(pause, wakes))).await
        };
        match heard {
            Either::Left(event) => self.event(event),
            Either::Right(Either::Left(())) => self.ask().await,
            Either::Right(Either::Right(())) => Ok(()),
        }
    }

    /// After a long wait: asks whether an event is missing, unless one comes. In a box, as it is
    /// rare.
    fn ask(&mut self) -> BoxFuture<'_, Result<(), LockError>> {
        Box::pin(async move {
            let heard = {
                let (node, ours) = (&self.node, self.place.rests_behind());
                let role = Role::Numbered(name::number(node.name()).unwrap_or(0));
                let ahead = ours.as_ref().or(self.turn.nearest()).map(AsRef::as_ref);
                let asks = (self.stall).asks(node.directory(), role, ahead.as_slice());
                select(node.event(), asks).await
            };
            match heard {
                Either::Left(event) => return self.event(event),
                Either::Right(true) => self.turn.forget(),
                Either::Right(false) => {}
            }
            Ok(())
        })
    }

    /// A watch has fired, or has ended.
    fn event(&mut self, event: Result<GroupEvent, SessionError>) -> Result<(), LockError> {
        let event = event.map_err(LockError::from)?;
        self.fired(&event.name, event.event_type == EventType::NODE_DELETED)
    }

    /// The watch on this node has fired.
    fn fired(&mut self, name: &str, is_deleted: bool) -> Result<(), LockError> {
        if is_deleted {
            self.place.gone(name);
            self.stall.gone(name);
        }
        self.has_heard = true;
        if self.turn.nearest().is_some_and(|it| **it == *name) {
            self.nearest_fired = Some(self.node.client().now());
        }
        match self.turn.event(name, is_deleted, self.node.name()) {
            Ok(true) => self.watch(vec![self.own()?.clone()]),
            Ok(false) => Ok(()),
            Err(out) => Err(self.out(out)),
        }
    }

    /// The pause of a round, in a box, as it is rare.
    fn pause(&mut self) -> BoxFuture<'_, ()> {
        let rounds = self.rounds.get_or_insert_default();
        Box::pin(rounds.pause(self.node.client()))
    }

    /// Lists the queue. In a box: most waiters list once at most, and the future of each would be
    /// large.
    fn look(&mut self) -> BoxFuture<'_, Result<(), LockError>> {
        Box::pin(async move {
            self.pause().await;
            let reply = self.list().await;
            self.listed(reply).await
        })
    }

    /// Looks which of these nodes are there.
    fn look_at(&mut self, nodes: Vec<Arc<str>>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.pause().await;
            let directory = self.node.directory();
            let look = |node: &Arc<str>| Encoded::read(OpCode::EXISTS, &directory.in_pieces(node));
            let requests = nodes.iter().map(look).collect();
            let raw = directory.client.raw();
            let replies = raw.submit_all_with_backpressure(requests).await;
            for (reply, node) in replies.into_iter().zip(&nodes) {
                match reply.await {
                    Ok(Response::Exists(_)) => {}
                    Err(error) if error.is_no_node() => self.place.gone(node),
                    _ => return self.turn.forget(),
                }
            }
            self.turn.looked();
        })
    }

    /// Takes this reply to a listing, or that to a later one if it is none.
    async fn listed(&mut self, reply: Result<Names, SessionError>) -> Result<(), LockError> {
        let children = match reply {
            Ok(children) => children,
            failed => self.list_again(failed).await?,
        };
        LateCreates::listed(self.node.directory(), || children.iter());
        let listed = self.understood(&children)?;
        if !listed.suspects.is_empty() {
            let suspects = listed.suspects.iter().map(|name| &**name);
            other_kinds::refuse(self.node.directory(), self.kind, suspects).await?;
        }
        self.ahead = listed.ahead;
        if listed.ahead > 0 {
            self.waits()?;
        }
        let own = &self.node.own()?.name;
        self.place.listed(self.kind, own, &children, &listed);
        Ok(())
    }

    /// Lists the queue until there is a reply. In a box, as it is rare.
    fn list_again(
        &mut self,
        mut reply: Result<Names, SessionError>,
    ) -> BoxFuture<'_, Result<Names, LockError>> {
        Box::pin(async move {
            let mut backoff = Backoff::default();
            loop {
                match reply {
                    Ok(children) => return Ok(children),
                    Err(error) if error.is_no_node() => return Err(self.node.gone()),
                    // A repeated read does no harm. The client itself pauses between connections.
                    Err(error) => match error.kind() {
                        ErrorKind::ConnectionLost(_) => {}
                        ErrorKind::Malformed { .. } => {
                            backoff.begin(self.node.client());
                            backoff.pause().await;
                        }
                        _ if error.is_transient() => {
                            backoff.after(self.node.directory(), &error).await?;
                        }
                        _ => return Err(error.into()),
                    },
                }
                reply = self.list().await;
            }
        })
    }

    /// What a listing means.
    fn understood(&mut self, children: &Names) -> Result<Listed<Arc<str>>, LockError> {
        let own = match self.own() {
            Ok(own) => own.clone(),
            Err(_) => return Err(self.node.gone()),
        };
        let shows = |node: &str| children.iter().any(|child| child == node);
        self.stall.listed(shows);
        let listed = self.turn.listed(children.iter(), &own);
        listed.map_err(|out| self.out(out))
    }

    /// Lists the queue.
    async fn list(&self) -> Result<Names, SessionError> {
        let directory = self.node.directory();
        let request = directory.list_request();
        let listing = directory.client.raw().submit_one(request).await;
        listing.names().await
    }

    /// There will be no turn.
    fn out(&mut self, out: Out) -> LockError {
        match out {
            Out::Lost(_) => self.node.gone(),
            Out::Exhausted => LockError::SequenceExhausted {
                path: self.node.directory().parent.to_string(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockkeeper_proto::{ErrorCode, Version};
    use lockkeeper_server::{Server, When};

    use super::*;
    use crate::error::Loss;

    /// Contenders of one client, which share a view.
    async fn enter(client: &Client, path: &str, count: usize) -> Vec<Waiter> {
        let directory = Directory::new(client, path, None, Kind::Mutex).unwrap();
        let (view, mut waiters) = (Arc::default(), Vec::new());
        for _ in 0..count {
            let mut waiter = Waiter::new(client, &directory, Kind::Mutex, &view);
            waiter.enter().await.unwrap();
            waiter.settle().await.unwrap();
            waiters.push(waiter);
        }
        waiters
    }

    /// Waits until this node is gone.
    async fn gone(client: &Client, name: &str) {
        let path = format!("/lock/{name}");
        while client.exists(&path).await.unwrap().is_some() {}
    }

    /// Events that came before the watch on our own node was set are told when the connection ends,
    /// and those that make up for an outage come in any order.
    #[tokio::test]
    async fn an_event_of_another_connection_is_no_grant() {
        let server = Server::start().await.unwrap();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let other = Client::connect(&server.connect_string()).await.unwrap();
        let (mut firsts, mut waiters) = (Vec::new(), Vec::new());
        for path in ["/same", "/ended", "/next", "/lost"] {
            firsts.extend(enter(&other, path, 1).await);
            waiters.extend(enter(&client, path, 1).await);
        }
        let [same, ended, next, lost] = &mut waiters[..] else {
            panic!("there are four");
        };
        let told = |waiter: &mut Waiter| {
            let nearest = waiter.turn.nearest().cloned().unwrap();
            waiter.fired(&nearest, true).unwrap();
            waiter.step().unwrap()
        };
        assert_eq!(told(same), Next::Grant);
        server.faults().refuse_handshakes(true);
        server.faults().cut_all();
        while client.snapshot().state.is_connected() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(told(ended), Next::Renew, "there is no connection");
        let is_first = ended.turn.is_next::<Arc<str>>(None);
        assert!(!is_first, "it asks for its node, not only for its lease");
        server.faults().refuse_handshakes(false);
        while client.exists("/").await.is_err() {}
        assert_eq!(told(next), Next::Renew, "the connection is another one");
        next.turn(&mut None).await.unwrap();
        assert_eq!(told(lost), Next::Renew);
        server.faults().lose_event("/lost");
        let own = lost.node.path();
        other.delete(&own, Version::ANY).await.unwrap();
        let error = lost.turn(&mut None).await.unwrap_err();
        assert_eq!(error.loss(), Some(Loss::Deleted), "{error}");
    }

    /// go-zk never looks for its own node. Here a request to leave (`revoke`) changed the node, which
    /// spent its watch. The node was deleted before the next listing, and the lock was granted
    /// without it.
    #[tokio::test]
    async fn a_changed_node_is_watched_again_before_the_queue_is_listed() {
        let server = Server::start().await.unwrap();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let other = Client::connect(&server.connect_string()).await.unwrap();
        let first = enter(&other, "/lock", 1).await;
        let mut own = enter(&client, "/lock", 1).await.pop().unwrap();
        let path = own.node.path();
        other.set_data(&path, "", Version::ANY).await.unwrap();
        // Else the new watch would tell of the change once more.
        client.sync("/").await.unwrap();
        let changed = own.node.event().await;
        own.event(changed).unwrap();
        client.sync("/").await.unwrap();
        other.delete(&path, Version::ANY).await.unwrap();
        drop(first);
        let deleted = own.node.event().await;
        let error = own.event(deleted).unwrap_err();
        assert_eq!(error.loss(), Some(Loss::Deleted), "{error}");
    }

    /// Another task has heard that the node ahead is gone. Our own one was deleted before: this was
    /// reported first, and comes to the waiter later.
    #[tokio::test]
    async fn what_another_task_knows_is_no_grant_before_all_events_were_looked_at() {
        let server = Server::start().await.unwrap();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let other = Client::connect(&server.connect_string()).await.unwrap();
        let first = enter(&other, "/lock", 1).await.pop().unwrap();
        let mut own = enter(&client, "/lock", 1).await.pop().unwrap();
        let path = own.node.path();
        other.delete(&path, Version::ANY).await.unwrap();
        gone(&client, own.node.name()).await;
        own.turn
            .event(first.node.name(), true, own.node.name())
            .unwrap();
        own.place.gone(first.node.name());
        let error = own.step().unwrap_err();
        assert_eq!(error.loss(), Some(Loss::Deleted), "{error}");
    }

    /// Whether it is the next one follows from a watch that was set before: no request tells it.
    #[tokio::test]
    async fn who_becomes_the_next_one_keeps_its_lease() {
        let server = Server::start().await.unwrap();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let other = Client::connect(&server.connect_string()).await.unwrap();
        let mut others = enter(&other, "/lock", 2).await;
        let mut own = enter(&client, "/lock", 1).await.pop().unwrap();
        assert_eq!((own.ahead, own.node.keeps_lease()), (2, false));
        drop(others.remove(0));
        let event = own.node.event().await;
        own.event(event).unwrap();
        assert_eq!(own.settle().await.unwrap(), Next::Wait);
        assert_eq!((own.ahead, own.node.keeps_lease()), (1, true));
    }

    #[tokio::test]
    async fn who_looks_takes_only_the_word_of_a_server() {
        let server = Server::start().await.unwrap();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let other = Client::connect(&server.connect_string()).await.unwrap();
        let mut others = enter(&other, "/lock", 4).await;
        let ours = enter(&client, "/lock", 2).await;
        let [mut first, mut own] = <[Waiter; 2]>::try_from(ours).unwrap();
        let nodes: Vec<Arc<str>> = others.iter().map(|it| it.node.name().into()).collect();
        let left = others.remove(1);
        drop(left);
        gone(&client, &nodes[1]).await;
        let lists = || server.counters().requests_of(OpCode::GET_CHILDREN);
        let before = lists();
        own.look_at(nodes.clone()).await;
        assert!(!own.turn.is_unknown());
        assert_eq!(own.ahead, 5);
        own.step().unwrap();
        assert_eq!(own.ahead, 4, "one is gone");
        assert_eq!(lists(), before);

        let refused = When::op(OpCode::EXISTS);
        server.faults().refuse(refused, ErrorCode::NO_AUTH);
        own.look_at(nodes.clone()).await;
        assert!(own.turn.is_unknown(), "a refusal proves nothing");
        own.settle().await.unwrap();
        assert_eq!((own.ahead, lists()), (4, before + 1));

        drop(others.remove(1));
        gone(&client, &nodes[2]).await;
        let looks = || server.counters().requests_of(OpCode::EXISTS);
        let before = looks();
        let settled = tokio::time::timeout(Duration::from_secs(10), first.settle());
        settled.await.expect("it does not look again").unwrap();
        assert_eq!(
            (first.ahead, looks()),
            (2, before + 1),
            "at the one that is not watched"
        );
    }

    /// Of those that wait, two ask: the first one watches two strangers, and the second one the first.
    /// The others have no watch, and learn what these do.
    #[tokio::test]
    async fn the_first_ones_wait_for_the_queue_and_the_others_for_them() {
        let server = Server::start().await.unwrap();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let other = Client::connect(&server.connect_string()).await.unwrap();
        let others = enter(&other, "/lock", 3).await;
        let mut waiters = enter(&client, "/lock", 8).await;
        let watched = |waiter: &Waiter| {
            let all = others.iter().chain(&waiters).map(|it| it.node.name());
            let own = waiter.node.name();
            all.filter(|name| waiter.turn.watches(name, own)).count()
        };
        let watched: Vec<_> = waiters.iter().map(watched).collect();
        assert_eq!(watched, [3, 2, 0, 0, 0, 0, 0, 0], "with their own nodes");
        drop(others);
        for _ in 0..8 {
            let mut next = waiters.remove(0);
            next.turn(&mut None).await.unwrap();
        }
    }
}
