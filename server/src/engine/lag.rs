//! Reads from an older state, as a follower that lags behind its leader answers them.
//!
//! A test can freeze the reads of a server. Then each connection that is open, or that resumes a
//! session, reads the old tree with the old zxid, and gets no events. When its session writes or
//! syncs, the connection catches up, as a follower does before it answers. It gets the events that
//! it missed first, and then the reply.
//!
//! A new session does not lag, because its start is a transaction itself. A client that has seen a
//! later zxid than the frozen one is refused, as a follower does. With only one server
//! ([`Engine::freeze_reads`](super::Engine::freeze_reads)) the client is accepted instead, as if it
//! had found another server that is up to date.
//!
//! A server without a majority is frozen, too. It accepts only clients that say that they know
//! read-only servers, and gives them sessions that no other server knows. Its clients can read and
//! watch; nothing changes there.
//!
//! Not here: when a request makes its connection catch up, and what a read-only server refuses
//! (`requests`, `handshake`).
//!
//! Source: `ReadOnlyZooKeeperServer`, `ReadOnlyRequestProcessor`.

use std::collections::{BTreeMap, BTreeSet};

use lockkeeper_proto::Zxid;

use super::{
    basics::{ConnId, ServerId},
    changes::Change,
    connection::Phase,
    connections::Connections,
    view::View,
};

/// The servers whose reads are frozen.
#[derive(Debug, Default)]
pub(super) struct Lag {
    frozen: BTreeMap<ServerId, Frozen>,
    /// The servers that have no majority.
    alone: BTreeSet<ServerId>,
}

/// The state that lagging connections see.
#[derive(Debug)]
struct Frozen {
    /// The old tree, and the watches that were set on it.
    view: View,
    /// All changes since then.
    log: Vec<(Zxid, Change)>,
    /// Whether a client that has seen a later zxid is refused.
    strict: bool,
}

impl Lag {
    pub(super) fn views(&self) -> impl Iterator<Item = &View> {
        self.frozen.values().map(|frozen| &frozen.view)
    }

    pub(super) fn views_mut(&mut self) -> impl Iterator<Item = &mut View> {
        self.frozen.values_mut().map(|frozen| &mut frozen.view)
    }

    /// The state that a lagging connection to this server sees.
    pub(super) fn view_mut(&mut self, server: ServerId) -> Option<&mut View> {
        let frozen = self.frozen.get_mut(&server)?;
        Some(&mut frozen.view)
    }

    pub(super) fn is_alone(&self, server: ServerId) -> bool {
        self.alone.contains(&server)
    }

    pub(super) fn set_alone(&mut self, server: ServerId) {
        self.alone.insert(server);
    }

    /// A server fails. Its connections are cut already.
    pub(super) fn fail(&mut self, server: ServerId) {
        self.frozen.remove(&server);
        self.alone.remove(&server);
    }

    /// Freezes the state that the connections of a server see.
    pub(super) fn freeze(
        &mut self,
        server: ServerId,
        strict: bool,
        live: &mut View,
        connections: &mut Connections,
    ) {
        self.thaw(Some(server), live, connections);
        let mut view = live.copy();
        for id in connections.which(|own| own.server == server) {
            if let Some(connection) = connections.get_mut(id) {
                connection.lagging = matches!(connection.phase, Phase::Open(_));
            }
            live.watches.hand_over(id, Some(&mut view.watches));
        }
        let log = Vec::new();
        self.frozen.insert(server, Frozen { view, log, strict });
    }

    /// Brings the connections of a server, or of all, up to date.
    pub(super) fn thaw(
        &mut self,
        server: Option<ServerId>,
        live: &mut View,
        connections: &mut Connections,
    ) {
        let is_meant = |id: ServerId| server.is_none_or(|server| server == id);
        for id in connections.which(|own| own.lagging && is_meant(own.server)) {
            self.catch_up(id, live, connections);
        }
        self.frozen.retain(|id, _| !is_meant(*id));
    }

    /// Brings one connection up to date.
    pub(super) fn catch_up(&mut self, id: ConnId, live: &mut View, connections: &mut Connections) {
        let Some(connection) = connections.get_mut(id) else {
            return;
        };
        if !std::mem::take(&mut connection.lagging) {
            return;
        }
        if let Some(frozen) = self.frozen.get_mut(&connection.server) {
            for (zxid, change) in &frozen.log {
                for event in change.trigger(&mut frozen.view.watches, Some(id)) {
                    connections.deliver(*zxid, &event);
                }
            }
            frozen.view.watches.hand_over(id, Some(&mut live.watches));
        }
    }

    /// Something has changed that frozen states do not show.
    pub(super) fn note(&mut self, zxid: Zxid, changes: &[Change]) {
        for frozen in self.frozen.values_mut() {
            let changes = changes.iter().map(|change| (zxid, change.clone()));
            frozen.log.extend(changes);
        }
    }

    /// Whether a client that has seen the transaction `seen` lags on this server; `None` if the
    /// server refuses it.
    pub(super) fn lags(&self, server: ServerId, seen: Zxid) -> Option<bool> {
        match self.frozen.get(&server) {
            Some(frozen) if seen <= frozen.view.zxid => Some(true),
            Some(frozen) if frozen.strict => None,
            _ => Some(false),
        }
    }
}
