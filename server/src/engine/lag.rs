//! Reads from an older state, as a follower that lags behind its leader answers them.
//!
//! A test can freeze the reads of a server. Then each connection that is open, or that resumes a
//! session, reads the old tree with the old zxid, and gets no events. When its session writes or
//! syncs, the connection catches up, as a follower does before it answers. It gets the events that
//! it missed first, and then the reply.
//!
//! A new session does not lag, because its start is a transaction itself. A client that has seen a
//! later zxid than the frozen one is refused, as a follower does. With only one server
//! ([`Engine::freeze`](super::Engine::freeze) without a server) the client is accepted instead, as if it
//! had found another server that is up to date.
//!
//! Not here: when a request makes its connection catch up (`requests`, `handshake`).

use std::collections::BTreeMap;

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
pub(super) struct Lag(BTreeMap<ServerId, Frozen>);

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
        self.0.values().map(|frozen| &frozen.view)
    }

    pub(super) fn views_mut(&mut self) -> impl Iterator<Item = &mut View> {
        self.0.values_mut().map(|frozen| &mut frozen.view)
    }

    /// The state that a lagging connection to this server sees.
    pub(super) fn view_mut(&mut self, server: ServerId) -> Option<&mut View> {
        Some(&mut self.0.get_mut(&server)?.view)
    }

    /// A server fails. Its connections are cut already.
    pub(super) fn fail(&mut self, server: ServerId) {
        self.0.remove(&server);
    }

    /// Freezes the state that the connections of a server see. If it is the only server, its clients
    /// may have seen more.
    pub(super) fn freeze(
        &mut self,
        server: Option<ServerId>,
        live: &mut View,
        connections: &mut Connections,
    ) {
        let strict = server.is_some();
        let server = server.unwrap_or(ServerId::FIRST);
        self.thaw(Some(server), live, connections);
        let mut view = live.copy();
        for id in connections.which(|own| own.server == server) {
            if let Some(connection) = connections.get_mut(id) {
                connection.lagging = matches!(connection.phase, Phase::Open(_));
            }
            live.watches.hand_over(id, Some(&mut view.watches));
        }
        let log = Vec::new();
        self.0.insert(server, Frozen { view, log, strict });
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
        self.0.retain(|id, _| !is_meant(*id));
    }

    /// Brings one connection up to date.
    pub(super) fn catch_up(&mut self, id: ConnId, live: &mut View, connections: &mut Connections) {
        let Some(connection) = connections.get_mut(id) else {
            return;
        };
        if !std::mem::take(&mut connection.lagging) {
            return;
        }
        if let Some(frozen) = self.0.get_mut(&connection.server) {
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
        for frozen in self.0.values_mut() {
            let changes = changes.iter().map(|change| (zxid, change.clone()));
            frozen.log.extend(changes);
        }
    }

    /// Whether a client that has seen the transaction `seen` lags on this server; `None` if the
    /// server refuses it.
    pub(super) fn lags(&self, server: ServerId, seen: Zxid) -> Option<bool> {
        match self.0.get(&server) {
            Some(frozen) if seen <= frozen.view.zxid => Some(true),
            Some(frozen) if frozen.strict => None,
            _ => Some(false),
        }
    }
}
