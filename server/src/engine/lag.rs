//! Reads from an older state, as a follower that lags behind its leader answers them.
//!
//! A test can freeze the reads of a server. Then each connection that is open, or that resumes a session, reads the old
//! tree with the old zxid, and gets no events. When its session writes or syncs, the connection catches up, as a follower
//! does before it answers. It gets the events that it missed first, and then the reply.
//!
//! A new session does not lag, because its start is a transaction itself. A client that has seen a later zxid than the
//! frozen one is refused, as a follower does. With only one server ([`Engine::freeze_reads`]) the client is accepted
//! instead, as if it had found another server that is up to date.
//!
//! If clients are connected to followers (`followers`), a frozen follower gets no transaction until it is thawed. It answers
//! no write until then, where a connection here catches up by itself. So neither can stand for the other.
//!
//! Not here: when a request makes its connection catch up (`requests`).

use lockkeeper_proto::Zxid;

use super::{
    ConnId, Engine, ServerId, changes::Change, connection::Phase, hash::Seeded, view::View,
    watches::Watches,
};

/// The state that lagging connections see.
#[derive(Debug)]
pub(crate) struct Frozen {
    /// The old tree, and the watches that were set on it.
    pub(crate) view: View,
    /// All changes since then.
    pub(crate) log: Vec<(Zxid, Change)>,
    /// Whether a client that has seen a later zxid is refused.
    strict: bool,
}

impl Engine {
    /// Freezes the present state: connections go on reading it, despite later changes, until [`thaw`](Self::thaw).
    ///
    /// It ends earlier for a connection that writes or syncs.
    pub fn freeze_reads(&mut self) {
        match &mut self.followers {
            Some(followers) => followers.set_all_held(true),
            None => self.freeze(ServerId::FIRST, false),
        }
    }

    /// Like [`freeze_reads`](Self::freeze_reads), for the connections of one server of an ensemble. The server refuses
    /// clients that have seen a later zxid.
    pub fn freeze_server(&mut self, server: ServerId) {
        self.freeze(server, true);
    }

    fn freeze(&mut self, server: ServerId, strict: bool) {
        if let Some(followers) = &mut self.followers {
            return followers.set_held(server, true);
        }
        self.thaw_server(server);
        let mut watches = Watches::new(Seeded(self.config.seed));
        for (id, connection) in &mut self.connections {
            if connection.server == server {
                connection.lagging = matches!(connection.phase, Phase::Open(_));
                for (path, modes) in self.live.watches.take_all(*id) {
                    watches.add(*id, &path, modes);
                }
            }
        }
        let view = View {
            tree: self.live.tree.clone(),
            watches,
            zxid: self.live.zxid,
        };
        let frozen = Frozen {
            view,
            log: Vec::new(),
            strict,
        };
        self.frozen.insert(server, frozen);
    }

    /// Brings every connection up to date and sends the events that were held back.
    pub fn thaw(&mut self) {
        if let Some(followers) = &mut self.followers {
            followers.set_all_held(false);
        }
        let servers: Vec<ServerId> = self.frozen.keys().copied().collect();
        for server in servers {
            self.thaw_server(server);
        }
    }

    /// Like [`thaw`](Self::thaw), for the connections of one server.
    pub fn thaw_server(&mut self, server: ServerId) {
        if let Some(followers) = &mut self.followers {
            return followers.set_held(server, false);
        }
        let lagging: Vec<ConnId> = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.lagging && connection.server == server)
            .map(|(id, _)| *id)
            .collect();
        for id in lagging {
            self.catch_up(id);
        }
        self.frozen.remove(&server);
    }

    /// Whether a client that has seen the transaction `seen` lags on this server; `None` if the server refuses it.
    pub(super) fn lags(&self, server: ServerId, seen: Zxid) -> Option<bool> {
        if let Some(followers) = &self.followers {
            let view = followers.view(server)?;
            return (seen <= view.zxid).then_some(false);
        }
        match self.frozen.get(&server) {
            Some(frozen) if seen <= frozen.view.zxid => Some(true),
            Some(frozen) if frozen.strict => None,
            _ => Some(false),
        }
    }

    /// Brings one connection up to date.
    pub(super) fn catch_up(&mut self, id: ConnId) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if !std::mem::take(&mut connection.lagging) {
            return;
        }
        let Some(frozen) = self.frozen.get_mut(&connection.server) else {
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

    /// The state that a connection sees.
    pub(super) fn view_of(&mut self, id: ConnId) -> &mut View {
        let server = self.server_of(id);
        if let Some(view) = self.followers.as_mut().and_then(|it| it.view_mut(server)) {
            return view;
        }
        let lagging = self.connections.get(&id).filter(|own| own.lagging);
        match lagging.and_then(|own| self.frozen.get_mut(&own.server)) {
            Some(frozen) => &mut frozen.view,
            None => &mut self.live,
        }
    }
}
