//! The watches of one path: who listens, what is on its way, what the server has; and what is to be done about the server's
//! watches when somebody has stopped listening.
//!
//! Not here: the paths of a session, and who is told of an event (`watches`).

use lockkeeper_proto::{WatcherType, Zxid, records::RemoveWatchesRequest};

use super::{
    server_watches::ServerWatches,
    watch::{Lasting, WatchId, WatchKind},
};

/// Everything about one path.
#[derive(Debug, Default)]
pub(super) struct PathWatches {
    pub(super) listeners: [Vec<WatchId>; 5],
    /// Requests on their way that will leave a data (or exist), a child, and a lasting watch: while there are some, the
    /// server's watch must not be removed.
    coming: [u32; 3],
    /// Kinds to which nobody listens any more, whose server watch a request on its way may still need.
    left_over: Vec<WatchKind>,
    pub(super) server: ServerWatches,
}

impl PathWatches {
    #[allow(clippy::indexing_slicing, reason = "there is a list for each kind")]
    pub(super) fn of(&mut self, kind: WatchKind) -> &mut Vec<WatchId> {
        &mut self.listeners[kind as usize]
    }

    /// Whether anybody listens to this kind.
    #[allow(clippy::indexing_slicing, reason = "there is a list for each kind")]
    pub(super) fn has(&self, kind: WatchKind) -> bool {
        !self.listeners[kind as usize].is_empty()
    }

    /// Whether a request is on its way that will leave this kind.
    pub(super) fn is_coming(&self, kind: WatchKind) -> bool {
        let [data, child, lasting] = self.coming;
        let coming = match kind {
            WatchKind::Data | WatchKind::Exist => data,
            WatchKind::Child => child,
            WatchKind::Persistent | WatchKind::Recursive => lasting,
        };
        coming > 0
    }

    pub(super) fn is_any_coming(&self) -> bool {
        self.coming != [0; 3]
    }

    pub(super) fn coming(&mut self, kind: WatchKind) -> &mut u32 {
        let [data, child, lasting] = &mut self.coming;
        match kind {
            WatchKind::Data | WatchKind::Exist => data,
            WatchKind::Child => child,
            WatchKind::Persistent | WatchKind::Recursive => lasting,
        }
    }

    /// Whether nobody listens, or is going to.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_any_coming() && self.listeners.iter().all(Vec::is_empty)
    }

    /// What is to be done on this path when listeners to `gone` have gone. While a request is on its way that leaves a
    /// watch or relies on a lasting one, nothing: it is asked again when that is answered.
    pub(super) fn tidy(&mut self, path: &str, gone: &[WatchKind]) -> Chores {
        let mut gone = gone.to_vec();
        gone.append(&mut self.left_over);
        if self.server.covers_data() {
            tidy_lasting(path, self, &gone)
        } else {
            tidy_one_shot(path, self, &gone)
        }
    }
}

/// Requests of the machine's own about the watches of a path, in this order: all are removed, some are set, others are
/// removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chores {
    pub(super) first: Option<RemoveWatchesRequest>,
    pub(super) set: Vec<(WatchKind, String)>,
    /// What the client had seen when the watches that are set began; `None` for what it has seen by now.
    pub(super) since: Option<Zxid>,
    pub(super) remove: Vec<RemoveWatchesRequest>,
}

impl Chores {
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

/// As `tidy`, where the server has one-shot watches at most.
fn tidy_one_shot(path: &str, watches: &mut PathWatches, gone: &[WatchKind]) -> Chores {
    let mut chores = Chores::default();
    for kind in gone {
        let (has, watcher_type) = match kind {
            WatchKind::Data | WatchKind::Exist => (
                watches.has(WatchKind::Data) || watches.has(WatchKind::Exist),
                WatcherType::DATA,
            ),
            WatchKind::Child => (watches.has(*kind), WatcherType::CHILDREN),
            WatchKind::Persistent | WatchKind::Recursive => continue,
        };
        // Up to 3.8, to remove a one-shot watch is to remove whatever is there.
        let needed = watches.is_coming(*kind) || watches.is_coming(WatchKind::Persistent);
        if !has && needed {
            watches.left_over.push(*kind);
        } else if !has {
            chores.remove(path, watcher_type);
        }
    }
    chores.remove.dedup();
    chores
}

/// As `tidy`, where the server has lasting watches.
fn tidy_lasting(path: &str, watches: &mut PathWatches, gone: &[WatchKind]) -> Chores {
    let mut chores = Chores::default();
    if watches.is_any_coming() {
        return chores;
    }
    let wanted = |lasting: Lasting| watches.has(lasting.kind());
    let (persistent, recursive) = (wanted(Lasting::Persistent), wanted(Lasting::Recursive));
    match (persistent, recursive) {
        (false, false) => {
            let one_shot = WatchKind::ONE_SHOT;
            let left: Vec<_> = one_shot
                .into_iter()
                .filter(|kind| watches.has(*kind))
                .collect();
            chores.remove(path, WatcherType::ANY);
            if !left.is_empty() {
                // What happens between the two is told when they are set.
                chores.first = chores.remove.pop();
                for kind in left {
                    chores.set(path, kind);
                }
            }
            watches.server = ServerWatches::default();
        }
        (false, true) if watches.server.has(Lasting::Persistent) => {
            chores.remove(path, WatcherType::PERSISTENT);
            watches.server.forget(Lasting::Persistent);
        }
        (true, false) if watches.server.has(Lasting::Recursive) => {
            chores.set(path, WatchKind::Persistent);
            chores.remove(path, WatcherType::PERSISTENT_RECURSIVE);
            watches.server.stands(Lasting::Persistent);
            watches.server.forget(Lasting::Recursive);
        }
        _ => {
            let children = gone.contains(&WatchKind::Child) && !watches.has(WatchKind::Child);
            if children && !watches.server.has(Lasting::Persistent) {
                chores.remove(path, WatcherType::CHILDREN);
            }
        }
    }
    chores
}
