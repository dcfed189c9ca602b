//! Requests on their way: what each is for, and which watch it leaves.
//!
//! Invariant: replies come in the order of the requests; a reply whose xid is not the oldest one's ends the connection.

use std::time::Instant;

use lockkeeper_proto::{ErrorCode, OpCode, Request, Xid, records::RemoveWatchesRequest};

use super::watches::{WatchId, WatchKind, WatchTable};

/// A request that was not handed to the transport yet.
#[derive(Debug)]
pub(super) struct Queued<T> {
    pub(super) request: Request,
    pub(super) purpose: Purpose<T>,
    /// When it was submitted.
    pub(super) since: Instant,
}

/// A request that was handed to the transport.
#[derive(Debug)]
pub(super) struct InFlight<T> {
    pub(super) xid: Xid,
    pub(super) op: OpCode,
    /// When it was handed over; the server cannot have got it earlier.
    pub(super) sent: Instant,
    pub(super) purpose: Purpose<T>,
}

/// Whom the reply is for.
#[derive(Debug)]
pub(super) enum Purpose<T> {
    /// A caller, and the watch that the request leaves.
    Caller { token: T, watch: Option<Announced> },
    /// The machine: watches of a former connection, or new ones on existing nodes.
    SetWatches { restore: bool },
    /// The machine: a watch that nobody waits for any more.
    RemoveWatches,
    /// The machine: the end of the session.
    Close,
}

/// The watch that a request will leave.
#[derive(Debug)]
pub(super) struct Announced {
    pub(super) id: WatchId,
    path: String,
    by: Leaver,
}

/// What leaves the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaver {
    GetData,
    Exists,
    GetChildren,
}

impl Announced {
    /// Announces the watch of a request that leaves one.
    pub(super) fn of(request: &Request, watches: &mut WatchTable) -> Option<Self> {
        let (path, by) = match request {
            Request::GetData(get) if get.watch => (&get.path, Leaver::GetData),
            Request::Exists(exists) if exists.watch => (&exists.path, Leaver::Exists),
            Request::GetChildren(get) | Request::GetChildren2(get) if get.watch => {
                (&get.path, Leaver::GetChildren)
            }
            _ => return None,
        };
        let id = watches.announce(path, by == Leaver::GetChildren);
        Some(Self {
            id,
            path: path.clone(),
            by,
        })
    }

    /// The reply has come with this code, or never will. Returns what removes a watch that nobody wants any more.
    ///
    /// `exists` leaves a watch on a missing node too; the others only where they succeed.
    pub(super) fn settle(
        self,
        watches: &mut WatchTable,
        code: Option<ErrorCode>,
    ) -> Option<RemoveWatchesRequest> {
        let kind = match (self.by, code) {
            (Leaver::GetData | Leaver::Exists, Some(ErrorCode::OK)) => Some(WatchKind::Data),
            (Leaver::Exists, Some(ErrorCode::NO_NODE)) => Some(WatchKind::Exist),
            (Leaver::GetChildren, Some(ErrorCode::OK)) => Some(WatchKind::Child),
            _ => None,
        };
        watches.settle(self.id, &self.path, self.by == Leaver::GetChildren, kind)
    }
}
