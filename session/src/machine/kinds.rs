//! The five kinds of watch, and the id of a listener. Two kinds last: they stay until they are
//! removed.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use lockkeeper_proto::{AddWatchMode, WatcherType};

/// A listener to a watch. The id is unique for the life of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchId(pub(super) u64);

/// A value for each listener.
pub(crate) type ById<V> = HashMap<WatchId, V, BuildHasherDefault<IdHasher>>;

/// The ids are numbers that the machine counts, so no peer can choose them: a product is enough.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 by the golden ratio: it spreads the numbers over the high bits, too.
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Kinds of watch, one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kinds(u8);

impl Kinds {
    pub(crate) const NONE: Self = Self(0);
    /// Left by `getData`, or by `exists` on a node that exists.
    pub(crate) const DATA: Self = Self(1);
    /// Left by `exists` on a missing node.
    pub(crate) const EXIST: Self = Self(1 << 1);
    /// Left by `getChildren`.
    pub(crate) const CHILD: Self = Self(1 << 2);
    /// Left by `addWatch`: the node, its data and its children.
    pub(crate) const PERSISTENT: Self = Self(1 << 3);
    /// Left by `addWatch`: the node and everything below it.
    pub(crate) const RECURSIVE: Self = Self(1 << 4);

    pub(crate) const ABOUT_DATA: Self = Self::DATA.and(Self::EXIST);
    pub(crate) const ONE_SHOT: Self = Self::ABOUT_DATA.and(Self::CHILD);
    pub(crate) const ANY_PERSISTENT: Self = Self::PERSISTENT.and(Self::RECURSIVE);
    pub(crate) const ALL: Self = Self::ONE_SHOT.and(Self::ANY_PERSISTENT);

    pub(crate) const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub(crate) const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Those that may be on a path beside this one.
    pub(crate) const fn class(self) -> Self {
        if self.has(Self::ONE_SHOT) {
            Self::ONE_SHOT
        } else {
            self
        }
    }

    /// Whether it has any of these.
    pub(crate) const fn has(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }

    /// Those that are among these.
    pub(crate) const fn among(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    /// Each of them by itself, in the order in which listeners hear of the end of their watches.
    pub(crate) fn each(self) -> impl Iterator<Item = Self> {
        (0..5)
            .map(|bit| Self(1 << bit))
            .filter(move |kind| self.has(*kind))
    }

    /// The kinds that a type of `removeWatches` includes; none for an unknown type.
    pub(crate) fn of_type(watcher_type: WatcherType) -> Self {
        match watcher_type {
            WatcherType::CHILDREN => Self::CHILD,
            WatcherType::DATA => Self::ABOUT_DATA,
            WatcherType::ANY => Self::ALL,
            WatcherType::PERSISTENT => Self::PERSISTENT,
            WatcherType::PERSISTENT_RECURSIVE => Self::RECURSIVE,
            _ => Self::NONE,
        }
    }

    /// The type of `removeWatches` for a watch that lasts, and no other. Servers before 3.9 refuse it.
    pub(crate) fn persistent_type(self) -> WatcherType {
        if self == Self::RECURSIVE {
            WatcherType::PERSISTENT_RECURSIVE
        } else {
            WatcherType::PERSISTENT
        }
    }

    /// `None` for an unknown mode.
    pub(crate) fn of_mode(mode: AddWatchMode) -> Option<Self> {
        match mode {
            AddWatchMode::PERSISTENT => Some(Self::PERSISTENT),
            AddWatchMode::PERSISTENT_RECURSIVE => Some(Self::RECURSIVE),
            _ => None,
        }
    }
}
