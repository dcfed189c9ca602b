//! Watches of several nodes, whose events come in the order in which the server sent them.
//!
//! Single watchers are polled one by one, so that their order is lost: an event may arrive between
//! two polls. A group has one queue for all.

use std::{
    fmt,
    future::poll_fn,
    mem,
    sync::Arc,
    task::{Context, Poll},
};

use lockkeeper_proto::path;

use super::group_events::{GroupEvent, GroupEvents};
use crate::{Error, client::shared::Shared, machine::WatchId};

/// One-shot watches of several nodes with one queue of events. Made by
/// [`Raw::watch_group`](crate::Raw::watch_group).
///
/// # Ordering
/// The events come in the order in which the server sent them. They come before the reply of any
/// request that shows the change, but not before all watches of the same call are set. Events of
/// different watches that make up for an outage come in any order.
///
/// # Cancel safety
/// Dropping the group ends all its watches.
pub struct WatchGroup {
    shared: Arc<Shared>,
    events: Arc<GroupEvents>,
}

impl WatchGroup {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            events: Arc::default(),
        }
    }

    /// Watches existing nodes of a directory with one request, as
    /// [`Raw::watch_nodes`](crate::Raw::watch_nodes) does. `directory` is the path with which the
    /// server names it.
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
