//! A request, encoded once, when it is made. What the machine must know of it later is kept beside
//! the bytes.

use std::fmt;

use bytes::BytesMut;
use lockkeeper_proto::{
    OpCode, Request, Version, Xid,
    frame::{self, PREFIX_LEN},
    header::RequestHeader,
    jute::{Decode, Encode},
    multi::MultiRequest,
    records::CheckVersionRequest,
};

use super::asked::Asked;
use crate::machine::watches::{Leaves, restored_len};

/// Most requests take less.
const USUAL: usize = 128;

/// A request, encoded once, outside the lock of a client.
///
/// Its number is written when it is sent.
///
/// ```
/// use lockkeeper_proto::{OpCode, Request, records::SyncRequest};
/// use lockkeeper_session::machine::Encoded;
///
/// let path = "/a".to_owned();
/// let sync = Encoded::from(Request::Sync(SyncRequest { path }));
/// // The header has 8 bytes, and the length of the path 4.
/// assert_eq!((sync.op(), sync.len()), (OpCode::SYNC, 8 + 4 + 2));
/// ```
pub struct Encoded {
    op: OpCode,
    /// The length of the message.
    len: usize,
    /// A whole frame. Empty if no frame can be so long.
    frame: BytesMut,
    asked: Asked,
    leaves: Option<Leaves>,
}

impl Encoded {
    /// A transaction that changes nothing: it only checks that this node is there.
    #[must_use]
    pub fn check(path: String) -> Self {
        let version = Version::ANY;
        let ops = vec![Request::Check(CheckVersionRequest { path, version })];
        Request::Multi(MultiRequest { ops }).into()
    }

    /// The operation.
    #[must_use]
    pub fn op(&self) -> OpCode {
        self.op
    }

    /// The length of the request on the wire, without that of its frame.
    #[must_use]
    #[allow(
        clippy::len_without_is_empty,
        reason = "none is empty: each has a header"
    )]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The length of the request, or of the one that restores its watch, if that is longer.
    pub(crate) fn longest(&self) -> usize {
        let restored = self
            .leaves
            .as_ref()
            .map(|leaves| restored_len(&leaves.path));
        self.len.max(restored.unwrap_or(0))
    }

    /// The watch that the request leaves.
    pub(crate) fn take_leaves(&mut self) -> Option<Leaves> {
        self.leaves.take()
    }

    /// Appends the frame with this number. Returns what the reply must say.
    pub(crate) fn send(mut self, xid: Xid, out: &mut BytesMut) -> Asked {
        let number = self.frame.get_mut(PREFIX_LEN..);
        if let Some(slot) = number.and_then(<[u8]>::first_chunk_mut) {
            *slot = xid.0.to_be_bytes();
        }
        out.extend_from_slice(&self.frame);
        self.asked
    }

    /// The path, if the request begins with one: for logs.
    pub(crate) fn path(&self) -> Option<&str> {
        let body = self.frame.get(PREFIX_LEN + RequestHeader::SMALLEST..)?;
        let (length, text) = body.split_first_chunk()?;
        let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
        let path = str::from_utf8(text.get(..length)?).ok()?;
        path.starts_with('/').then_some(path)
    }
}

/// Prints no data.
impl fmt::Debug for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Encoded({}, {} bytes)", self.op, self.len)
    }
}

impl From<Request> for Encoded {
    fn from(request: Request) -> Self {
        let (op, xid) = (request.op(), Xid(0));
        let mut frame = BytesMut::with_capacity(USUAL);
        let written = frame::append(&mut frame, |writer| {
            RequestHeader { xid, op }.encode(writer);
            request.encode(writer);
        });
        let len = written.unwrap_or_else(|error| error.length);
        Self {
            op,
            len,
            frame,
            leaves: Leaves::of(&request),
            asked: Asked::of(request),
        }
    }
}
