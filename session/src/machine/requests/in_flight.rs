//! Requests that were sent: what each reply is for, and which watch the request leaves.
//!
//! Invariant: replies come in the order of the requests. A reply whose xid is not that of the
//! oldest request ends the connection.

use std::time::Instant;

use lockkeeper_proto::{
    ErrorCode, OpCode, Request, Xid, Zxid,
    records::{ExistsRequest, GetDataRequest},
};

use super::asked::Asked;
use crate::machine::{
    RequestOptions,
    watches::kind::{PersistentKind, WatchId, WatchKind},
    watches::path_watches::WatchRequests,
    watches::table::WatchTable,
};

/// A request that was handed to the transport.
#[derive(Debug)]
pub(crate) struct InFlight<T> {
    pub(crate) xid: Xid,
    pub(crate) op: OpCode,
    pub(crate) asked: Asked,
    /// When it was handed over. The server cannot have received it earlier.
    pub(crate) sent: Instant,
    pub(crate) reply_to: ReplyTo<T>,
    pub(crate) options: RequestOptions,
    /// As in the backlog. It grows from the oldest to the newest.
    pub(crate) number: u64,
}

/// What the reply is for.
#[derive(Debug)]
pub(crate) enum ReplyTo<T> {
    /// The caller, and the watch that the request leaves.
    Caller {
        token: T,
        watch: Option<PendingWatch>,
    },
    /// Nobody: the deadline of the caller has come. The request may still leave a watch.
    Nobody { watch: Option<PendingWatch> },
    /// A caller that has added an identity.
    Auth { token: T },
    /// The machine: it restores watches, or sets new ones on existing nodes. The server reports
    /// changes newer than `since`.
    SetWatches { since: Zxid, restore: bool },
    /// The machine: it removes a watch without listeners.
    RemoveWatches,
    /// The machine: it keeps the lease proved.
    Proof,
    /// The machine: it ends the session.
    Close,
}

impl<T> ReplyTo<T> {
    /// Whether a caller waits for the reply. Requests of the machine itself are not sent again on
    /// another connection.
    pub(crate) fn is_caller(&self) -> bool {
        matches!(self, Self::Caller { .. } | Self::Auth { .. })
    }
}

/// The watch that a request will leave on the server.
#[derive(Debug)]
pub(crate) struct PendingWatch {
    pub(crate) id: WatchId,
    path: String,
    by: WatchRequest,
    /// The newest transaction that the client had seen when the request was sent.
    since: Zxid,
    /// Whether the request leaves no watch, because a persistent one reports the same.
    covered: bool,
    /// The persistent watch that was asked for.
    asked: Option<PersistentKind>,
}

/// The request that leaves a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchRequest {
    GetData,
    Exists,
    GetChildren,
    AddWatch(PersistentKind),
}

impl WatchRequest {
    /// The kind of watch that the table expects.
    fn kind(self) -> WatchKind {
        match self {
            Self::GetData | Self::Exists => WatchKind::Data,
            Self::GetChildren => WatchKind::Child,
            Self::AddWatch(persistent) => persistent.kind(),
        }
    }
}

impl PendingWatch {
    /// The watch of this request, if it leaves one. The table of watches expects it from now on.
    pub(crate) fn of(request: &Request, watches: &mut WatchTable) -> Option<Self> {
        let (path, by) = match request {
            Request::GetData(get) if get.watch => (&get.path, WatchRequest::GetData),
            Request::Exists(exists) if exists.watch => (&exists.path, WatchRequest::Exists),
            Request::GetChildren(get) | Request::GetChildren2(get) if get.watch => {
                (&get.path, WatchRequest::GetChildren)
            }
            Request::AddWatch(add) => (
                &add.path,
                WatchRequest::AddWatch(PersistentKind::of_mode(add.mode)?),
            ),
            _ => return None,
        };
        let id = watches.announce(path, by.kind());
        Some(Self {
            id,
            path: path.clone(),
            by,
            since: Zxid::ZERO,
            covered: false,
            asked: None,
        })
    }

    /// Changes the request, before it is sent, so that it ends no other watch of the path. `since`
    /// is the newest transaction that the client has seen. Returns the path of a child watch that
    /// must be set right behind the request.
    pub(crate) fn prepare_to_send(
        &mut self,
        request: &mut Request,
        watches: &mut WatchTable,
        since: Zxid,
    ) -> Option<String> {
        self.since = since;
        let server = watches.on_server(&self.path)?;
        match request {
            Request::AddWatch(add) => {
                let asked = if server.has(PersistentKind::Recursive) {
                    PersistentKind::Recursive
                } else {
                    PersistentKind::of_mode(add.mode)?
                };
                add.mode = asked.mode();
                server.asks(asked);
                self.asked = Some(asked);
                let spoilt = asked == PersistentKind::Recursive && watches.has_child(&self.path);
                return spoilt.then(|| self.path.clone());
            }
            Request::GetData(GetDataRequest { watch, .. })
            | Request::Exists(ExistsRequest { watch, .. }) => {
                self.covered = server.covers_data();
                *watch = !self.covered;
            }
            Request::GetChildren(get) | Request::GetChildren2(get) => {
                self.covered = server.covers_children();
                get.watch = !self.covered;
            }
            _ => {}
        }
        None
    }

    /// The reply has come with this code, or never will. Returns what to ask of the server.
    ///
    /// `exists` leaves a watch on a missing node, too. The others leave one only if they succeed.
    pub(crate) fn settle(self, watches: &mut WatchTable, code: Option<ErrorCode>) -> WatchRequests {
        let kind = match (self.by, code) {
            (WatchRequest::GetData | WatchRequest::Exists, Some(ErrorCode::OK)) => {
                Some(WatchKind::Data)
            }
            (WatchRequest::Exists, Some(ErrorCode::NO_NODE)) => Some(WatchKind::Exist),
            (WatchRequest::GetChildren, Some(ErrorCode::OK)) => Some(WatchKind::Child),
            (WatchRequest::AddWatch(persistent), Some(ErrorCode::OK)) => Some(persistent.kind()),
            _ => None,
        };
        let mut covers = false;
        if let Some(server) = watches.on_server(&self.path) {
            if let Some(asked) = self.asked {
                server.answered(asked, kind.is_some());
            }
            covers = server.covers_data();
        }
        let mut requests = watches.settle(self.id, &self.path, self.by.kind(), kind);
        if let Some(kind) = kind.filter(|_| self.covered && !covers) {
            // The persistent watch that was to report the change was refused meanwhile.
            requests.set.push((kind, self.path));
            requests.since = Some(self.since);
        }
        requests
    }
}
