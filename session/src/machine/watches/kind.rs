//! The five kinds of watch, and the id of a listener. Two kinds are persistent: they stay until
//! they are removed.
//!
//! Not here: who listens to what (`table`), and what the server has (`server_watches`).

use lockkeeper_proto::{AddWatchMode, WatcherType};

/// A listener to a watch. The id is unique for the life of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchId(pub(crate) u64);

/// A kind of watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchKind {
    /// Left by `getData`, or by `exists` on a node that exists.
    Data,
    /// Left by `exists` on a missing node.
    Exist,
    /// Left by `getChildren`.
    Child,
    /// Left by `addWatch`: the node, its data and its children.
    Persistent,
    /// Left by `addWatch`: the node and everything below it.
    Recursive,
}

impl WatchKind {
    pub(crate) const ONE_SHOT: [Self; 3] = [Self::Data, Self::Exist, Self::Child];
    pub(crate) const ALL: [Self; 5] = [
        Self::Data,
        Self::Exist,
        Self::Child,
        Self::Persistent,
        Self::Recursive,
    ];

    /// The kinds that a type of `removeWatches` includes; none for an unknown type.
    pub(crate) fn of_type(watcher_type: WatcherType) -> &'static [Self] {
        match watcher_type {
            WatcherType::CHILDREN => &[Self::Child],
            WatcherType::DATA => &[Self::Data, Self::Exist],
            WatcherType::ANY => &Self::ALL,
            WatcherType::PERSISTENT => &[Self::Persistent],
            WatcherType::PERSISTENT_RECURSIVE => &[Self::Recursive],
            _ => &[],
        }
    }
}

/// A kind of watch that stays until it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PersistentKind {
    Persistent,
    Recursive,
}

impl PersistentKind {
    pub(crate) fn of(kind: WatchKind) -> Option<Self> {
        match kind {
            WatchKind::Persistent => Some(Self::Persistent),
            WatchKind::Recursive => Some(Self::Recursive),
            _ => None,
        }
    }

    /// `None` for an unknown mode.
    pub(crate) fn of_mode(mode: AddWatchMode) -> Option<Self> {
        match mode {
            AddWatchMode::PERSISTENT => Some(Self::Persistent),
            AddWatchMode::PERSISTENT_RECURSIVE => Some(Self::Recursive),
            _ => None,
        }
    }

    pub(crate) fn kind(self) -> WatchKind {
        match self {
            Self::Persistent => WatchKind::Persistent,
            Self::Recursive => WatchKind::Recursive,
        }
    }

    pub(crate) fn mode(self) -> AddWatchMode {
        match self {
            Self::Persistent => AddWatchMode::PERSISTENT,
            Self::Recursive => AddWatchMode::PERSISTENT_RECURSIVE,
        }
    }
}
