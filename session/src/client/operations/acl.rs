//! Who may do what, and who this client is.

use bytes::Bytes;
use lockkeeper_proto::{
    Acls, OpCode, Request, Stat, Version,
    records::{ClientInfo, Empty, GetAclRequest, GetAclResponse, SetAclRequest},
};

use crate::client::{Client, PendingReply, operations::reply::record_of};
use crate::{Error, machine::Auth};

impl Client {
    /// Reads a node's access control list and metadata.
    ///
    /// Whoever lacks ADMIN sees `x` in place of what follows the user in a digest.
    ///
    /// # Errors
    /// [`Error::Refused`] with "no node", "not authorized" (READ or ADMIN, from 3.5.5); and what every request may fail
    /// with.
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
    /// use lockkeeper_proto::Acl;
    ///
    /// assert_eq!(client.get_acl("/").await?.acl, Acl::OPEN_UNSAFE);
    /// # Ok(()) }
    /// ```
    pub async fn get_acl(&self, path: &str) -> Result<GetAclResponse, Error> {
        let request = GetAclRequest {
            path: self.resolve(path)?,
        };
        record_of!(self.ask(path, Request::GetAcl(request)).await?, GetAcl)
    }

    /// Sets a node's access control list, if its `aversion` is this one ([`Version::ANY`] for any), and returns its new
    /// metadata. Data, their version and their time stay as they are.
    ///
    /// # Errors
    /// [`Error::Refused`] with "no node", "bad version", "invalid ACL", "not authorized" (ADMIN); and what every request
    /// may fail with.
    ///
    /// # Cancel safety
    /// Once polled, the list may be set whether or not the reply is awaited.
    ///
    /// # Ordering
    /// In the order of this client's requests. No watch fires.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # use lockkeeper_proto::CreateMode;
    /// use lockkeeper_proto::{Acl, Version};
    ///
    /// client.create("/a", "", CreateMode::Persistent).await?;
    /// let stat = client.set_acl("/a", Acl::READ_UNSAFE, Version(0)).await?;
    /// assert_eq!((stat.aversion, stat.version), (Version(1), Version(0)));
    /// # Ok(()) }
    /// ```
    pub async fn set_acl(
        &self,
        path: &str,
        acl: impl Into<Acls>,
        version: Version,
    ) -> Result<Stat, Error> {
        let request = SetAclRequest {
            path: self.resolve(path)?,
            acl: Some(acl.into()),
            version,
        };
        record_of!(self.ask(path, Request::SetAcl(request)).await?, SetAcl).map(|set| set.stat)
    }

    /// Adds an identity: the server of this connection is told, and every later one, before anything else.
    ///
    /// As [`Builder::auth`](crate::Builder::auth), on a running client. The credentials of the scheme `digest` are
    /// `user:password`, in clear: the server hashes them. Identities add up, and none can be taken back. They are kept in
    /// memory, and appear in no error, log or `Debug`.
    ///
    /// # Errors
    /// [`Error::AuthFailed`] when the server does not know the scheme or refuses the credentials; the client has ended then,
    /// as the same would happen on each connection. [`Error::TooLarge`]; and what every request may fail with. The identity
    /// is kept after errors of a connection, so that the next one is told of it without another call.
    ///
    /// # Cancel safety
    /// Once polled, the identity is kept whether or not the reply is awaited.
    ///
    /// # Ordering
    /// Requests that this client makes afterwards are made with it; those made before may be, too.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # use lockkeeper_proto::CreateMode;
    /// use lockkeeper_proto::Acl;
    ///
    /// client.add_auth("digest", "ann:secret").await?;
    /// client.create_with_acl("/mine", "", CreateMode::Persistent, Acl::CREATOR_ALL).await?;
    /// # Ok(()) }
    /// ```
    pub async fn add_auth(
        &self,
        scheme: impl Into<String>,
        credentials: impl Into<Bytes>,
    ) -> Result<(), Error> {
        let auth = Auth {
            scheme: scheme.into(),
            credentials: credentials.into(),
        };
        let op = OpCode::AUTH;
        let receiver = self.shared.act(|core| core.add_auth(auth));
        record_of!(PendingReply { op, receiver }.await?, Auth).map(|_| ())
    }

    /// Who this client is to the server of its present connection: scheme and user of every identity, in no order. Its
    /// address, under the scheme `ip`, is always one of them. Servers from 3.7.0.
    ///
    /// # Errors
    /// [`Error::Unsupported`] from older servers; and what every request may fail with.
    ///
    /// # Cancel safety
    /// Safe: it changes nothing.
    ///
    /// # Ordering
    /// In the order of this client's requests.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # use lockkeeper_session::Client;
    /// let client = Client::builder(&server.connect_string())?.auth("digest", "ann:secret").connect().await?;
    /// let me = client.who_am_i().await?;
    /// assert!(me.iter().any(|id| id.auth_scheme == "digest" && id.user == "ann"));
    /// # Ok(()) }
    /// ```
    pub async fn who_am_i(&self) -> Result<Vec<ClientInfo>, Error> {
        let [reply] = self
            .submit_with_backpressure([Request::WhoAmI(Empty {})])
            .await;
        record_of!(reply.await?, WhoAmI).map(|me| me.client_info)
    }
}
