//! Watches of several nodes, whose events come in the order in which the server sent them.
//!
//! Single watchers are polled one by one, so that their order is lost: an event may arrive between two polls. A group has one
//! queue for all.

use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use lockkeeper_proto::{EventType, path};

use crate::client::shared::Shared;
use crate::{
    Error,
    machine::{Event, WatchId},
};

/// One-shot watches of several nodes with one queue of events. Made by [`Raw::watch_group`](crate::Raw::watch_group).
///
/// # Ordering
/// The events come in the order in which the server sent them. They come before the reply of any request that shows the change, but
/// not before all watches of the same call are set. Events of different watches that make up for an outage come in any order.
///
/// # Cancel safety
/// Dropping the group ends all its watches.
pub struct WatchGroup {
    shared: Arc<Shared>,
    events: Arc<GroupEvents>,
}

/// The queue. The driver fills it, and the group takes from it.
#[derive(Debug, Default)]
pub(crate) struct GroupEvents(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// The watches that have not fired, with the names of their nodes in the directory.
    watches: Vec<(WatchId, Arc<str>)>,
    fired: VecDeque<(WatchId, Result<Event, Error>)>,
    waker: Option<Waker>,
}

/// An event of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupEvent {
    /// The name of the node in its directory.
    pub name: Arc<str>,
    /// What happened to it.
    pub event_type: EventType,
}

impl GroupEvents {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, id: WatchId, result: Result<Event, Error>) {
        let waker = {
            let mut inner = self.lock();
            inner.fired.push_back((id, result));
            inner.waker.take()
        };
        // Not under the lock: the waiter may run at once, and take it.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Inner {
    /// The next event of a watch that was not given up.
    fn pop(&mut self) -> Option<Result<GroupEvent, Error>> {
        while let Some((id, result)) = self.fired.pop_front() {
            let Some(at) = self.watches.iter().position(|(watch, _)| *watch == id) else {
                continue;
            };
            let (_, name) = self.watches.swap_remove(at);
            return Some(result.map(|Event { event_type, .. }| GroupEvent { name, event_type }));
        }
        None
    }
}

impl WatchGroup {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            events: Arc::default(),
        }
    }

    /// Watches existing nodes of a directory with one request, as [`Raw::watch_nodes`](crate::Raw::watch_nodes) does.
    /// `directory` is the path with which the server names it.
    pub fn watch(&self, directory: &str, names: Vec<Arc<str>>) {
        self.shared.act(|core| {
            let paths = names.iter().map(|name| path::join(directory, name));
            let ids = core.watch_group(paths.collect(), &self.events);
            let mut inner = self.events.lock();
            // Most groups never watch more.
            inner.watches.reserve_exact(names.len());
            inner.watches.extend(ids.into_iter().zip(names));
        });
    }

    /// Gives up the watches on all other nodes.
    pub fn retain(&self, is_wanted: impl Fn(&str) -> bool) {
        let given_up: Vec<WatchId> = {
            let mut inner = self.events.lock();
            let (wanted, others) = mem::take(&mut inner.watches)
                .into_iter()
                .partition::<Vec<_>, _>(|(_, name)| is_wanted(name));
            inner.watches = wanted;
            others.into_iter().map(|(id, _)| id).collect()
        };
        if !given_up.is_empty() {
            self.shared
                .act(|core| given_up.into_iter().for_each(|id| core.cancel(id)));
        }
    }

    /// The next event, if one has arrived.
    ///
    /// # Errors
    /// The error that has ended a watch.
    #[must_use = "an event is reported once"]
    pub fn try_next(&self) -> Option<Result<GroupEvent, Error>> {
        self.events.lock().pop()
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// The error that has ended a watch.
    ///
    /// # Cancel safety
    /// No event is lost when the future is dropped.
    pub async fn next(&self) -> Result<GroupEvent, Error> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Result<GroupEvent, Error>> {
        let mut inner = self.events.lock();
        if let Some(event) = inner.pop() {
            return Poll::Ready(event);
        }
        inner.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for WatchGroup {
    fn drop(&mut self) {
        self.retain(|_| false);
    }
}

impl fmt::Debug for WatchGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchGroup")
            .field("watches", &self.events.lock().watches.len())
            .finish_non_exhaustive()
    }
}
