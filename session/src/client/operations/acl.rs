//! Access control lists of nodes, and the identities of this client.

use bytes::Bytes;
use lockkeeper_proto::{
    Acls, OpCode, Request, Stat, Version,
    records::{Empty, GetAclRequest, SetAclRequest},
};

use crate::client::{Client, PendingReply, operations::reply::record_of};
use crate::{Error, Identity, NodeAcl, machine::Auth};

impl Client {
    /// Reads a node's access control list and metadata.
    ///
    /// Without ADMIN the client sees `x` in place of the part after the user in a digest.
    ///
    /// # Errors
    /// [`Refused`](crate::ErrorKind::Refused) with "no node", "not authorized" (from 3.5.5: needs
    /// READ or ADMIN). Also the errors of every request, see [`Client`].
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
    /// # mod lockkeeper { pub mod node { pub use lockkeeper_proto::Acl; } }
    /// use lockkeeper::node::Acl;
    ///
    /// assert_eq!(client.get_acl("/").await?.acl, Acl::OPEN_UNSAFE);
    /// # Ok(()) }
    /// ```
    pub async fn get_acl(&self, path: &str) -> Result<NodeAcl, Error> {
        let request = GetAclRequest {
            path: self.resolve(path)?,
        };
        let read = record_of!(self.ask(path, Request::GetAcl(request)).await?, GetAcl)?;
        let (acl, stat) = (read.acl, read.stat);
        Ok(NodeAcl { acl, stat })
    }

    /// Sets a node's access control list, if the list has this version, and returns the node's new
    /// metadata.
    ///
    /// The version is the node's `aversion`; [`Version::ANY`] matches every version. The data,
    /// their version and their time do not change.
    ///
    /// # Errors
    /// [`Refused`](crate::ErrorKind::Refused) with "no node", "bad version", "invalid ACL", "not
    /// authorized" (needs ADMIN). Also the errors of every request, see [`Client`].
    ///
    /// # Cancel safety
    /// Once the future was polled, the list may be set even if the future is dropped.
    ///
    /// # Ordering
    /// The server handles the request in order with this client's other requests. No watch fires.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # use lockkeeper_proto::CreateMode;
    /// # mod lockkeeper { pub use lockkeeper_proto::Version; pub mod node { pub use lockkeeper_proto::Acl; } }
    /// use lockkeeper::{Version, node::Acl};
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

    /// Adds an identity to this client: it presents the identity on the present connection and on
    /// every later one.
    ///
    /// It does the same as [`Builder::auth`](crate::Builder::auth), on a running client. The
    /// credentials of the scheme `digest` are `user:password` in clear text; the server hashes
    /// them. A client may have several identities, and cannot remove one. The client keeps the
    /// credentials in memory. They appear in no error, log line or `Debug` output.
    ///
    /// # Errors
    /// [`AuthFailed`](crate::ErrorKind::AuthFailed) when the server does not know the scheme or
    /// refuses the credentials. The client has ended then, because every connection would fail in
    /// the same way. Also the errors of every request, see [`Client`]. After a deadline or the
    /// loss of a connection the client keeps the identity and presents it on the next connection. A
    /// call whose deadline is over at its first poll adds nothing.
    ///
    /// # Cancel safety
    /// Once the future was polled, the client keeps the identity even if the future is dropped.
    ///
    /// # Ordering
    /// Later requests of this client have the identity. Earlier requests may have it, too.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # use lockkeeper_proto::CreateMode;
    /// # mod lockkeeper { pub mod node { pub use lockkeeper_proto::Acl; } }
    /// use lockkeeper::node::Acl;
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
        let receiver = (self.shared).act(|core| core.add_auth(auth, self.deadline()));
        record_of!(PendingReply { op, receiver }.await?, Auth).map(|_| ())
    }

    /// Lists the identities that the server has accepted for the present connection: scheme and
    /// user, in no order.
    ///
    /// The client's address is always one of them, under the scheme `ip`. Servers from 3.7.0.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) from older servers. Also the errors of every
    /// request, see [`Client`].
    ///
    /// # Cancel safety
    /// Safe: the method changes nothing.
    ///
    /// # Ordering
    /// The server handles the request in order with this client's other requests.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # use lockkeeper_session::Client;
    /// let client = Client::builder(&server.connect_string())?.auth("digest", "ann:secret").connect().await?;
    /// let me = client.who_am_i().await?;
    /// assert!(me.iter().any(|id| id.scheme == "digest" && id.user == "ann"));
    /// # Ok(()) }
    /// ```
    pub async fn who_am_i(&self) -> Result<Vec<Identity>, Error> {
        let reply = self.ask("", Request::WhoAmI(Empty {})).await?;
        let me = record_of!(reply, WhoAmI)?.client_info.into_iter();
        Ok(me
            .map(|it| Identity {
                scheme: it.auth_scheme,
                user: it.user,
            })
            .collect())
    }
}
