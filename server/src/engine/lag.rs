//! Reads from an older state, as a follower that lags behind its leader answers them.
//!
//! While reads are frozen, a connection that was there, or that resumes a session, reads the tree as it was, with the
//! zxid of then, and hears of no change. As soon as its session writes or syncs, it has everything up to then, as a
//! follower has before it answers: the notifications that it missed come first. A new session starts up to date, since
//! its start is itself a transaction. A client that has seen a later zxid than the frozen one is taken as if it had
//! found a follower that is up to date.

use lockkeeper_proto::Zxid;

use super::{
    ConnId, Engine, changes::Change, connection::Phase, hash::Seeded, view::View, watches::Watches,
};

/// The state that lagging connections see.
#[derive(Debug)]
pub(crate) struct Frozen {
    /// The tree of then, and the watches that were set on it.
    pub(crate) view: View,
    /// Everything since.
    pub(crate) log: Vec<(Zxid, Change)>,
}

impl Engine {
    /// From now on, connections read the present state, whatever changes, until they write, sync or [`thaw`](Self::thaw).
    pub fn freeze_reads(&mut self) {
        self.thaw();
        let none = Watches::new(Seeded(self.config.seed));
        self.frozen = Some(Frozen {
            view: View {
                tree: self.live.tree.clone(),
                watches: std::mem::replace(&mut self.live.watches, none),
                zxid: self.live.zxid,
            },
            log: Vec::new(),
        });
        for connection in self.connections.values_mut() {
            connection.lagging = matches!(connection.phase, Phase::Open(_));
        }
    }

    /// Brings every connection up to date; notifications that were held back come now.
    pub fn thaw(&mut self) {
        let lagging: Vec<ConnId> = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.lagging)
            .map(|(id, _)| *id)
            .collect();
        for id in lagging {
            self.catch_up(id);
        }
        self.frozen = None;
    }

    /// Brings one connection up to date.
    pub(super) fn catch_up(&mut self, id: ConnId) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if !std::mem::take(&mut connection.lagging) {
            return;
        }
        let Some(frozen) = &mut self.frozen else {
            return;
        };
        for (zxid, change) in &frozen.log {
            for event in change.trigger(&mut frozen.view.watches, Some(id)) {
                self.counters.deliver(connection, *zxid, &event);
            }
        }
        for (path, modes) in frozen.view.watches.take_all(id) {
            self.live.watches.add(id, &path, modes);
        }
        self.dirty.insert(id);
    }

    /// What a connection sees.
    pub(super) fn view_of(&mut self, id: ConnId) -> &mut View {
        let lagging = self.connections.get(&id).is_some_and(|own| own.lagging);
        match &mut self.frozen {
            Some(frozen) if lagging => &mut frozen.view,
            _ => &mut self.live,
        }
    }
}
