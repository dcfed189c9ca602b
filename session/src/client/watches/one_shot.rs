//! Reads that leave a one-shot watch, and the future of its event.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use lockkeeper_proto::{
    Request, Response, Stat,
    records::{ExistsRequest, GetChildrenRequest, GetDataRequest},
};

use crate::client::{
    Client, PendingReply,
    chroot::Chroot,
    operations::reply::{node_data, record_of, stat_if_there},
    shared::{EventReceiver, Listener, Shared, driver_gone},
    sync::oneshot,
};
use crate::{
    Error, NodeData,
    machine::{Encoded, Event, WatchId},
};

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
        let (reply, watcher) = self.ask_and_watch(path, Request::Exists(request)).await;
        Ok((stat_if_there(reply)?, watcher?))
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
    pub async fn get_data_and_watch(&self, path: &str) -> Result<(NodeData, Watcher), Error> {
        let request = GetDataRequest {
            path: self.resolve(path)?,
            watch: true,
        };
        let (reply, watcher) = self.ask_and_watch(path, Request::GetData(request)).await;
        Ok((node_data(record_of!(reply?, GetData)?), watcher?))
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
        let (reply, watcher) = self
            .ask_and_watch(path, Request::GetChildren(request))
            .await;
        let list = record_of!(reply?, GetChildren)?;
        Ok((list.children.into(), watcher?))
    }

    /// Sends a request that leaves a watch, and waits for its reply. The watcher is an error only
    /// when the request was refused before it was sent.
    pub(crate) async fn ask_and_watch(
        &self,
        node: &str,
        request: Request,
    ) -> (Result<Response, Error>, Result<Watcher, Error>) {
        let (sender, receiver) = oneshot::channel();
        let (reply, id) = self.submit_watching(request, Listener::Once(sender)).await;
        let (shared, chroot, events) = (self.shared.clone(), self.chroot().clone(), Some(receiver));
        // Made before the reply is awaited, so that dropping this future also drops the watcher.
        let watcher = id.map(|id| Watcher {
            shared,
            chroot,
            id,
            events,
        });
        let reply = reply.await.map_err(|error| error.on(node));
        (reply, watcher.ok_or_else(driver_gone))
    }

    /// Submits a request that leaves a watch, when there is capacity for it. The watch has no id
    /// when the request was refused.
    pub(super) async fn submit_watching(
        &self,
        request: Request,
        listener: Listener,
    ) -> (PendingReply, Option<WatchId>) {
        let request = Encoded::from(request);
        let bytes = self.makes_all([&request]);
        self.when_capacity(bytes, |core, now, options| {
            core.submit_watching(now, request, options, listener)
        })
        .await
    }
}

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
#[derive(Debug)]
#[must_use = "dropping it gives up the watch"]
pub struct Watcher {
    shared: Arc<Shared>,
    chroot: Chroot,
    id: WatchId,
    events: Option<EventReceiver>,
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
            self.chroot.name_as_client(&mut event.path);
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
