//! Typical messages of a client, for measuring the codec.

use bytes::{Bytes, BytesMut};
use lockkeeper::{
    CreateMode,
    client::Zxid,
    error::ErrorCode,
    node::{Acl, Acls},
    proto::{
        OpCode, Request, Response, Xid, frame,
        header::{ReplyHeader, RequestHeader},
        jute::{Decode, Encode, Reader},
        records::{CreateRequest, GetChildrenResponse},
    },
};

use crate::Failure;

/// The request that creates a lock node.
#[must_use]
pub fn create_request() -> Request {
    Request::Create2(CreateRequest {
        path: "/bench/locks/one/_c_37f2a2a2-6f2c-4c70-9f0e-3f1c7a3e9a11-lock-".to_owned(),
        data: Some(Bytes::new()),
        acl: Some(Acls::Borrowed(Acl::OPEN_UNSAFE)),
        flags: CreateMode::EphemeralSequential.flags(),
    })
}

/// Appends the frame of a request.
///
/// # Errors
/// When the request is too long.
pub fn encode(request: &Request, out: &mut BytesMut) -> Result<(), Failure> {
    let header = RequestHeader {
        xid: Xid(1),
        op: request.op(),
    };
    frame::append(out, |writer| {
        header.encode(writer);
        request.encode(writer);
    })?;
    Ok(())
}

/// The names of `names` lock nodes, in the order of their numbers.
#[must_use]
pub fn lock_nodes(names: usize) -> Vec<String> {
    let name = |number| format!("_c_37f2a2a2-6f2c-4c70-9f0e-3f1c7a3e9a11-lock-{number:010}");
    (0..names).map(name).collect()
}

/// A reply that lists `names` lock nodes, without the length of its frame.
///
/// # Errors
/// When the reply is too long.
pub fn children_reply(names: usize) -> Result<Bytes, Failure> {
    let list = GetChildrenResponse {
        children: lock_nodes(names).into_iter().collect(),
    };
    let mut out = BytesMut::new();
    reply(&mut out, &list)?;
    let message = frame::split(&mut out, frame::SERVER_LIMIT)?;
    message.ok_or_else(|| "an incomplete frame".into())
}

/// Decodes a reply of [`children_reply`], as the client does.
///
/// # Errors
/// When the reply is malformed.
pub fn decode_children(reply: Bytes) -> Result<Response, Failure> {
    let mut reader = Reader::new(reply);
    ReplyHeader::decode(&mut reader)?;
    Ok(Response::decode(OpCode::GET_CHILDREN, &mut reader)?)
}

/// A stream of `frames` frames with small replies.
///
/// # Errors
/// When a frame is too long.
pub fn stream(frames: usize) -> Result<Bytes, Failure> {
    let mut out = BytesMut::new();
    for _ in 0..frames {
        reply(&mut out, &lockkeeper::proto::records::Empty {})?;
    }
    Ok(out.freeze())
}

/// Removes all frames from a stream, and returns their number.
///
/// # Errors
/// When the stream is malformed.
pub fn split_all(stream: &mut BytesMut) -> Result<usize, Failure> {
    let mut frames = 0;
    while let Some(message) = frame::split(stream, frame::SERVER_LIMIT)? {
        frames += usize::from(!message.is_empty());
    }
    Ok(frames)
}

fn reply(out: &mut BytesMut, body: &impl Encode) -> Result<(), Failure> {
    let header = ReplyHeader {
        xid: Xid(1),
        zxid: Zxid(1),
        err: ErrorCode::OK,
    };
    frame::append(out, |writer| {
        header.encode(writer);
        body.encode(writer);
    })?;
    Ok(())
}
