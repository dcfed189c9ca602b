//! What the servers know: the state of the leader, and how the states of the others differ from it.
//!
//! Not here: sessions, and what connections have asked for.

use lockkeeper_proto::Zxid;

use super::{
    basics::{Config, ConnId, ServerId},
    changes::Change,
    connections::Connections,
    ensemble::Ensemble,
    hash::Seeded,
    tree::Tree,
    view::View,
};

/// The states of all servers.
#[derive(Debug)]
pub(super) struct State {
    /// The state of the leader, or of the only server.
    pub(super) live: View,
    /// What the only server shows while its reads are frozen.
    pub(super) frozen: Option<Frozen>,
    /// The members of an ensemble: each has a state of its own, and learns transactions from a
    /// leader.
    pub(super) ensemble: Ensemble,
}

/// What lagging connections see.
#[derive(Debug)]
pub(super) struct Frozen {
    /// The old tree, and the watches that were set on it.
    pub(super) view: View,
    /// All changes since then.
    pub(super) log: Vec<(Zxid, Change)>,
}

impl State {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            live: View::new(Tree::new(Seeded(config.seed)), config.first_zxid),
            frozen: None,
            ensemble: Ensemble::default(),
        }
    }

    /// Takes the next transaction id.
    pub(super) fn next_zxid(&mut self) -> Zxid {
        self.live.zxid = Zxid(self.live.zxid.0.saturating_add(1));
        self.live.zxid
    }

    /// The state that a connection sees.
    pub(super) fn view_of(&mut self, id: ConnId, connections: &Connections) -> &mut View {
        let connection = connections.get(id);
        let own = connection.and_then(|own| self.ensemble.members.get_mut(&own.server));
        let is_lagging = connection.is_some_and(|own| own.lagging);
        match (own, &mut self.frozen) {
            (Some(own), _) => &mut own.view,
            (None, Some(frozen)) if is_lagging => &mut frozen.view,
            _ => &mut self.live,
        }
    }

    /// All states, the live one last.
    pub(super) fn views(&self) -> impl Iterator<Item = &View> {
        let own = self.ensemble.members.values().map(|member| &member.view);
        let frozen = self.frozen.iter().map(|frozen| &frozen.view);
        frozen.chain(own).chain([&self.live])
    }

    /// The state of a server.
    pub(super) fn view_at(&self, server: ServerId) -> &View {
        let member = self.ensemble.members.get(&server);
        member.map_or(&self.live, |member| &member.view)
    }

    pub(super) fn views_mut(&mut self) -> impl Iterator<Item = &mut View> {
        let members = self.ensemble.members.values_mut();
        let own = members.map(|member| &mut member.view);
        let frozen = self.frozen.iter_mut().map(|frozen| &mut frozen.view);
        frozen.chain(own).chain([&mut self.live])
    }
}
