//! Byte streams to a server, and who opens them.
//!
//! Not here: how a stream is cut into frames (`frames`), and the driver that reads and writes.

use std::{
    fmt, io,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::BytesMut;

use super::{dial::Dialer, sockets::Net};
use crate::{Endpoint, client::sync::BoxFuture};

/// A byte stream to a server. Each stream of tokio is one.
///
/// A method that returns [`Poll::Pending`] wakes the task of `cx` when it is worth another try.
pub trait Transport: Send {
    /// Appends what has arrived to `into`, at most as much as there is capacity for. Returns how
    /// many bytes that are, and 0 at the end of the stream.
    ///
    /// # Errors
    /// The stream is broken.
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut BytesMut) -> Poll<io::Result<usize>>;

    /// Takes bytes to be sent, from the first one on. Returns how many it took.
    ///
    /// # Errors
    /// The stream is broken.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Sends what the stream has kept of the bytes that it took.
    ///
    /// # Errors
    /// The stream is broken.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin> Transport for T {
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut BytesMut) -> Poll<io::Result<usize>> {
        tokio_util::io::poll_read_buf(std::pin::Pin::new(self), cx, into)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        tokio::io::AsyncWrite::poll_write(std::pin::Pin::new(self), cx, bytes)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        tokio::io::AsyncWrite::poll_flush(std::pin::Pin::new(self), cx)
    }
}

/// Opens byte streams to servers: over TCP by default, over something else in tests or with
/// encryption.
///
/// The client drops the future of an attempt that takes too long.
#[derive(Clone)]
pub struct Connector(Arc<Connect>);

/// An attempt to open a byte stream.
pub(crate) type Connecting = BoxFuture<'static, io::Result<Box<dyn Transport>>>;
type Connect = dyn Fn(Endpoint, &Net) -> Connecting + Send + Sync;

impl Connector {
    /// Makes a connector that calls `connect` for each attempt.
    pub fn new<F>(connect: F) -> Self
    where
        F: Fn(Endpoint) -> BoxFuture<'static, io::Result<Box<dyn Transport>>>
            + Send
            + Sync
            + 'static,
    {
        Self::on(move |endpoint, _| connect(endpoint))
    }

    /// Like [`new`](Self::new), for a connector that opens sockets.
    pub(crate) fn on(
        connect: impl Fn(Endpoint, &Net) -> Connecting + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(connect))
    }

    /// Makes a connector for plain TCP without Nagle's delay.
    ///
    /// Each attempt resolves the name again. While the name server does not answer, it tries the
    /// addresses of the last answer. If the name has several addresses, each attempt begins
    /// with a different one. When an address has not accepted within 250 ms, the next one is tried
    /// as well. The first connection that is accepted is used.
    #[must_use]
    pub fn tcp() -> Self {
        let dialer = Dialer::new();
        Self::on(move |endpoint, net| dialer.dial(endpoint, net))
    }

    pub(crate) fn connect(&self, endpoint: Endpoint, net: &Net) -> Connecting {
        (self.0)(endpoint, net)
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}
