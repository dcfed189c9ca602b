//! Listening to a persistent watch: a stream of what its queue holds, and its end when it is dropped.
//!
//! Not here: what is kept for a slow listener (`queue`).

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::Stream;
use lockkeeper_proto::AddWatchMode;

use crate::client::{
    shared::Shared,
    watches::event_queue::{EventQueue, WatchNotice},
};
use crate::{Error, machine::WatchId};

/// Listens to a persistent watch. Made by [`Client::add_watch`](crate::client::Client::add_watch).
///
/// A stream of [`WatchNotice`]s, in the order of the changes. It outlives reconnects, which it tells as
/// [`WatchNotice::Missed`]. It ends with an error, once, and then with `None`: [`Error::SessionExpired`] when the session
/// expires, [`Error::Closed`] with the client, [`Error::WatchRemoved`], [`Error::Unsupported`] when the client reconnects to
/// a server before 3.6.
///
/// # Slow listeners
/// The queue holds [`QUEUED_EVENTS`](Self::QUEUED_EVENTS) events, or as many as
/// [`add_watch_with_queue`](crate::client::Client::add_watch_with_queue) was told, the oldest ones. Later ones are counted until
/// there is room, and the count is told in their place as [`WatchNotice::Missed`].
///
/// # Ordering
/// An event is queued before the reply of any request that shows the change is told. Each change is told once; but twice, at
/// worst, when it is made in the moment at which this client calls [`watch_nodes`](crate::client::Client::watch_nodes) for the node,
/// or drops a persistent watch on it while one-shot ones remain: the server repeats then what it cannot know to be known.
///
/// # Cancel safety
/// Dropping it ends the watch; the last one of its kind on a node is taken off the server, too.
#[must_use = "dropping it ends the watch"]
pub struct PersistentWatcher {
    shared: Arc<Shared>,
    id: WatchId,
    path: String,
    mode: AddWatchMode,
    queue: Arc<EventQueue>,
}

impl PersistentWatcher {
    /// How many events wait for a listener who was not told otherwise.
    pub const QUEUED_EVENTS: usize = 1024;

    pub(crate) fn new(
        shared: Arc<Shared>,
        id: WatchId,
        queue: Arc<EventQueue>,
        path: &str,
        mode: AddWatchMode,
    ) -> Self {
        Self {
            shared,
            id,
            path: path.to_owned(),
            mode,
            queue,
        }
    }

    /// The watched node.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What is watched: the node, or all that is below it too.
    #[must_use]
    pub fn mode(&self) -> AddWatchMode {
        self.mode
    }

    /// What happened next; `None` when the error that ended the watch has been told.
    ///
    /// # Errors
    /// Why the watch has ended, see [`PersistentWatcher`].
    ///
    /// # Cancel safety
    /// Safe: what was not returned stays in the queue.
    pub async fn next(&mut self) -> Option<Result<WatchNotice, Error>> {
        std::future::poll_fn(|cx| self.poll_queue(cx)).await
    }

    fn poll_queue(&self, cx: &Context<'_>) -> Poll<Option<Result<WatchNotice, Error>>> {
        self.queue.poll(cx, |path| self.shared.client_path(path))
    }
}

impl Stream for PersistentWatcher {
    type Item = Result<WatchNotice, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_queue(cx)
    }
}

impl Drop for PersistentWatcher {
    fn drop(&mut self) {
        if !self.queue.has_ended() {
            self.shared.act(|core| core.cancel(self.id));
        }
    }
}

impl fmt::Debug for PersistentWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersistentWatcher")
            .field("path", &self.path)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}
