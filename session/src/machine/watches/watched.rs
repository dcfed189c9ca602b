//! One path: who listens, which requests are pending, what the server has. And what the
//! server is asked to remove when that no longer fits.
//!
//! Not here: all paths of a session, and who hears of an event (`table`).

use lockkeeper_proto::{Request, WatcherType, records::RemoveWatchesRequest};

use super::{Ask, Tell};
use crate::machine::kinds::{Kinds, WatchId};

/// Everything about one path.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// What the path may have: see [`Kinds::class`]. Nothing while the path is new.
    class: Kinds,
    /// Who listens to which kind: mostly one or two. Those of one kind are in their order.
    listeners: Vec<(Kinds, WatchId)>,
    /// How many requests that will leave a watch are pending. While there are some, no watch is
    /// removed from the server: they may need it.
    pending: u32,
    /// What the server has for this connection, or will have when it has processed what was sent.
    set: Kinds,
}

impl Watched {
    /// Lets the path have this class. Returns the class that it had, if it had another.
    pub(super) fn claim(&mut self, class: Kinds) -> Option<Kinds> {
        let had = std::mem::replace(&mut self.class, class);
        (had != class && had != Kinds::NONE).then_some(had)
    }

    /// What the path may have.
    pub(super) fn class(&self) -> Kinds {
        self.class
    }

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

    /// Takes out the listeners to these kinds, kind by kind.
    pub(super) fn take(&mut self, kinds: Kinds) -> Vec<WatchId> {
        let mut taken = Vec::new();
        for kind in kinds.among(self.wanted()).each() {
            self.listeners.retain(|(of, id)| {
                let is_taken = *of == kind;
                if is_taken {
                    taken.push(*id);
                }
                !is_taken
            });
        }
        taken
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

    /// Whether nobody listens, and no request is pending.
    pub(super) fn is_empty(&self) -> bool {
        self.pending == 0 && self.listeners.is_empty()
    }

    /// Marks that the server has this kind, or will have it when it has processed what was sent.
    pub(super) fn mark_set(&mut self, kind: Kinds) {
        self.set = self.set.and(kind);
    }

    /// Marks that the server has these no more.
    pub(super) fn mark_unset(&mut self, kinds: Kinds) {
        self.set = self.set.without(kinds);
    }

    /// The connection is gone, and the server's watches with it.
    pub(super) fn disconnected(&mut self) {
        self.set = Kinds::NONE;
    }

    /// Removes the watches of the server that nobody wants. None while a request is pending that
    /// leaves a watch: this is called again when that request is answered.
    pub(super) fn tidy(&mut self, path: &str, out: &mut dyn Tell) {
        let wanted = self.wanted();
        for (kinds, watcher_type) in REMOVALS {
            if self.pending == 0 && self.set.has(kinds) && !wanted.has(kinds) {
                self.mark_unset(kinds);
                remove(path, watcher_type, out);
            }
        }
    }
}

/// How each kind is removed. Servers before 3.9 do not know the types of persistent watches.
const REMOVALS: [(Kinds, WatcherType); 3] = [
    (Kinds::ANY_PERSISTENT, WatcherType::ANY),
    (Kinds::ABOUT_DATA, WatcherType::DATA),
    (Kinds::CHILD, WatcherType::CHILDREN),
];

/// Removes the watches of this type. A server that does not know the request has no such watches.
pub(super) fn remove(path: &str, watcher_type: WatcherType, out: &mut dyn Tell) {
    let path = path.to_owned();
    let request = RemoveWatchesRequest { path, watcher_type };
    let _ = out.send(Request::RemoveWatches(request).into(), Ask::Remove);
}
