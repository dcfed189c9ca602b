//! Several reads in one request. Each read succeeds or fails by itself.

use lockkeeper_proto::{
    OpCode, Request, Response,
    multi::MultiReadRequest,
    records::{GetChildrenRequest, GetDataRequest, GetDataResponse},
};

use crate::client::{
    Client,
    operations::reply::{record_of, unexpected},
};
use crate::{Effect, Error, ErrorKind};

/// Several reads in one request. Made by [`Client::read_transaction`].
#[derive(Clone, Debug)]
#[must_use = "nothing is read until `commit`"]
pub struct ReadTransaction {
    client: Client,
    request: MultiReadRequest,
    /// The paths of the nodes, as the caller gave them.
    paths: Vec<String>,
    bad_path: Option<Error>,
}

/// The result of one read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadResult {
    /// A node's data and metadata.
    Data(GetDataResponse),
    /// The names of a node's children, in no order.
    Children(Vec<String>),
}

impl Client {
    /// Starts a list of reads that the client sends as one request. Servers from 3.6.0.
    ///
    /// The reads take one round trip. A server that runs alone reads all nodes at one moment;
    /// ZooKeeper does not guarantee this.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # mod lockkeeper { pub mod client { pub use lockkeeper_session::ReadResult; } }
    /// use lockkeeper::client::ReadResult;
    ///
    /// let reads = client.read_transaction().get_children("/").get_data("/nowhere");
    /// let results = reads.commit().await?;
    /// assert_eq!(results[0], Ok(ReadResult::Children(vec!["zookeeper".into()])));
    /// assert!(results[1].as_ref().unwrap_err().is_no_node());
    /// # Ok(()) }
    /// ```
    pub fn read_transaction(&self) -> ReadTransaction {
        ReadTransaction {
            client: self.clone(),
            request: MultiReadRequest::default(),
            paths: Vec::new(),
            bad_path: None,
        }
    }
}

impl ReadTransaction {
    /// Reads a node's data and metadata.
    pub fn get_data(self, path: &str) -> Self {
        let watch = false;
        self.push(path, |path| {
            Request::GetData(GetDataRequest { path, watch })
        })
    }

    /// Lists the names of a node's children.
    pub fn get_children(self, path: &str) -> Self {
        let watch = false;
        self.push(path, |path| {
            Request::GetChildren(GetChildrenRequest { path, watch })
        })
    }

    /// Sends the reads and waits for their results: one result for each read, in order.
    ///
    /// # Errors
    /// For each read: [`Refused`](crate::ErrorKind::Refused) with "no node" or "not authorized"
    /// (needs READ). For the whole request: [`BadPath`](crate::ErrorKind::BadPath) with the first
    /// invalid path, before anything is sent; [`Unsupported`](crate::ErrorKind::Unsupported) from
    /// servers before 3.6.0; and the errors of every request, see [`Client`].
    ///
    /// # Cancel safety
    /// Safe: the method changes nothing.
    ///
    /// # Ordering
    /// Same as [`Client::exists`].
    pub async fn commit(self) -> Result<Vec<Result<ReadResult, Error>>, Error> {
        if let Some(error) = self.bad_path {
            return Err(error);
        }
        let ops: Vec<_> = self.request.ops.iter().map(Request::op).collect();
        let before = self.client.snapshot().connections;
        let reply = self.client.ask("", Request::MultiRead(self.request));
        let results = record_of!(reply.await?, MultiRead)?.results;
        if results.len() != ops.len() {
            return Err(unexpected(OpCode::MULTI_READ));
        }
        let peer = self.client.peer_if_connected_since(before);
        let read = |((op, path), result)| match result {
            Ok(Response::GetData(node)) if op == OpCode::GET_DATA => Ok(Ok(ReadResult::Data(node))),
            Ok(Response::GetChildren(list)) if op == OpCode::GET_CHILDREN => {
                Ok(Ok(ReadResult::Children(list.children.into())))
            }
            Err(code) => {
                let kind = ErrorKind::Refused { op, path, code };
                Ok(Err(Error::new(kind, peer.clone(), Effect::NotApplied)))
            }
            _ => Err(unexpected(OpCode::MULTI_READ)),
        };
        ops.into_iter()
            .zip(self.paths)
            .zip(results)
            .map(read)
            .collect()
    }

    /// Keeps the first invalid path for `commit`.
    fn push(mut self, path: &str, read: impl FnOnce(String) -> Request) -> Self {
        match self.client.resolve(path) {
            Ok(node) => {
                self.paths.push(path.to_owned());
                self.request.ops.push(read(node));
            }
            Err(error) => _ = self.bad_path.get_or_insert(error),
        }
        self
    }
}
