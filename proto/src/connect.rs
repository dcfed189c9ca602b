//! The handshake: the first frame of the client and the first frame of the server. Neither has a
//! header.
//!
//! Not here: when a server accepts a session (the embedded server), and when a client opens one
//! (`session`).

use core::fmt;

use bytes::Bytes;

use crate::{
    SessionId, Zxid,
    jute::{Decode, DecodeError, Encode, Reader, Sink, Writer, record},
};

/// The length of a session password in bytes.
///
/// Source: every server sends 16 bytes, and the C client copies exactly 16.
pub const PASSWORD_LEN: usize = 16;

record! {
    /// The fields that every version of the protocol has: all but `read_only`.
    struct RequestBase {
        protocol_version: i32,
        last_zxid_seen: Zxid,
        timeout_ms: i32,
        session_id: SessionId,
        password: Option<Bytes>,
    }

    struct ResponseBase {
        protocol_version: i32,
        timeout_ms: i32,
        session_id: SessionId,
        password: Option<Bytes>,
    }
}

/// The client's first frame.
#[derive(Clone, PartialEq, Eq)]
pub struct ConnectRequest {
    /// 0; servers ignore it.
    pub protocol_version: i32,
    /// The highest zxid that the client has seen in a reply.
    ///
    /// A server that is behind this zxid closes the connection without a reply.
    pub last_zxid_seen: Zxid,
    /// The requested session timeout, in milliseconds.
    pub timeout_ms: i32,
    /// The session to resume, or [`SessionId::NONE`] for a new one.
    pub session_id: SessionId,
    /// The session's password; 16 zero bytes for a new session.
    pub password: Option<Bytes>,
    /// Whether the client accepts a read-only server. `None` leaves the byte out, as clients before
    /// 3.4 did.
    pub read_only: Option<bool>,
}

/// The server's first frame.
#[derive(Clone, PartialEq, Eq)]
pub struct ConnectResponse {
    /// 0.
    pub protocol_version: i32,
    /// The negotiated session timeout, in milliseconds. 0 or less means that the server refuses the
    /// session.
    pub timeout_ms: i32,
    /// The session, or [`SessionId::NONE`] when the server refuses it.
    pub session_id: SessionId,
    /// The password that a client needs to resume the session.
    pub password: Option<Bytes>,
    /// Whether the server is read-only. A server leaves the byte out when the request had none.
    pub read_only: Option<bool>,
}

impl Encode for ConnectRequest {
    fn encode<S: Sink>(&self, writer: &mut Writer<'_, S>) {
        self.protocol_version.encode(writer);
        self.last_zxid_seen.encode(writer);
        self.timeout_ms.encode(writer);
        self.session_id.encode(writer);
        self.password.encode(writer);
        if let Some(read_only) = self.read_only {
            read_only.encode(writer);
        }
    }
}

impl Decode for ConnectRequest {
    const SMALLEST: usize = RequestBase::SMALLEST;

    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let base = RequestBase::decode(reader)?;
        Ok(Self {
            protocol_version: base.protocol_version,
            last_zxid_seen: base.last_zxid_seen,
            timeout_ms: base.timeout_ms,
            session_id: base.session_id,
            password: base.password,
            read_only: decode_read_only(reader, "ConnectRequest.read_only")?,
        })
    }
}

impl Encode for ConnectResponse {
    fn encode<S: Sink>(&self, writer: &mut Writer<'_, S>) {
        self.protocol_version.encode(writer);
        self.timeout_ms.encode(writer);
        self.session_id.encode(writer);
        self.password.encode(writer);
        if let Some(read_only) = self.read_only {
            read_only.encode(writer);
        }
    }
}

impl Decode for ConnectResponse {
    const SMALLEST: usize = ResponseBase::SMALLEST;

    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let base = ResponseBase::decode(reader)?;
        Ok(Self {
            protocol_version: base.protocol_version,
            timeout_ms: base.timeout_ms,
            session_id: base.session_id,
            password: base.password,
            read_only: decode_read_only(reader, "ConnectResponse.read_only")?,
        })
    }
}

/// Reads the optional last byte. Only the length of the frame shows whether it is present.
fn decode_read_only(reader: &mut Reader, field: &'static str) -> Result<Option<bool>, DecodeError> {
    if reader.left() == 0 {
        Ok(None)
    } else {
        reader.enter(field);
        bool::decode(reader).map(Some)
    }
}

/// Leaves the password out: anyone who has it can take over the session.
impl fmt::Debug for ConnectRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectRequest")
            .field("protocol_version", &self.protocol_version)
            .field("last_zxid_seen", &self.last_zxid_seen)
            .field("timeout_ms", &self.timeout_ms)
            .field("session_id", &self.session_id)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

/// Leaves the password out: anyone who has it can take over the session.
impl fmt::Debug for ConnectResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectResponse")
            .field("protocol_version", &self.protocol_version)
            .field("timeout_ms", &self.timeout_ms)
            .field("session_id", &self.session_id)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}
