//! The watches of one path: who listens, which requests are pending, what the server has. And what
//! to ask of the server when a listener goes.
//!
//! Not here: all paths of a session, and who receives an event (`table`).

use lockkeeper_proto::{WatcherType, Zxid, records::RemoveWatchesRequest};

use crate::machine::{
    watches::kind::{PersistentKind, WatchId, WatchKind},
    watches::server_watches::ServerWatches,
};

/// Everything about one path.
#[derive(Debug, Default)]
pub(crate) struct PathWatches {
    /// Who listens to which kind: mostly one or two. Those of one kind are in their order.
    listeners: Vec<(WatchKind, WatchId)>,
    /// How many pending requests will leave a data (or exist), a child, and a persistent watch.
    /// While there are some, the server's watch must not be removed.
    pending: [u32; 3],
    /// Kinds without listeners, whose server watch a pending request may still need; `None` for
    /// none, as mostly.
    unused: Option<Box<[WatchKind]>>,
    pub(crate) server: ServerWatches,
}

impl PathWatches {
    /// Somebody listens to this kind.
    pub(crate) fn add(&mut self, kind: WatchKind, id: WatchId) {
        if self.listeners.len() < 4 {
            // There may be very many paths.
            self.listeners.reserve_exact(1);
        }
        self.listeners.push((kind, id));
    }

    /// This listener has gone. Returns the kind that it listened to.
    pub(crate) fn remove(&mut self, id: WatchId) -> Option<WatchKind> {
        let index = self.listeners.iter().position(|(_, other)| *other == id)?;
        Some(self.listeners.remove(index).0)
    }

    /// The listeners to this kind.
    pub(crate) fn of(&self, kind: WatchKind) -> impl Iterator<Item = WatchId> {
        let listeners = self.listeners.iter();
        listeners
            .filter(move |(of, _)| *of == kind)
            .map(|(_, id)| *id)
    }

    /// Takes out the listeners to this kind.
    pub(crate) fn take(&mut self, kind: WatchKind, mut take: impl FnMut(WatchId)) {
        self.listeners.retain(|(of, id)| {
            let is_taken = *of == kind;
            if is_taken {
                take(*id);
            }
            !is_taken
        });
    }

    /// Whether anybody listens to this kind.
    pub(crate) fn has(&self, kind: WatchKind) -> bool {
        self.of(kind).next().is_some()
    }

    /// Whether a pending request will leave this kind.
    pub(crate) fn is_pending(&self, kind: WatchKind) -> bool {
        let [data, child, persistent] = self.pending;
        let pending = match kind {
            WatchKind::Data | WatchKind::Exist => data,
            WatchKind::Child => child,
            WatchKind::Persistent | WatchKind::Recursive => persistent,
        };
        pending > 0
    }

    pub(crate) fn has_pending(&self) -> bool {
        self.pending != [0; 3]
    }

    pub(crate) fn pending(&mut self, kind: WatchKind) -> &mut u32 {
        let [data, child, persistent] = &mut self.pending;
        match kind {
            WatchKind::Data | WatchKind::Exist => data,
            WatchKind::Child => child,
            WatchKind::Persistent | WatchKind::Recursive => persistent,
        }
    }

    /// Whether nobody listens, and no request is pending.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_pending() && self.listeners.is_empty()
    }

    /// What to ask of the server when the listeners to the kinds `gone` have gone. Nothing while a
    /// request is pending that leaves a watch or relies on a persistent one: this is called again
    /// when that request is answered.
    pub(crate) fn tidy(&mut self, path: &str, gone: &[WatchKind]) -> WatchRequests {
        let mut gone = gone.to_vec();
        gone.extend(self.unused.take().into_iter().flatten());
        if self.server.covers_data() {
            tidy_persistent(path, self, &gone)
        } else {
            tidy_one_shot(path, self, &gone)
        }
    }
}

/// What to ask of the server about the watches of a path, in this order: remove all, set some,
/// remove some.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct WatchRequests {
    pub(crate) first: Option<RemoveWatchesRequest>,
    pub(crate) set: Vec<(WatchKind, String)>,
    /// The newest transaction that the client had seen when these watches began; `None` for the
    /// newest one that it has seen now.
    pub(crate) since: Option<Zxid>,
    pub(crate) remove: Vec<RemoveWatchesRequest>,
}

impl WatchRequests {
    fn set(&mut self, path: &str, kind: WatchKind) {
        self.set.push((kind, path.to_owned()));
    }

    fn remove(&mut self, path: &str, watcher_type: WatcherType) {
        self.remove.push(RemoveWatchesRequest {
            path: path.to_owned(),
            watcher_type,
        });
    }
}

/// As `tidy`, if the server has no persistent watch on the path.
fn tidy_one_shot(path: &str, watches: &mut PathWatches, gone: &[WatchKind]) -> WatchRequests {
    let (mut requests, mut unused) = (WatchRequests::default(), Vec::new());
    for kind in gone {
        let (has, watcher_type) = match kind {
            WatchKind::Data | WatchKind::Exist => (
                watches.has(WatchKind::Data) || watches.has(WatchKind::Exist),
                WatcherType::DATA,
            ),
            WatchKind::Child => (watches.has(*kind), WatcherType::CHILDREN),
            WatchKind::Persistent | WatchKind::Recursive => continue,
        };
        // Servers up to 3.8 remove any watch of the path in place of a one-shot watch.
        let needed = watches.is_pending(*kind) || watches.is_pending(WatchKind::Persistent);
        if !has && needed {
            unused.push(*kind);
        } else if !has {
            requests.remove(path, watcher_type);
        }
    }
    requests.remove.dedup();
    watches.unused = (!unused.is_empty()).then(|| unused.into());
    requests
}

/// As `tidy`, if the server has a persistent watch on the path.
fn tidy_persistent(path: &str, watches: &mut PathWatches, gone: &[WatchKind]) -> WatchRequests {
    let mut requests = WatchRequests::default();
    if watches.has_pending() {
        return requests;
    }
    let wanted = |persistent: PersistentKind| watches.has(persistent.kind());
    let (persistent, recursive) = (
        wanted(PersistentKind::Persistent),
        wanted(PersistentKind::Recursive),
    );
    match (persistent, recursive) {
        (false, false) => {
            let one_shot = WatchKind::ONE_SHOT;
            let left: Vec<_> = one_shot
                .into_iter()
                .filter(|kind| watches.has(*kind))
                .collect();
            requests.remove(path, WatcherType::ANY);
            if !left.is_empty() {
                // The server reports what happens between the two requests when it sets the
                // watches.
                requests.first = requests.remove.pop();
                for kind in left {
                    requests.set(path, kind);
                }
            }
            watches.server = ServerWatches::default();
        }
        (false, true) if watches.server.has(PersistentKind::Persistent) => {
            requests.remove(path, WatcherType::PERSISTENT);
            watches.server.forget(PersistentKind::Persistent);
        }
        (true, false) if watches.server.has(PersistentKind::Recursive) => {
            requests.set(path, WatchKind::Persistent);
            requests.remove(path, WatcherType::PERSISTENT_RECURSIVE);
            watches.server.stands(PersistentKind::Persistent);
            watches.server.forget(PersistentKind::Recursive);
        }
        _ => {
            let children = gone.contains(&WatchKind::Child) && !watches.has(WatchKind::Child);
            if children && !watches.server.has(PersistentKind::Persistent) {
                requests.remove(path, WatcherType::CHILDREN);
            }
        }
    }
    requests
}
