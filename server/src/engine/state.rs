//! What the servers know: the state of the leader, and how the states of the others differ from it.
//!
//! Not here: sessions, and what connections have asked for.

use lockkeeper_proto::Zxid;

use super::{
    basics::{Config, ServerId},
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
    /// The members of an ensemble: each has a state of its own, and learns transactions from a
    /// leader.
    pub(super) ensemble: Ensemble,
}

impl State {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            live: View::new(Tree::new(Seeded(config.seed)), config.first_zxid),
            ensemble: Ensemble::default(),
        }
    }

    /// Takes the next transaction id.
    pub(super) fn next_zxid(&mut self) {
        self.live.zxid = Zxid(self.live.zxid.0.saturating_add(1));
    }

    /// All states, the live one last.
    pub(super) fn views(&self) -> impl Iterator<Item = &View> {
        let own = self.ensemble.members.values().map(|member| &member.view);
        own.chain([&self.live])
    }

    /// The state of a server.
    pub(super) fn view_at(&self, server: ServerId) -> &View {
        let member = self.ensemble.members.get(&server);
        member.map_or(&self.live, |member| &member.view)
    }

    /// Like [`view_at`](Self::view_at), mutable.
    pub(super) fn view_at_mut(&mut self, server: ServerId) -> &mut View {
        let member = self.ensemble.members.get_mut(&server);
        member.map_or(&mut self.live, |member| &mut member.view)
    }

    pub(super) fn views_mut(&mut self) -> impl Iterator<Item = &mut View> {
        let members = self.ensemble.members.values_mut();
        let own = members.map(|member| &mut member.view);
        own.chain([&mut self.live])
    }
}
