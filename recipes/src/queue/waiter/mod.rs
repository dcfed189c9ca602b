//! A contender in a queue: lists the queue, watches the nodes ahead, and waits for its turn.
//!
//! Not here: what listings and events mean (`turn`), what the other contenders of the client know
//! (`advice`), the node itself (`node`).

mod advice;

use std::{pin::pin, sync::Arc, time::Instant};

use lockkeeper_proto::{EventType, jute::Names};
use lockkeeper_session::{
    AsRaw, Client, Error as SessionError, ErrorKind, GroupEvent, Snapshot,
    sync::{
        BoxFuture,
        select::{Either, select},
    },
};

use super::{
    other_kinds,
    patience::{Patience, Role},
    turn::{Listed, Next, Out, Turn},
};
use crate::{
    backoff::{Backoff, Rounds},
    error::LockError,
    node::{BoxedNode, Node, directory::Directory, late::LateCreates},
    order::{
        crowd::Crowd,
        name::{self, Kind},
    },
};

/// A contender in a queue. Dropping it leaves the queue.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) node: BoxedNode,
    turn: Turn<Arc<str>>,
    kind: Kind,
    /// How many contenders were ahead in the last listing; 0 when the lock is granted.
    pub(crate) ahead: usize,
    /// When the watch on the node just ahead last fired.
    nearest_fired: Option<Instant>,
    /// The lowest and the highest number of the nodes just ahead that have left.
    left: Option<(i32, i32)>,
    /// The listings behind the first one. In a box: futures have several copies of a contender, and
    /// most list no more.
    rounds: Option<Box<Rounds>>,
    patience: Patience,
}

impl Waiter {
    /// A contender that has yet to enter the queue.
    pub(crate) fn new(client: &Client, directory: &Arc<Directory>, kind: Kind) -> Self {
        Self {
            node: Node::new(client, directory.clone(), kind),
            turn: Turn::new(kind),
            kind,
            ahead: 0,
            nearest_fired: None,
            left: None,
            rounds: None,
            patience: Patience::default(),
        }
    }

    /// Enters the queue, and lists it once. In a crowd, most contenders wait for another one of the
    /// same client instead.
    pub(crate) async fn enter(&mut self, crowd: Option<&Arc<Crowd>>) -> Result<(), LockError> {
        let connections = self.node.client().raw().look(|now| now.connections);
        self.turn.asked(connections);
        if let Some(crowd) = crowd {
            self.node.join(crowd);
        }
        self.node.create().await?;
        let listing = self.node.take_listing();
        let last = self.node.last_of_crowd();
        if let Some(listing) = listing {
            let reply = listing.names().await;
            self.listed(reply).await?;
        } else if !self.follow(last) {
            self.look().await?;
        }
        Ok(())
    }

    fn own(&self) -> Option<Arc<str>> {
        self.node.node().map(|node| node.name.clone())
    }

    /// Watches these nodes, and no longer those that are of no use.
    fn watch(&mut self, missing: Vec<Arc<str>>, own: &Arc<str>) {
        let turn = &self.turn;
        if turn.is_next() {
            self.node.keep_lease();
        }
        self.node.watch(missing, |name| turn.watches(name, own));
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
            while let Some(event) = self.node.try_event() {
                self.event(event)?;
            }
            match self.turn.next(&self.node.facts()) {
                // The node goes with its session.
                Err(loss) => return Err(self.out(Out::Lost(loss))),
                Ok(Next::Grant) => {
                    self.ahead = 0;
                    *ahead = Some(0);
                    if let Some(since) = self.nearest_fired.take() {
                        let took = self.node.client().now().saturating_duration_since(since);
                        self.node.directory().count(|it| it.hand_over.record(took));
                    }
                    return Ok(true);
                }
                Ok(Next::List) => self.look().await?,
                Ok(Next::Renew) => self.node.renew_lease().await?,
                Ok(Next::Wait) => {
                    if ahead.replace(self.ahead) != Some(self.ahead) {
                        return Ok(false);
                    }
                    match self.event_or_doubt().await {
                        Some(event) => self.event(event)?,
                        None => self.turn.asked(self.turn.connection()),
                    }
                }
            }
        }
    }

    /// Waits for the next event; `None` if there is a reason to list the queue without one.
    async fn event_or_doubt(&mut self) -> Option<Result<GroupEvent, SessionError>> {
        loop {
            let heard = {
                let pause = pin!(self.patience.pause(self.node.client()));
                select(pin!(self.node.event()), pause).await
            };
            if let Either::Left(event) = heard {
                return Some(event);
            }
            match self.event_or_answer().await {
                Either::Left(event) => return Some(event),
                Either::Right(true) => return None,
                Either::Right(false) => {}
            }
        }
    }

    /// Waits for the next event, or for the answer to the question whether there is a reason to list
    /// the queue. In a box, as it is rare.
    fn event_or_answer(&mut self) -> BoxFuture<'_, Either<Result<GroupEvent, SessionError>, bool>> {
        Box::pin(async move {
            let (node, nearest) = (&self.node, self.turn.nearest().map(AsRef::as_ref));
            let role = Role::Numbered(name::number(node.name()).unwrap_or(0));
            let ahead = nearest.as_slice();
            let asks = (self.patience).asks(node.directory(), role, ahead);
            select(node.event(), asks).await
        })
    }

    /// Watches our own node, unless it is watched.
    pub(crate) fn watch_own(&mut self) {
        if self.turn.watch_own() {
            self.watch_only_own();
        }
    }

    /// A watch has fired, or has ended.
    fn event(&mut self, event: Result<GroupEvent, SessionError>) -> Result<(), LockError> {
        let event = event.map_err(LockError::from)?;
        let is_deleted = event.event_type == EventType::NODE_DELETED;
        if let Some(member) = self.node.member() {
            member.event(&event.name, is_deleted);
        }
        let connection = self.connection();
        if self.turn.is_nearest(&event.name) {
            self.nearest_fired = Some(self.node.client().now());
            if let Some(number) = name::number(&event.name) {
                let (lowest, highest) = self.left.unwrap_or((number, number));
                self.left = Some((lowest.min(number), highest.max(number)));
            }
        }
        match self
            .turn
            .event(&event.name, is_deleted, self.node.name(), connection)
        {
            Ok(true) => self.watch_only_own(),
            Ok(false) => {}
            Err(out) => return Err(self.out(out)),
        }
        Ok(())
    }

    /// Finds out whom to wait for now: from the other contenders of this client, or by a listing.
    /// In a box: most waiters never look, and the future of each would be large.
    fn look(&mut self) -> BoxFuture<'_, Result<(), LockError>> {
        Box::pin(async move {
            if self.take_advice().await {
                return Ok(());
            }
            let rounds = self.rounds.get_or_insert_default();
            rounds.pause(self.node.client()).await;
            let reply = self.list().await;
            self.listed(reply).await
        })
    }

    /// Takes this reply to a listing, or that to a later one if it is none, and watches the nodes
    /// ahead.
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
        if let Some(own) = self.own() {
            self.ahead = listed.ahead;
            self.watch(listed.missing, &own);
        }
        if let Some(member) = self.node.member() {
            member.listed(self.kind, self.turn.connection(), &children);
        }
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
        let Some(own) = self.own() else {
            return Err(self.node.gone());
        };
        let shows = |node: &str| children.iter().any(|child| child == node);
        self.patience.listed(shows);
        let listed = self.turn.listed(children.iter(), &own);
        listed.map_err(|out| self.out(out))
    }

    /// The number of the present connection, if there is one.
    fn connection(&self) -> Option<u64> {
        let connected = |now: &Snapshot| now.state.is_connected().then_some(now.connections);
        self.node.client().raw().look(connected)
    }

    /// Lists the queue.
    async fn list(&mut self) -> Result<Names, SessionError> {
        let directory = self.node.directory();
        let raw = directory.client.raw();
        self.turn.asked(raw.look(|now| now.connections));
        let request = directory.list_request();
        let listing = raw.submit_one(request).await;
        listing.names().await
    }

    fn watch_only_own(&mut self) {
        let own = self.own().into_iter().collect();
        self.node.watch(own, |_| true);
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
