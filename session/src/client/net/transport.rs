//! Byte streams to a server, and how they are cut into frames.
//!
//! Not here: what is in a frame (`lockkeeper-proto`), and the task that reads and writes
//! (`driver`).

use std::{fmt, io, sync::Arc};

use bytes::{Buf, Bytes, BytesMut};
use futures::future::BoxFuture;
use lockkeeper_proto::frame::{self, FrameError, PREFIX_LEN};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::codec::Decoder;

use crate::client::net::dial::{Dialer, Purpose};
use crate::{Cause, Endpoint, machine::Input};

/// A byte stream to a server. Every type with these traits implements it.
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
type Connect = dyn Fn(Endpoint, Purpose) -> Connecting + Send + Sync;

impl Connector {
    /// Makes a connector that calls `connect` for each attempt.
    pub fn new<F>(connect: F) -> Self
    where
        F: Fn(Endpoint) -> BoxFuture<'static, io::Result<Box<dyn Transport>>>
            + Send
            + Sync
            + 'static,
    {
        Self::with_purpose(move |endpoint, _| connect(endpoint))
    }

    /// Like [`new`](Self::new), for a connector that treats probes differently.
    pub(crate) fn with_purpose(
        connect: impl Fn(Endpoint, Purpose) -> Connecting + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(connect))
    }

    /// Makes a connector for plain TCP without Nagle's delay.
    ///
    /// Each attempt resolves the name again. If the name has several addresses, each attempt begins
    /// with a different one. When an address has not accepted within 250 ms, the next one is tried
    /// as well. The first connection that is accepted is used.
    #[must_use]
    pub fn tcp() -> Self {
        let dialer = Dialer::new();
        Self::with_purpose(move |endpoint, purpose| {
            let dialing = dialer.dial(endpoint, purpose);
            Box::pin(async move { Ok(Box::new(dialing.await?) as Box<dyn Transport>) })
        })
    }

    pub(crate) fn connect(&self, endpoint: Endpoint, purpose: Purpose) -> Connecting {
        (self.0)(endpoint, purpose)
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

/// A frame may be this many times as long as the limit and is still skipped. A longer frame also
/// ends the connection.
const MOST_SKIPPED: usize = 8;

/// The most bytes that are reported of a server that is not ZooKeeper.
const LONGEST_GREETING: usize = 80;

/// Cuts a stream into frames. Each frame is a slice of the buffer into which it was read. A frame
/// that is too long is skipped, so that the frames after it can be read.
#[derive(Debug)]
pub(crate) struct FrameDecoder {
    limit: usize,
    /// Whether a frame has come.
    has_begun: bool,
    /// The bytes of an oversized frame that are still to be skipped.
    skip: usize,
    /// The error for a frame that is too long to be skipped.
    end: Option<FrameError>,
}

/// A result of the decoder.
#[derive(Debug)]
pub(crate) enum Incoming {
    Frame(Bytes),
    Oversized { length: usize, limit: usize },
}

impl From<Incoming> for Input {
    fn from(incoming: Incoming) -> Self {
        match incoming {
            Incoming::Frame(frame) => Self::Frame(frame),
            Incoming::Oversized { length, limit } => Self::Oversized { length, limit },
        }
    }
}

impl FrameDecoder {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            has_begun: false,
            skip: 0,
            end: None,
        }
    }
}

/// Whether the server has begun a line of text in place of its first frame. The complete line is
/// the error. No first frame looks like text: as a length, four letters are half a GiB or more.
#[cold]
fn begins_with_text(stream: &[u8], is_end: bool) -> Result<bool, ReadError> {
    let is_text = |start: &[u8; PREFIX_LEN]| start.iter().all(|byte| (b' '..=b'~').contains(byte));
    if !stream.first_chunk().is_some_and(is_text) {
        return Ok(false);
    }
    let start = stream.get(..LONGEST_GREETING).unwrap_or(stream);
    let line = start.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    match line {
        None if start.len() < LONGEST_GREETING && !is_end => Ok(true),
        end => {
            let line = start.get(..end.unwrap_or(start.len())).unwrap_or(start);
            Err(ReadError::NotZooKeeper(
                line.escape_ascii().to_string().into(),
            ))
        }
    }
}

impl Decoder for FrameDecoder {
    type Item = Incoming;
    type Error = ReadError;

    fn decode(&mut self, stream: &mut BytesMut) -> Result<Option<Incoming>, ReadError> {
        if let Some(error) = self.end {
            return Err(error.into());
        }
        if self.skip > 0 {
            let skipped = self.skip.min(stream.len());
            stream.advance(skipped);
            self.skip -= skipped;
            if self.skip > 0 {
                return Ok(None);
            }
        }
        if !self.has_begun && begins_with_text(stream, false)? {
            return Ok(None);
        }
        match frame::split(stream, self.limit) {
            Ok(frame) => {
                self.has_begun |= frame.is_some();
                Ok(frame.map(Incoming::Frame))
            }
            Err(error @ FrameError::TooLong { length, limit }) => {
                stream.advance(PREFIX_LEN);
                self.skip = length;
                self.end = (length / MOST_SKIPPED > limit).then_some(error);
                Ok(Some(Incoming::Oversized { length, limit }))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The end of the stream inside a frame needs no special handling: the incomplete frame is
    /// useless.
    fn decode_eof(&mut self, stream: &mut BytesMut) -> Result<Option<Incoming>, ReadError> {
        if !self.has_begun {
            begins_with_text(stream, true)?;
        }
        self.decode(stream)
    }
}

/// Why the stream cannot be read any further.
#[derive(Debug)]
pub(crate) enum ReadError {
    Io(io::Error),
    Frame(FrameError),
    NotZooKeeper(Box<str>),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<FrameError> for ReadError {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

impl From<ReadError> for Cause {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => (&error).into(),
            ReadError::Frame(error) => Self::Frame(error),
            ReadError::NotZooKeeper(said) => Self::NotZooKeeper(said.into()),
        }
    }
}
