//! Watches: which connections get an event when something happens to a path.
//!
//! The real server keeps two tables, data and child. Their entries carry the modes standard,
//! persistent and recursive. Here one table holds a small set of modes for each path and
//! connection. Modes are independent of each other, as from 3.9 on.
//!
//! Invariant: `paths_of` names exactly the paths at which a connection has an entry.
//! Not here: which changes trigger what (`changes`), ACL filtering, and sending.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use lockkeeper_proto::{WatcherType, path};

use super::{
    basics::ConnId,
    hash::{Map, Seeded},
};

/// The modes of the watches that a connection has at one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Modes(u8);

impl Modes {
    /// One-shot, of `getData` and `exists`.
    pub(crate) const DATA: Self = Self(1);
    /// One-shot, of `getChildren`.
    pub(crate) const CHILD: Self = Self(2);
    /// Persistent, in both tables.
    pub(crate) const PERSISTENT: Self = Self(4);
    /// Persistent and recursive, in the data table.
    pub(crate) const RECURSIVE: Self = Self(8);
    /// All of them.
    const ANY: Self = Self(0xf);

    /// The modes that `checkWatches` and `removeWatches` mean by a type; `None` for an unknown
    /// type.
    ///
    /// Source: `WatchManagerOptimized`/`WatchManager` of 3.9, by experiment.
    pub(crate) fn of_type(watcher_type: WatcherType) -> Option<Self> {
        match watcher_type {
            WatcherType::CHILDREN => Some(Self::CHILD),
            WatcherType::DATA => Some(Self::DATA),
            WatcherType::ANY => Some(Self::ANY),
            WatcherType::PERSISTENT => Some(Self::PERSISTENT),
            WatcherType::PERSISTENT_RECURSIVE => Some(Self::RECURSIVE),
            _ => None,
        }
    }

    const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    fn has(self, one_of: Self) -> bool {
        self.0 & one_of.0 != 0
    }
}

/// The table in which an event looks for watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// The node itself: created, deleted, data changed.
    Data,
    /// Its children.
    Child,
}

/// All watches.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Watches {
    at: Map<Arc<str>, BTreeMap<ConnId, Modes>>,
    paths_of: BTreeMap<ConnId, BTreeSet<Arc<str>>>,
}

impl Watches {
    pub(crate) fn new(seed: Seeded) -> Self {
        Self {
            at: Map::with_hasher(seed),
            paths_of: BTreeMap::new(),
        }
    }

    /// Registers modes of a connection. Registering them again changes nothing.
    pub(crate) fn add(&mut self, connection: ConnId, path: &str, modes: Modes) {
        let path = match self.at.get_key_value(path) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::from(path),
        };
        let entries = self.at.entry(Arc::clone(&path)).or_default();
        let entry = entries.entry(connection).or_default();
        *entry = entry.or(modes);
        self.paths_of.entry(connection).or_default().insert(path);
    }

    /// Whether a connection has one of these modes at exactly this path.
    pub(crate) fn has(&self, connection: ConnId, path: &str, modes: Modes) -> bool {
        let entry = self.at.get(path).and_then(|at| at.get(&connection));
        entry.is_some_and(|own| own.has(modes))
    }

    /// Removes modes of a connection at one path. Returns whether it had one of them.
    pub(crate) fn remove(&mut self, connection: ConnId, path: &str, modes: Modes) -> bool {
        let Some(entries) = self.at.get_mut(path) else {
            return false;
        };
        let Some(entry) = entries.get_mut(&connection) else {
            return false;
        };
        let before = *entry;
        *entry = before.without(modes);
        if *entry == Modes::default() {
            entries.remove(&connection);
            if entries.is_empty() {
                self.at.remove(path);
            }
            if let Some(paths) = self.paths_of.get_mut(&connection) {
                paths.remove(path);
                if paths.is_empty() {
                    self.paths_of.remove(&connection);
                }
            }
        }
        before.has(modes)
    }

    /// Removes all watches of a connection.
    pub(crate) fn remove_all(&mut self, connection: ConnId) {
        for path in self.paths_of.get(&connection).cloned().unwrap_or_default() {
            self.remove(connection, &path, Modes::ANY);
        }
    }

    /// Panics if the tables disagree. Returns the connections that have watches.
    #[cfg(debug_assertions)]
    pub(crate) fn assert_sound(&self) -> impl Iterator<Item = ConnId> {
        let mut again = Self::new(*self.at.hasher());
        for (path, modes_of) in &self.at {
            for (connection, modes) in modes_of {
                again.add(*connection, path, *modes);
            }
        }
        assert_eq!(again, *self);
        let mut modes = self.at.values().flat_map(BTreeMap::values);
        assert!(modes.all(|it| *it != Modes::default()));
        self.paths_of.keys().copied()
    }

    /// The connections that get an event at `path`. Their one-shot watches in that table are
    /// removed.
    pub(crate) fn trigger(&mut self, table: Table, path: &str) -> BTreeSet<ConnId> {
        let (one_shot, persistent) = match table {
            Table::Data => (Modes::DATA, Modes::PERSISTENT.or(Modes::RECURSIVE)),
            Table::Child => (Modes::CHILD, Modes::PERSISTENT),
        };
        let mut told = BTreeSet::new();
        let mut note = |at: &str, wanted: Modes| {
            let entries = self.at.get(at).into_iter().flatten();
            told.extend(entries.filter_map(|(id, own)| own.has(wanted).then_some(*id)));
        };
        note(path, one_shot.or(persistent));
        if table == Table::Data {
            let mut above = path::parent(path);
            while let Some(ancestor) = above {
                note(ancestor, Modes::RECURSIVE);
                above = path::parent(ancestor);
            }
        }
        for connection in &told {
            self.remove(*connection, path, one_shot);
        }
        told
    }

    /// The number of watches: one for each connection, path and mode.
    pub(crate) fn len(&self) -> usize {
        let modes = self.at.values().flat_map(BTreeMap::values);
        let count: u32 = modes.map(|modes| modes.0.count_ones()).sum();
        usize::try_from(count).unwrap_or(usize::MAX)
    }

    /// The watches of a connection: paths and types, in order.
    pub(crate) fn of(&self, connection: ConnId) -> impl Iterator<Item = (String, WatcherType)> {
        let paths = self.paths_of.get(&connection).into_iter().flatten();
        paths.flat_map(move |path| {
            let set = move |modes| self.has(connection, path, modes);
            let types = WatcherType::NAMED.iter().copied();
            let set = types.filter(move |watcher_type| {
                *watcher_type != WatcherType::ANY && Modes::of_type(*watcher_type).is_some_and(set)
            });
            set.map(move |watcher_type| (path.to_string(), watcher_type))
        })
    }
}
