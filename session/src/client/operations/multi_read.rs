//! Several reads in one request. Each read succeeds or fails by itself.

use lockkeeper_proto::{
    OpCode, Request, Response,
    multi::MultiReadRequest,
    records::{GetChildrenRequest, GetDataRequest},
};

use crate::client::{
    Client,
    operations::reply::{node_data, record_of, unexpected},
};
use crate::{Effect, Error, ErrorKind, NodeData};

/// One read of [`Client::multi_read`], with the path of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Read<'a> {
    /// Reads a node's data and metadata.
    Data(&'a str),
    /// Lists the names of a node's children.
    Children(&'a str),
}

/// The result of one read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadResult {
    /// A node's data and metadata.
    Data(NodeData),
    /// The names of a node's children, in no order.
    Children(Vec<String>),
}

impl Client {
    /// Sends several reads as one request, and waits for their results: one for each read, in order.
    /// Servers from 3.6.0.
    ///
    /// The reads take one round trip. A server that runs alone reads all nodes at one moment;
    /// ZooKeeper does not guarantee this.
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
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # mod lockkeeper { pub mod client { pub use lockkeeper_session::{Read, ReadResult}; } }
    /// use lockkeeper::client::{Read, ReadResult};
    ///
    /// let results = client.multi_read(&[Read::Children("/"), Read::Data("/nowhere")]).await?;
    /// assert_eq!(results[0], Ok(ReadResult::Children(vec!["zookeeper".into()])));
    /// assert!(results[1].as_ref().unwrap_err().is_no_node());
    /// # Ok(()) }
    /// ```
    pub async fn multi_read(
        &self,
        reads: &[Read<'_>],
    ) -> Result<Vec<Result<ReadResult, Error>>, Error> {
        let (watch, mut request) = (false, MultiReadRequest::default());
        for read in reads {
            request.ops.push(match *read {
                Read::Data(path) => {
                    let path = self.resolve(path)?;
                    Request::GetData(GetDataRequest { path, watch })
                }
                Read::Children(path) => {
                    let path = self.resolve(path)?;
                    Request::GetChildren(GetChildrenRequest { path, watch })
                }
            });
        }
        let before = self.snapshot().connections;
        let reply = self.ask("", Request::MultiRead(request)).await?;
        let results = record_of!(reply, MultiRead)?.results;
        if results.len() != reads.len() {
            return Err(unexpected(OpCode::MULTI_READ));
        }
        let peer = self.peer_if_connected_since(before);
        let result = |(read, result): (&Read<'_>, _)| match (read, result) {
            (Read::Data(_), Ok(Response::GetData(node))) => {
                Ok(Ok(ReadResult::Data(node_data(node))))
            }
            (Read::Children(_), Ok(Response::GetChildren(list))) => {
                Ok(Ok(ReadResult::Children(list.children.into())))
            }
            (_, Ok(_)) => Err(unexpected(OpCode::MULTI_READ)),
            (read, Err(code)) => {
                let (op, path) = match *read {
                    Read::Data(path) => (OpCode::GET_DATA, path.to_owned()),
                    Read::Children(path) => (OpCode::GET_CHILDREN, path.to_owned()),
                };
                let kind = ErrorKind::Refused { op, path, code };
                Ok(Err(Error::new(kind, peer.clone(), Effect::NotApplied)))
            }
        };
        reads.iter().zip(results).map(result).collect()
    }
}
