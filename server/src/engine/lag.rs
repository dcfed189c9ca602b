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
    basics::ConnId, changes::Change, connection::Phase, connections::Connections, view::View,
};

/// The state that lagging connections see, while reads are frozen.
#[derive(Debug, Default)]
pub(super) struct Lag(Option<Frozen>);

#[derive(Debug)]
struct Frozen {
    /// The old tree, and the watches that were set on it.
    view: View,
    /// All changes since then.
    log: Vec<(Zxid, Change)>,
}

impl Lag {
    pub(super) fn view(&self) -> Option<&View> {
        self.0.as_ref().map(|frozen| &frozen.view)
    }

    pub(super) fn view_mut(&mut self) -> Option<&mut View> {
        self.0.as_mut().map(|frozen| &mut frozen.view)
    }

    /// Freezes the state that connections see.
    pub(super) fn freeze(&mut self, live: &mut View, connections: &mut Connections) {
        self.thaw(live, connections);
        let mut view = live.copy();
        for id in connections.which(|_| true) {
            if let Some(connection) = connections.get_mut(id) {
                connection.lagging = matches!(connection.phase, Phase::Open(_));
            }
            live.watches.hand_over(id, Some(&mut view.watches));
        }
        let log = Vec::new();
        self.0 = Some(Frozen { view, log });
    }

    /// Brings all connections up to date.
    pub(super) fn thaw(&mut self, live: &mut View, connections: &mut Connections) {
        for id in connections.which(|own| own.lagging) {
            self.catch_up(id, live, connections);
        }
        self.0 = None;
    }

    /// Brings one connection up to date.
    pub(super) fn catch_up(&mut self, id: ConnId, live: &mut View, connections: &mut Connections) {
        let Some(connection) = connections.get_mut(id) else {
            return;
        };
        if !std::mem::take(&mut connection.lagging) {
            return;
        }
        if let Some(frozen) = &mut self.0 {
            for (zxid, change) in &frozen.log {
                for event in change.trigger(&mut frozen.view.watches, Some(id)) {
                    connections.deliver(*zxid, &event);
                }
            }
            frozen.view.watches.hand_over(id, Some(&mut live.watches));
        }
    }

    /// Something has changed that the frozen state does not show.
    pub(super) fn note(&mut self, zxid: Zxid, changes: &[Change]) {
        if let Some(frozen) = &mut self.0 {
            let changes = changes.iter().map(|change| (zxid, change.clone()));
            frozen.log.extend(changes);
        }
    }

    /// Whether a client that has seen the transaction `seen` lags.
    pub(super) fn lags(&self, seen: Zxid) -> bool {
        self.view().is_some_and(|view| seen <= view.zxid)
    }
}
