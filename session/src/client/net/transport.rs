//! Byte streams to a server, and who opens them.
//!
//! Not here: how a stream is cut into frames (`frames`), and the driver that reads and writes.

use std::{fmt, future::Future, io, sync::Arc};

use tokio::io::{AsyncRead, AsyncWrite};

use crate::{Endpoint, client::sync::BoxFuture};

/// A byte stream to a server: any stream of tokio.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// Opens byte streams to servers: over TCP by default, over something else in tests or with
/// encryption.
///
/// The client drops the future of an attempt that takes too long.
#[derive(Clone)]
pub struct Connector(Arc<Connect>);

/// An attempt to open a byte stream.
pub(crate) type Connecting = BoxFuture<'static, io::Result<Box<dyn Transport>>>;
type Connect = dyn Fn(Endpoint) -> Connecting + Send + Sync;

impl Connector {
    /// Makes a connector that calls `connect` for each attempt.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # use lockkeeper_session::{Client, Connector};
    /// use tokio::net::TcpStream;
    ///
    /// let connector = Connector::new(async |to| TcpStream::connect((&*to.host, to.port)).await);
    /// let builder = Client::builder(&server.connect_string())?.connector(connector);
    /// builder.connect().await?.sync("/").await?;
    /// # Ok(()) }
    /// ```
    pub fn new<T: Transport + 'static, F>(
        connect: impl Fn(Endpoint) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = io::Result<T>> + Send + 'static,
    {
        Self(Arc::new(move |endpoint| {
            let connecting = connect(endpoint);
            Box::pin(async move { Ok(Box::new(connecting.await?) as Box<dyn Transport>) })
        }))
    }

    /// Begins an attempt to open a byte stream. Connectors around this connector call it.
    ///
    /// # Errors
    /// The future gives an error when there is no stream to the server. It holds a
    /// [`Cause`](crate::Cause) when the connector knows more than the kind and text of the error.
    #[must_use]
    pub fn connect(
        &self,
        endpoint: Endpoint,
    ) -> BoxFuture<'static, io::Result<Box<dyn Transport>>> {
        (self.0)(endpoint)
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}
