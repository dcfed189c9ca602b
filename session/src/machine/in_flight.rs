//! Requests on their way: what each is for, and which watch it leaves.
//!
//! Invariant: replies come in the order of the requests; a reply whose xid is not the oldest one's ends the connection.

use std::time::Instant;

use lockkeeper_proto::{
    ErrorCode, OpCode, Request, Xid, Zxid,
    records::{ExistsRequest, GetDataRequest},
};

use super::{
    Terms,
    path_watches::Chores,
    watch::{Lasting, WatchId, WatchKind},
    watches::WatchTable,
};

/// A request that was handed to the transport.
#[derive(Debug)]
pub(super) struct InFlight<T> {
    pub(super) xid: Xid,
    pub(super) op: OpCode,
    /// When it was handed over; the server cannot have got it earlier.
    pub(super) sent: Instant,
    pub(super) purpose: Purpose<T>,
    pub(super) terms: Terms,
    /// As in the backlog; it grows from the oldest to the newest.
    pub(super) number: u64,
}

/// Whom the reply is for.
#[derive(Debug)]
pub(super) enum Purpose<T> {
    /// A caller, and the watch that the request leaves.
    Caller { token: T, watch: Option<Announced> },
    /// A caller who waits no longer, and the watch that the request leaves.
    Nobody { watch: Option<Announced> },
    /// A caller who has added an identity.
    Auth { token: T },
    /// The machine: watches of a former connection, or new ones on existing nodes.
    SetWatches { restore: bool },
    /// The machine: a watch that nobody waits for any more.
    RemoveWatches,
    /// The machine: the end of the session.
    Close,
}

impl<T> Purpose<T> {
    /// Whether somebody waits for the reply; the machine makes its own requests anew on each connection.
    pub(super) fn is_a_callers(&self) -> bool {
        matches!(self, Self::Caller { .. } | Self::Auth { .. })
    }
}

/// The watch that a request will leave.
#[derive(Debug)]
pub(super) struct Announced {
    pub(super) id: WatchId,
    path: String,
    by: Leaver,
    /// What the client had seen when the request was sent.
    since: Zxid,
    /// Whether the request leaves no watch, as a lasting one tells of the same.
    covered: bool,
    /// The lasting watch that was asked for.
    asked: Option<Lasting>,
}

/// What leaves the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaver {
    GetData,
    Exists,
    GetChildren,
    AddWatch(Lasting),
}

impl Leaver {
    /// The kind that it is announced as.
    fn kind(self) -> WatchKind {
        match self {
            Self::GetData | Self::Exists => WatchKind::Data,
            Self::GetChildren => WatchKind::Child,
            Self::AddWatch(lasting) => lasting.kind(),
        }
    }
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
            Request::AddWatch(add) => (&add.path, Leaver::AddWatch(Lasting::of_mode(add.mode)?)),
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

    /// The request is being sent, by a client that has seen so much: makes it such that it spoils no other watch of the
    /// path. Returns the path of a child watch that is to be set behind it.
    pub(super) fn depart(
        &mut self,
        request: &mut Request,
        watches: &mut WatchTable,
        since: Zxid,
    ) -> Option<String> {
        self.since = since;
        let server = watches.on_server(&self.path)?;
        match request {
            Request::AddWatch(add) => {
                let asked = if server.has(Lasting::Recursive) {
                    Lasting::Recursive
                } else {
                    Lasting::of_mode(add.mode)?
                };
                add.mode = asked.mode();
                server.asks(asked);
                self.asked = Some(asked);
                let spoilt = asked == Lasting::Recursive && watches.has_child(&self.path);
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

    /// The reply has come with this code, or never will. Returns what is to be done about the server's watches.
    ///
    /// `exists` leaves a watch on a missing node too; the others only where they succeed.
    pub(super) fn settle(self, watches: &mut WatchTable, code: Option<ErrorCode>) -> Chores {
        let kind = match (self.by, code) {
            (Leaver::GetData | Leaver::Exists, Some(ErrorCode::OK)) => Some(WatchKind::Data),
            (Leaver::Exists, Some(ErrorCode::NO_NODE)) => Some(WatchKind::Exist),
            (Leaver::GetChildren, Some(ErrorCode::OK)) => Some(WatchKind::Child),
            (Leaver::AddWatch(lasting), Some(ErrorCode::OK)) => Some(lasting.kind()),
            _ => None,
        };
        let mut covers = false;
        if let Some(server) = watches.on_server(&self.path) {
            if let Some(asked) = self.asked {
                server.answered(asked, kind.is_some());
            }
            covers = server.covers_data();
        }
        let mut chores = watches.settle(self.id, &self.path, self.by.kind(), kind);
        if let Some(kind) = kind.filter(|_| self.covered && !covers) {
            // What was to tell of it was refused meanwhile.
            chores.set.push((kind, self.path));
            chores.since = Some(self.since);
        }
        chores
    }
}
