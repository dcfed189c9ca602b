//! Single requests in the log, at the level `trace`. `docs/logging.md` lists the lines.
//!
//! Without a subscriber at that level a line costs one comparison. Data and credentials are never
//! logged.

use std::time::Instant;

use lockkeeper_proto::{OpCode, Request, Xid, header::ReplyHeader};

use super::in_flight::InFlight;

/// A request is handed to the transport.
pub(crate) fn sent(xid: Xid, op: OpCode, request: &Request) {
    tracing::trace!(xid = xid.0, %op, path = request.path(), "request sent");
}

/// A request is answered.
pub(crate) fn answered<T>(request: &InFlight<T>, header: &ReplyHeader, now: Instant) {
    tracing::trace!(
        xid = request.xid.0,
        op = %request.op,
        code = header.err.0,
        latency = ?now.duration_since(request.sent),
        "request answered"
    );
}
