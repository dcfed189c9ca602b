//! The stream of the events of a persistent watch. Dropping it ends the watch.
//!
//! Not here: the queue for a slow listener (`event_queue`).

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use lockkeeper_proto::AddWatchMode;

use crate::client::{
    shared::Shared,
    watches::event_queue::{EventQueue, WatchNotice},
};
use crate::{Error, machine::WatchId};

/// Receives the events of a persistent watch. Made by
/// [`Client::add_watch`](crate::client::Client::add_watch).
///
/// It is a stream of [`WatchNotice`]s, in the order of the changes. It outlives reconnects, and
/// reports each one as [`WatchNotice::Missed`]. When the watch ends, the stream returns one error
/// and then `None`:
/// - [`SessionExpired`](crate::ErrorKind::SessionExpired) when the session expires;
/// - [`Closed`](crate::ErrorKind::Closed) when the client is closed;
/// - [`WatchRemoved`](crate::ErrorKind::WatchRemoved) when the watch is removed;
/// - [`Unsupported`](crate::ErrorKind::Unsupported) when the client reconnects to a server before
///   3.6.
///
/// # Slow listeners
/// The queue holds the oldest [`QUEUED_EVENTS`](Self::QUEUED_EVENTS) events, or the number given to
/// [`add_watch_with_queue`](crate::client::Client::add_watch_with_queue). While the queue is full,
/// the client only counts later events. The stream returns the count in their place, as
/// [`WatchNotice::Missed`]. The queue is also full when the paths of its events have 1 KiB for each
/// event of its capacity.
///
/// # Ordering
/// An event is in the queue before the client returns the reply to any request that shows the
/// change. The stream normally returns each change once. It may return a change twice if the change
/// happens at the moment when this client calls [`WatchGroup::watch`](crate::WatchGroup::watch) for a node below: the
/// server may repeat an event because it cannot know that the client already has it.
///
/// # Cancel safety
/// Dropping the stream ends the watch. With the last watch of its mode on a node, the client also
/// removes the watch from the server.
#[must_use = "dropping it ends the watch"]
pub struct PersistentWatcher {
    shared: Arc<Shared>,
    id: WatchId,
    path: String,
    mode: AddWatchMode,
    queue: Arc<EventQueue>,
}

impl PersistentWatcher {
    /// The default number of events in the queue.
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

    /// The mode of the watch: the node only, or also all nodes below it.
    #[must_use]
    pub fn mode(&self) -> AddWatchMode {
        self.mode
    }

    /// Waits for the next notice. Returns `None` after the error that ended the watch.
    ///
    /// # Errors
    /// The reason why the watch has ended, see [`PersistentWatcher`].
    ///
    /// # Cancel safety
    /// Safe: a notice that was not returned stays in the queue.
    pub async fn next(&mut self) -> Option<Result<WatchNotice, Error>> {
        std::future::poll_fn(|cx| self.poll_queue(cx)).await
    }

    fn poll_queue(&self, cx: &Context<'_>) -> Poll<Option<Result<WatchNotice, Error>>> {
        self.queue.poll(cx).map(|mut item| {
            if let Some(Ok(WatchNotice::Event(event))) = &mut item {
                self.shared.name_as_client(&mut event.path);
            }
            item
        })
    }
}

impl futures::Stream for PersistentWatcher {
    type Item = Result<WatchNotice, Error>;

    fn poll_next(self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
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
