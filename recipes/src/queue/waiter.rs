//! A contender in a queue: lists the queue, watches the nodes ahead, and waits for its turn.
//!
//! Not here: what to do next (`turn`), what the other contenders of the client know (`view`), the
//! node itself (`node`).

use std::{sync::Arc, time::Instant};

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
    patience::{Patience, Role},
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
    /// The listings behind the first one. In a box: futures have several copies of a contender, and
    /// most list no more.
    rounds: Option<Box<Rounds>>,
    patience: Patience,
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
            rounds: None,
            patience: Patience::default(),
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
        self.place.enter(&self.node.own()?.name);
        self.settle().await?;
        Ok(())
    }

    /// Waits for its turn, and notes how many contenders are ahead whenever it knows.
    pub(crate) async fn turn(&mut self, ahead: &mut Option<usize>) -> Result<(), LockError> {
        *ahead = Some(self.ahead);
        while !self.moved(ahead).await? {}
        Ok(())
    }

    /// Waits until another number of contenders is ahead, and notes it. Returns whether its turn has
    /// come. What was heard is not lost with the future.
    pub(crate) async fn moved(&mut self, ahead: &mut Option<usize>) -> Result<bool, LockError> {
        loop {
            match self.settle().await? {
                Next::Grant => {
                    self.ahead = 0;
                    *ahead = Some(0);
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
                _ => {
                    if ahead.replace(self.ahead) != Some(self.ahead) {
                        return Ok(false);
                    }
                    self.news().await?;
                }
            }
        }
    }

    /// Does what is to be done, until it is to wait, or to be granted.
    pub(crate) async fn settle(&mut self) -> Result<Next<Arc<str>>, LockError> {
        loop {
            while let Some(event) = self.node.try_event() {
                self.event(event)?;
            }
            match self.next()? {
                Next::List => self.look().await?,
                Next::Look(nodes) => self.look_at(nodes).await,
                Next::Watch(missing) => self.watch(missing)?,
                next => return Ok(next),
            }
        }
    }

    fn own(&self) -> Result<&Arc<str>, LockError> {
        self.node.own().map(|node| &node.name)
    }

    /// What to do next.
    fn next(&mut self) -> Result<Next<Arc<str>>, LockError> {
        let facts = self.node.facts();
        let connected = |now: &Snapshot| now.state.is_connected().then_some(now.connections);
        let connection = self.node.client().raw().look(connected);
        let own = &self.node.own()?.name;
        match self.place.next(&mut self.turn, &facts, own, connection) {
            Ok((next, ahead)) => {
                self.ahead = ahead;
                Ok(next)
            }
            // The node goes with its session.
            Err(loss) => Err(self.out(Out::Lost(loss))),
        }
    }

    /// Watches these nodes, and no longer those that are of no use.
    fn watch(&mut self, missing: Vec<Arc<str>>) -> Result<(), LockError> {
        let own = self.own()?.clone();
        if self.place.is_next(&self.turn, &own) {
            self.node.keep_lease();
        }
        let turn = &self.turn;
        self.node.watch(missing, |name| turn.watches(name, &own));
        Ok(())
    }

    /// Watches our own node, unless it is watched.
    pub(crate) fn watch_own(&mut self) -> Result<(), LockError> {
        if self.turn.watch_own() {
            self.watch(vec![self.own()?.clone()])?;
        }
        Ok(())
    }

    /// Waits for an event, or until there is another reason to look what to do.
    async fn news(&mut self) -> Result<(), LockError> {
        let heard = {
            let pause = self.patience.pause(self.node.client());
            select(self.node.event(), select(pause, self.place.wakes())).await
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
                let asks = (self.patience).asks(node.directory(), role, ahead.as_slice());
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
        let is_deleted = event.event_type == EventType::NODE_DELETED;
        if is_deleted {
            self.place.gone(&event.name);
        }
        if self.turn.nearest().is_some_and(|name| *name == event.name) {
            self.nearest_fired = Some(self.node.client().now());
        }
        let own = self.node.name();
        match self.turn.event(&event.name, is_deleted, own) {
            Ok(true) => self.watch(vec![self.own()?.clone()]),
            Ok(false) => Ok(()),
            Err(out) => Err(self.out(out)),
        }
    }

    /// Lists the queue. In a box: most waiters list no more than once, and the future of each would
    /// be large.
    fn look(&mut self) -> BoxFuture<'_, Result<(), LockError>> {
        Box::pin(async move {
            let rounds = self.rounds.get_or_insert_default();
            rounds.pause(self.node.client()).await;
            let reply = self.list().await;
            self.listed(reply).await
        })
    }

    /// Looks which of these nodes are there.
    fn look_at(&mut self, nodes: Vec<Arc<str>>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
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
        LateCreates::listed(self.node.directory(), children.iter());
        let listed = self.understood(&children)?;
        if !listed.suspects.is_empty() {
            let suspects = listed.suspects.iter().map(|name| &**name);
            other_kinds::refuse(self.node.directory(), self.kind, suspects).await?;
        }
        self.ahead = listed.ahead;
        let own = &self.node.own()?.name;
        if listed.ahead > 0 {
            self.place.enter(own);
        }
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
        self.patience.listed(shows);
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
    use std::{future::Future, pin::pin, time::Duration};

    use lockkeeper_proto::{ErrorCode, OpCode};
    use lockkeeper_server::{Server, When};

    use super::*;

    async fn entered(
        client: &Client,
        directory: &Arc<Directory>,
        crowd: Option<&Arc<Crowd>>,
    ) -> Result<Waiter, LockError> {
        let mut waiter = Waiter::new(client, directory, Kind::Mutex);
        waiter.enter(crowd).await?;
        Ok(waiter)
    }

    /// Lets the replies to all that was sent arrive, and then ends the connection. Returns when the
    /// client has the next one.
    async fn reconnect(server: &Server, client: &Client) {
        client.exists("/").await.unwrap();
        let before = client.snapshot().connections;
        server.faults().cut_all();
        while client.snapshot().connections == before || client.exists("/").await.is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Otherwise events that make up for an outage, which come in any order, could be taken for a
    /// grant.
    #[tokio::test]
    async fn a_listing_belongs_to_the_connection_on_which_it_was_asked_for() {
        let server = Server::start().await.unwrap();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let directory = Directory::new(&client, "/lock", None, Kind::Mutex).unwrap();
        let crowd = Arc::default();
        let enter = || entered(&client, &directory, Some(&crowd));
        let mut waiters = Vec::new();
        for _ in 0..6 {
            waiters.push(enter().await.unwrap());
        }
        let [first, second, ..] = &mut waiters[..] else {
            panic!("there are six");
        };
        let listing = second.list().await;
        reconnect(&server, &client).await;
        second.listed(listing).await.unwrap();
        let present = client.snapshot().connections;
        assert!(!second.turn.is_on(present));
        let member = second.node.member().unwrap();
        assert!(!member.is_first(first.node.name(), |listed_on| listed_on == present));
        assert!(member.is_first(first.node.name(), |_| true));

        // The same for the listing behind the create.
        let enter = || entered(&client, &directory, None);
        let mut third = pin!(enter());
        let poll =
            std::future::poll_fn(|cx| std::task::Poll::Ready(third.as_mut().poll(cx).is_pending()));
        assert!(poll.await);
        reconnect(&server, &client).await;
        let third = third.await.unwrap();
        assert!(!third.turn.is_on(client.snapshot().connections));
    }

    #[tokio::test]
    async fn a_look_proves_only_what_a_server_has_said_of_the_present_connection() {
        let server = Server::start().await.unwrap();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let other = Client::connect(&server.connect_string()).await.unwrap();
        let mut waiters = Vec::new();
        for (client, count) in [(&other, 4), (&client, 6)] {
            let directory = Directory::new(client, "/lock", None, Kind::Mutex).unwrap();
            let crowd = Arc::default();
            for _ in 0..count {
                let entered = entered(client, &directory, Some(&crowd));
                waiters.push(entered.await.unwrap());
            }
        }
        let mut waiters = waiters.into_iter();
        let [first, second, third, _nearest, mut own] = [(); 5].map(|()| waiters.next().unwrap());
        let _behind: Vec<_> = waiters.collect();
        let few = |own: &Waiter| {
            let member = own.node.member().unwrap();
            member.few_ahead(own.node.name()).unwrap()
        };
        drop(third);
        let event = own.node.event().await;
        own.event(event).unwrap();
        assert!(own.turn.has_thinned());
        assert!(own.waits_behind_few().await);
        assert_eq!(few(&own).len(), 3, "all of them are there");
        assert!(!own.turn.is_next());
        drop(second);
        let event = own.node.event().await;
        own.event(event).unwrap();
        let thinned = own.turn.clone();
        assert!(own.waits_behind_few().await);
        assert!(!own.turn.is_next(), "the nearest one may end first");
        own.turn = thinned;

        let end = first.node.name().to_owned();
        drop(first);
        while client
            .exists(&format!("/lock/{end}"))
            .await
            .unwrap()
            .is_some()
        {}
        let refused = When::op(OpCode::EXISTS);
        server.faults().refuse(refused, ErrorCode::NO_AUTH);
        assert!(!own.looks_ahead().await);
        assert_eq!(few(&own).len(), 2, "a refusal proves nothing");
        assert!(own.looks_ahead().await);
        assert_eq!(few(&own).len(), 1);

        // Events of watches that were set again come in any order.
        reconnect(&server, &client).await;
        assert!(!own.looks_ahead().await);
        assert!(!own.waits_behind_few().await);
        let (name, present) = (own.node.node().unwrap().name.clone(), own.connection());
        assert!(own.turn.narrow(&name, &few(&own), present).is_none());
    }

    /// The end of a connection releases events that came before the watch on our own node was set.
    /// They are no grant.
    #[tokio::test]
    async fn an_event_of_a_lost_connection_is_no_grant() {
        let server = Server::start().await.unwrap();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let directory = Directory::new(&client, "/lock", None, Kind::Mutex).unwrap();
        let enter = || entered(&client, &directory, None);
        let waiter = enter().await.unwrap();
        let present = client.snapshot().connections;
        assert_eq!(waiter.connection(), Some(present));
        server.faults().refuse_handshakes(true);
        server.faults().cut_all();
        while client.snapshot().state.is_connected() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(waiter.connection(), None);
        assert!(
            waiter.turn.is_on(present),
            "the machine would take it for one"
        );
    }
}
