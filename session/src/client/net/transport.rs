//! Byte streams to a server, and how they are cut into frames.

use std::{fmt, io, sync::Arc};

use bytes::{Buf, Bytes, BytesMut};
use futures::future::BoxFuture;
use lockkeeper_proto::frame::{self, FrameError, PREFIX_LEN};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::codec::Decoder;

use crate::client::net::dial::Dialer;
use crate::{Cause, Endpoint, machine::Input};

/// A byte stream to a server.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// How a byte stream to a server comes about: TCP by default, something else in tests or under encryption.
///
/// The future is dropped when it takes too long.
#[derive(Clone)]
pub struct Connector(Arc<Connect>);

type Connect = dyn Fn(Endpoint) -> BoxFuture<'static, io::Result<Box<dyn Transport>>> + Send + Sync;

impl Connector {
    /// Connects by calling `connect`.
    pub fn new<F>(connect: F) -> Self
    where
        F: Fn(Endpoint) -> BoxFuture<'static, io::Result<Box<dyn Transport>>>
            + Send
            + Sync
            + 'static,
    {
        Self(Arc::new(connect))
    }

    /// Plain TCP without Nagle's delay.
    ///
    /// A name is resolved anew for each attempt. Of several addresses each attempt begins with another one; when one has
    /// not accepted within 250 ms the next is tried as well, and the first that accepts is taken.
    #[must_use]
    pub fn tcp() -> Self {
        let dialer = Dialer::new();
        Self::new(move |endpoint| {
            let dialing = dialer.dial(endpoint);
            Box::pin(async move { Ok(Box::new(dialing.await?) as Box<dyn Transport>) })
        })
    }

    pub(crate) fn connect(
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

/// So many times the limit may a frame be long that is passed over; a longer one ends the connection, too.
const MOST_SKIPPED: usize = 8;

/// Cuts a stream into frames, each a slice of the buffer that it was read into. One that is too long is passed over, so that
/// what comes behind it can be read.
#[derive(Debug)]
pub(crate) struct FrameDecoder {
    limit: usize,
    /// Bytes of an oversized frame that are still to come.
    skip: usize,
    /// A frame that is too long to be passed over.
    end: Option<FrameError>,
}

/// What the decoder has found.
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
            skip: 0,
            end: None,
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
        match frame::split(stream, self.limit) {
            Ok(frame) => Ok(frame.map(Incoming::Frame)),
            Err(error @ FrameError::TooLong { length, limit }) => {
                stream.advance(PREFIX_LEN);
                self.skip = length;
                self.end = (length / MOST_SKIPPED > limit).then_some(error);
                Ok(Some(Incoming::Oversized { length, limit }))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The end of the stream inside a frame is an end like any other: the frame is worth nothing.
    fn decode_eof(&mut self, stream: &mut BytesMut) -> Result<Option<Incoming>, ReadError> {
        self.decode(stream)
    }
}

/// Why nothing more can be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    Io(io::Error),
    Frame(FrameError),
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
            ReadError::Io(error) => io_cause(&error),
            ReadError::Frame(error) => Self::Frame(error),
        }
    }
}

/// The system's reason as a cause, unless the stream told a cause itself.
pub(crate) fn io_cause(error: &io::Error) -> Cause {
    let told = error.get_ref().and_then(|inner| inner.downcast_ref());
    if let Some(cause) = told {
        return Cause::clone(cause);
    }
    Cause::Io(error.to_string().into())
}
