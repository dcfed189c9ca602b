//! Persistent watches and the stream of their events, and checking and removing watches of any kind.
//!
//! Not here: the queue for a slow listener (`event_queue`), one-shot watches (`one_shot`).

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{Stream, StreamExt};
use lockkeeper_proto::{
    AddWatchMode, ErrorCode, Request, WatcherType,
    records::{AddWatchRequest, CheckWatchesRequest},
};

use crate::client::{
    Client,
    chroot::Chroot,
    operations::reply::record_of,
    shared::{Listener, Shared, driver_gone},
    watches::event_queue::{EventQueue, WatchNotice},
};
use crate::{Error, machine::WatchId};

impl Client {
    /// Watches a node until the watcher is dropped. Servers from 3.6.0.
    ///
    /// The mode decides which events come:
    /// - [`AddWatchMode::PERSISTENT`]: the creation of the node, each change of its data, each
    ///   creation or deletion of a child, and the node's deletion.
    /// - [`AddWatchMode::PERSISTENT_RECURSIVE`]: creations, changes of data and deletions of the
    ///   node and of all nodes below it. There is no separate event for a changed list of children.
    ///
    /// The node need not exist.
    ///
    /// All watchers of this client on a node share one watch on the server. One client keeps one
    /// kind of watch on a node: see [`WatchConflict`](crate::ErrorKind::WatchConflict). Watches on
    /// other nodes do not matter, also recursive ones above.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) from older servers.
    /// [`WatchConflict`](crate::ErrorKind::WatchConflict) if this client has a watch of another
    /// kind on the node, or a request under way that leaves one. Also the errors of every request,
    /// see [`Client`].
    ///
    /// # Cancel safety
    /// If the future is dropped after it was polled, the client removes the watch when the reply
    /// comes.
    ///
    /// # Ordering
    /// The watcher is told of every change after the reply to this request. It is told before the
    /// client returns the reply to any request that shows the change. Data that you read before
    /// this call may have changed before the reply came: first watch, then read.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # mod lockkeeper {
    /// #     pub use lockkeeper_proto::CreateMode;
    /// #     pub mod watch { pub use lockkeeper_proto::{AddWatchMode, EventType}; pub use lockkeeper_session::WatchNotice; }
    /// # }
    /// use lockkeeper::{CreateMode, watch::{AddWatchMode, EventType, WatchNotice}};
    ///
    /// let mut tree = client.add_watch("/app", AddWatchMode::PERSISTENT_RECURSIVE).await?;
    /// client.create("/app", "", CreateMode::Persistent).await?;
    /// client.create("/app/a", "", CreateMode::Persistent).await?;
    /// for path in ["/app", "/app/a"] {
    ///     match tree.next().await.unwrap()? {
    ///         WatchNotice::Event(event) => {
    ///             assert_eq!((event.event_type, &*event.path), (EventType::NODE_CREATED, path));
    ///         }
    ///         WatchNotice::Missed(_) => { /* read all of it again */ }
    ///         _ => {}
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn add_watch(
        &self,
        path: &str,
        mode: AddWatchMode,
    ) -> Result<PersistentWatcher, Error> {
        self.add_watch_with_queue(path, mode, PersistentWatcher::QUEUED_EVENTS)
            .await
    }

    /// Like [`add_watch`](Self::add_watch), with a queue for this number of events (at least one).
    ///
    /// # Errors
    /// Same as [`add_watch`](Self::add_watch).
    ///
    /// # Cancel safety
    /// Same as [`add_watch`](Self::add_watch).
    ///
    /// # Ordering
    /// Same as [`add_watch`](Self::add_watch).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # use lockkeeper_proto::{AddWatchMode, CreateMode, Version};
    /// # mod lockkeeper { pub mod watch { pub use lockkeeper_session::WatchNotice; } }
    /// use lockkeeper::watch::WatchNotice;
    ///
    /// client.create("/a", "", CreateMode::Persistent).await?;
    /// let mut slow = client.add_watch_with_queue("/a", AddWatchMode::PERSISTENT, 1).await?;
    /// for _ in 0..3 {
    ///     client.set_data("/a", "", Version::ANY).await?;
    /// }
    /// assert!(matches!(slow.next().await, Some(Ok(WatchNotice::Event(_)))));
    /// let Some(Ok(WatchNotice::Missed(missed))) = slow.next().await else { panic!() };
    /// assert_eq!(missed.dropped, 2);
    /// # Ok(()) }
    /// ```
    pub async fn add_watch_with_queue(
        &self,
        path: &str,
        mode: AddWatchMode,
        events: usize,
    ) -> Result<PersistentWatcher, Error> {
        let request = AddWatchRequest {
            path: self.resolve(path)?,
            mode,
        };
        let queue = Arc::new(EventQueue::new(events));
        let listener = Listener::Always(queue.clone());
        let (reply, id) = self
            .submit_watching(Request::AddWatch(request), listener)
            .await;
        // Made before the reply is awaited, so that dropping this future also drops the watcher.
        let watcher = id.map(|id| PersistentWatcher {
            shared: self.shared.clone(),
            chroot: self.chroot().clone(),
            id,
            path: path.to_owned(),
            mode,
            queue,
        });
        let answered = reply.await;
        record_of!(answered.map_err(|error| error.on(path))?, AddWatch)?;
        watcher.ok_or_else(driver_gone)
    }

    /// Asks the server whether this session has a watch of this kind on a node.
    ///
    /// Servers from 3.5.0; servers from 3.9.0 distinguish the two persistent kinds.
    ///
    /// Servers before 3.9 count any watch on data as a data
    /// watch, and any watch on children as a child watch.
    ///
    /// # Errors
    /// [`Refused`](crate::ErrorKind::Refused) with "marshalling error" for a kind that the server
    /// does not know. [`Unsupported`](crate::ErrorKind::Unsupported) from servers before 3.5. Also
    /// the errors of every request, see [`Client`].
    ///
    /// # Cancel safety
    /// Safe: the method changes nothing.
    ///
    /// # Ordering
    /// The server handles the request in order with this client's other requests, including those
    /// that leave and remove watches.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # mod lockkeeper { pub mod watch { pub use lockkeeper_proto::WatcherType; } }
    /// use lockkeeper::watch::WatcherType;
    ///
    /// let (_, watcher) = client.get_data_and_watch("/").await?;
    /// assert!(client.check_watches("/", WatcherType::DATA).await?);
    /// drop(watcher);
    /// assert!(!client.check_watches("/", WatcherType::DATA).await?);
    /// # Ok(()) }
    /// ```
    pub async fn check_watches(
        &self,
        path: &str,
        watcher_type: WatcherType,
    ) -> Result<bool, Error> {
        let request = CheckWatchesRequest {
            path: self.resolve(path)?,
            watcher_type,
        };
        match self.ask(path, Request::CheckWatches(request)).await {
            Ok(reply) => record_of!(reply, CheckWatches).map(|_| true),
            Err(error) if error.code() == Some(ErrorCode::NO_WATCHER) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Ends all watches of a kind that this client has on a node, and returns how many there were.
    ///
    /// Each of their watchers gets [`WatchRemoved`](crate::ErrorKind::WatchRemoved). A watch whose
    /// request has no reply yet is not removed. The client also removes the watch from the server,
    /// without waiting for the reply. A server that has no such watch, or is too old to remove
    /// watches, causes no error. To end a single watch, drop its watcher.
    ///
    /// # Errors
    /// [`BadPath`](crate::ErrorKind::BadPath) for an invalid path.
    ///
    /// # Ordering
    /// The server gets the request in order with this client's other requests.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # mod lockkeeper {
    /// #     pub mod error { pub use lockkeeper_session::ErrorKind; }
    /// #     pub mod watch { pub use lockkeeper_proto::WatcherType; }
    /// # }
    /// use lockkeeper::{error::ErrorKind, watch::WatcherType};
    ///
    /// let (_, watcher) = client.get_data_and_watch("/").await?;
    /// assert_eq!(client.remove_watches("/", WatcherType::ANY)?, 1);
    /// assert_eq!(watcher.await, Err(ErrorKind::WatchRemoved.into()));
    /// # Ok(()) }
    /// ```
    pub fn remove_watches(&self, path: &str, watcher_type: WatcherType) -> Result<usize, Error> {
        let path = self.resolve(path)?;
        Ok(self
            .shared
            .act(|core| core.machine.remove_watches(&path, watcher_type)))
    }
}

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
#[derive(Debug)]
#[must_use = "dropping it ends the watch"]
pub struct PersistentWatcher {
    shared: Arc<Shared>,
    chroot: Chroot,
    id: WatchId,
    path: String,
    mode: AddWatchMode,
    queue: Arc<EventQueue>,
}

impl PersistentWatcher {
    /// The default number of events in the queue.
    pub const QUEUED_EVENTS: usize = 1024;

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
        StreamExt::next(self).await
    }
}

impl Stream for PersistentWatcher {
    type Item = Result<WatchNotice, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.queue.poll(cx).map(|mut item| {
            if let Some(Ok(WatchNotice::Event(event))) = &mut item {
                self.chroot.name_as_client(&mut event.path);
            }
            item
        })
    }
}

impl Drop for PersistentWatcher {
    fn drop(&mut self) {
        if !self.queue.has_ended() {
            self.shared.act(|core| core.cancel(self.id));
        }
    }
}
