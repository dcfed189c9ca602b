//! What stands before every message but those of the handshake.

use crate::{ErrorCode, OpCode, Xid, Zxid, jute::record};

record! {
    /// Before every request: 8 bytes.
    #[derive(Copy)]
    pub struct RequestHeader {
        /// Comes back in the reply.
        pub xid: Xid,
        /// What is asked.
        pub op: OpCode,
    }

    /// Before every reply and notification: 16 bytes.
    ///
    /// When `err` is not 0, whatever follows must be ignored.
    #[derive(Copy)]
    pub struct ReplyHeader {
        /// That of the request, or [`Xid::NOTIFICATION`].
        pub xid: Xid,
        /// The last transaction that the server had processed; 0 for auth, -1 for unknown operations and old notifications.
        pub zxid: Zxid,
        /// Success, or why not.
        pub err: ErrorCode,
    }
}
