//! Reads from an older state, as a follower that lags behind its leader answers them.
//!
//! While the reads of a server are frozen, a connection that was there, or that resumes a session, reads the tree as it
//! was, with the zxid of then, and hears of no change. As soon as its session writes or syncs, it has everything up to
//! then, as a follower has before it answers: the notifications that it missed come first. A new session starts up to
//! date, since its start is itself a transaction. A client that has seen a later zxid than the frozen one is closed, as a
//! follower does it; where there is but one server ([`Engine::freeze_reads`]), it is taken as if it had found one that is
//! up to date.
//!
//! Where clients are connected to followers (`followers`), a frozen server learns of nothing until it is thawed.

use lockkeeper_proto::Zxid;

use super::{
    ConnId, Engine, ServerId, changes::Change, connection::Phase, hash::Seeded, view::View,
    watches::Watches,
};

/// The state that lagging connections see.
#[derive(Debug)]
pub(crate) struct Frozen {
    /// The tree of then, and the watches that were set on it.
    pub(crate) view: View,
    /// Everything since.
    pub(crate) log: Vec<(Zxid, Change)>,
    /// Whether a client that has seen more is closed.
    strict: bool,
}

impl Engine {
    /// From now on, connections read the present state, whatever changes, until they write, sync or [`thaw`](Self::thaw).
    pub fn freeze_reads(&mut self) {
        self.freeze(ServerId::FIRST, false);
    }

    /// As [`freeze_reads`](Self::freeze_reads), for the connections to one server of several, which closes those who have
    /// seen more.
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

    /// Brings every connection up to date; notifications that were held back come now.
    pub fn thaw(&mut self) {
        let servers: Vec<ServerId> = self.frozen.keys().copied().collect();
        for server in servers {
            self.thaw_server(server);
        }
    }

    /// As [`thaw`](Self::thaw), for the connections to one server.
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

    /// Whether a connection of a client that has seen this transaction is taken, and if so, whether it lags.
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

    /// What a connection sees.
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
