//! Reads that leave a one-shot watch.
//!
//! Not here: waiting for the event (`watcher`).

use lockkeeper_proto::{
    Request, Stat,
    records::{ExistsRequest, GetChildrenRequest, GetDataRequest, GetDataResponse},
};

use crate::client::{
    Client, PendingReply, Watcher,
    operations::reply::{record_of, stat_if_there},
    shared::{Core, driver_gone},
};
use crate::{Error, machine::Encoded};

impl Client {
    /// Like [`exists`](Self::exists), and watches the node.
    ///
    /// The event is the creation of the node if it is missing. Otherwise it is the deletion of the
    /// node or the next change of its data.
    ///
    /// # Errors
    /// Same as [`exists`](Self::exists). After an error there is no watch.
    ///
    /// # Cancel safety
    /// If the future is dropped after it was polled, the client removes the watch when the reply
    /// comes.
    ///
    /// # Ordering
    /// The watcher gets the event after the reply to this request, and before the reply to any
    /// request that shows the change.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # mod lockkeeper {
    /// #     pub use lockkeeper_proto::CreateMode;
    /// #     pub mod watch { pub use lockkeeper_proto::EventType; }
    /// # }
    /// use lockkeeper::{CreateMode, watch::EventType};
    ///
    /// let (stat, created) = client.exists_and_watch("/soon").await?;
    /// assert_eq!(stat, None);
    /// client.create("/soon", "", CreateMode::Persistent).await?;
    /// assert_eq!(created.await?.event_type, EventType::NODE_CREATED);
    /// # Ok(()) }
    /// ```
    pub async fn exists_and_watch(&self, path: &str) -> Result<(Option<Stat>, Watcher), Error> {
        let request = ExistsRequest {
            path: self.resolve(path)?,
            watch: true,
        };
        let (reply, watcher) = self.submit_watching(Request::Exists(request)).await;
        let stat = stat_if_there(reply.await.map_err(|error| error.on(path)))?;
        Ok((stat, watcher?))
    }

    /// Like [`get_data`](Self::get_data), and watches for the next change of the node's data or its
    /// deletion.
    ///
    /// # Errors
    /// Same as [`get_data`](Self::get_data). After an error there is no watch.
    ///
    /// # Cancel safety
    /// Same as [`exists_and_watch`](Self::exists_and_watch).
    ///
    /// # Ordering
    /// Same as [`exists_and_watch`](Self::exists_and_watch).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # use lockkeeper_proto::CreateMode;
    /// # use lockkeeper_proto as lockkeeper;
    /// use lockkeeper::Version;
    ///
    /// client.create("/config", "v1", CreateMode::Persistent).await?;
    /// let (node, changed) = client.get_data_and_watch("/config").await?;
    /// client.set_data("/config", "v2", node.stat.version).await?;
    /// assert_eq!(changed.await?.path, "/config");
    /// # Ok(()) }
    /// ```
    pub async fn get_data_and_watch(
        &self,
        path: &str,
    ) -> Result<(GetDataResponse, Watcher), Error> {
        let request = GetDataRequest {
            path: self.resolve(path)?,
            watch: true,
        };
        let (reply, watcher) = self.submit_watching(Request::GetData(request)).await;
        let data = record_of!(reply.await.map_err(|error| error.on(path))?, GetData)?;
        Ok((data, watcher?))
    }

    /// Like [`get_children`](Self::get_children), and watches the list of children.
    ///
    /// The event is the next creation or deletion of a child, or the deletion of the node. Changes
    /// of the children's data and of their own children are no events.
    ///
    /// # Errors
    /// Same as [`get_children`](Self::get_children). After an error there is no watch.
    ///
    /// # Cancel safety
    /// Same as [`exists_and_watch`](Self::exists_and_watch).
    ///
    /// # Ordering
    /// Same as [`exists_and_watch`](Self::exists_and_watch).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # mod lockkeeper {
    /// #     pub use lockkeeper_proto::CreateMode;
    /// #     pub mod watch { pub use lockkeeper_proto::EventType; }
    /// # }
    /// use lockkeeper::{CreateMode, watch::EventType};
    ///
    /// let (names, changed) = client.get_children_and_watch("/").await?;
    /// client.create("/one-more", "", CreateMode::Persistent).await?;
    /// assert_eq!(changed.await?.event_type, EventType::NODE_CHILDREN_CHANGED);
    /// # Ok(()) }
    /// ```
    pub async fn get_children_and_watch(
        &self,
        path: &str,
    ) -> Result<(Vec<String>, Watcher), Error> {
        let request = GetChildrenRequest {
            path: self.resolve(path)?,
            watch: true,
        };
        let (reply, watcher) = self.submit_watching(Request::GetChildren(request)).await;
        let list = record_of!(reply.await.map_err(|error| error.on(path))?, GetChildren)?;
        Ok((list.children.into(), watcher?))
    }

    /// Sends a request that leaves a watch. The watcher is an error only when the request was
    /// refused before it was sent.
    pub(crate) async fn submit_watching(
        &self,
        request: impl Into<Encoded>,
    ) -> (PendingReply, Result<Watcher, Error>) {
        let request = request.into();
        let bytes = self.makes_all([&request]);
        let submit = |core: &mut Core, now, options| core.reply_and_watch(now, request, options);
        let (reply, watch) = self.when_capacity(None, bytes, submit).await;
        let watcher = watch
            .map(|(id, events)| Watcher::new(self.shared.clone(), id, events))
            .ok_or_else(driver_gone);
        (reply, watcher)
    }
}
