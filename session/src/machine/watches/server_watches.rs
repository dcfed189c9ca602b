//! Which lasting watches the server has for this connection, and what they make needless.
//!
//! Servers before 3.9 keep one kind of watch for a path and connection: the last one that was asked for. A one-shot watch
//! beside a lasting one would end that with its event. So a read on a node that is watched lastingly leaves none: its
//! listener hears of the event through the lasting watch. Where both lasting kinds are wanted, the recursive one is asked
//! for last, and who listens to the other one hears of children through it.
//!
//! Not here: who listens, and what takes them away again (`path_watches`).

use crate::machine::watches::kind::PersistentKind;

/// The lasting watches that the server has on a path, or will have when it comes to what was sent.
#[derive(Debug, Default)]
pub(crate) struct ServerWatches {
    persistent: ServerWatch,
    recursive: ServerWatch,
    /// Whether there was a recursive one on this connection.
    was_recursive: bool,
}

#[derive(Debug, Default)]
struct ServerWatch {
    /// `addWatch` on their way.
    asked: u32,
    /// Whether one was answered with success.
    stands: bool,
}

impl ServerWatches {
    fn watch(&mut self, persistent: PersistentKind) -> &mut ServerWatch {
        match persistent {
            PersistentKind::Persistent => &mut self.persistent,
            PersistentKind::Recursive => &mut self.recursive,
        }
    }

    pub(crate) fn has(&self, persistent: PersistentKind) -> bool {
        let watch = match persistent {
            PersistentKind::Persistent => &self.persistent,
            PersistentKind::Recursive => &self.recursive,
        };
        watch.stands || watch.asked > 0
    }

    /// Whether what happens to the node itself is told anyhow.
    pub(crate) fn covers_data(&self) -> bool {
        self.has(PersistentKind::Persistent) || self.has(PersistentKind::Recursive)
    }

    /// Whether what happens to the list of children is told anyhow, by servers of any release.
    pub(crate) fn covers_children(&self) -> bool {
        self.has(PersistentKind::Persistent) && !self.has(PersistentKind::Recursive)
    }

    /// Whether the server may tell of children that come and go in place of telling that the list has changed: as long as
    /// it has a recursive watch here, and until it has come to the request that replaces it.
    pub(crate) fn may_tell_of_children(&self) -> bool {
        self.was_recursive
    }

    /// An `addWatch` is being sent.
    pub(crate) fn asks(&mut self, persistent: PersistentKind) {
        self.was_recursive |= persistent == PersistentKind::Recursive;
        self.watch(persistent).asked += 1;
    }

    /// It is answered, or never will be.
    pub(crate) fn answered(&mut self, persistent: PersistentKind, stands: bool) {
        let watch = self.watch(persistent);
        watch.asked = watch.asked.saturating_sub(1);
        watch.stands |= stands;
    }

    /// The watch is left without an `addWatch`.
    pub(crate) fn stands(&mut self, persistent: PersistentKind) {
        self.was_recursive |= persistent == PersistentKind::Recursive;
        self.watch(persistent).stands = true;
    }

    /// The watch is being removed.
    pub(crate) fn forget(&mut self, persistent: PersistentKind) {
        *self.watch(persistent) = ServerWatch::default();
    }
}
