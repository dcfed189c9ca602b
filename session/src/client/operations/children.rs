//! Lists nodes: children, descendants, the session's own ephemeral nodes.
//!
//! Not here: the data of a node (`nodes`), watches (`watches`).

use lockkeeper_proto::{
    OpCode, Request,
    jute::Names,
    path,
    records::{GetAllChildrenNumberRequest, GetEphemeralsRequest},
};

use crate::client::{Client, PendingReply, Raw, operations::reply::record_of};
use crate::machine::Encoded;
use crate::{Children, Error, client::raw::AsRaw};

impl Raw<'_> {
    /// Lists children as [`Client::get_children`] does, with a path of this client. The names stay
    /// in the memory of the reply.
    ///
    /// # Errors
    /// Same as [`Client::get_children`].
    pub async fn get_children(self, path: &str) -> Result<Names, Error> {
        let request = Encoded::read(OpCode::GET_CHILDREN, &self.client.resolve_in_pieces(path)?);
        let reply = self.submit_one(request).await;
        reply.names().await.map_err(|error| error.on(path))
    }
}

impl PendingReply {
    /// The names in the reply to a listing.
    #[doc(hidden)]
    pub async fn names(self) -> Result<Names, Error> {
        record_of!(self.await?, GetChildren).map(|list| list.children)
    }
}

impl Client {
    /// Lists the names of a node's children, in no order.
    ///
    /// The result has names, not paths: see [`join`](lockkeeper_proto::path::join).
    ///
    /// # Errors
    /// [`Refused`](crate::ErrorKind::Refused) with "no node", "not authorized" (needs READ).
    /// [`ReplyTooLarge`](crate::ErrorKind::ReplyTooLarge) when the listing is longer than
    /// [`Builder::frame_limit`](crate::Builder::frame_limit). Also the errors of every request, see
    /// [`Client`].
    ///
    /// # Cancel safety
    /// Safe: the method changes nothing.
    ///
    /// # Ordering
    /// Same as [`exists`](Self::exists).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// assert_eq!(client.get_children("/").await?, ["zookeeper"]);
    /// # Ok(()) }
    /// ```
    pub async fn get_children(&self, path: &str) -> Result<Vec<String>, Error> {
        self.raw().get_children(path).await.map(Vec::from)
    }

    /// Lists the names of a node's children, in no order, and reads the node's metadata.
    ///
    /// Both are from the same moment. `Vec::from` copies the names out of the reply.
    ///
    /// # Errors
    /// Same as [`get_children`](Self::get_children).
    ///
    /// # Cancel safety
    /// Same as [`get_children`](Self::get_children).
    ///
    /// # Ordering
    /// Same as [`get_children`](Self::get_children).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// let list = client.get_children_with_stat("/").await?;
    /// assert_eq!(list.names.len(), usize::try_from(list.stat.num_children)?);
    /// # Ok(()) }
    /// ```
    pub async fn get_children_with_stat(&self, path: &str) -> Result<Children, Error> {
        let request = Encoded::read(OpCode::GET_CHILDREN2, &self.resolve_in_pieces(path)?);
        let list = record_of!(self.ask(path, request).await?, GetChildren2)?;
        let (names, stat) = (list.children, list.stat);
        Ok(Children { names, stat })
    }

    /// Counts the nodes below a node, at any depth. Servers from 3.6.0.
    ///
    /// For `/` the count includes ZooKeeper's own nodes. The server walks its whole tree for this
    /// request.
    ///
    /// # Errors
    /// [`Refused`](crate::ErrorKind::Refused) with "no node", "not authorized" (needs READ, on this
    /// node only). [`Unsupported`](crate::ErrorKind::Unsupported) from older servers. Also the
    /// errors of every request, see [`Client`].
    ///
    /// # Cancel safety
    /// Safe: the method changes nothing.
    ///
    /// # Ordering
    /// Same as [`exists`](Self::exists).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// // /zookeeper/config and /zookeeper/quota
    /// assert_eq!(client.get_all_children_number("/zookeeper").await?, 2);
    /// # Ok(()) }
    /// ```
    pub async fn get_all_children_number(&self, path: &str) -> Result<u32, Error> {
        let request = GetAllChildrenNumberRequest {
            path: self.resolve(path)?,
        };
        let reply = self
            .ask(path, Request::GetAllChildrenNumber(request))
            .await?;
        let counted = record_of!(reply, GetAllChildrenNumber)?;
        Ok(u32::try_from(counted.total_number).unwrap_or(0))
    }

    /// Lists the paths of this session's ephemeral nodes that start with `prefix`, in no order.
    ///
    /// Servers from 3.6.0.
    ///
    /// The prefix is compared as text: `/jobs/a` finds `/jobs/a` and `/jobs/ab`. `/` finds all of
    /// them; with a chroot, all inside the chroot.
    ///
    /// # Errors
    /// [`BadPath`](crate::ErrorKind::BadPath) for a prefix with which no path can start.
    /// [`Unsupported`](crate::ErrorKind::Unsupported) from older servers. Also the errors of every
    /// request, see [`Client`].
    ///
    /// # Cancel safety
    /// Safe: the method changes nothing.
    ///
    /// # Ordering
    /// Same as [`exists`](Self::exists).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # use lockkeeper_proto::CreateMode;
    /// client.create("/here", "", CreateMode::Ephemeral).await?;
    /// assert_eq!(client.get_ephemerals("/").await?, ["/here"]);
    /// # Ok(()) }
    /// ```
    pub async fn get_ephemerals(&self, prefix: &str) -> Result<Vec<String>, Error> {
        path::check_sequential(prefix)?;
        let chroot = self.chroot();
        let request = GetEphemeralsRequest {
            prefix_path: Some([chroot.prefix(), prefix].concat()),
        };
        let reply = self.ask(prefix, Request::GetEphemerals(request)).await?;
        let found = record_of!(reply, GetEphemerals)?.ephemerals;
        Ok(found
            .into_iter()
            .map(|path| chroot.client_path(path))
            .collect())
    }
}
