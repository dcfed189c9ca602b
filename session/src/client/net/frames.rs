//! A stream, and how it is cut into frames. Each frame is a slice of the buffer into which it was
//! read. A frame that is too long is skipped, so that the frames after it can be read.
//!
//! Not here: what is in a frame (`lockkeeper-proto`), and the driver that reads and writes.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, BytesMut};
use lockkeeper_proto::{
    Xid,
    frame::{self, FrameError, PREFIX_LEN},
};
use tokio_util::io::poll_read_buf;

use super::transport::Transport;
use crate::{Cause, machine::Input};

/// The room for a first read: some fifty small replies. Reads that fill their room double it.
const FIRST_READ: usize = 2 * 1024;
/// The largest room for a read: a few hundred small replies.
const LARGEST_READ: usize = 16 * 1024;
/// Less room than this is not worth a system call.
const SMALLEST_READ: usize = 512;

/// A frame may be this many times as long as the limit and is still skipped. A longer frame also
/// ends the connection.
const MOST_SKIPPED: usize = 8;

/// The most bytes that are reported of a server that is not ZooKeeper.
const LONGEST_GREETING: usize = 80;

/// A stream of frames.
pub(crate) struct Frames {
    pub(crate) stream: Box<dyn Transport>,
    buffer: BytesMut,
    /// The room that the next read gets if there is little.
    room: usize,
    splitter: Splitter,
}

impl Frames {
    pub(crate) fn new(stream: Box<dyn Transport>, limit: usize) -> Self {
        Self {
            stream,
            buffer: BytesMut::new(),
            room: FIRST_READ,
            splitter: Splitter {
                limit,
                ..Splitter::default()
            },
        }
    }

    /// The next frame, as an input of the machine. An error ends the connection.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Input, Cause>> {
        loop {
            if let Some(input) = self.splitter.next(&mut self.buffer, false)? {
                return Poll::Ready(Ok(input));
            }
            if self.buffer.capacity() - self.buffer.len() < SMALLEST_READ {
                self.buffer.reserve(self.room);
            }
            let room = self.buffer.capacity() - self.buffer.len();
            let stream = Pin::new(&mut *self.stream);
            let read = ready!(poll_read_buf(stream, cx, &mut self.buffer));
            match read.map_err(|error| Cause::from(&error))? {
                0 => {
                    // An incomplete frame is useless, so only a greeting matters.
                    self.splitter.next(&mut self.buffer, true)?;
                    return Poll::Ready(Err(Cause::ClosedByServer));
                }
                read if read == room => self.room = (self.room * 2).min(LARGEST_READ),
                _ => {}
            }
        }
    }

    /// Sends these bytes as far as the stream takes them now, and removes what it took.
    pub(crate) fn write(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Result<(), Cause> {
        while !out.is_empty() {
            match Pin::new(&mut *self.stream).poll_write(cx, out) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) => return Err(Cause::ClosedByServer),
                Poll::Ready(written) => match written.map_err(|error| Cause::from(&error))? {
                    // Its room begins at the front again.
                    all if all == out.len() => out.clear(),
                    part => out.advance(part),
                },
            }
        }
        // A TLS stream may buffer what was written.
        match Pin::new(&mut *self.stream).poll_flush(cx) {
            Poll::Ready(Err(error)) => Err(Cause::from(&error)),
            _ => Ok(()),
        }
    }

    /// Frees the capacity that a burst has left, or that nothing needs while nothing arrives.
    pub(crate) fn shrink_to_fit(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
            self.room = FIRST_READ;
        }
    }
}

/// Cuts a stream into frames.
#[derive(Debug, Default)]
struct Splitter {
    limit: usize,
    /// Whether a frame has come.
    has_begun: bool,
    /// The bytes of an oversized frame that are still to be skipped.
    skip: usize,
    /// The error for a frame that is too long to be skipped.
    end: Option<FrameError>,
}

impl Splitter {
    /// The next frame; `None` when more bytes are needed. Inline, as mostly there are no bytes.
    #[inline]
    fn next(&mut self, stream: &mut BytesMut, is_end: bool) -> Result<Option<Input>, Cause> {
        match self.end {
            Some(error) => Err(Cause::Frame(error)),
            None if stream.is_empty() => Ok(None),
            None => self.cut(stream, is_end),
        }
    }

    fn cut(&mut self, stream: &mut BytesMut, is_end: bool) -> Result<Option<Input>, Cause> {
        if self.skip > 0 {
            let skipped = self.skip.min(stream.len());
            stream.advance(skipped);
            self.skip -= skipped;
            if self.skip > 0 {
                return Ok(None);
            }
        }
        if !self.has_begun && begins_with_text(stream, is_end)? {
            return Ok(None);
        }
        match frame::split(stream, self.limit) {
            Ok(frame) => {
                self.has_begun |= frame.is_some();
                Ok(frame.map(Input::Frame))
            }
            Err(error @ FrameError::TooLong { length, limit }) => {
                let is_skipped = length / MOST_SKIPPED <= limit;
                let xid = stream.get(PREFIX_LEN..).and_then(<[u8]>::first_chunk);
                match xid.map(|xid| Xid(i32::from_be_bytes(*xid))) {
                    // An event answers no request. The next connection reports it, or that events
                    // may be missing.
                    Some(Xid::NOTIFICATION) => return Err(Cause::Frame(error)),
                    None if is_skipped => return Ok(None),
                    _ => {}
                }
                stream.advance(PREFIX_LEN);
                self.skip = length;
                self.end = (!is_skipped).then_some(error);
                Ok(Some(Input::Oversized { length, limit }))
            }
            Err(error) => Err(Cause::Frame(error)),
        }
    }
}

/// Whether the server has begun a line of text in place of its first frame. The complete line is
/// the error. No first frame looks like text: as a length, four letters are half a GiB or more.
/// Neither does one begin as the alert with which TLS refuses a handshake: that is a third of a GiB.
#[cold]
fn begins_with_text(stream: &[u8], is_end: bool) -> Result<bool, Cause> {
    if stream.starts_with(b"\x15\x03") {
        return Err(Cause::ClosedInHandshake);
    }
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
            let line = line.escape_ascii().to_string();
            Err(Cause::NotZooKeeper(line.into()))
        }
    }
}
