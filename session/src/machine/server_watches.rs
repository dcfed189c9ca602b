//! Which lasting watches the server has for this connection, what they make needless, and what takes them away.
//!
//! Servers before 3.9 keep one kind of watch for a path and connection: the last one that was asked for. A one-shot watch
//! beside a lasting one would end that with its event. So a read on a node that is watched lastingly leaves none: its
//! listener hears of the event through the lasting watch. Where both lasting kinds are wanted, the recursive one is asked
//! for last, and who listens to the other one hears of children through it.
//!
//! Not here: who listens (`watches`).

use lockkeeper_proto::{AddWatchMode, WatcherType, Zxid, records::RemoveWatchesRequest};

use super::watches::{PathWatches, WatchKind};

/// A kind of watch that stays until it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lasting {
    Persistent,
    Recursive,
}

impl Lasting {
    pub(super) fn of(kind: WatchKind) -> Option<Self> {
        match kind {
            WatchKind::Persistent => Some(Self::Persistent),
            WatchKind::Recursive => Some(Self::Recursive),
            _ => None,
        }
    }

    /// `None` for a mode that nobody knows.
    pub(super) fn of_mode(mode: AddWatchMode) -> Option<Self> {
        match mode {
            AddWatchMode::PERSISTENT => Some(Self::Persistent),
            AddWatchMode::PERSISTENT_RECURSIVE => Some(Self::Recursive),
            _ => None,
        }
    }

    pub(super) fn kind(self) -> WatchKind {
        match self {
            Self::Persistent => WatchKind::Persistent,
            Self::Recursive => WatchKind::Recursive,
        }
    }

    pub(super) fn mode(self) -> AddWatchMode {
        match self {
            Self::Persistent => AddWatchMode::PERSISTENT,
            Self::Recursive => AddWatchMode::PERSISTENT_RECURSIVE,
        }
    }
}

/// The lasting watches that the server has on a path, or will have when it comes to what was sent.
#[derive(Debug, Default)]
pub(super) struct ServerWatches {
    persistent: Hold,
    recursive: Hold,
    /// Whether there was a recursive one on this connection.
    was_recursive: bool,
}

#[derive(Debug, Default)]
struct Hold {
    /// `addWatch` on their way.
    asked: u32,
    /// Whether one was answered with success.
    stands: bool,
}

impl ServerWatches {
    fn hold(&mut self, lasting: Lasting) -> &mut Hold {
        match lasting {
            Lasting::Persistent => &mut self.persistent,
            Lasting::Recursive => &mut self.recursive,
        }
    }

    pub(super) fn has(&self, lasting: Lasting) -> bool {
        let hold = match lasting {
            Lasting::Persistent => &self.persistent,
            Lasting::Recursive => &self.recursive,
        };
        hold.stands || hold.asked > 0
    }

    /// Whether what happens to the node itself is told anyhow.
    pub(super) fn covers_data(&self) -> bool {
        self.has(Lasting::Persistent) || self.has(Lasting::Recursive)
    }

    /// Whether what happens to the list of children is told anyhow, by servers of any release.
    pub(super) fn covers_children(&self) -> bool {
        self.has(Lasting::Persistent) && !self.has(Lasting::Recursive)
    }

    /// Whether the server may tell of children that come and go in place of telling that the list has changed: as long as
    /// it has a recursive watch here, and until it has come to the request that replaces it.
    pub(super) fn may_tell_of_children(&self) -> bool {
        self.was_recursive
    }

    /// An `addWatch` is being sent.
    pub(super) fn asks(&mut self, lasting: Lasting) {
        self.was_recursive |= lasting == Lasting::Recursive;
        self.hold(lasting).asked += 1;
    }

    /// It is answered, or never will be.
    pub(super) fn answered(&mut self, lasting: Lasting, stands: bool) {
        let hold = self.hold(lasting);
        hold.asked = hold.asked.saturating_sub(1);
        hold.stands |= stands;
    }

    /// The watch is left without an `addWatch`.
    pub(super) fn stands(&mut self, lasting: Lasting) {
        self.was_recursive |= lasting == Lasting::Recursive;
        self.hold(lasting).stands = true;
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

/// What is to be done on a path when listeners to `gone` have gone. While a request is on its way that leaves a watch or
/// relies on a lasting one, nothing: it is asked again when that is answered.
pub(super) fn tidy(path: &str, watches: &mut PathWatches, gone: &[WatchKind]) -> Chores {
    let mut gone = gone.to_vec();
    gone.append(&mut watches.left_over);
    if watches.server.covers_data() {
        tidy_lasting(path, watches, &gone)
    } else {
        tidy_one_shot(path, watches, &gone)
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
            watches.server.persistent = Hold::default();
        }
        (true, false) if watches.server.has(Lasting::Recursive) => {
            chores.set(path, WatchKind::Persistent);
            chores.remove(path, WatcherType::PERSISTENT_RECURSIVE);
            watches.server.stands(Lasting::Persistent);
            watches.server.recursive = Hold::default();
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
