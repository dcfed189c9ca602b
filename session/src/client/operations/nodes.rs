//! Creating, reading, changing and deleting nodes: one method for each operation.
//!
//! Each method checks its path, sends one request and waits for the reply.
//!
//! Not here: children (`children`), access control lists (`acl`), several operations in one request
//! (`transaction`, `multi_read`), watches (`watches`).

use bytes::Bytes;
use lockkeeper_proto::{
    Acls, CreateMode, OpCode, Request, Response, Stat, Version, path,
    records::{CreateRequest, CreateTtlRequest, SetDataRequest},
};

use crate::client::{
    Client,
    operations::reply::{node_data, record_of, stat_if_there},
};
use crate::{Created, Error, NodeData, machine::Encoded};

impl Client {
    /// Creates a node with the client's [default ACL](crate::Builder::default_acl), and returns its
    /// path and metadata.
    ///
    /// The mode decides the operation: `create2` (servers from 3.5.0), `createContainer` (3.5.1) or
    /// `createTTL` (3.5.3, if extended types are enabled on the servers).
    ///
    /// The server appends ten or more digits to the path of a sequential node: the number of
    /// children that the parent has had so far. Read the path from the result.
    ///
    /// A time to live is in milliseconds, from 1 to 2^40-1, and counts from the last change of the
    /// data. The servers delete nodes whose time to live is over, and containers whose last child
    /// is gone. They look for such nodes once a minute by default.
    ///
    /// # Errors
    /// [`Refused`](crate::ErrorKind::Refused) with
    /// - "no node" when the parent is missing;
    /// - "node exists";
    /// - "ephemeral nodes have no children";
    /// - "not authorized": the client needs CREATE on the parent;
    /// - "quota exceeded";
    /// - "bad arguments" for a time to live out of range;
    /// - "unimplemented" when extended types are not enabled.
    ///
    /// [`Unsupported`](crate::ErrorKind::Unsupported) when the server does not support the
    /// operation. Also the errors of every request, see [`Client`].
    ///
    /// After an error whose [`effect`](Error::effect) is unknown the node may exist: check before
    /// you create another one.
    ///
    /// # Cancel safety
    /// Once the future was polled, the node may be created even if the future is dropped.
    ///
    /// # Ordering
    /// The server handles the request in order with this client's other requests. Before the client
    /// returns the reply, it reports the events of the watches that the creation fires.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # use lockkeeper_proto as lockkeeper;
    /// use lockkeeper::CreateMode;
    ///
    /// client.create("/jobs", "", CreateMode::Container).await?;
    /// let job = client.create("/jobs/job-", "work", CreateMode::EphemeralSequential).await?;
    /// assert_eq!(job.path, "/jobs/job-0000000000");
    /// assert_eq!(job.stat.ephemeral_owner, client.snapshot().session_id);
    /// # Ok(()) }
    /// ```
    pub async fn create(
        &self,
        path: &str,
        data: impl Into<Bytes>,
        mode: CreateMode,
    ) -> Result<Created, Error> {
        self.create_with_acl(path, data, mode, self.shared.default_acl.clone())
            .await
    }

    /// Like [`create`](Self::create), with an access control list.
    ///
    /// # Errors
    /// Same as [`create`](Self::create). Also "invalid ACL" when the list is empty, names a scheme
    /// that the server does not know, or names `auth` on a connection without an identity.
    ///
    /// # Cancel safety
    /// Same as [`create`](Self::create).
    ///
    /// # Ordering
    /// Same as [`create`](Self::create).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # mod lockkeeper {
    /// #     pub use lockkeeper_proto::{CreateMode, Version};
    /// #     pub mod node { pub use lockkeeper_proto::Acl; }
    /// # }
    /// use lockkeeper::{CreateMode, Version, node::Acl};
    ///
    /// let read_only = Acl::READ_UNSAFE;
    /// client.create_with_acl("/fixed", "1", CreateMode::Persistent, read_only).await?;
    /// assert!(client.set_data("/fixed", "2", Version::ANY).await.is_err());
    /// # Ok(()) }
    /// ```
    pub async fn create_with_acl(
        &self,
        path: &str,
        data: impl Into<Bytes>,
        mode: CreateMode,
        acl: impl Into<Acls>,
    ) -> Result<Created, Error> {
        let request = self.request_to_create(path, data.into(), mode, acl.into())?;
        let created = self.ask(path, request).await?;
        self.created(created)
    }

    /// Creates a node with the client's [default ACL](crate::Builder::default_acl), and returns only
    /// its path.
    ///
    /// It uses the operation `create`, which every server supports: also servers before 3.5.0, and
    /// servers that only resemble ZooKeeper. Use it for the persistent and the ephemeral modes. For
    /// a mode with an operation of its own it sends the same request as [`create`](Self::create).
    ///
    /// # Errors
    /// Same as [`create`](Self::create).
    ///
    /// # Cancel safety
    /// Same as [`create`](Self::create).
    ///
    /// # Ordering
    /// Same as [`create`](Self::create).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # use lockkeeper_proto as lockkeeper;
    /// use lockkeeper::CreateMode;
    ///
    /// let path = client.create_without_stat("/a", "", CreateMode::Persistent).await?;
    /// assert_eq!(path, "/a");
    /// # Ok(()) }
    /// ```
    pub async fn create_without_stat(
        &self,
        path: &str,
        data: impl Into<Bytes>,
        mode: CreateMode,
    ) -> Result<String, Error> {
        let acl = self.shared.default_acl.clone();
        let request = match self.request_to_create(path, data.into(), mode, acl)? {
            Request::Create2(create) => Request::Create(create),
            other => other,
        };
        let created = match self.ask(path, request).await? {
            Response::Create(created) => created.path,
            other => record_of!(other, Create2 | CreateContainer | CreateTtl)?.path,
        };
        Ok(self.chroot().client_path(created))
    }

    /// Deletes a node that has no children, if its data have this version.
    ///
    /// [`Version::ANY`] matches every version.
    ///
    /// # Errors
    /// [`Refused`](crate::ErrorKind::Refused) with
    /// - "no node", "bad version", "not empty";
    /// - "not authorized": the client needs DELETE on the *parent*, and the node's own list does
    ///   not matter;
    /// - "bad arguments" for the nodes that every server has.
    ///
    /// Also the errors of every request, see [`Client`].
    ///
    /// After an error whose [`effect`](Error::effect) is unknown, a second attempt may fail with
    /// "no node" because the first attempt deleted the node.
    ///
    /// # Cancel safety
    /// Once the future was polled, the node may be deleted even if the future is dropped.
    ///
    /// # Ordering
    /// The server handles the request in order with this client's other requests.
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
    /// client.create("/a", "", CreateMode::Persistent).await?;
    /// client.delete("/a", Version(0)).await?;
    /// assert!(client.delete("/a", Version::ANY).await.unwrap_err().is_no_node());
    /// # Ok(()) }
    /// ```
    pub async fn delete(&self, path: &str, version: Version) -> Result<(), Error> {
        let request = Encoded::delete(&self.resolve_in_pieces(path)?, version);
        let deleted = self.ask(path, request).await?;
        record_of!(deleted, Delete).map(|_| ())
    }

    /// Reads a node's metadata. Returns `None` when the node does not exist.
    ///
    /// # Errors
    /// [`Refused`](crate::ErrorKind::Refused) with "not authorized": servers from 3.8.4 and 3.9.2
    /// on require READ on the node. Also the errors of every request, see [`Client`].
    ///
    /// # Cancel safety
    /// Safe: the method changes nothing.
    ///
    /// # Ordering
    /// The read sees all earlier writes of this client. It may miss recent writes of other clients
    /// while the server lags behind its leader. Call [`sync`](Self::sync) first if that matters.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// assert_eq!(client.exists("/nowhere").await?, None);
    /// assert_eq!(client.exists("/").await?.unwrap().num_children, 1);
    /// # Ok(()) }
    /// ```
    pub async fn exists(&self, path: &str) -> Result<Option<Stat>, Error> {
        let request = Encoded::read(OpCode::EXISTS, &self.resolve_in_pieces(path)?);
        stat_if_there(self.ask(path, request).await)
    }

    /// Reads a node's data and metadata.
    ///
    /// The data are a slice of the frame in which they arrived, and keep that frame in memory. Data
    /// that were never set are `None`, which differs from empty data.
    ///
    /// # Errors
    /// [`Refused`](crate::ErrorKind::Refused) with "no node", "not authorized" (needs READ). Also
    /// the errors of every request, see [`Client`].
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
    /// client.create("/a", "v1", CreateMode::Persistent).await?;
    /// let node = client.get_data("/a").await?;
    /// assert_eq!(node.data.as_deref(), Some(&b"v1"[..]));
    /// assert_eq!(node.stat.version.0, 0);
    /// # Ok(()) }
    /// ```
    pub async fn get_data(&self, path: &str) -> Result<NodeData, Error> {
        let request = Encoded::read(OpCode::GET_DATA, &self.resolve_in_pieces(path)?);
        record_of!(self.ask(path, request).await?, GetData).map(node_data)
    }

    /// Sets a node's data, if they have this version, and returns the node's new metadata.
    ///
    /// [`Version::ANY`] matches every version. A new node has version 0. Each successful call adds
    /// one to the version, also when the bytes stay the same. The request, with path and header,
    /// must not be longer than [`Builder::max_request`](crate::Builder::max_request).
    ///
    /// # Errors
    /// [`Refused`](crate::ErrorKind::Refused) with "no node", "bad version", "not authorized"
    /// (needs WRITE), "quota exceeded". [`TooLarge`](crate::ErrorKind::TooLarge) before anything is
    /// sent. Also the errors of every request, see [`Client`].
    ///
    /// # Cancel safety
    /// Once the future was polled, the data may be set even if the future is dropped.
    ///
    /// # Ordering
    /// The server handles the request in order with this client's other requests.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # use lockkeeper_proto::CreateMode;
    /// let made = client.create("/a", "v1", CreateMode::Persistent).await?;
    /// client.set_data("/a", "v2", made.stat.version).await?;
    /// // A writer that knows only the first version:
    /// assert!(client.set_data("/a", "v3", made.stat.version).await.is_err());
    /// # Ok(()) }
    /// ```
    pub async fn set_data(
        &self,
        path: &str,
        data: impl Into<Bytes>,
        version: Version,
    ) -> Result<Stat, Error> {
        let request = SetDataRequest {
            path: self.resolve(path)?,
            data: Some(data.into()),
            version,
        };
        record_of!(self.ask(path, Request::SetData(request)).await?, SetData).map(|set| set.stat)
    }

    /// The request that creates a node of this client. To the path of a sequential node the server
    /// appends a number, so its last name is not checked, and the root of a chroot keeps its slash.
    pub(crate) fn request_to_create(
        &self,
        path: &str,
        data: Bytes,
        mode: CreateMode,
        acl: Acls,
    ) -> Result<Request, Error> {
        let path = if mode.is_sequential() {
            path::check_sequential(path)?;
            [self.chroot().prefix(), path].concat()
        } else {
            self.resolve(path)?
        };
        Ok(create_request(path, data, mode, acl))
    }
}

/// The request that creates a node in this mode, at a path of the server.
pub(super) fn create_request(path: String, data: Bytes, mode: CreateMode, acl: Acls) -> Request {
    let (data, acl, flags) = (Some(data), Some(acl), mode.flags());
    if let Some(ttl_ms) = mode.ttl_ms() {
        return Request::CreateTtl(CreateTtlRequest {
            path,
            data,
            acl,
            flags,
            ttl_ms,
        });
    }
    let create = CreateRequest {
        path,
        data,
        acl,
        flags,
    };
    match mode {
        CreateMode::Container => Request::CreateContainer(create),
        _ => Request::Create2(create),
    }
}
