//! The future that returns the event of a one-shot watch.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use crate::client::shared::{EventReceiver, Shared, driver_gone};
use crate::{
    Error,
    machine::{Event, WatchId},
};

/// Waits for the one event of a one-shot watch.
///
/// The watch outlives reconnects: a change that happened without a connection is its event. It ends
/// with an error when
/// - the session expires: [`SessionExpired`](crate::ErrorKind::SessionExpired);
/// - the client is closed: [`Closed`](crate::ErrorKind::Closed);
/// - the watch is removed: [`WatchRemoved`](crate::ErrorKind::WatchRemoved);
/// - its path is too long for the request that restores watches:
///   [`TooLarge`](crate::ErrorKind::TooLarge).
///
/// Changes between the event and a new watch are not reported. So read the node again, and act on
/// what you read.
///
/// # Ordering
/// The event is delivered before the reply of any request that shows the change.
///
/// # Cancel safety
/// Dropping the watcher ends the watch. With the last watch on a node, the client also removes the
/// watch from the server.
#[must_use = "dropping it gives up the watch"]
pub struct Watcher {
    shared: Arc<Shared>,
    id: WatchId,
    events: Option<EventReceiver>,
}

impl Watcher {
    pub(crate) fn new(shared: Arc<Shared>, id: WatchId, events: EventReceiver) -> Self {
        Self {
            shared,
            id,
            events: Some(events),
        }
    }
}

impl Future for Watcher {
    type Output = Result<Event, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(events) = &mut self.events else {
            return Poll::Pending;
        };
        let event = ready!(Pin::new(events).poll(cx)).unwrap_or_else(|_| Err(driver_gone()));
        self.events = None;
        Poll::Ready(event.map(|mut event| {
            self.shared.name_as_client(&mut event.path);
            event
        }))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if self.events.is_some() {
            self.shared.act(|core| core.cancel(self.id));
        }
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
