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

use super::{
    batches::Batches,
    path_watches::{Chores, PathWatches},
    server_watches::ServerWatches,
    watch::{Lasting, WatchId, WatchKind},
};

#[derive(Debug)]
enum Place {
    /// The request that leaves the watch is on its way.
    Coming,
    /// As `Coming`, but nobody waits for it any more.
    Abandoned,
    /// In the table.
    Registered(Arc<str>, WatchKind),
}

/// Who is told of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The listener of a one-shot watch, who is out of the table now.
    Once(WatchId),
    /// The listener of a lasting one.
    Again(WatchId),
    /// The listener of a persistent watch on this node, whose child it was that came or went.
    OfChild(WatchId, Arc<str>),
}

/// The watches of a session.
#[derive(Debug, Default)]
pub(super) struct WatchTable {
    paths: BTreeMap<Arc<str>, PathWatches>,
    places: HashMap<WatchId, Place>,
    last_id: u64,
    /// How many listeners there are to lasting watches, and to recursive ones among them.
    lasting: usize,
    recursive: usize,
    /// The node whose persistent watch was told of a child by the recursive one, while a server of 3.9 is about to say
    /// the same of the persistent one itself, next.
    echo: Option<Arc<str>>,
}

impl WatchTable {
    /// How many listeners there are.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether anybody listens to a lasting watch.
    pub(super) fn has_lasting(&self) -> bool {
        self.lasting > 0
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
    pub(super) fn on_server(&mut self, path: &str) -> Option<&mut ServerWatches> {
        Some(&mut self.paths.get_mut(path)?.server)
    }

    /// Whether a child watch is, or will be, listened to on this path.
    pub(super) fn has_child(&self, path: &str) -> bool {
        let watches = self.paths.get(path);
        watches.is_some_and(|watches| {
            watches.has(WatchKind::Child) || watches.is_coming(WatchKind::Child)
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
        self.places.insert(id, Place::Registered(path, kind));
        self.lasting += usize::from(Lasting::of(kind).is_some());
        self.recursive += usize::from(kind == WatchKind::Recursive);
    }

    /// Takes note that listeners to a kind have gone.
    fn gone(&mut self, kind: WatchKind, listeners: usize) {
        if Lasting::of(kind).is_some() {
            self.lasting = self.lasting.saturating_sub(listeners);
        }
        if kind == WatchKind::Recursive {
            self.recursive = self.recursive.saturating_sub(listeners);
        }
    }

    /// A request that leaves a watch of this kind (or an exist watch for data) is about to be sent.
    pub(super) fn announce(&mut self, path: &str, kind: WatchKind) -> WatchId {
        let id = self.new_id();
        *self.entry(path).1.coming(kind) += 1;
        self.places.insert(id, Place::Coming);
        id
    }

    /// The reply to a request announced as of a kind has come, and the watch is left (`kind`) or not (`None`). Returns
    /// what is to be done about the server's watches.
    pub(super) fn settle(
        &mut self,
        id: WatchId,
        path: &str,
        announced: WatchKind,
        kind: Option<WatchKind>,
    ) -> Chores {
        let place = self.places.remove(&id);
        let coming = self.entry(path).1.coming(announced);
        *coming = coming.saturating_sub(1);
        let abandoned = match (place, kind) {
            (Some(Place::Coming), Some(kind)) => {
                self.register(id, path, kind);
                None
            }
            (Some(Place::Abandoned), kind) => kind,
            _ => None,
        };
        self.tidy(path, abandoned.as_slice())
    }

    /// Enters a data watch that `setWatches` leaves, without waiting for its reply.
    pub(super) fn register_data(&mut self, path: &str) -> WatchId {
        let id = self.new_id();
        self.register(id, path, WatchKind::Data);
        id
    }

    /// Nobody waits for this watch any more. Returns what is to be done about the server's watches.
    pub(super) fn cancel(&mut self, id: WatchId) -> Chores {
        match self.places.remove(&id) {
            None => Chores::default(),
            Some(Place::Coming | Place::Abandoned) => {
                self.places.insert(id, Place::Abandoned);
                Chores::default()
            }
            Some(Place::Registered(path, kind)) => {
                if let Some(watches) = self.paths.get_mut(&path) {
                    watches.of(kind).retain(|other| *other != id);
                }
                self.gone(kind, 1);
                self.tidy(&path, &[kind])
            }
        }
    }

    /// Takes out all listeners of these kinds on a path.
    pub(super) fn take(&mut self, path: &str, kinds: &[WatchKind]) -> (Vec<WatchId>, Chores) {
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
            self.places.remove(id);
        }
        (taken, self.tidy(path, &gone))
    }

    /// What is to be done about the server's watches on a path, when somebody has stopped listening to `gone`.
    fn tidy(&mut self, path: &str, gone: &[WatchKind]) -> Chores {
        let Some(watches) = self.paths.get_mut(path) else {
            return Chores::default();
        };
        let chores = watches.tidy(path, gone);
        self.forget_if_empty(path);
        chores
    }

    /// An event has come: whom it concerns. Those who listened once are out of the table.
    ///
    /// An event of a type that nobody knows concerns everybody on the path.
    pub(super) fn fire(&mut self, path: &str, event: EventType) -> Vec<Told> {
        let echo = self.echo.take();
        let mut told = Vec::new();
        let of_children = event == EventType::NODE_CHILDREN_CHANGED;
        if let Some(watches) = self.paths.get_mut(path) {
            let mut fired = |kind| {
                for id in watches.of(kind).drain(..) {
                    self.places.remove(&id);
                    told.push(Told::Once(id));
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
                told.extend(listeners.copied().map(Told::Again));
            }
            self.forget_if_empty(path);
        }
        if self.lasting > 0 && !of_children {
            self.fire_above(path, event, &mut told);
        }
        told
    }

    /// Whom an event concerns because they watch recursively; and, where one connection watches a node both persistently
    /// and recursively, who is told by that of a child.
    fn fire_above(&mut self, path: &str, event: EventType, told: &mut Vec<Told>) {
        let mut above = Some(path).filter(|_| self.recursive > 0);
        while let Some(ancestor) = above {
            if let Some(watches) = self.paths.get_mut(ancestor) {
                let listeners = watches.of(WatchKind::Recursive).iter();
                told.extend(listeners.copied().map(Told::Again));
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
            told.extend(listeners.map(|id| Told::OfChild(*id, parent.clone())));
            self.echo = Some(parent);
        }
    }

    /// Something else than an event has come: what a server says of one transaction it says in one piece, and it has said it.
    pub(super) fn forget_echo(&mut self) {
        self.echo = None;
    }

    /// Everybody who listens to a lasting watch, in order of path.
    pub(super) fn lasting(&self) -> Vec<WatchId> {
        let lists = self.paths.values().flat_map(|watches| {
            let [.., persistent, recursive] = &watches.listeners;
            persistent.iter().chain(recursive)
        });
        lists.copied().collect()
    }

    /// The session is over: takes out and returns everybody, in order of path. Requests on their way stay announced.
    pub(super) fn drain(&mut self) -> Vec<WatchId> {
        self.drain_kinds(&WatchKind::ALL)
    }

    /// The servers have no lasting watches: takes out and returns who listens to them.
    pub(super) fn drain_lasting(&mut self) -> Vec<WatchId> {
        self.drain_kinds(&[WatchKind::Persistent, WatchKind::Recursive])
    }

    /// The servers cannot be told of one-shot watches: takes out and returns who waits for one.
    pub(super) fn drain_one_shot(&mut self) -> Vec<WatchId> {
        let lasting = (self.lasting, self.recursive);
        let told = self.drain_kinds(&WatchKind::ONE_SHOT);
        (self.lasting, self.recursive) = lasting;
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
            self.places.remove(id);
        }
        self.lasting = 0;
        self.recursive = 0;
        told
    }

    /// The connection is gone, and all watches on the server with it.
    pub(super) fn disconnected(&mut self) {
        self.echo = None;
        for watches in self.paths.values_mut() {
            watches.server = ServerWatches::default();
        }
    }

    /// What restores all watches on a new connection.
    ///
    /// Servers before 3.9 keep one kind of watch for a path and connection, the last one: a recursive watch comes behind
    /// the others, which it covers, and before that on children, which it does not.
    pub(super) fn restore(&mut self, batches: &mut Batches) {
        for (path, watches) in &self.paths {
            for kind in WatchKind::ONE_SHOT {
                let later = kind == WatchKind::Child && watches.has(WatchKind::Recursive);
                if watches.has(kind) && !later {
                    batches.add(kind, path.to_string());
                }
            }
        }
        if !self.has_lasting() {
            return;
        }
        for lasting in [Lasting::Persistent, Lasting::Recursive] {
            for (path, watches) in &mut self.paths {
                if watches.has(lasting.kind()) {
                    watches.server.stands(lasting);
                    batches.add(lasting.kind(), path.to_string());
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

    fn removing(path: &str, watcher_type: WatcherType) -> Chores {
        let path = path.to_owned();
        Chores {
            remove: vec![RemoveWatchesRequest { path, watcher_type }],
            ..Chores::default()
        }
    }

    fn registered(table: &mut WatchTable, path: &str, kind: WatchKind) -> WatchId {
        let id = table.announce(path, kind);
        let chores = table.settle(id, path, kind, Some(kind));
        assert_eq!(chores, Chores::default());
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
        assert_eq!(told, [Told::Once(data), Told::Once(exist)]);
        assert_eq!(table.fire("/a", EventType::NODE_DATA_CHANGED), []);
        let told = table.fire("/a", EventType::NODE_CHILDREN_CHANGED);
        assert_eq!(told, [Told::Once(child)]);
        let told = table.fire("/b", EventType::NODE_DELETED);
        assert_eq!(told, [Told::Once(other)]);
        assert_eq!(table.len(), 0);
        assert!(table.paths.is_empty());
    }

    #[test]
    fn the_servers_watch_is_removed_with_its_last_listener_and_not_before() {
        let mut table = WatchTable::default();
        let first = registered(&mut table, "/a", WatchKind::Data);
        let second = registered(&mut table, "/a", WatchKind::Data);
        let coming = table.announce("/a", WatchKind::Data);
        assert_eq!(table.cancel(first), Chores::default());
        assert_eq!(
            table.cancel(second),
            Chores::default(),
            "a request on its way still needs the watch"
        );
        let chores = table.settle(coming, "/a", WatchKind::Data, None);
        assert_eq!(chores, removing("/a", WatcherType::DATA));
        let last = registered(&mut table, "/a", WatchKind::Data);
        assert_eq!(table.cancel(last), removing("/a", WatcherType::DATA));
        assert!(table.paths.is_empty() && table.places.is_empty());
    }

    #[test]
    fn a_watch_abandoned_on_its_way_is_removed_when_it_arrives() {
        let mut table = WatchTable::default();
        let id = table.announce("/a", WatchKind::Child);
        assert_eq!(table.cancel(id), Chores::default());
        let chores = table.settle(id, "/a", WatchKind::Child, Some(WatchKind::Child));
        assert_eq!(chores, removing("/a", WatcherType::CHILDREN));
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
