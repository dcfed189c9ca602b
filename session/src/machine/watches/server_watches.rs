//! The persistent watches that the server has on a path for this connection, and the watches that
//! they replace.
//!
//! Servers before 3.9 keep one kind of watch for a path and connection: the last one that was
//! requested. A one-shot watch beside a persistent one would end the persistent one with its event.
//! So a read on a node with a persistent watch leaves no watch, and its listener gets the event of
//! the persistent watch. If both persistent kinds are wanted, the recursive one is requested last,
//! and listeners to the other one hear of children through it.
//!
//! Not here: who listens, and what removes the watches (`path_watches`).

use crate::machine::watches::kind::PersistentKind;

/// The persistent watches that the server has on a path, or will have when it has processed what
/// was sent. `None`, as for most paths, if there was none on this connection.
#[derive(Debug, Default)]
pub(crate) struct ServerWatches(Option<Box<OfPath>>);

#[derive(Debug, Default)]
struct OfPath {
    persistent: ServerWatch,
    recursive: ServerWatch,
    /// Whether the path had a recursive watch at any time on this connection.
    was_recursive: bool,
}

#[derive(Debug, Default)]
struct ServerWatch {
    /// `addWatch` requests that are not answered.
    asked: u32,
    /// Whether one has succeeded.
    stands: bool,
}

impl ServerWatches {
    fn watch(&mut self, persistent: PersistentKind) -> &mut ServerWatch {
        let of_path = self.0.get_or_insert_default();
        match persistent {
            PersistentKind::Persistent => &mut of_path.persistent,
            PersistentKind::Recursive => &mut of_path.recursive,
        }
    }

    pub(crate) fn has(&self, persistent: PersistentKind) -> bool {
        self.0.as_ref().is_some_and(|of_path| {
            let watch = match persistent {
                PersistentKind::Persistent => &of_path.persistent,
                PersistentKind::Recursive => &of_path.recursive,
            };
            watch.stands || watch.asked > 0
        })
    }

    /// Whether a persistent watch reports what happens to the node itself.
    pub(crate) fn covers_data(&self) -> bool {
        self.has(PersistentKind::Persistent) || self.has(PersistentKind::Recursive)
    }

    /// Whether a persistent watch reports changes of the list of children, on servers of any
    /// release.
    pub(crate) fn covers_children(&self) -> bool {
        self.has(PersistentKind::Persistent) && !self.has(PersistentKind::Recursive)
    }

    /// Whether the server may report single children instead of a change of the list. It does so
    /// while it has a recursive watch here, and until it has processed the request that replaces
    /// this watch.
    pub(crate) fn may_tell_of_children(&self) -> bool {
        let of_path = self.0.as_ref();
        of_path.is_some_and(|of_path| of_path.was_recursive)
    }

    fn note(&mut self, persistent: PersistentKind) {
        self.0.get_or_insert_default().was_recursive |= persistent == PersistentKind::Recursive;
    }

    /// An `addWatch` is being sent.
    pub(crate) fn asks(&mut self, persistent: PersistentKind) {
        self.note(persistent);
        self.watch(persistent).asked += 1;
    }

    /// An `addWatch` is answered, or never will be.
    pub(crate) fn answered(&mut self, persistent: PersistentKind, stands: bool) {
        let watch = self.watch(persistent);
        watch.asked = watch.asked.saturating_sub(1);
        watch.stands |= stands;
    }

    /// The watch is set without an `addWatch`.
    pub(crate) fn stands(&mut self, persistent: PersistentKind) {
        self.note(persistent);
        self.watch(persistent).stands = true;
    }

    /// The watch is being removed.
    pub(crate) fn forget(&mut self, persistent: PersistentKind) {
        *self.watch(persistent) = ServerWatch::default();
    }
}
