//! Random use of watches: each listener hears exactly what its kind of watch promises.
//!
//! A story is a random sequence of steps from a seed. One client sets watches of all kinds on a
//! small tree, drops them, and loses its connection. Another client changes the tree. After each
//! change, the test compares the events of every listener with the promise of its kind alone. That
//! several listeners share one watch on the server must have no effect. A persistent watch is refused
//! beside another kind, and ended by a one-shot watch.
//!
//! The message of a failure names the seed.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
};

use lockkeeper::{
    Client,
    error::ErrorKind,
    proto::path,
    raw::AsRaw,
    raw::WatchGroup,
    watch::{EventType, PersistentWatcher, WatchNotice, Watcher, WatcherType},
};
use lockkeeper_sim::Rng;

use crate::{
    rig::{
        CHANGED, CHILDREN, CREATED, DELETED, PERSISTENT, RECURSIVE, away, behind_a_proxy, create,
        delete, set,
    },
    support::{
        Ensemble, on_both_arms,
        proxy::Proxy,
        waiting::{poll_once, soon},
    },
};

/// The number of stories on each kind of server.
const STORIES: u64 = 12;
/// The number of steps in a story.
const STEPS: usize = 80;

on_both_arms! {
    async fn every_listener_hears_what_its_kind_promises(ensemble: &Ensemble) {
        for seed in 0..STORIES {
            Story::begin(ensemble, seed).await.tell().await;
            ensemble.part_done();
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Data,
    Children,
    Persistent,
    Recursive,
}

enum Ear {
    Once(Pin<Box<Watcher>>),
    Group(WatchGroup),
    Always(PersistentWatcher),
}

/// Watches a node as locks do.
fn watch_alone(client: &Client, path: &str) -> WatchGroup {
    let group = client.raw().watch_group();
    let path = client.raw().server_path(path);
    group.watch(path::parent(&path).unwrap(), vec![path::name(&path).into()]);
    group
}

/// A listener, and the events that it must have received since the last check.
struct Listener {
    kind: Kind,
    path: String,
    ear: Ear,
    /// `None` in the list stands for the notice that events may be missing.
    due: Vec<Option<(EventType, String)>>,
}

impl Listener {
    /// The event that this kind of watch promises for a change.
    fn promised(&self, change: EventType, node: &str) -> Option<(EventType, String)> {
        let itself = self.path == node;
        let comes_or_goes = change == CREATED || change == DELETED;
        let of_child = comes_or_goes && path::parent(node) == Some(&self.path);
        let told = match self.kind {
            Kind::Data => itself.then_some(change),
            Kind::Children if itself && change == DELETED => Some(DELETED),
            Kind::Persistent if itself => Some(change),
            Kind::Children | Kind::Persistent => of_child.then_some(CHILDREN),
            Kind::Recursive => {
                let within = path::is_within(node, &self.path);
                return within.then(|| (change, node.to_owned()));
            }
        };
        told.map(|event| (event, self.path.clone()))
    }

    /// The events that the listener has received. `None` stands for the notice that events may be
    /// missing.
    fn told(&mut self) -> Vec<Option<(EventType, String)>> {
        let mut told = Vec::new();
        match &mut self.ear {
            Ear::Once(watcher) => {
                if let Some(event) = poll_once(watcher.as_mut()) {
                    let event = event.unwrap();
                    told.push(Some((event.event_type, event.path)));
                }
            }
            Ear::Group(group) => {
                if let Some(event) = group.try_next() {
                    told.push(Some((event.unwrap().event_type, self.path.clone())));
                }
            }
            Ear::Always(watcher) => {
                while let Some(notice) = poll_once(std::pin::pin!(watcher.next())) {
                    told.push(match notice.expect("no end").unwrap() {
                        WatchNotice::Event(event) => Some((event.event_type, event.path)),
                        WatchNotice::Missed(missed) => {
                            assert_eq!((missed.dropped, missed.reconnected), (0, true));
                            None
                        }
                        other => panic!("{other:?}"),
                    });
                }
            }
        }
        told
    }
}

struct Story {
    seed: u64,
    dice: Rng,
    client: Client,
    other: Client,
    proxy: Proxy,
    nodes: Vec<String>,
    there: BTreeSet<String>,
    listeners: BTreeMap<usize, Listener>,
    last: usize,
    log: Vec<String>,
}

impl Story {
    async fn begin(ensemble: &Ensemble, seed: u64) -> Self {
        let (client, proxy) = behind_a_proxy(ensemble).await;
        let root = ensemble.unique_path("story");
        let nodes = ["", "/a", "/a/b", "/a/b/c", "/d"].map(|below| format!("{root}{below}"));
        Self {
            seed,
            dice: Rng::from_seed(seed),
            client,
            other: ensemble.client().await,
            proxy,
            nodes: nodes.to_vec(),
            there: BTreeSet::new(),
            listeners: BTreeMap::new(),
            last: 0,
            log: Vec::new(),
        }
    }

    async fn tell(mut self) {
        for _ in 0..STEPS {
            match self.dice.below(100) {
                0..40 => self.change().await,
                40..70 => self.listen().await,
                70..97 => self.drop_one(),
                _ => self.lose_the_connection().await,
            }
        }
        self.listeners.clear();
        // The client removes the dropped watches after the replies that are still pending.
        self.client.sync("/").await.unwrap();
        for node in &self.nodes {
            let left = self.client.check_watches(node, WatcherType::ANY).await;
            assert!(!left.unwrap(), "a watch is left: {self}");
        }
        assert_eq!(self.client.metrics().watches, 0, "{self}");
        self.client.close().await;
        self.other.close().await;
    }

    async fn change(&mut self) {
        let node = self.dice.one_of(&self.nodes);
        let has_children = self
            .there
            .iter()
            .any(|other| path::parent(other) == Some(&node));
        let change = if self.there.contains(&node) {
            if !has_children && self.dice.below(2) == 0 {
                delete(&self.other, &node).await;
                self.there.remove(&node);
                DELETED
            } else {
                set(&self.other, &node).await;
                CHANGED
            }
        } else if node == self.nodes[0] || self.there.contains(path::parent(&node).unwrap()) {
            create(&self.other, &node).await;
            self.there.insert(node.clone());
            CREATED
        } else {
            return;
        };
        self.log.push(format!("{change} {node}"));
        for listener in self.listeners.values_mut() {
            let promised = listener.promised(change, &node);
            listener.due.extend(promised.map(Some));
        }
        self.look().await;
    }

    /// Compares the events of every listener with the promised ones.
    async fn look(&mut self) {
        // All promised events come before the reply to this request.
        self.client.sync("/").await.unwrap();
        let mut listeners = std::mem::take(&mut self.listeners);
        for listener in listeners.values_mut() {
            let due = std::mem::take(&mut listener.due);
            let mut told = listener.told();
            if matches!(listener.ear, Ear::Always(_)) {
                // A `setWatches` that was under way may report a change a second time.
                told.dedup();
            }
            let (kind, path) = (listener.kind, &listener.path);
            assert_eq!(told, due, "{kind:?} on {path}: {self}");
            if !matches!(listener.ear, Ear::Always(_)) && !due.is_empty() {
                self.log.push(format!("{kind:?} on {path} has fired"));
                listener.path.clear();
            }
        }
        listeners.retain(|_, listener| !listener.path.is_empty());
        self.listeners = listeners;
    }

    async fn listen(&mut self) {
        let path = self.dice.one_of(&self.nodes);
        let there = self.there.contains(&path);
        let client = &self.client;
        let once = |watcher| Ear::Once(Box::pin(watcher));
        let (kind, ear) = match self.dice.below(6) {
            0 => (
                Kind::Data,
                once(client.exists_and_watch(&path).await.unwrap().1),
            ),
            1 if there => (
                Kind::Data,
                once(client.get_data_and_watch(&path).await.unwrap().1),
            ),
            2 if there => (Kind::Data, Ear::Group(watch_alone(client, &path))),
            3 if there => {
                let list = client.get_children_and_watch(&path).await;
                (Kind::Children, once(list.unwrap().1))
            }
            number @ 4..6 => {
                let (kind, mode) = match number {
                    4 => (Kind::Persistent, PERSISTENT),
                    _ => (Kind::Recursive, RECURSIVE),
                };
                let mut here = self.listeners.values().filter(|it| it.path == path);
                let is_refused = here.any(|listener| listener.kind != kind);
                let watcher = match client.add_watch(&path, mode).await {
                    Err(error) if is_refused && error == ErrorKind::WatchConflict.into() => return,
                    Ok(watcher) if !is_refused => watcher,
                    other => panic!("{kind:?} on {path}: {other:?}: {self}"),
                };
                (kind, Ear::Always(watcher))
            }
            _ => return,
        };
        if !matches!(ear, Ear::Always(_)) {
            for listener in self.listeners.values_mut() {
                if let Ear::Always(watcher) = &mut listener.ear
                    && listener.path == path
                {
                    let last = soon(watcher.next()).await;
                    assert_eq!(last, Some(Err(ErrorKind::WatchConflict.into())));
                    listener.path.clear();
                }
            }
            self.listeners
                .retain(|_, listener| !listener.path.is_empty());
        }
        self.last += 1;
        self.log
            .push(format!("{} listens: {kind:?} on {path}", self.last));
        let due = Vec::new();
        self.listeners.insert(
            self.last,
            Listener {
                kind,
                path,
                ear,
                due,
            },
        );
    }

    /// Drops a listener, and does not wait until the server has removed its watch.
    fn drop_one(&mut self) {
        let numbers: Vec<_> = self.listeners.keys().copied().collect();
        if !numbers.is_empty() {
            let number = self.dice.one_of(&numbers);
            self.listeners.remove(&number);
            self.log.push(format!("{number} is dropped"));
        }
    }

    async fn lose_the_connection(&mut self) {
        away(&self.client, &self.proxy, async {}).await;
        self.log.push("the connection is lost".to_owned());
        for listener in self.listeners.values_mut() {
            if matches!(listener.ear, Ear::Always(_)) {
                listener.due.push(None);
            }
        }
        self.look().await;
    }
}

impl std::fmt::Display for Story {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "seed {}: {:#?}", self.seed, self.log)
    }
}
