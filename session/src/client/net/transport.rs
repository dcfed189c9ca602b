//! Byte streams to a server, and who opens them.
//!
//! Not here: how a stream is cut into frames (`frames`), and the driver that reads and writes.

use std::{fmt, io, sync::Arc};

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
    pub fn new<F>(connect: F) -> Self
    where
        F: Fn(Endpoint) -> BoxFuture<'static, io::Result<Box<dyn Transport>>>
            + Send
            + Sync
            + 'static,
    {
        Self(Arc::new(connect))
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
