//! Which lasting watches the server has for this connection, and what they make needless.
//!
//! Servers before 3.9 keep one kind of watch for a path and connection: the last one that was asked for. A one-shot watch
//! beside a lasting one would end that with its event. So a read on a node that is watched lastingly leaves none: its
//! listener hears of the event through the lasting watch. Where both lasting kinds are wanted, the recursive one is asked
//! for last, and who listens to the other one hears of children through it.
//!
//! Not here: who listens, and what takes them away again (`path_watches`).

use super::watch::Lasting;

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

    /// The watch is being removed.
    pub(super) fn forget(&mut self, lasting: Lasting) {
        *self.hold(lasting) = Hold::default();
    }
}
