//! Who listens to which watch, and who receives an event.
//!
//! A one-shot watch enters the table when its reply arrives, before the next frame is handled. It
//! leaves the table with its event. A persistent watch (also a recursive one) enters in the same
//! way, and stays. The server has at most one watch of each kind on a path, however many listen:
//! see `path_watches`.
//!
//! Paths include the chroot. Iteration is in the order of the paths, so that one seed gives one
//! history.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use lockkeeper_proto::{EventType, WatcherType, path};

use crate::machine::{
    watches::batches::Batches,
    watches::kind::{PersistentKind, WatchId, WatchKind},
    watches::path_watches::{PathWatches, WatchRequests},
    watches::server_watches::ServerWatches,
};

#[derive(Debug)]
enum ListenerState {
    /// The request that leaves the watch is not answered yet.
    Pending,
    /// As `Pending`, and the listener has gone.
    Abandoned,
    /// The watch is in the table, at this path.
    Registered(Arc<str>),
}

/// Who receives an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Recipient {
    /// The listener to a one-shot watch. It is no longer in the table.
    OneShot(WatchId),
    /// The listener to a persistent watch.
    Persistent(WatchId),
    /// The listener to a persistent watch on this node: a child of the node was created or deleted.
    Parent(WatchId, Arc<str>),
}

/// The watches of a session.
#[derive(Debug, Default)]
pub(crate) struct WatchTable {
    paths: BTreeMap<Arc<str>, PathWatches>,
    listeners: HashMap<WatchId, ListenerState>,
    last_id: u64,
    /// How many listeners have persistent watches, and how many of these have recursive ones.
    persistent: usize,
    recursive: usize,
    /// A node whose persistent listeners heard of a child through the recursive watch. A server of
    /// 3.9 will report the same change for the persistent watch next; that event is an echo.
    echo: Option<Arc<str>>,
}

impl WatchTable {
    /// How many listeners there are.
    pub(crate) fn len(&self) -> usize {
        self.listeners.len()
    }

    /// The length of all paths.
    pub(crate) fn path_bytes(&self) -> usize {
        self.paths.keys().map(|path| path.len()).sum()
    }

    /// Whether anybody listens to a persistent watch.
    pub(crate) fn has_persistent(&self) -> bool {
        self.persistent > 0
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

    /// What the server has on this path.
    pub(crate) fn on_server(&mut self, path: &str) -> Option<&mut ServerWatches> {
        Some(&mut self.paths.get_mut(path)?.server)
    }

    /// Whether the path has a child watch with a listener, or a pending one.
    pub(crate) fn has_child(&self, path: &str) -> bool {
        let watches = self.paths.get(path);
        watches.is_some_and(|watches| {
            watches.has(WatchKind::Child) || watches.is_pending(WatchKind::Child)
        })
    }

    fn forget_if_empty(&mut self, path: &str) {
        if self.paths.get(path).is_some_and(PathWatches::is_empty) {
            self.paths.remove(path);
        }
    }

    fn register(&mut self, id: WatchId, path: &str, kind: WatchKind) {
        let (path, watches) = self.entry(path);
        watches.add(kind, id);
        self.listeners.insert(id, ListenerState::Registered(path));
        self.persistent += usize::from(PersistentKind::of(kind).is_some());
        self.recursive += usize::from(kind == WatchKind::Recursive);
    }

    /// Counts listeners that have gone.
    fn gone(&mut self, kind: WatchKind, listeners: usize) {
        if PersistentKind::of(kind).is_some() {
            self.persistent = self.persistent.saturating_sub(listeners);
        }
        if kind == WatchKind::Recursive {
            self.recursive = self.recursive.saturating_sub(listeners);
        }
    }

    /// A request will be sent that leaves a watch of this kind (or an exist watch for data).
    pub(crate) fn announce(&mut self, path: &str, kind: WatchKind) -> WatchId {
        let id = self.new_id();
        *self.entry(path).1.pending(kind) += 1;
        self.listeners.insert(id, ListenerState::Pending);
        id
    }

    /// The reply has come to a request that was announced as of a kind. The server has set the
    /// watch (`kind`) or not (`None`). Returns what to ask of the server.
    pub(crate) fn settle(
        &mut self,
        id: WatchId,
        path: &str,
        announced: WatchKind,
        kind: Option<WatchKind>,
    ) -> WatchRequests {
        let place = self.listeners.remove(&id);
        let pending = self.entry(path).1.pending(announced);
        *pending = pending.saturating_sub(1);
        let abandoned = match (place, kind) {
            (Some(ListenerState::Pending), Some(kind)) => {
                self.register(id, path, kind);
                None
            }
            (Some(ListenerState::Abandoned), kind) => kind,
            _ => None,
        };
        self.tidy(path, abandoned.as_slice())
    }

    /// Enters a data watch that `setWatches` sets. Its reply is not waited for.
    pub(crate) fn register_data(&mut self, path: &str) -> WatchId {
        let id = self.new_id();
        self.register(id, path, WatchKind::Data);
        id
    }

    /// The listener has gone. Returns what to ask of the server.
    pub(crate) fn cancel(&mut self, id: WatchId) -> WatchRequests {
        match self.listeners.remove(&id) {
            None => WatchRequests::default(),
            Some(ListenerState::Pending | ListenerState::Abandoned) => {
                self.listeners.insert(id, ListenerState::Abandoned);
                WatchRequests::default()
            }
            Some(ListenerState::Registered(path)) => {
                let watches = self.paths.get_mut(&path);
                let kind = watches.and_then(|watches| watches.remove(id));
                if let Some(kind) = kind {
                    self.gone(kind, 1);
                }
                self.tidy(&path, kind.as_slice())
            }
        }
    }

    /// Takes out all listeners to these kinds on a path.
    pub(crate) fn take(
        &mut self,
        path: &str,
        kinds: &[WatchKind],
    ) -> (Vec<WatchId>, WatchRequests) {
        let (mut taken, mut gone) = (Vec::new(), Vec::new());
        for kind in kinds {
            let before = taken.len();
            match self.paths.get_mut(path) {
                Some(watches) => watches.take(*kind, |id| taken.push(id)),
                None => break,
            }
            if taken.len() > before {
                self.gone(*kind, taken.len() - before);
                gone.push(*kind);
            }
        }
        for id in &taken {
            self.listeners.remove(id);
        }
        (taken, self.tidy(path, &gone))
    }

    /// What to ask of the server about a path when listeners to the kinds `gone` have gone.
    fn tidy(&mut self, path: &str, gone: &[WatchKind]) -> WatchRequests {
        let Some(watches) = self.paths.get_mut(path) else {
            return WatchRequests::default();
        };
        let requests = watches.tidy(path, gone);
        self.forget_if_empty(path);
        requests
    }

    /// Who receives an event. Listeners to one-shot watches are taken out of the table.
    ///
    /// An event of an unknown type goes to every listener on the path.
    pub(crate) fn fire(&mut self, path: &str, event: EventType) -> Vec<Recipient> {
        let echo = self.echo.take();
        let mut told = Vec::new();
        let of_children = event == EventType::NODE_CHILDREN_CHANGED;
        if let Some(watches) = self.paths.get_mut(path) {
            let mut fired = |kind| {
                watches.take(kind, |id| {
                    self.listeners.remove(&id);
                    told.push(Recipient::OneShot(id));
                });
            };
            if !of_children {
                fired(WatchKind::Data);
                fired(WatchKind::Exist);
            }
            if event != EventType::NODE_CREATED && event != EventType::NODE_DATA_CHANGED {
                fired(WatchKind::Child);
            }
            let is_echo = of_children && echo.as_deref() == Some(path);
            if !is_echo {
                let listeners = watches.of(WatchKind::Persistent);
                told.extend(listeners.map(Recipient::Persistent));
            }
            self.forget_if_empty(path);
        }
        if self.persistent > 0 && !of_children {
            self.fire_above(path, event, &mut told);
        }
        told
    }

    /// The listeners to recursive watches above. And, if a parent has both persistent kinds, the
    /// listeners that learn from this event that the list of children has changed.
    fn fire_above(&mut self, path: &str, event: EventType, told: &mut Vec<Recipient>) {
        let mut above = Some(path).filter(|_| self.recursive > 0);
        while let Some(ancestor) = above {
            if let Some(watches) = self.paths.get_mut(ancestor) {
                let listeners = watches.of(WatchKind::Recursive);
                told.extend(listeners.map(Recipient::Persistent));
            }
            above = path::parent(ancestor);
        }
        let comes_or_goes = event == EventType::NODE_CREATED || event == EventType::NODE_DELETED;
        let parent = path::parent(path).filter(|_| comes_or_goes);
        let Some((parent, watches)) = parent.and_then(|parent| self.paths.get_key_value(parent))
        else {
            return;
        };
        if watches.has(WatchKind::Persistent) && watches.server.may_tell_of_children() {
            let parent = parent.clone();
            let (_, watches) = self.entry(&parent);
            let listeners = watches.of(WatchKind::Persistent);
            told.extend(listeners.map(|id| Recipient::Parent(id, parent.clone())));
            self.echo = Some(parent);
        }
    }

    /// A reply has come. A server sends all events of one transaction without a reply in between,
    /// so no echo will follow.
    pub(crate) fn forget_echo(&mut self) {
        self.echo = None;
    }

    /// All listeners to persistent watches, in the order of the paths.
    pub(crate) fn persistent(&self) -> Vec<WatchId> {
        let lists = self.paths.values().flat_map(|watches| {
            let persistent = watches.of(WatchKind::Persistent);
            persistent.chain(watches.of(WatchKind::Recursive))
        });
        lists.collect()
    }

    /// What the servers should have: paths and types, in order.
    pub(crate) fn wanted(&self) -> Vec<(String, WatcherType)> {
        let types = [
            WatcherType::CHILDREN,
            WatcherType::DATA,
            WatcherType::PERSISTENT,
            WatcherType::PERSISTENT_RECURSIVE,
        ];
        let all = self.paths.iter().flat_map(|(path, watches)| {
            let is_wanted = |watcher_type: &WatcherType| {
                let mut kinds = WatchKind::of_type(*watcher_type).iter();
                kinds.any(|kind| watches.has(*kind))
            };
            let wanted = types.into_iter().filter(is_wanted);
            wanted.map(|watcher_type| (path.to_string(), watcher_type))
        });
        all.collect()
    }

    /// Takes out and returns all listeners, in the order of the paths: the session is over. Pending
    /// requests stay announced.
    pub(crate) fn drain(&mut self) -> Vec<WatchId> {
        self.drain_kinds(&WatchKind::ALL)
    }

    /// Takes out and returns the listeners to persistent watches: the servers do not know these.
    pub(crate) fn drain_persistent(&mut self) -> Vec<WatchId> {
        self.drain_kinds(&[WatchKind::Persistent, WatchKind::Recursive])
    }

    /// Takes out and returns the listeners to one-shot watches: the servers accept no list of them.
    pub(crate) fn drain_one_shot(&mut self) -> Vec<WatchId> {
        let persistent = (self.persistent, self.recursive);
        let told = self.drain_kinds(&WatchKind::ONE_SHOT);
        (self.persistent, self.recursive) = persistent;
        told
    }

    fn drain_kinds(&mut self, kinds: &[WatchKind]) -> Vec<WatchId> {
        let mut told = Vec::new();
        for watches in self.paths.values_mut() {
            for kind in kinds {
                watches.take(*kind, |id| told.push(id));
            }
        }
        self.paths.retain(|_, watches| !watches.is_empty());
        for id in &told {
            self.listeners.remove(id);
        }
        self.persistent = 0;
        self.recursive = 0;
        told
    }

    /// The connection is gone, and the server's watches with it.
    pub(crate) fn disconnected(&mut self) {
        self.echo = None;
        for watches in self.paths.values_mut() {
            watches.server = ServerWatches::default();
        }
    }

    /// The requests that restore all watches on a new connection.
    ///
    /// Servers before 3.9 keep one kind of watch for a path and connection, the last one. So a
    /// recursive watch comes after the kinds that it covers, and before the child watch, which it
    /// does not cover.
    pub(crate) fn restore(&mut self, batches: &mut Batches) {
        for (path, watches) in &self.paths {
            for kind in WatchKind::ONE_SHOT {
                let later = kind == WatchKind::Child && watches.has(WatchKind::Recursive);
                if watches.has(kind) && !later {
                    batches.add(kind, path.to_string());
                }
            }
        }
        if !self.has_persistent() {
            return;
        }
        for kind in [PersistentKind::Persistent, PersistentKind::Recursive] {
            for (path, watches) in &mut self.paths {
                if watches.has(kind.kind()) {
                    watches.server.stands(kind);
                    batches.add(kind.kind(), path.to_string());
                }
            }
        }
        batches.cut();
        for (path, watches) in &self.paths {
            if watches.has(WatchKind::Child) && watches.has(WatchKind::Recursive) {
                batches.add(WatchKind::Child, path.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_proto::{Request, Zxid, records::RemoveWatchesRequest};

    use super::*;

    fn removing(path: &str, watcher_type: WatcherType) -> WatchRequests {
        let path = path.to_owned();
        WatchRequests {
            remove: vec![RemoveWatchesRequest { path, watcher_type }],
            ..WatchRequests::default()
        }
    }

    fn registered(table: &mut WatchTable, path: &str, kind: WatchKind) -> WatchId {
        let id = table.announce(path, kind);
        let requests = table.settle(id, path, kind, Some(kind));
        assert_eq!(requests, WatchRequests::default());
        id
    }

    #[test]
    fn an_event_takes_out_exactly_its_listeners() {
        let mut table = WatchTable::default();
        let data = registered(&mut table, "/a", WatchKind::Data);
        let exist = registered(&mut table, "/a", WatchKind::Exist);
        let child = registered(&mut table, "/a", WatchKind::Child);
        let other = registered(&mut table, "/b", WatchKind::Data);
        assert_eq!(table.fire("/c", EventType::NODE_DELETED), []);
        let told = table.fire("/a", EventType::NODE_DATA_CHANGED);
        assert_eq!(told, [Recipient::OneShot(data), Recipient::OneShot(exist)]);
        assert_eq!(table.fire("/a", EventType::NODE_DATA_CHANGED), []);
        let told = table.fire("/a", EventType::NODE_CHILDREN_CHANGED);
        assert_eq!(told, [Recipient::OneShot(child)]);
        let told = table.fire("/b", EventType::NODE_DELETED);
        assert_eq!(told, [Recipient::OneShot(other)]);
        assert_eq!(table.len(), 0);
        assert!(table.paths.is_empty());
    }

    #[test]
    fn the_servers_watch_is_removed_with_its_last_listener_and_not_before() {
        let mut table = WatchTable::default();
        let first = registered(&mut table, "/a", WatchKind::Data);
        let second = registered(&mut table, "/a", WatchKind::Data);
        let pending = table.announce("/a", WatchKind::Data);
        assert_eq!(table.cancel(first), WatchRequests::default());
        assert_eq!(
            table.cancel(second),
            WatchRequests::default(),
            "a request on its way still needs the watch"
        );
        let requests = table.settle(pending, "/a", WatchKind::Data, None);
        assert_eq!(requests, removing("/a", WatcherType::DATA));
        let last = registered(&mut table, "/a", WatchKind::Data);
        assert_eq!(table.cancel(last), removing("/a", WatcherType::DATA));
        assert!(table.paths.is_empty() && table.listeners.is_empty());
    }

    #[test]
    fn a_watch_abandoned_on_its_way_is_removed_when_it_arrives() {
        let mut table = WatchTable::default();
        let id = table.announce("/a", WatchKind::Child);
        assert_eq!(table.cancel(id), WatchRequests::default());
        let requests = table.settle(id, "/a", WatchKind::Child, Some(WatchKind::Child));
        assert_eq!(requests, removing("/a", WatcherType::CHILDREN));
        assert!(table.paths.is_empty() && table.listeners.is_empty());
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
        let batches = batches.finish().collect::<Vec<_>>();
        assert_eq!(batches.len(), 3);
        let mut paths = 0;
        for batch in batches {
            let Request::SetWatches(batch) = batch else {
                panic!("{batch:?}");
            };
            assert_eq!(batch.relative_zxid, Zxid(5));
            paths += batch.data_watches.len() + batch.child_watches.len();
        }
        assert_eq!(paths, 301);
    }
}
