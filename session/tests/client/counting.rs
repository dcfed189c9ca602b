//! A TCP transport that counts calls to write, and the frames in the written data.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
};

use bytes::BytesMut;
use lockkeeper_proto::frame;
use lockkeeper_session::{Connector, Transport};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// What was written so far, on all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    /// The number of calls that wrote something.
    pub(crate) writes: usize,
    /// The number of whole frames.
    pub(crate) frames: usize,
}

/// Counts what is written through the transports of its connector.
#[derive(Clone, Default)]
pub(crate) struct Counter(Arc<Mutex<Written>>);

impl Counter {
    pub(crate) fn written(&self) -> Written {
        *self.0.lock().unwrap()
    }

    /// What was written after `before`.
    pub(crate) fn since(&self, before: Written) -> Written {
        let now = self.written();
        Written {
            writes: now.writes - before.writes,
            frames: now.frames - before.frames,
        }
    }

    pub(crate) fn connector(&self) -> Connector {
        let counter = self.clone();
        Connector::new(move |endpoint| {
            let counter = counter.clone();
            Box::pin(async move {
                let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await?;
                stream.set_nodelay(true)?;
                let unread = BytesMut::new();
                let transport = Counted {
                    stream,
                    unread,
                    counter,
                };
                Ok(Box::new(transport) as Box<dyn Transport>)
            })
        })
    }
}

struct Counted {
    stream: TcpStream,
    /// The part of a frame that is written already.
    unread: BytesMut,
    counter: Counter,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.unread.extend_from_slice(&bytes[..written]);
        let mut frames = 0;
        while frame::split(&mut self.unread, usize::MAX)
            .unwrap()
            .is_some()
        {
            frames += 1;
        }
        let mut count = self.counter.0.lock().unwrap();
        count.writes += 1;
        count.frames += frames;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
