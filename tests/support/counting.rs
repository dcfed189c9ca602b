//! A transport that records which requests each write to the socket carries.
//!
//! Not here: the limits that the counts must keep (`wire_counts`).

#![allow(dead_code, reason = "each test binary uses only a part of this")]

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::BytesMut;
use lockkeeper::{
    Client,
    client::Connector,
    proto::{
        OpCode, Xid, frame,
        header::RequestHeader,
        jute::{Decode, Reader},
    },
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// The requests of each write, without the handshake and pings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(Arc<Mutex<Vec<Vec<RequestHeader>>>>);

impl Tally {
    /// Forgets all requests recorded so far.
    pub(crate) fn clear(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// The operations in each write, in order.
    pub(crate) fn writes(&self) -> Vec<Vec<OpCode>> {
        let writes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ops = |write: &Vec<RequestHeader>| write.iter().map(|request| request.op).collect();
        writes.iter().map(ops).collect()
    }

    /// The xids of all requests, in order.
    pub(crate) fn xids(&self) -> Vec<Xid> {
        let writes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let requests = writes.iter().flatten();
        requests.map(|request| request.xid).collect()
    }
}

/// A client, and the record of its writes.
pub(crate) async fn counting_client(servers: &str) -> (Client, Tally) {
    let tally = Tally::default();
    let counted = tally.clone();
    let connector = Connector::new(move |endpoint| {
        let tally = counted.clone();
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
    });
    let client = Client::builder(servers)
        .unwrap()
        .connector(connector)
        .connect()
        .await
        .unwrap();
    (client, tally)
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
        if !requests.is_empty() {
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
