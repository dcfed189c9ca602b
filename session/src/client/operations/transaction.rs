//! Several operations in one request: the server applies all of them, or none.

use crate::client::raw::Raw;
use bytes::Bytes;
use lockkeeper_proto::{
    Acls, CreateMode, OpCode, Request, Response, SessionId, Stat, Version,
    multi::MultiRequest,
    records::{CheckVersionRequest, DeleteRequest, SetDataRequest},
};

use crate::Error;
use crate::client::{
    Client,
    operations::reply::{record_of, unexpected},
};

/// Several operations that the server applies all together, or not at all. Made by
/// [`Client::transaction`].
///
/// An operation sees the effects of the operations before it. The results are in the order of the
/// operations.
#[derive(Clone, Debug)]
#[must_use = "a transaction does nothing until `commit`"]
pub struct Transaction {
    client: Client,
    request: MultiRequest,
    /// The only session in which the transaction may be applied.
    within: Option<SessionId>,
    bad_path: Option<Error>,
}

/// The result of one operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpResult {
    /// A node was created.
    #[non_exhaustive]
    Created {
        /// The path; for a sequential node, with its number.
        path: String,
        /// The metadata. Servers before 3.7.2, 3.8.2 and 3.9.0 send them only for containers and
        /// nodes with a time to live.
        stat: Option<Stat>,
    },
    /// A node was deleted.
    Deleted,
    /// A node's data were set. This is its new metadata.
    DataSet(Stat),
    /// A node existed and had the expected version.
    Checked,
}

impl Client {
    /// Starts a transaction: operations that the server applies all together, or not at all.
    /// Servers from 3.4.0.
    ///
    /// All operations of a transaction have the same zxid.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # mod lockkeeper {
    /// #     pub use lockkeeper_proto::{CreateMode, Version};
    /// #     pub mod client { pub use lockkeeper_session::OpResult; }
    /// # }
    /// use lockkeeper::{CreateMode, Version, client::OpResult};
    ///
    /// let results = client
    ///     .transaction()
    ///     .create("/a", "", CreateMode::Persistent)
    ///     .create("/a/b", "1", CreateMode::Persistent)
    ///     .set_data("/a/b", "2", Version(0))
    ///     .commit()
    ///     .await?;
    /// assert!(matches!(&results[0], OpResult::Created { path, .. } if path == "/a"));
    /// assert!(matches!(&results[2], OpResult::DataSet(stat) if stat.version == Version(1)));
    /// # Ok(()) }
    /// ```
    pub fn transaction(&self) -> Transaction {
        Transaction {
            client: self.clone(),
            request: MultiRequest::default(),
            within: None,
            bad_path: None,
        }
    }
}

impl Transaction {
    /// Limits the transaction to this session, see [`crate::Raw::within`]. In another session it is
    /// never applied.
    pub fn within(mut self, session: SessionId) -> Self {
        self.within = Some(session);
        self
    }

    /// The operations that follow, and all results, have paths of this handle of the same client.
    #[doc(hidden)]
    pub fn through(mut self, client: &Client) -> Self {
        self.client = client.clone();
        self
    }

    /// Requires that the node exists and that its data have this version. [`Version::ANY`] matches
    /// every version.
    pub fn check(self, path: &str, version: Version) -> Self {
        let path = self.client.resolve(path);
        self.push(path.map(|path| Request::Check(CheckVersionRequest { path, version })))
    }

    /// Creates a node with the client's [default ACL](crate::Builder::default_acl).
    pub fn create(self, path: &str, data: impl Into<Bytes>, mode: CreateMode) -> Self {
        let acl = self.client.shared.default_acl.clone();
        self.create_with_acl(path, data, mode, acl)
    }

    /// Creates a node with an access control list.
    pub fn create_with_acl(
        self,
        path: &str,
        data: impl Into<Bytes>,
        mode: CreateMode,
        acl: impl Into<Acls>,
    ) -> Self {
        let create = (self.client).request_to_create(path, data.into(), mode, acl.into());
        self.push(create)
    }

    /// Sets a node's data, if they have this version. [`Version::ANY`] matches every version.
    pub fn set_data(self, path: &str, data: impl Into<Bytes>, version: Version) -> Self {
        let (path, data) = (self.client.resolve(path), Some(data.into()));
        self.push(path.map(|path| {
            Request::SetData(SetDataRequest {
                path,
                data,
                version,
            })
        }))
    }

    /// Deletes a node that has no children, if its data have this version. [`Version::ANY`] matches
    /// every version.
    pub fn delete(self, path: &str, version: Version) -> Self {
        let path = self.client.resolve(path);
        self.push(path.map(|path| Request::Delete(DeleteRequest { path, version })))
    }

    /// Sends the operations and waits for their results: one result for each operation, in order.
    ///
    /// # Errors
    /// [`TransactionRefused`](crate::ErrorKind::TransactionRefused) with the first operation that
    /// failed; the server applied none. [`BadPath`](crate::ErrorKind::BadPath) with the first
    /// invalid path; the client sent nothing. Also the errors of every request, see [`Client`].
    ///
    /// # Cancel safety
    /// Once the future was polled, the operations may be applied even if the future is dropped.
    ///
    /// # Ordering
    /// The server handles the request in order with this client's other requests. Watches fire in
    /// the order of the operations, before the reply.
    pub async fn commit(self) -> Result<Vec<OpResult>, Error> {
        self.commit_if(|| true).await.map(Option::unwrap_or_default)
    }

    /// Sends the transaction as [`commit`](Self::commit) does, if `is_allowed`: see
    /// [`Raw::submit_if`](crate::Raw::submit_if).
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    #[doc(hidden)]
    pub async fn commit_if(
        self,
        is_allowed: impl FnOnce() -> bool + Send + Unpin,
    ) -> Result<Option<Vec<OpResult>>, Error> {
        if let Some(error) = self.bad_path {
            return Err(error);
        }
        let asked = self.request.ops.len();
        let requests = [Request::Multi(self.request).into()];
        let raw = Raw {
            client: &self.client,
            within: self.within,
        };
        let Some([reply]) = raw.submit_if(requests, is_allowed).await else {
            return Ok(None);
        };
        let response = record_of!(reply.await?, Multi)?;
        if response.results.len() != asked {
            return Err(unexpected(OpCode::MULTI));
        }
        let results = response.results.into_iter().map(|result| match result {
            Ok(result) => applied(&self.client, result),
            Err(_) => Err(unexpected(OpCode::MULTI)),
        });
        results.collect::<Result<_, _>>().map(Some)
    }

    /// Keeps the first invalid path for `commit`.
    fn push(mut self, op: Result<Request, Error>) -> Self {
        match op {
            Ok(op) => self.request.ops.push(op),
            Err(error) => _ = self.bad_path.get_or_insert(error),
        }
        self
    }
}

fn applied(client: &Client, result: Response) -> Result<OpResult, Error> {
    Ok(match result {
        Response::Create(created) => OpResult::Created {
            path: client.chroot().client_path(created.path),
            stat: None,
        },
        Response::Create2(created)
        | Response::CreateContainer(created)
        | Response::CreateTtl(created) => OpResult::Created {
            path: client.chroot().client_path(created.path),
            stat: Some(created.stat),
        },
        Response::Delete(_) => OpResult::Deleted,
        Response::SetData(set) => OpResult::DataSet(set.stat),
        Response::Check(_) => OpResult::Checked,
        _ => return Err(unexpected(OpCode::MULTI)),
    })
}
