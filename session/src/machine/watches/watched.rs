//! One path: who listens, which requests are pending, what the server has. And what to ask of the
//! server when that no longer fits.
//!
//! Not here: all paths of a session, and who hears of an event (`table`).

use lockkeeper_proto::{Request, WatcherType, Zxid, records::RemoveWatchesRequest};

use super::{
    batches,
    kinds::{Kinds, WatchId},
};

/// Everything about one path.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// Who listens to which kind: mostly one or two. Those of one kind are in their order.
    listeners: Vec<(Kinds, WatchId)>,
    /// How many requests that will leave a watch are pending. While there are some, no watch is
    /// removed from the server: they may need it.
    pending: u32,
    /// What the server has for this connection, or will have when it has processed what was sent.
    set: Kinds,
    /// How many `addWatch` requests are not answered, for a persistent and for a recursive watch.
    asked: [u32; 2],
    /// Whether the path had a recursive watch at any time on this connection.
    was_recursive: bool,
}

impl Watched {
    pub(super) fn add(&mut self, kind: Kinds, id: WatchId) {
        if self.listeners.len() < 4 {
            // There may be very many paths.
            self.listeners.reserve_exact(1);
        }
        self.listeners.push((kind, id));
    }

    /// This listener has gone. Returns the kind that it listened to.
    pub(super) fn remove(&mut self, id: WatchId) -> Option<Kinds> {
        let index = self.listeners.iter().position(|(_, other)| *other == id)?;
        Some(self.listeners.remove(index).0)
    }

    /// The listeners to these kinds.
    pub(super) fn of(&self, kinds: Kinds) -> impl Iterator<Item = WatchId> {
        let listeners = self.listeners.iter();
        listeners
            .filter(move |(of, _)| kinds.has(*of))
            .map(|(_, id)| *id)
    }

    /// Takes out the listeners to these kinds, kind by kind. Returns how many there were.
    pub(super) fn take(&mut self, kinds: Kinds, mut take: impl FnMut(WatchId)) -> usize {
        let before = self.listeners.len();
        for kind in kinds.among(self.wanted()).each() {
            self.listeners.retain(|(of, id)| {
                let is_taken = *of == kind;
                if is_taken {
                    take(*id);
                }
                !is_taken
            });
        }
        before - self.listeners.len()
    }

    /// The kinds that somebody listens to.
    pub(super) fn wanted(&self) -> Kinds {
        let kinds = self.listeners.iter().map(|(kind, _)| *kind);
        kinds.fold(Kinds::NONE, Kinds::and)
    }

    /// A request that will leave a watch is queued, or under way.
    pub(super) fn announced(&mut self) {
        self.pending += 1;
    }

    /// That request is answered, or never will be.
    pub(super) fn settled(&mut self) {
        self.pending = self.pending.saturating_sub(1);
    }

    /// Whether somebody listens to the children, or will when a request beside one of `addWatch` is
    /// answered.
    pub(super) fn may_want_children(&self) -> bool {
        self.wanted().has(Kinds::CHILD) || self.pending > 1
    }

    /// Whether nobody listens, and no request is pending.
    pub(super) fn is_empty(&self) -> bool {
        self.pending == 0 && self.listeners.is_empty()
    }

    /// The server has this kind, or will have it when it has processed what was sent.
    pub(super) fn is_set(&mut self, kind: Kinds) {
        self.was_recursive |= kind == Kinds::RECURSIVE;
        self.set = self.set.and(kind);
    }

    /// The server has these no more.
    pub(super) fn is_unset(&mut self, kinds: Kinds) {
        self.set = self.set.without(kinds);
    }

    /// An `addWatch` is being sent.
    pub(super) fn asks(&mut self, kind: Kinds) {
        self.was_recursive |= kind == Kinds::RECURSIVE;
        if let Some(asked) = self.asked.get_mut(usize::from(kind == Kinds::RECURSIVE)) {
            *asked += 1;
        }
    }

    /// An `addWatch` is answered, or never will be.
    pub(super) fn answered(&mut self, kind: Kinds, is_set: bool) {
        if let Some(asked) = self.asked.get_mut(usize::from(kind == Kinds::RECURSIVE)) {
            *asked = asked.saturating_sub(1);
        }
        if is_set {
            self.is_set(kind);
        }
    }

    /// The connection is gone, and the server's watches with it.
    pub(super) fn disconnected(&mut self) {
        (self.set, self.asked, self.was_recursive) = (Kinds::NONE, [0; 2], false);
    }

    /// The lasting watches that the server has, or was asked for.
    pub(super) fn lasting(&self) -> Kinds {
        let [persistent, recursive] = self.asked;
        let mut lasting = self.set.among(Kinds::LASTING);
        if persistent > 0 {
            lasting = lasting.and(Kinds::PERSISTENT);
        }
        if recursive > 0 {
            lasting = lasting.and(Kinds::RECURSIVE);
        }
        lasting
    }

    /// Whether a lasting watch reports what this kind would, on servers of any release.
    pub(super) fn covers(&self, kind: Kinds) -> bool {
        let lasting = self.lasting();
        if kind == Kinds::CHILD {
            // A recursive watch reports single children, and not a change of the list.
            lasting == Kinds::PERSISTENT
        } else {
            lasting != Kinds::NONE
        }
    }

    /// Whether the server may report single children instead of a change of the list. It does so
    /// while it has a recursive watch here, and until it has processed the request that replaces
    /// this watch.
    pub(super) fn may_tell_of_children(&self) -> bool {
        self.was_recursive
    }

    /// What to ask of the server, in this order, when the watches that it has are no longer those
    /// that are wanted. Nothing while a request is pending that leaves a watch or relies on a
    /// lasting one: this is called again when that request is answered.
    pub(super) fn tidy(&mut self, path: &str, since: Zxid) -> Vec<Request> {
        let mut requests = Vec::new();
        let (wanted, lasting) = (self.wanted(), self.lasting());
        let unwanted = self.set.without(wanted);
        if self.pending > 0 || unwanted == Kinds::NONE {
            return requests;
        }
        let mut remove = |kinds, watcher_type| {
            self.set = self.set.without(kinds);
            let path = path.to_owned();
            requests.push(Request::RemoveWatches(RemoveWatchesRequest {
                path,
                watcher_type,
            }));
        };
        match (lasting, wanted.among(Kinds::LASTING)) {
            (Kinds::NONE, _) => {
                for (kinds, watcher_type) in [
                    (Kinds::ABOUT_DATA, WatcherType::DATA),
                    (Kinds::CHILD, WatcherType::CHILDREN),
                ] {
                    if unwanted.has(kinds) && !wanted.has(kinds) {
                        remove(kinds, watcher_type);
                    }
                }
            }
            (_, Kinds::NONE) => {
                // The server reports what happens in between when it sets the others.
                remove(Kinds::ALL, WatcherType::ANY);
                for kind in wanted.each() {
                    self.is_set(kind);
                    requests.push(batches::one(since, kind, path.to_owned()));
                }
            }
            (_, Kinds::RECURSIVE) if unwanted.has(Kinds::PERSISTENT) => {
                remove(Kinds::PERSISTENT, WatcherType::PERSISTENT);
            }
            (_, Kinds::PERSISTENT) if unwanted.has(Kinds::RECURSIVE) => {
                remove(Kinds::RECURSIVE, WatcherType::PERSISTENT_RECURSIVE);
                self.is_set(Kinds::PERSISTENT);
                let replacement = batches::one(since, Kinds::PERSISTENT, path.to_owned());
                requests.insert(0, replacement);
            }
            (Kinds::RECURSIVE, _) if unwanted.has(Kinds::CHILD) => {
                remove(Kinds::CHILD, WatcherType::CHILDREN);
            }
            _ => {}
        }
        requests
    }
}
