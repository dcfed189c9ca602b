//! Requests, from the caller's submit to the reply.
//!
//! | file | what |
//! |---|---|
//! | `queue` | requests that were not handed to the transport yet |
//! | `in_flight` | requests that were sent on a connection, and what each reply is for |
//! | `asked` | what the replies to creates must say |
//! | `support` | operations that servers do not know |
//!
//! Not here: sending requests (`machine::sending`), and what replies mean to the other parts
//! (`machine::replies`).

pub(crate) mod asked;
mod in_flight;
mod queue;
mod support;

use bytes::BytesMut;
use lockkeeper_proto::{
    OpCode, Request, Xid, frame,
    header::RequestHeader,
    jute::{Decode, Encode, EncodeError},
};

pub(crate) use in_flight::{InFlight, Own, ReplyTo, Sent};
pub(crate) use queue::{Queue, Queued};
pub(crate) use support::{Support, is_unknown, overtakes};

/// Appends a request's frame and returns the length of its message.
pub(crate) fn append(
    out: &mut BytesMut,
    xid: Xid,
    op: OpCode,
    request: &Request,
) -> Result<usize, EncodeError> {
    frame::append(out, |writer| {
        RequestHeader { xid, op }.encode(writer);
        request.encode(writer);
    })
}

/// The length of a request on the wire, without that of its frame.
#[must_use]
pub fn request_bytes(request: &Request) -> usize {
    RequestHeader::SMALLEST.saturating_add(request.encoded_len())
}
