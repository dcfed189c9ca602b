//! A contender in a queue: lists the queue, watches the nodes ahead, and waits for its turn.
//!
//! Not here: what listings and events mean (`turn`), the node itself (`node`).

use std::sync::Arc;

use lockkeeper_proto::{EventType, Response};
use lockkeeper_session::{Client, Error as SessionError, GroupEvent, PendingReply};
use tokio::time::Instant;

use super::{
    rank::Kind,
    turn::{Next, Out, Turn},
};
use crate::{
    error::Error,
    node::{directory::Directory, identity::Naming, lock_node::LockNode},
};

/// A contender in a queue. Dropping it leaves the queue.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) node: LockNode,
    turn: Turn<Arc<str>>,
    /// When the watch on the node just ahead last fired.
    nearest_fired: Option<Instant>,
}

impl Waiter {
    /// Enters the queue, and lists it once.
    pub(crate) async fn enter(
        client: &Client,
        directory: Arc<Directory>,
        kind: Kind,
    ) -> Result<Self, Error> {
        let mut waiter = Self {
            node: LockNode::new(client, directory, Naming::Sequential(kind.marker())),
            turn: Turn::new(kind),
            nearest_fired: None,
        };
        waiter.turn.asked(client.snapshot().connections);
        waiter.node.create().await?;
        let listing = waiter.node.take_listing();
        waiter.list(listing).await?;
        Ok(waiter)
    }

    /// How many contenders were ahead in the last listing.
    pub(crate) fn ahead(&self) -> usize {
        self.turn.ahead()
    }

    /// Waits for its turn. Calls `report` whenever it knows how many contenders are ahead.
    ///
    /// # Cancel safety
    /// The contender keeps its place in the queue when the future is dropped.
    pub(crate) async fn wait_for_turn(
        &mut self,
        mut report: impl FnMut(usize),
    ) -> Result<(), Error> {
        loop {
            while let Some(event) = self.node.try_event() {
                self.event(event)?;
            }
            report(self.turn.ahead());
            match self.turn.next(&self.node.facts()) {
                // The node goes with its session.
                Err(loss) => return Err(self.out(Out::Lost(loss))),
                Ok(Next::Grant) => {
                    if let Some(since) = self.nearest_fired {
                        let counters = &self.node.directory().counters;
                        counters.hand_over.record(since.elapsed());
                    }
                    return Ok(());
                }
                Ok(Next::List) => self.list(None).await?,
                Ok(Next::Wait) => {
                    let event = self.node.event().await;
                    self.event(event)?;
                }
            }
        }
    }

    /// Watches our own node, unless it is watched.
    pub(crate) fn watch_own(&mut self) {
        if self.turn.watch_own() {
            self.watch_only_own();
        }
    }

    /// A watch has fired, or has ended.
    fn event(&mut self, event: Result<GroupEvent, SessionError>) -> Result<(), Error> {
        let event = event.map_err(Error::of_session)?;
        let is_deleted = event.event_type == EventType::NODE_DELETED;
        let connection = self.node.client().snapshot().connections;
        if self.turn.is_nearest(&event.name) {
            self.nearest_fired = Some(Instant::now());
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

    /// Lists the queue, or takes the listing that is under way, and watches the nodes ahead.
    async fn list(&mut self, mut listing: Option<PendingReply>) -> Result<(), Error> {
        let children = loop {
            let reply = match listing.take() {
                Some(reply) => reply,
                None => self.ask_for_listing().await,
            };
            match reply.await {
                Ok(Response::GetChildren(list)) => break list.children,
                Err(error) if error.is_no_node() => return Err(self.node.gone()),
                // A repeated read does no harm. The client itself pauses between connections.
                Err(SessionError::ConnectionLost(_) | SessionError::Malformed { .. }) | Ok(_) => {}
                Err(error) => return Err(Error::of_session(error)),
            }
        };
        let Some(own) = self.node.node().map(|node| node.name.clone()) else {
            return Err(self.node.gone());
        };
        match self.turn.listed(children.iter().map(String::as_str), &own) {
            Ok(missing) => {
                let turn = &self.turn;
                self.node.watch(missing, |name| turn.watches(name, &own));
                Ok(())
            }
            Err(out) => Err(self.out(out)),
        }
    }

    async fn ask_for_listing(&mut self) -> PendingReply {
        let client = self.node.client();
        self.turn.asked(client.snapshot().connections);
        let request = self.node.directory().list_request();
        let [reply] = client.raw().submit_with_backpressure([request]).await;
        reply
    }

    fn watch_only_own(&mut self) {
        let own = self.node.node().map(|node| node.name.clone());
        self.node.watch(own.into_iter().collect(), |_| true);
    }

    /// There will be no turn.
    fn out(&mut self, out: Out) -> Error {
        match out {
            Out::Lost(_) => self.node.gone(),
            Out::Exhausted => Error::SequenceExhausted {
                path: self.node.directory().path.clone(),
            },
        }
    }
}
