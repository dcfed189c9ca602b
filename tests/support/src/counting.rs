//! A transport that records which requests each write to the socket carries.
//!
//! Not here: the limits that the counts must keep (`writes`, and the facade's tests `wire_counts`
//! and `known_bugs`).

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::BytesMut;
use lockkeeper_proto::{
    OpCode, Xid, frame,
    header::RequestHeader,
    jute::{Decode, Reader},
};
use lockkeeper_session::Connector;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// The requests of each write on all connections, without handshakes and pings.
///
/// A write that ends within a frame counts, too: as one with the requests that it completes, or
/// with none.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<Mutex<Vec<Vec<RequestHeader>>>>);

impl Tally {
    /// Forgets all requests recorded so far.
    pub fn clear(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// The operations in each write, in order.
    pub fn writes(&self) -> Vec<Vec<OpCode>> {
        let writes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ops = |write: &Vec<RequestHeader>| write.iter().map(|request| request.op).collect();
        writes.iter().map(ops).collect()
    }

    /// The xids of all requests, in order.
    pub fn xids(&self) -> Vec<Xid> {
        let writes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let requests = writes.iter().flatten();
        requests.map(|request| request.xid).collect()
    }

    /// A TCP connector whose connections are recorded here.
    pub fn connector(&self) -> Connector {
        let tally = self.clone();
        Connector::new(move |endpoint| {
            let tally = tally.clone();
            Box::pin(async move {
                let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await?;
                stream.set_nodelay(true)?;
                Ok(Box::new(Counting {
                    stream,
                    tally,
                    sent: BytesMut::new(),
                    handshake: true,
                }) as _)
            })
        })
    }
}

struct Counting {
    stream: TcpStream,
    tally: Tally,
    /// The written bytes of a frame that is not complete yet.
    sent: BytesMut,
    /// Whether the next frame is the handshake, which has no header.
    handshake: bool,
}

impl Counting {
    fn count(&mut self, written: &[u8]) {
        self.sent.extend_from_slice(written);
        let mut requests = Vec::new();
        while let Some(message) = frame::split(&mut self.sent, usize::MAX).unwrap() {
            if !std::mem::take(&mut self.handshake) {
                let header = RequestHeader::decode(&mut Reader::new(message)).unwrap();
                requests.push(header);
            }
        }
        requests.retain(|request| request.op != OpCode::PING);
        if !requests.is_empty() || !self.sent.is_empty() {
            self.tally.0.lock().unwrap().push(requests);
        }
    }
}

impl AsyncRead for Counting {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Counting {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.count(&bytes[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
