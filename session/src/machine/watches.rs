//! Which watches are left on the server, and who is to be told.
//!
//! The table mirrors what the server keeps for this connection: one-shot watches, a *data* and a *child* set per path
//! (a watch that `exists` leaves on a missing node is a data watch too, but is restored differently). A watch enters
//! the table when its reply arrives, before the next frame is looked at, and leaves it with its event.
//! Paths are server paths, chroot included. Iteration is in order of path, so that one seed gives one history.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use lockkeeper_proto::{EventType, records::RemoveWatchesRequest};

use super::batches::Batches;

/// Who is told when a watch fires. Unique for the life of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchId(pub(super) u64);

/// Which table of the server a watch is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchKind {
    /// Left by `getData`, or by `exists` on a node that is there.
    Data,
    /// Left by `exists` on a node that is not there.
    Exist,
    /// Left by `getChildren`.
    Child,
}

#[derive(Debug, Default)]
struct PathWatches {
    data: Vec<WatchId>,
    exist: Vec<WatchId>,
    child: Vec<WatchId>,
    /// Requests on their way that will leave a data (or exist), and a child watch: while there are some, the server's
    /// watch must not be removed.
    data_coming: u32,
    child_coming: u32,
}

impl PathWatches {
    fn of(&mut self, kind: WatchKind) -> &mut Vec<WatchId> {
        match kind {
            WatchKind::Data => &mut self.data,
            WatchKind::Exist => &mut self.exist,
            WatchKind::Child => &mut self.child,
        }
    }

    fn coming(&mut self, child: bool) -> &mut u32 {
        if child {
            &mut self.child_coming
        } else {
            &mut self.data_coming
        }
    }

    fn is_empty(&self) -> bool {
        let listeners = self.data.len() + self.exist.len() + self.child.len();
        listeners == 0 && self.data_coming == 0 && self.child_coming == 0
    }
}

#[derive(Debug)]
enum Place {
    /// The request that leaves the watch is on its way.
    Coming,
    /// As `Coming`, but nobody waits for it any more.
    Abandoned,
    /// In the table.
    Registered(Arc<str>, WatchKind),
}

/// The watches of a session.
#[derive(Debug, Default)]
pub(super) struct WatchTable {
    paths: BTreeMap<Arc<str>, PathWatches>,
    places: HashMap<WatchId, Place>,
    last_id: u64,
}

impl WatchTable {
    /// How many listeners there are.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    fn new_id(&mut self) -> WatchId {
        self.last_id += 1;
        WatchId(self.last_id)
    }

    fn entry(&mut self, path: &str) -> (Arc<str>, &mut PathWatches) {
        let path = match self.paths.get_key_value(path) {
            Some((known, _)) => known.clone(),
            None => Arc::from(path),
        };
        let watches = self.paths.entry(path.clone()).or_default();
        (path, watches)
    }

    fn forget_if_empty(&mut self, path: &str) {
        if self.paths.get(path).is_some_and(PathWatches::is_empty) {
            self.paths.remove(path);
        }
    }

    /// A request that leaves a watch is about to be sent.
    pub(super) fn announce(&mut self, path: &str, child: bool) -> WatchId {
        let id = self.new_id();
        *self.entry(path).1.coming(child) += 1;
        self.places.insert(id, Place::Coming);
        id
    }

    /// The reply to an announced request has come, and the watch is left (`kind`) or not (`None`).
    ///
    /// When nobody waits for it any more, returns what takes it back off the server.
    pub(super) fn settle(
        &mut self,
        id: WatchId,
        path: &str,
        child: bool,
        kind: Option<WatchKind>,
    ) -> Option<RemoveWatchesRequest> {
        let place = self.places.remove(&id);
        let (path, watches) = self.entry(path);
        let coming = watches.coming(child);
        *coming = coming.saturating_sub(1);
        let mut removal = None;
        match (place, kind) {
            (Some(Place::Coming), Some(kind)) => {
                watches.of(kind).push(id);
                self.places
                    .insert(id, Place::Registered(path.clone(), kind));
            }
            (Some(Place::Abandoned), Some(kind)) => removal = self.removal(&path, kind),
            _ => {}
        }
        self.forget_if_empty(&path);
        removal
    }

    /// Enters a data watch that `setWatches` leaves, without waiting for its reply.
    pub(super) fn register_data(&mut self, path: &str) -> WatchId {
        let id = self.new_id();
        let (path, watches) = self.entry(path);
        watches.data.push(id);
        self.places
            .insert(id, Place::Registered(path, WatchKind::Data));
        id
    }

    /// Nobody waits for this watch any more. Returns what takes it off the server, if it was the last one there.
    pub(super) fn cancel(&mut self, id: WatchId) -> Option<RemoveWatchesRequest> {
        match self.places.remove(&id)? {
            Place::Coming | Place::Abandoned => {
                self.places.insert(id, Place::Abandoned);
                None
            }
            Place::Registered(path, kind) => {
                self.paths
                    .get_mut(&path)?
                    .of(kind)
                    .retain(|other| *other != id);
                let removal = self.removal(&path, kind);
                self.forget_if_empty(&path);
                removal
            }
        }
    }

    /// The request that removes the server's watch, unless somebody still needs it.
    fn removal(&self, path: &str, kind: WatchKind) -> Option<RemoveWatchesRequest> {
        use lockkeeper_proto::WatcherType;
        let watches = self.paths.get(path)?;
        let (needed, watcher_type) = match kind {
            WatchKind::Data | WatchKind::Exist => (
                watches.data.len() + watches.exist.len() > 0 || watches.data_coming > 0,
                WatcherType::DATA,
            ),
            WatchKind::Child => (
                !watches.child.is_empty() || watches.child_coming > 0,
                WatcherType::CHILDREN,
            ),
        };
        (!needed).then(|| RemoveWatchesRequest {
            path: path.to_owned(),
            watcher_type,
        })
    }

    /// An event has come: takes out and returns everybody whom it concerns.
    ///
    /// An event of a type that nobody knows concerns everybody on the path.
    pub(super) fn fire(&mut self, path: &str, event: EventType) -> Vec<WatchId> {
        let Some(watches) = self.paths.get_mut(path) else {
            return Vec::new();
        };
        let mut told = Vec::new();
        if event != EventType::NODE_CHILDREN_CHANGED {
            told.append(&mut watches.data);
            told.append(&mut watches.exist);
        }
        if event != EventType::NODE_CREATED && event != EventType::NODE_DATA_CHANGED {
            told.append(&mut watches.child);
        }
        for id in &told {
            self.places.remove(id);
        }
        self.forget_if_empty(path);
        told
    }

    /// The session is over: takes out and returns everybody, in order of path. Requests on their way stay announced.
    pub(super) fn drain(&mut self) -> Vec<WatchId> {
        let mut told = Vec::new();
        for watches in self.paths.values_mut() {
            told.append(&mut watches.data);
            told.append(&mut watches.exist);
            told.append(&mut watches.child);
        }
        self.paths.retain(|_, watches| !watches.is_empty());
        for id in &told {
            self.places.remove(id);
        }
        told
    }

    /// What restores all watches on a new connection.
    pub(super) fn restore(&self, batches: &mut Batches) {
        for (path, watches) in &self.paths {
            for (kind, listeners) in [
                (WatchKind::Data, &watches.data),
                (WatchKind::Exist, &watches.exist),
                (WatchKind::Child, &watches.child),
            ] {
                if !listeners.is_empty() {
                    batches.add(kind, path);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_proto::{WatcherType, Zxid};

    use super::*;

    fn registered(table: &mut WatchTable, path: &str, kind: WatchKind) -> WatchId {
        let child = kind == WatchKind::Child;
        let id = table.announce(path, child);
        assert_eq!(table.settle(id, path, child, Some(kind)), None);
        id
    }

    #[test]
    fn an_event_takes_out_exactly_those_whom_it_concerns() {
        let mut table = WatchTable::default();
        let data = registered(&mut table, "/a", WatchKind::Data);
        let exist = registered(&mut table, "/a", WatchKind::Exist);
        let child = registered(&mut table, "/a", WatchKind::Child);
        let other = registered(&mut table, "/b", WatchKind::Data);
        assert_eq!(table.fire("/c", EventType::NODE_DELETED), []);
        assert_eq!(
            table.fire("/a", EventType::NODE_DATA_CHANGED),
            [data, exist]
        );
        assert_eq!(table.fire("/a", EventType::NODE_DATA_CHANGED), []);
        assert_eq!(table.fire("/a", EventType::NODE_CHILDREN_CHANGED), [child]);
        assert_eq!(table.fire("/b", EventType::NODE_DELETED), [other]);
        assert_eq!(table.len(), 0);
        assert!(table.paths.is_empty());
    }

    #[test]
    fn the_servers_watch_is_removed_with_its_last_listener_and_not_before() {
        let mut table = WatchTable::default();
        let first = registered(&mut table, "/a", WatchKind::Data);
        let second = registered(&mut table, "/a", WatchKind::Data);
        let coming = table.announce("/a", false);
        assert_eq!(table.cancel(first), None);
        assert_eq!(
            table.cancel(second),
            None,
            "a request on its way still needs the watch"
        );
        let removal = table.settle(coming, "/a", false, None);
        assert_eq!(removal, None);
        let last = registered(&mut table, "/a", WatchKind::Data);
        let removal = table.cancel(last).unwrap();
        assert_eq!(
            (&*removal.path, removal.watcher_type),
            ("/a", WatcherType::DATA)
        );
        assert!(table.paths.is_empty() && table.places.is_empty());
    }

    #[test]
    fn a_watch_abandoned_on_its_way_is_removed_when_it_arrives() {
        let mut table = WatchTable::default();
        let id = table.announce("/a", true);
        assert_eq!(table.cancel(id), None);
        let removal = table
            .settle(id, "/a", true, Some(WatchKind::Child))
            .unwrap();
        assert_eq!(removal.watcher_type, WatcherType::CHILDREN);
        assert!(table.paths.is_empty() && table.places.is_empty());
    }

    #[test]
    fn restoring_is_batched_by_the_length_of_the_paths() {
        let mut table = WatchTable::default();
        let long = "x".repeat(1000);
        for index in 0..300 {
            registered(&mut table, &format!("/{long}{index:04}"), WatchKind::Data);
        }
        registered(&mut table, "/a", WatchKind::Child);
        let mut batches = Batches::new(Zxid(5), 1 << 20);
        table.restore(&mut batches);
        let batches = batches.finish();
        assert_eq!(batches.len(), 3);
        let paths: usize = batches
            .iter()
            .map(|b| b.data_watches.len() + b.child_watches.len())
            .sum();
        assert_eq!(paths, 301);
        assert!(batches.iter().all(|batch| batch.relative_zxid == Zxid(5)));
    }
}
