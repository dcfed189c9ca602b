//! Persistent watches, and what takes watches back.
//!
//! Not here: what listens (`persistent`), one-shot watches (`watching`).

use lockkeeper_proto::{
    AddWatchMode, ErrorCode, Request, WatcherType,
    records::{AddWatchRequest, CheckWatchesRequest},
};

use crate::client::{
    Client, PersistentWatcher,
    operations::reply::record_of,
    shared::{Core, driver_gone},
};
use crate::{Error, machine::request_bytes};

impl Client {
    /// Watches a node until the watcher is dropped. Servers from 3.6.0.
    ///
    /// With [`AddWatchMode::PERSISTENT`]: the node's creation, each change of its data, each child that comes or goes, its
    /// deletion. With [`AddWatchMode::PERSISTENT_RECURSIVE`]: creation, change of data and deletion of the node and of
    /// everything below it; that a list of children has changed is not told apart. The node need not exist.
    ///
    /// However many listen to a node, the server has one watch of each kind. Who watches a node both ways hears of the
    /// children that come and go once for each, also from servers before 3.9, which keep only one of the two; of children
    /// that this session may not read, those servers tell only who watches the node and not what is below it.
    ///
    /// # Errors
    /// [`Error::Unsupported`] from older servers; and what every request may fail with, see [`Client`].
    ///
    /// # Cancel safety
    /// Dropped after it was polled, it takes back the watch once the reply has come.
    ///
    /// # Ordering
    /// Everything that happens behind the reply is told, and before the reply of any request which shows it. What was read
    /// before may have changed before the reply: first watch, then read.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// use lockkeeper_proto::{AddWatchMode, CreateMode, EventType};
    /// use lockkeeper_session::WatchNotice;
    ///
    /// let mut tree = client.add_watch("/app", AddWatchMode::PERSISTENT_RECURSIVE).await?;
    /// client.create("/app", "", CreateMode::Persistent).await?;
    /// client.create("/app/a", "", CreateMode::Persistent).await?;
    /// for path in ["/app", "/app/a"] {
    ///     match tree.next().await.unwrap()? {
    ///         WatchNotice::Event(event) => {
    ///             assert_eq!((event.event_type, &*event.path), (EventType::NODE_CREATED, path));
    ///         }
    ///         WatchNotice::Missed(_) => { /* read it all again */ }
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

    /// As [`add_watch`](Self::add_watch), with a queue of so many events, at least one.
    ///
    /// # Errors
    /// As [`add_watch`](Self::add_watch).
    ///
    /// # Cancel safety
    /// As [`add_watch`](Self::add_watch).
    ///
    /// # Ordering
    /// As [`add_watch`](Self::add_watch).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # use lockkeeper_proto::{AddWatchMode, CreateMode, Version};
    /// use lockkeeper_session::WatchNotice;
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
        let request = Request::AddWatch(AddWatchRequest {
            path: self.resolve(path)?,
            mode,
        });
        let bytes = request_bytes(&request);
        let add = |core: &mut Core, now, options| core.add_watch(now, request, options, events);
        let (reply, listener) = self.when_capacity(bytes, add).await;
        // Made before the reply is awaited: whoever drops this future drops it, too.
        let watcher = listener
            .map(|(id, queue)| PersistentWatcher::new(self.shared.clone(), id, queue, path, mode));
        let answered = reply.await;
        record_of!(answered.map_err(|error| error.on(path))?, AddWatch)?;
        watcher.ok_or_else(driver_gone)
    }

    /// Asks the server whether this session has a watch of a kind on a node. Servers from 3.5.0; for the two persistent
    /// kinds apart from 3.9.0.
    ///
    /// The server counts its own: of a one-shot watch whose event comes by way of a persistent one it does not know.
    /// Servers before 3.9 take any watch on data for a data watch, and any on children for a child watch.
    ///
    /// # Errors
    /// [`Error::Refused`] with "marshalling error" for a kind that the server does not know; [`Error::Unsupported`] from
    /// servers before 3.5; and what every request may fail with.
    ///
    /// # Cancel safety
    /// Safe: it changes nothing.
    ///
    /// # Ordering
    /// In the order of this client's requests, those that leave and take back watches among them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// use lockkeeper_proto::WatcherType;
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

    /// Ends all watches of a kind that this client has on a node, whoever holds them, and returns how many there were.
    /// Each of their holders is told [`Error::WatchRemoved`].
    ///
    /// Those whose request is still on its way go on. The watch is taken off the server without waiting for its answer; a
    /// server that has none there, or is too old to remove any, is no error. Dropping a watcher ends that one alone.
    ///
    /// # Errors
    /// [`Error::BadPath`].
    ///
    /// # Ordering
    /// The server gets it in the order of this client's requests.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// use lockkeeper_proto::WatcherType;
    /// use lockkeeper_session::Error;
    ///
    /// let (_, watcher) = client.get_data_and_watch("/").await?;
    /// assert_eq!(client.remove_watches("/", WatcherType::ANY)?, 1);
    /// assert_eq!(watcher.await, Err(Error::WatchRemoved));
    /// # Ok(()) }
    /// ```
    pub fn remove_watches(&self, path: &str, watcher_type: WatcherType) -> Result<usize, Error> {
        let path = self.resolve(path)?;
        Ok(self
            .shared
            .act(|core| core.remove_watches(&path, watcher_type)))
    }
}
