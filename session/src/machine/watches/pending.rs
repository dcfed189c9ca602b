//! The watch that a request of a caller will leave on the server.

use std::sync::Arc;

use lockkeeper_proto::{ErrorCode, Request};

use super::kinds::{Kinds, WatchId};

/// The watch that a request will leave.
#[derive(Debug)]
pub(crate) struct PendingWatch {
    pub(super) id: WatchId,
    pub(super) path: Arc<str>,
    /// What the caller asked for. [`Kinds::EXIST`] for an `exists`, which leaves one of two kinds.
    pub(super) kind: Kinds,
}

impl PendingWatch {
    pub(crate) fn id(&self) -> WatchId {
        self.id
    }

    /// The kind that the server has set, by the code of its reply; `None` if it never comes.
    ///
    /// `exists` leaves a watch on a missing node, too. The others leave one only if they succeed.
    pub(super) fn left(&self, code: Option<ErrorCode>) -> Option<Kinds> {
        match (code?, self.kind) {
            (ErrorCode::OK, Kinds::EXIST) => Some(Kinds::DATA),
            (ErrorCode::OK, kind) => Some(kind),
            (ErrorCode::NO_NODE, Kinds::EXIST) => Some(Kinds::EXIST),
            _ => None,
        }
    }
}

/// What a request asks a server to watch.
pub(crate) struct Leaves {
    pub(crate) path: Arc<str>,
    pub(super) kind: Kinds,
}

impl Leaves {
    #[inline]
    pub(crate) fn of(request: &Request) -> Option<Self> {
        let (path, kind) = match request {
            Request::GetData(get) if get.watch => (&get.path, Kinds::DATA),
            Request::Exists(exists) if exists.watch => (&exists.path, Kinds::EXIST),
            Request::GetChildren(get) | Request::GetChildren2(get) if get.watch => {
                (&get.path, Kinds::CHILD)
            }
            Request::AddWatch(add) => (&add.path, Kinds::of_mode(add.mode)?),
            _ => return None,
        };
        let path = Arc::from(path.as_str());
        Some(Self { path, kind })
    }
}
