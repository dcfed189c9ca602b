//! The headers of requests and replies.
//!
//! Not here: the handshake, whose messages have no header (`connect`).

use crate::{ErrorCode, OpCode, Xid, Zxid, jute::record};

record! {
    /// The header of every request: 8 bytes.
    #[derive(Copy)]
    pub struct RequestHeader {
        /// The number of the request. The reply repeats it.
        pub xid: Xid,
        /// The operation that the client asks for.
        pub op: OpCode,
    }

    /// The header of every reply and notification: 16 bytes.
    ///
    /// When `err` is not 0, the bytes after the header must be ignored.
    #[derive(Copy)]
    pub struct ReplyHeader {
        /// The xid of the request, or [`Xid::NOTIFICATION`].
        pub xid: Xid,
        /// The last transaction that the server has processed.
        ///
        /// It is 0 for auth, and -1 for unknown operations. It is also -1 for all notifications of
        /// a 3.8.0 server, and for the catch-up events of `setWatches` from a 3.9.3 server.
        pub zxid: Zxid,
        /// Success, or the reason of the failure.
        pub err: ErrorCode,
    }
}
