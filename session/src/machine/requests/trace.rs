//! Single requests in the log, at the level `trace`. `docs/logging.md` lists the lines.
//!
//! Without a subscriber at that level a line costs one comparison. Data and credentials are never logged.

use std::time::Instant;

use lockkeeper_proto::{OpCode, Request, Xid, header::ReplyHeader};

use super::in_flight::InFlight;

/// A request is handed to the transport.
pub(crate) fn sent(xid: Xid, op: OpCode, request: &Request) {
    tracing::trace!(xid = xid.0, %op, path = path(request), "request sent");
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

/// The only node that a request concerns, with the chroot.
fn path(request: &Request) -> Option<&str> {
    Some(match request {
        Request::Create(r) | Request::Create2(r) | Request::CreateContainer(r) => &r.path,
        Request::CreateTtl(r) => &r.path,
        Request::Delete(r) => &r.path,
        Request::Exists(r) => &r.path,
        Request::GetData(r) => &r.path,
        Request::SetData(r) => &r.path,
        Request::GetAcl(r) => &r.path,
        Request::SetAcl(r) => &r.path,
        Request::GetChildren(r) | Request::GetChildren2(r) => &r.path,
        Request::Sync(r) => &r.path,
        Request::AddWatch(r) => &r.path,
        Request::CheckWatches(r) => &r.path,
        Request::RemoveWatches(r) => &r.path,
        Request::GetAllChildrenNumber(r) => &r.path,
        _ => return None,
    })
}
