//! Waiting for one's turn.
//!
//! A waiter watches the node just ahead of it, the one ahead of that (so that the listing which a deep queue needs is
//! made while the former still holds), and its own: all three with one request. When the last listing showed the node
//! just ahead as the only one, its deletion *is* the grant, without another request. Why that is sound: while our node
//! is there its directory cannot be deleted, so every later node gets a higher number; those ahead can only get fewer.
//! It needs all of the following, and without one of them the line is listed again:
//!
//! - the event is the deletion of just that node;
//! - our own node is still there: its watch, which was left no later than the other, has not fired. Events of one
//!   connection come in the order of their transactions, so after the other event it would have;
//! - the connection is the one that the watches were left on: events that make up for an outage come in any order;
//! - the lease is running: a process that slept may see an old event after its session has expired.
//!
//! Not here: who is ahead of whom (`rank`), the node itself (`contender`).

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::FutureExt;
use lockkeeper_proto::{EventType, Response, path};
use lockkeeper_session::{Client, Error as SessionError, PendingReply, WatchedEvent, Watcher};
use tokio::time::Instant;

use crate::{
    error::Error,
    node::LockNode,
    node::directory::Directory,
    node::identity::{Naming, NodeIdentity},
    queue::rank::{Kind, Rank, rank},
};

/// A contender in a line.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) lock_node: LockNode,
    kind: Kind,
    /// How many were ahead when last report.
    ahead: usize,
    /// Whether the end of the one just ahead is all that it takes.
    is_last: bool,
    /// The connection that the last listing was asked for on; the watches were left on it, or on a later one.
    connection: u64,
    nearest: Option<Watched>,
    second: Option<Watched>,
}

/// Another contender's node, and the watch on it.
#[derive(Debug)]
struct Watched {
    name: String,
    watcher: Watcher,
}

/// What woke a waiter.
enum Woken {
    Own(Result<WatchedEvent, SessionError>),
    Nearest(Result<WatchedEvent, SessionError>),
    Second,
}

impl Waiter {
    /// Enters the line, and looks once where we stand.
    pub(crate) async fn take(
        client: &Client,
        directory: Arc<Directory>,
        kind: Kind,
    ) -> Result<Self, Error> {
        let connection = client.snapshot().connections;
        let identity = NodeIdentity::new(client, directory, Naming::Sequential(kind.marker()));
        let (mut lock_node, list) = LockNode::enter(identity).await;
        let list = lock_node.created(list).await?;
        let mut waiter = Self {
            lock_node,
            kind,
            ahead: 0,
            is_last: false,
            connection,
            nearest: None,
            second: None,
        };
        waiter.list_and_watch(list).await?;
        Ok(waiter)
    }

    /// How many were ahead when last report.
    pub(crate) fn ahead(&self) -> usize {
        self.ahead
    }

    /// Waits for our turn. `report` is called whenever the number ahead is known anew.
    ///
    /// # Cancel safety
    /// The waiter is kept when the future is dropped.
    pub(crate) async fn wait_for_turn(
        &mut self,
        mut report: impl FnMut(usize),
    ) -> Result<(), Error> {
        let mut last_gone: Option<Instant> = None;
        loop {
            report(self.ahead);
            if let Some(loss) = self.lock_node.session_loss() {
                // The node goes with the session, or has gone.
                self.lock_node.forget();
                return Err(Error::Lost(loss));
            }
            if self.ahead == 0 {
                if self.lock_node.saw_deletion() {
                    return Err(self.lock_node.gone());
                }
                if self.lock_node.has_valid_lease() {
                    if let Some(since) = last_gone {
                        let counters = &self.lock_node.directory().counters;
                        counters.hand_over.record(since.elapsed());
                    }
                    return Ok(());
                }
                self.list_and_watch(None).await?;
                continue;
            }
            match self.woken().await {
                Woken::Own(event) => {
                    let event = event.map_err(Error::of_session)?;
                    if event.event_type == EventType::NODE_DELETED {
                        return Err(self.lock_node.gone());
                    }
                    // Its data changed, which means nothing here. But the node ahead may have been told with it. And
                    // until the watch is left again nobody tells of our node's end, so that comes first: who is still
                    // ahead in the listing behind it has its end told after ours.
                    self.watch_own()?;
                    self.list_and_watch(None).await?;
                }
                Woken::Nearest(event) => {
                    let event = event.map_err(Error::of_session)?;
                    let deleted = event.event_type == EventType::NODE_DELETED;
                    last_gone = Some(Instant::now());
                    if deleted && self.is_last && self.is_same_connection() {
                        self.ahead = 0;
                    } else {
                        self.list_and_watch(None).await?;
                    }
                }
                Woken::Second => self.list_and_watch(None).await?,
            }
        }
    }

    /// Lists the line (or takes the listing on its way) and watches whom there is to wait for.
    async fn list_and_watch(&mut self, mut list: Option<PendingReply>) -> Result<(), Error> {
        let children = loop {
            let reply = list.take().unwrap_or_else(|| {
                self.connection = self.lock_node.client().snapshot().connections;
                let request = self.lock_node.directory().list_request();
                let [reply] = self.lock_node.client().submit([request]);
                reply
            });
            match reply.await {
                Ok(Response::GetChildren(list)) => break list.children,
                Err(error) if error.is_no_node() => return Err(self.lock_node.gone()),
                // Reading again is always safe. The client paces its connections itself.
                Err(SessionError::ConnectionLost(_) | SessionError::Malformed { .. }) | Ok(_) => {}
                Err(error) => return Err(Error::of_session(error)),
            }
        };
        let mine = self.lock_node.node().map_or("", |node| &node.name);
        match rank(self.kind, children.iter().map(String::as_str), mine) {
            Rank::First => {
                self.ahead = 0;
                self.nearest = None;
                self.second = None;
                Ok(())
            }
            Rank::Waiting {
                ahead,
                nearest,
                second,
                is_last,
            } => {
                self.ahead = ahead;
                self.is_last = is_last;
                self.watch(nearest, second)
            }
            Rank::Gone => Err(self.lock_node.gone()),
            Rank::Exhausted => {
                let path = self.lock_node.directory().path.clone();
                Err(Error::SequenceExhausted { path })
            }
        }
    }

    /// Leaves the watch on our own node, unless it is there.
    pub(crate) fn watch_own(&mut self) -> Result<(), Error> {
        if self.lock_node.own_watch().is_none() {
            let path = self.lock_node.path();
            let mut watchers = self.lock_node.client().watch_nodes(&[&path])?;
            *self.lock_node.own_watch() = watchers.pop();
        }
        Ok(())
    }

    /// Leaves the watches that are missing, with one request.
    fn watch(&mut self, nearest: &str, second: Option<&str>) -> Result<(), Error> {
        let second = second.map(str::to_owned);
        // What was second may be nearest now: its watch is good for that.
        if self
            .nearest
            .as_ref()
            .is_none_or(|watched| watched.name != nearest)
        {
            self.nearest = self.second.take().filter(|watched| watched.name == nearest);
        }
        self.second = self
            .second
            .take()
            .filter(|watched| Some(&watched.name) == second.as_ref());

        let leaves_own = self.lock_node.own_watch().is_none();
        let directory = &self.lock_node.directory().path;
        let mut paths = Vec::with_capacity(3);
        if leaves_own {
            paths.push(self.lock_node.path());
        }
        if self.nearest.is_none() {
            paths.push(path::join(directory, nearest));
        }
        if let (Some(second), None) = (&second, &self.second) {
            paths.push(path::join(directory, second));
        }
        if paths.is_empty() {
            return Ok(());
        }
        self.lock_node.directory().count();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let mut watchers = self.lock_node.client().watch_nodes(&paths)?.into_iter();
        if leaves_own {
            *self.lock_node.own_watch() = watchers.next();
        }
        if self.nearest.is_none() {
            let name = nearest.to_owned();
            self.nearest = watchers.next().map(|watcher| Watched { name, watcher });
        }
        if let (Some(name), None) = (second, &self.second) {
            self.second = watchers.next().map(|watcher| Watched { name, watcher });
        }
        Ok(())
    }

    /// Waits for the first event that concerns us. The watchers of what was told are gone afterwards.
    ///
    /// Ours is report at *after* the one of the node ahead: events are told in the order of their transactions, so when
    /// the node ahead has been told to be gone, an earlier deletion of ours has been told, too.
    async fn woken(&mut self) -> Woken {
        poll_fn(|cx| {
            let nearest = told(&mut self.nearest, |watched| &mut watched.watcher, cx);
            if let Some(event) = told(self.lock_node.own_watch(), |own| own, cx) {
                return Poll::Ready(Woken::Own(event));
            }
            if let Some(event) = nearest {
                return Poll::Ready(Woken::Nearest(event));
            }
            if told(&mut self.second, |watched| &mut watched.watcher, cx).is_some() {
                return Poll::Ready(Woken::Second);
            }
            Poll::Pending
        })
        .await
    }

    /// Whether the watches that told were left on the present connection; see the top of the file.
    fn is_same_connection(&self) -> bool {
        self.lock_node.client().snapshot().connections == self.connection
    }
}

/// The event of a watcher, if it has come; the watcher is gone then.
fn told<T>(
    slot: &mut Option<T>,
    watcher: impl FnOnce(&mut T) -> &mut Watcher,
    cx: &mut Context<'_>,
) -> Option<Result<WatchedEvent, SessionError>> {
    match watcher(slot.as_mut()?).poll_unpin(cx) {
        Poll::Ready(event) => {
            *slot = None;
            Some(event)
        }
        Poll::Pending => None,
    }
}
