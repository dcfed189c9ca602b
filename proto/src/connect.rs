//! The handshake: the first frame of the client and the first frame of the server. Neither has a
//! header.
//!
//! Not here: when a server accepts a session (the embedded server), and when a client opens one
//! (`session`).

use bytes::Bytes;

use crate::{SessionId, Zxid, jute::record};

/// The length of a session password in bytes.
///
/// Source: every server sends 16 bytes, and the C client copies exactly 16.
pub const PASSWORD_LEN: usize = 16;

record! {
    /// The client's first frame. `Debug` leaves the password out: anyone who has it can take over
    /// the session.
    pub struct ConnectRequest hides password {
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
        /// Whether the client accepts a read-only server. `None` leaves the byte out, as clients
        /// before 3.4 did.
        pub read_only: Option<bool>,
    }

    /// The server's first frame. `Debug` leaves the password out.
    pub struct ConnectResponse hides password {
        /// 0.
        pub protocol_version: i32,
        /// The negotiated session timeout, in milliseconds. 0 or less means that the server refuses
        /// the session.
        pub timeout_ms: i32,
        /// The session, or [`SessionId::NONE`] when the server refuses it.
        pub session_id: SessionId,
        /// The password that a client needs to resume the session.
        pub password: Option<Bytes>,
        /// Whether the server is read-only. A server leaves the byte out when the request had none.
        pub read_only: Option<bool>,
    }
}
