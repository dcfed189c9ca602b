//! Reads of the only server from an older state.
//!
//! A test can freeze the reads of a server. Then each connection that is open, or that resumes a
//! session, reads the old tree with the old zxid, and gets no events. When its session writes or
//! syncs, the connection catches up, as a follower does before it answers. It gets the events that
//! it missed first, and then the reply.
//!
//! A new session does not lag, because its start is a transaction itself. Nor does a client that has
//! seen a later zxid than the frozen one, as if it had found another server that is up to date.
//!
//! Not here: when a request makes its connection catch up (`requests`, `handshake`); members of an
//! ensemble, which lag by themselves (`member`).

use lockkeeper_proto::Zxid;

use super::{
    basics::ConnId,
    changes::Change,
    connection::Phase,
    connections::Connections,
    state::{Frozen, State},
};

impl State {
    /// Freezes the state that connections see.
    pub(super) fn freeze(&mut self, connections: &mut Connections) {
        self.thaw(connections);
        let mut view = self.live.copy();
        for id in connections.which(|_| true) {
            if let Some(connection) = connections.get_mut(id) {
                connection.lagging = matches!(connection.phase, Phase::Open(_));
            }
            let watches = &mut self.live.watches;
            watches.hand_over(id, Some(&mut view.watches));
        }
        let log = Vec::new();
        self.frozen = Some(Frozen { view, log });
    }

    /// Brings all connections up to date.
    pub(super) fn thaw(&mut self, connections: &mut Connections) {
        for id in connections.which(|own| own.lagging) {
            self.catch_up(id, connections);
        }
        self.frozen = None;
    }

    /// Brings one connection up to date.
    pub(super) fn catch_up(&mut self, id: ConnId, connections: &mut Connections) {
        let Some(connection) = connections.get_mut(id) else {
            return;
        };
        if !std::mem::take(&mut connection.lagging) {
            return;
        }
        if let Some(Frozen { view, log }) = &mut self.frozen {
            for (zxid, change) in log {
                for event in change.trigger(&mut view.watches, Some(id)) {
                    connections.deliver(*zxid, &event);
                }
            }
            let watches = &mut self.live.watches;
            view.watches.hand_over(id, Some(watches));
        }
    }

    /// Something has changed that the frozen state does not show.
    pub(super) fn note(&mut self, zxid: Zxid, changes: &[Change]) {
        if let Some(frozen) = &mut self.frozen {
            let changes = changes.iter().map(|change| (zxid, change.clone()));
            frozen.log.extend(changes);
        }
    }

    /// Whether a client that has seen the transaction `seen` lags.
    pub(super) fn lags(&self, seen: Zxid) -> bool {
        let frozen = self.frozen.as_ref();
        frozen.is_some_and(|frozen| seen <= frozen.view.zxid)
    }
}
