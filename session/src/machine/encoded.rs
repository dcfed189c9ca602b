//! A request, encoded once, when it is made, and what the machine must know of it later: the watch
//! that the request leaves, and what the replies to creates must say.
//!
//! A caller takes the node of such a reply for its own, deletes it, and may fence others with its
//! `czxid`. So a reply that names another node, or another transaction, counts as one that cannot
//! be read: its effect is unknown.

use std::{fmt, str, sync::Arc};

use bytes::BytesMut;
use lockkeeper_proto::{
    CreateMode, OpCode, Request, Response, Version, Xid, Zxid,
    frame::{self, PREFIX_LEN},
    header::RequestHeader,
    jute::{Decode, DecodeError, DecodeErrorKind, Encode, Writer},
    multi::MultiRequest,
    path::SEQUENCE_DIGITS,
    records::CheckVersionRequest,
};

use super::kinds::Kinds;

/// Most requests take less.
const USUAL: usize = 128;
/// Bytes before a path: its length.
pub(super) const BEFORE_PATH: usize = 4;
/// Bytes of a `setWatches2` without paths: header, zxid, five counts.
pub(super) const NO_WATCHES: usize = RequestHeader::SMALLEST + 8 + 5 * 4;

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
    /// A whole frame, until it is sent. Empty if no frame can be so long.
    frame: Option<BytesMut>,
    pub(super) asked: Asked,
    /// In a box, as few requests leave a watch, and all are moved often.
    leaves: Option<Box<Leaves>>,
}

impl Encoded {
    /// A transaction that changes nothing: it only checks that this node is there.
    #[must_use]
    pub fn check(path: String) -> Self {
        Self::check_all([path])
    }

    /// A transaction that only checks that these nodes are there.
    pub(crate) fn check_all(paths: impl IntoIterator<Item = String>) -> Self {
        let version = Version::ANY;
        let check = |path| Request::Check(CheckVersionRequest { path, version });
        let ops = paths.into_iter().map(check).collect();
        Request::Multi(MultiRequest { ops }).into()
    }

    /// Reads the node at this path, which is given in pieces, and leaves no watch. The operation is
    /// `exists`, `getData`, `getChildren` or `getChildren2`. Unlike from a [`Request`], the path is
    /// copied once. For `lockkeeper-recipes`: users send a [`Request`].
    #[doc(hidden)]
    #[must_use]
    pub fn read(op: OpCode, path: &[&str]) -> Self {
        let watch = false;
        Self::written(op, |writer| {
            put_path(writer, path);
            watch.encode(writer);
        })
    }

    /// Deletes the node at this path, likewise.
    #[doc(hidden)]
    #[must_use]
    pub fn delete(path: &[&str], version: Version) -> Self {
        Self::written(OpCode::DELETE, |writer| {
            put_path(writer, path);
            version.encode(writer);
        })
    }

    #[inline]
    fn written(op: OpCode, write: impl FnOnce(&mut Writer<'_>)) -> Self {
        let (xid, mut frame) = (Xid(0), BytesMut::with_capacity(USUAL));
        let written = frame::append(&mut frame, |writer| {
            RequestHeader { xid, op }.encode(writer);
            write(writer);
        });
        let len = written.unwrap_or_else(|error| error.length);
        Self {
            op,
            len,
            frame: Some(frame),
            asked: Asked::Nothing,
            leaves: None,
        }
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
        let leaves = self.leaves.as_ref();
        let restored = leaves.map_or(0, |leaves| Leaves::restored_len(&leaves.path));
        self.len.max(restored)
    }

    /// The watch that the request leaves.
    pub(crate) fn take_leaves(&mut self) -> Option<Box<Leaves>> {
        self.leaves.take()
    }

    /// Appends the frame with this number, once.
    pub(crate) fn send(&mut self, xid: Xid, out: &mut BytesMut) {
        let mut frame = self.frame.take().unwrap_or_default();
        let number = frame.get_mut(PREFIX_LEN..);
        if let Some(slot) = number.and_then(<[u8]>::first_chunk_mut) {
            *slot = xid.0.to_be_bytes();
        }
        out.extend_from_slice(&frame);
    }

    /// The path, if the request begins with one: for logs.
    pub(crate) fn path(&self) -> Option<&str> {
        let body = self
            .frame
            .as_ref()?
            .get(PREFIX_LEN + RequestHeader::SMALLEST..)?;
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
        let written = Self::written(request.op(), |writer| request.encode(writer));
        Self {
            leaves: Leaves::of(&request),
            asked: Asked::of(request),
            ..written
        }
    }
}

fn put_path(writer: &mut Writer<'_>, path: &[&str]) {
    writer.put_length(path.iter().map(|piece| piece.len()).sum());
    // Mostly there is no chroot.
    for piece in path.iter().filter(|piece| !piece.is_empty()) {
        writer.put_slice(piece.as_bytes());
    }
}

/// What a request asks a server to watch.
#[derive(Debug)]
pub(crate) struct Leaves {
    pub(crate) path: Arc<str>,
    pub(crate) kind: Kinds,
}

impl Leaves {
    #[inline]
    pub(crate) fn of(request: &Request) -> Option<Box<Self>> {
        let (path, kind) = match request {
            Request::GetData(get) if get.watch => (&get.path, Kinds::DATA),
            Request::Exists(exists) if exists.watch => (&exists.path, Kinds::EXIST),
            Request::GetChildren(get) | Request::GetChildren2(get) if get.watch => {
                (&get.path, Kinds::CHILD)
            }
            Request::AddWatch(add) => (&add.path, Kinds::of_mode(add.mode)?),
            _ => return None,
        };
        let path = Arc::from(path.as_str());
        Some(Box::new(Self { path, kind }))
    }

    /// The length of the request that restores the watch of this path alone.
    pub(crate) fn restored_len(path: &str) -> usize {
        NO_WATCHES + BEFORE_PATH + path.len()
    }
}

/// The nodes that a request creates.
#[derive(Debug)]
#[non_exhaustive]
pub enum Asked {
    /// None.
    Nothing,
    /// One.
    #[non_exhaustive]
    Node {
        /// The path in the request.
        path: String,
        /// Whether the server appends a number to it.
        is_sequential: bool,
    },
    /// Those of each operation of a transaction.
    Each(Vec<Self>),
}

impl Asked {
    /// The nodes that this request creates.
    #[must_use]
    pub fn of(request: Request) -> Self {
        let node = |path, flags| Self::Node {
            path,
            is_sequential: CreateMode::from_flags(flags, 0).is_some_and(CreateMode::is_sequential),
        };
        match request {
            Request::Create(create)
            | Request::Create2(create)
            | Request::CreateContainer(create) => node(create.path, create.flags),
            Request::CreateTtl(create) => node(create.path, create.flags),
            Request::Multi(multi) => Self::Each(multi.ops.into_iter().map(Self::of).collect()),
            _ => Self::Nothing,
        }
    }

    /// Checks a reply whose header names this transaction.
    ///
    /// # Errors
    /// The field that belongs to another node or transaction.
    pub fn check(&self, zxid: Zxid, response: &Response) -> Result<(), DecodeError> {
        let (path, is_sequential) = match (self, response) {
            (
                Self::Node {
                    path,
                    is_sequential,
                },
                _,
            ) => (path, *is_sequential),
            (Self::Each(asked), Response::Multi(reply)) if reply.failure().is_none() => {
                let mut results = reply.results.iter();
                return asked
                    .iter()
                    .try_for_each(|asked| match (asked, results.next()) {
                        (Self::Nothing, _) => Ok(()),
                        (asked, Some(Ok(result))) => asked.check(zxid, result),
                        _ => Err(unasked("MultiResponse.results")),
                    });
            }
            _ => return Ok(()),
        };
        let (named, stat) = match response {
            Response::Create(reply) => (&reply.path, None),
            Response::Create2(reply)
            | Response::CreateContainer(reply)
            | Response::CreateTtl(reply) => (&reply.path, Some(&reply.stat)),
            _ => return Err(unasked("MultiResponse.results")),
        };
        if !is_named(path, is_sequential, named) {
            return Err(unasked("CreateResponse.path"));
        }
        match stat {
            Some(stat) if stat.czxid != zxid || zxid <= Zxid::ZERO => Err(unasked("Stat.czxid")),
            _ => Ok(()),
        }
    }
}

/// Whether the server may give this path to the node: the one that was asked for, and the number of
/// a sequential node.
///
/// Source: `PrepRequestProcessor.java`, `%010d` of a number of any sign. It has at least ten
/// characters. The first one may be a minus sign.
fn is_named(asked: &str, is_sequential: bool, path: &str) -> bool {
    let Some(number) = path.strip_prefix(asked) else {
        return false;
    };
    if !is_sequential {
        return number.is_empty();
    }
    let digits = number.strip_prefix('-').unwrap_or(number);
    number.len() >= SEQUENCE_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn unasked(field: &'static str) -> DecodeError {
    DecodeError {
        field,
        offset: 0,
        kind: DecodeErrorKind::Unasked,
    }
}
