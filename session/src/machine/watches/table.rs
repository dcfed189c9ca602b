//! Who listens to which watch, and who is to be told of an event.
//!
//! A one-shot watch enters the table when its reply arrives, before the next frame is looked at, and leaves it with its
//! event. A lasting one (persistent, or persistent and recursive) enters it in the same way and stays. However many listen,
//! the server has at most one watch of each kind on a path, see `path_watches`.
//! Paths are server paths, chroot included. Iteration is in order of path, so that one seed gives one history.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use lockkeeper_proto::{EventType, path};

use crate::machine::{
    watches::batches::Batches,
    watches::kind::{PersistentKind, WatchId, WatchKind},
    watches::path_watches::{PathWatches, WatchRequests},
    watches::server_watches::ServerWatches,
};

#[derive(Debug)]
enum ListenerState {
    /// The request that leaves the watch is on its way.
    Pending,
    /// As `Pending`, but nobody waits for it any more.
    Abandoned,
    /// In the table.
    Registered(Arc<str>, WatchKind),
}

/// Who is told of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Recipient {
    /// The listener of a one-shot watch, who is out of the table now.
    OneShot(WatchId),
    /// The listener of a lasting one.
    Persistent(WatchId),
    /// The listener of a persistent watch on this node, whose child it was that came or went.
    Parent(WatchId, Arc<str>),
}

/// The watches of a session.
#[derive(Debug, Default)]
pub(crate) struct WatchTable {
    paths: BTreeMap<Arc<str>, PathWatches>,
    listeners: HashMap<WatchId, ListenerState>,
    last_id: u64,
    /// How many listeners there are to lasting watches, and to recursive ones among them.
    persistent: usize,
    recursive: usize,
    /// The node whose persistent watch was told of a child by the recursive one, while a server of 3.9 is about to say
    /// the same of the persistent one itself, next.
    echo: Option<Arc<str>>,
}

impl WatchTable {
    /// How many listeners there are.
    pub(crate) fn len(&self) -> usize {
        self.listeners.len()
    }

    /// Whether anybody listens to a lasting watch.
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

    /// Whether a child watch is, or will be, listened to on this path.
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
        watches.of(kind).push(id);
        self.listeners
            .insert(id, ListenerState::Registered(path, kind));
        self.persistent += usize::from(PersistentKind::of(kind).is_some());
        self.recursive += usize::from(kind == WatchKind::Recursive);
    }

    /// Takes note that listeners to a kind have gone.
    fn gone(&mut self, kind: WatchKind, listeners: usize) {
        if PersistentKind::of(kind).is_some() {
            self.persistent = self.persistent.saturating_sub(listeners);
        }
        if kind == WatchKind::Recursive {
            self.recursive = self.recursive.saturating_sub(listeners);
        }
    }

    /// A request that leaves a watch of this kind (or an exist watch for data) is about to be sent.
    pub(crate) fn announce(&mut self, path: &str, kind: WatchKind) -> WatchId {
        let id = self.new_id();
        *self.entry(path).1.pending(kind) += 1;
        self.listeners.insert(id, ListenerState::Pending);
        id
    }

    /// The reply to a request announced as of a kind has come, and the watch is left (`kind`) or not (`None`). Returns
    /// what is to be done about the server's watches.
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

    /// Enters a data watch that `setWatches` leaves, without waiting for its reply.
    pub(crate) fn register_data(&mut self, path: &str) -> WatchId {
        let id = self.new_id();
        self.register(id, path, WatchKind::Data);
        id
    }

    /// Nobody waits for this watch any more. Returns what is to be done about the server's watches.
    pub(crate) fn cancel(&mut self, id: WatchId) -> WatchRequests {
        match self.listeners.remove(&id) {
            None => WatchRequests::default(),
            Some(ListenerState::Pending | ListenerState::Abandoned) => {
                self.listeners.insert(id, ListenerState::Abandoned);
                WatchRequests::default()
            }
            Some(ListenerState::Registered(path, kind)) => {
                if let Some(watches) = self.paths.get_mut(&path) {
                    watches.of(kind).retain(|other| *other != id);
                }
                self.gone(kind, 1);
                self.tidy(&path, &[kind])
            }
        }
    }

    /// Takes out all listeners of these kinds on a path.
    pub(crate) fn take(
        &mut self,
        path: &str,
        kinds: &[WatchKind],
    ) -> (Vec<WatchId>, WatchRequests) {
        let (mut taken, mut gone) = (Vec::new(), Vec::new());
        for kind in kinds {
            let listeners = match self.paths.get_mut(path) {
                Some(watches) => std::mem::take(watches.of(*kind)),
                None => break,
            };
            if !listeners.is_empty() {
                self.gone(*kind, listeners.len());
                gone.push(*kind);
                taken.extend(listeners);
            }
        }
        for id in &taken {
            self.listeners.remove(id);
        }
        (taken, self.tidy(path, &gone))
    }

    /// What is to be done about the server's watches on a path, when somebody has stopped listening to `gone`.
    fn tidy(&mut self, path: &str, gone: &[WatchKind]) -> WatchRequests {
        let Some(watches) = self.paths.get_mut(path) else {
            return WatchRequests::default();
        };
        let requests = watches.tidy(path, gone);
        self.forget_if_empty(path);
        requests
    }

    /// An event has come: whom it concerns. Those who listened once are out of the table.
    ///
    /// An event of a type that nobody knows concerns everybody on the path.
    pub(crate) fn fire(&mut self, path: &str, event: EventType) -> Vec<Recipient> {
        let echo = self.echo.take();
        let mut told = Vec::new();
        let of_children = event == EventType::NODE_CHILDREN_CHANGED;
        if let Some(watches) = self.paths.get_mut(path) {
            let mut fired = |kind| {
                for id in watches.of(kind).drain(..) {
                    self.listeners.remove(&id);
                    told.push(Recipient::OneShot(id));
                }
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
                let listeners = watches.of(WatchKind::Persistent).iter();
                told.extend(listeners.copied().map(Recipient::Persistent));
            }
            self.forget_if_empty(path);
        }
        if self.persistent > 0 && !of_children {
            self.fire_above(path, event, &mut told);
        }
        told
    }

    /// Whom an event concerns because they watch recursively; and, where one connection watches a node both persistently
    /// and recursively, who is told by that of a child.
    fn fire_above(&mut self, path: &str, event: EventType, told: &mut Vec<Recipient>) {
        let mut above = Some(path).filter(|_| self.recursive > 0);
        while let Some(ancestor) = above {
            if let Some(watches) = self.paths.get_mut(ancestor) {
                let listeners = watches.of(WatchKind::Recursive).iter();
                told.extend(listeners.copied().map(Recipient::Persistent));
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
            let listeners = watches.of(WatchKind::Persistent).iter();
            told.extend(listeners.map(|id| Recipient::Parent(*id, parent.clone())));
            self.echo = Some(parent);
        }
    }

    /// Something else than an event has come: what a server says of one transaction it says in one piece, and it has said it.
    pub(crate) fn forget_echo(&mut self) {
        self.echo = None;
    }

    /// Everybody who listens to a lasting watch, in order of path.
    pub(crate) fn persistent(&self) -> Vec<WatchId> {
        let lists = self.paths.values().flat_map(|watches| {
            let [.., persistent, recursive] = &watches.listeners;
            persistent.iter().chain(recursive)
        });
        lists.copied().collect()
    }

    /// The session is over: takes out and returns everybody, in order of path. Requests on their way stay announced.
    pub(crate) fn drain(&mut self) -> Vec<WatchId> {
        self.drain_kinds(&WatchKind::ALL)
    }

    /// The servers have no lasting watches: takes out and returns who listens to them.
    pub(crate) fn drain_persistent(&mut self) -> Vec<WatchId> {
        self.drain_kinds(&[WatchKind::Persistent, WatchKind::Recursive])
    }

    /// The servers cannot be told of one-shot watches: takes out and returns who waits for one.
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
                told.append(watches.of(*kind));
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

    /// The connection is gone, and all watches on the server with it.
    pub(crate) fn disconnected(&mut self) {
        self.echo = None;
        for watches in self.paths.values_mut() {
            watches.server = ServerWatches::default();
        }
    }

    /// What restores all watches on a new connection.
    ///
    /// Servers before 3.9 keep one kind of watch for a path and connection, the last one: a recursive watch comes behind
    /// the others, which it covers, and before that on children, which it does not.
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
    use lockkeeper_proto::{Request, WatcherType, Zxid, records::RemoveWatchesRequest};

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
    fn an_event_takes_out_exactly_those_whom_it_concerns() {
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
