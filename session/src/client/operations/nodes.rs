//! Creating, reading, changing and deleting nodes: one method for each operation.
//!
//! Each checks its path, sends one request and waits for the reply. Not here: children (`lists`), access control lists
//! (`rights`), several at once (`transaction`, `read_transaction`), watches (`watching`).

use bytes::Bytes;
use lockkeeper_proto::{
    Acl, Acls, CreateMode, Request, Response, Stat, Version, path,
    records::{
        Create2Response, CreateRequest, CreateTtlRequest, DeleteRequest, ExistsRequest,
        GetDataRequest, GetDataResponse, SetDataRequest,
    },
};

use crate::Error;
use crate::client::{
    Client,
    operations::reply::{record_of, stat_if_there},
};

impl Client {
    /// Creates a node that anybody may change, and returns its path and metadata.
    ///
    /// Every [`CreateMode`] has its operation: `create2` (servers from 3.5.0), `createContainer` (3.5.1) or `createTTL`
    /// (3.5.3, where the servers have extended types enabled). The path of a sequential node gets ten digits or more
    /// appended, the number of children that its parent ever had; read it from the result. A time to live is counted in
    /// milliseconds, from 1 to 2^40-1, from the last change of the data; nodes that have outlived it, and containers
    /// whose last child has gone, are taken away when the server looks for them, by default once a minute.
    ///
    /// # Errors
    /// [`Error::Refused`] with "no node" when the parent is missing, "node exists", "ephemeral nodes have no children", "not
    /// authorized" (CREATE on the parent), "quota exceeded", "bad arguments" for a time to live out of range and
    /// "unimplemented" where extended types are not enabled; [`Error::Unsupported`] from a server that lacks the
    /// operation; and what every request may fail with, see [`Client`].
    ///
    /// After an error whose [`effect`](Error::effect) is unknown the node may be there: look before you create another.
    ///
    /// # Cancel safety
    /// Once polled, the node may be created whether or not the reply is awaited.
    ///
    /// # Ordering
    /// In the order of this client's requests. The watches that the creation fires are told before the reply.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// use lockkeeper_proto::CreateMode;
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
    ) -> Result<Create2Response, Error> {
        self.create_with_acl(path, data, mode, Acls::Borrowed(Acl::OPEN_UNSAFE))
            .await
    }

    /// As [`create`](Self::create), with an access control list.
    ///
    /// # Errors
    /// As [`create`](Self::create), and "invalid ACL" for a list that is empty, names a scheme that the server does not
    /// know, or names `auth` on a connection that has proved no identity.
    ///
    /// # Cancel safety
    /// As [`create`](Self::create).
    ///
    /// # Ordering
    /// As [`create`](Self::create).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// use lockkeeper_proto::{Acl, CreateMode, Version};
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
    ) -> Result<Create2Response, Error> {
        check_to_create(path, mode)?;
        let request = create_request(self.server_path(path), data.into(), mode, acl.into());
        let created = self.ask(path, request).await?;
        let created = record_of!(created, Create2 | CreateContainer | CreateTtl)?;
        Ok(Create2Response {
            path: self.client_path(created.path),
            stat: created.stat,
        })
    }

    /// Creates a node that anybody may change, and returns its path alone: the `create` that every server has, also
    /// those before 3.5.0 and those that only resemble ZooKeeper.
    ///
    /// For the persistent and the ephemeral modes; a mode that has an operation of its own goes as
    /// [`create`](Self::create) does.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    ///
    /// # Cancel safety
    /// As [`create`](Self::create).
    ///
    /// # Ordering
    /// As [`create`](Self::create).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// use lockkeeper_proto::CreateMode;
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
        check_to_create(path, mode)?;
        let acl = Acls::Borrowed(Acl::OPEN_UNSAFE);
        let request = match create_request(self.server_path(path), data.into(), mode, acl) {
            Request::Create2(create) => Request::Create(create),
            other => other,
        };
        let created = match self.ask(path, request).await? {
            Response::Create(created) => created.path,
            other => record_of!(other, Create2 | CreateContainer | CreateTtl)?.path,
        };
        Ok(self.client_path(created))
    }

    /// Deletes a node without children, if its data have this version ([`Version::ANY`] for any).
    ///
    /// # Errors
    /// [`Error::Refused`] with "no node", "bad version", "not empty", "not authorized" (DELETE on the *parent*: the node's own
    /// list is not looked at), "bad arguments" for the nodes that every server has; and what every request may fail with.
    ///
    /// After an error whose [`effect`](Error::effect) is unknown, a second try that says "no node" may mean that the
    /// first one deleted it.
    ///
    /// # Cancel safety
    /// Once polled, the node may be deleted whether or not the reply is awaited.
    ///
    /// # Ordering
    /// In the order of this client's requests.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # use lockkeeper_proto::CreateMode;
    /// use lockkeeper_proto::Version;
    ///
    /// client.create("/a", "", CreateMode::Persistent).await?;
    /// client.delete("/a", Version(0)).await?;
    /// assert!(client.delete("/a", Version::ANY).await.unwrap_err().is_no_node());
    /// # Ok(()) }
    /// ```
    pub async fn delete(&self, path: &str, version: Version) -> Result<(), Error> {
        let request = DeleteRequest {
            path: self.resolve(path)?,
            version,
        };
        let deleted = self.ask(path, Request::Delete(request)).await?;
        record_of!(deleted, Delete).map(|_| ())
    }

    /// Reads a node's metadata; `None` when there is no such node.
    ///
    /// # Errors
    /// [`Error::Refused`] with "not authorized", from servers that want READ for it (3.8.4, 3.9.2 and later); and what every
    /// request may fail with.
    ///
    /// # Cancel safety
    /// Safe: it changes nothing.
    ///
    /// # Ordering
    /// It shows what this client has written before. What others have written may be missing as long as the server lags
    /// behind its leader: [`sync`](Self::sync) first where that matters.
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
        let request = ExistsRequest {
            path: self.resolve(path)?,
            watch: false,
        };
        stat_if_there(self.ask(path, Request::Exists(request)).await)
    }

    /// Reads a node's data and metadata. The data are a slice of the frame that they came in, which lives as long as
    /// they do; data that were never set are `None`, which is not the same as empty ones.
    ///
    /// # Errors
    /// [`Error::Refused`] with "no node", "not authorized" (READ); and what every request may fail with.
    ///
    /// # Cancel safety
    /// Safe: it changes nothing.
    ///
    /// # Ordering
    /// As [`exists`](Self::exists).
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
    pub async fn get_data(&self, path: &str) -> Result<GetDataResponse, Error> {
        let request = GetDataRequest {
            path: self.resolve(path)?,
            watch: false,
        };
        record_of!(self.ask(path, Request::GetData(request)).await?, GetData)
    }

    /// Sets a node's data, if they have this version ([`Version::ANY`] for any), and returns its new metadata.
    ///
    /// The version counts by one at each success, also when the bytes are the same, and is a new node's 0. The longest
    /// data are what fits a request: [`Builder::max_request`](crate::Builder::max_request) bytes with path and header.
    ///
    /// # Errors
    /// [`Error::Refused`] with "no node", "bad version", "not authorized" (WRITE), "quota exceeded"; [`Error::TooLarge`] before
    /// anything is sent; and what every request may fail with.
    ///
    /// # Cancel safety
    /// Once polled, the data may be set whether or not the reply is awaited.
    ///
    /// # Ordering
    /// In the order of this client's requests.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # use lockkeeper_proto::CreateMode;
    /// let made = client.create("/a", "v1", CreateMode::Persistent).await?;
    /// client.set_data("/a", "v2", made.stat.version).await?;
    /// // Somebody who still knows the first version only:
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
}

/// Checks the path of a node to be.
pub(crate) fn check_to_create(path: &str, mode: CreateMode) -> Result<(), path::PathError> {
    let checked = if mode.is_sequential() {
        path::check_sequential(path)
    } else {
        path::check(path)
    };
    checked.map_err(|problem| path::PathError::new(path, problem))
}

/// The request that creates such a node, at a path of the server.
pub(crate) fn create_request(path: String, data: Bytes, mode: CreateMode, acl: Acls) -> Request {
    let (data, acl, flags) = (Some(data), Some(acl), mode.flags());
    match mode.ttl_ms() {
        Some(ttl_ms) => Request::CreateTtl(CreateTtlRequest {
            path,
            data,
            acl,
            flags,
            ttl_ms,
        }),
        None if mode == CreateMode::Container => Request::CreateContainer(CreateRequest {
            path,
            data,
            acl,
            flags,
        }),
        None => Request::Create2(CreateRequest {
            path,
            data,
            acl,
            flags,
        }),
    }
}
