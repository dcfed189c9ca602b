//! What the servers know: the state of the leader, and how the states of the others differ from it.
//!
//! Not here: sessions, and what connections have asked for.

use lockkeeper_proto::{ErrorCode, Response, SessionId, Xid, Zxid};

use super::{
    basics::{Config, ConnId, Now, ServerId},
    commit::{Commit, Deed},
    connections::Connections,
    ensemble::Ensemble,
    followers::{Follower, Followers},
    hash::Seeded,
    lag::Lag,
    link::Link,
    view::View,
};

/// The states of all servers.
#[derive(Debug)]
pub(super) struct State {
    /// The state of the leader, or of the only server.
    pub(super) live: View,
    /// What the only server shows while its reads are frozen.
    pub(super) lag: Lag,
    /// The members of an ensemble: each has a state of its own, and learns transactions from a
    /// leader.
    pub(super) followers: Option<Followers>,
    /// Whom they elect.
    pub(super) ensemble: Option<Ensemble>,
    knows_sasl: bool,
}

impl State {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            live: View::new(Seeded(config.seed), config.first_zxid),
            lag: Lag::default(),
            followers: None,
            ensemble: None,
            knows_sasl: config.sasl.is_some(),
        }
    }

    pub(super) fn follower_mut(&mut self, server: ServerId) -> Option<&mut Follower> {
        self.followers.as_mut()?.all.get_mut(&server)
    }

    /// Whether somebody orders writes and ends sessions: only an ensemble may have no leader.
    pub(super) fn has_leader(&self) -> bool {
        let ensemble = self.ensemble.as_ref();
        ensemble.is_none_or(|ensemble| ensemble.leader.is_some())
    }

    fn follower(&self, server: ServerId) -> Option<&Follower> {
        self.followers.as_ref()?.all.get(&server)
    }

    pub(super) fn link(&self, server: ServerId) -> Option<&Link> {
        Some(&self.follower(server)?.link)
    }

    pub(super) fn link_mut(&mut self, server: ServerId) -> Option<&mut Link> {
        Some(&mut self.follower_mut(server)?.link)
    }

    /// Whether a handshake must wait until the link of this server is mended.
    pub(super) fn awaits_leader(&self, server: ServerId, resumes: bool) -> bool {
        let link = self.link(server);
        link.is_some_and(|link| link.is_cut() && !(link.leads && resumes))
    }

    /// Takes the next transaction id.
    pub(super) fn next_zxid(&mut self) -> Zxid {
        self.live.zxid = Zxid(self.live.zxid.0.saturating_add(1));
        self.live.zxid
    }

    /// Carries out a transaction at the leader, and sends it to the followers.
    pub(super) fn transact(
        &mut self,
        asked: (SessionId, Xid),
        deed: Deed,
        now: Now,
        told: &mut Connections,
    ) -> Result<Response, ErrorCode> {
        if deed.takes_zxid(asked.0) {
            self.next_zxid();
        }
        let mut commit = Commit {
            zxid: self.live.zxid,
            unix_ms: now.unix_ms,
            asked,
            deed,
            knows_sasl: self.knows_sasl,
            reply: Err(ErrorCode::OK),
        };
        let (changes, reply) = self.live.apply(&commit, told);
        self.lag.note(commit.zxid, &changes);
        if let Some(all) = &mut self.followers {
            commit.reply.clone_from(&reply);
            all.send(commit, now.instant);
        }
        reply
    }

    /// No election loses what has happened so far.
    pub(super) fn keep(&mut self) {
        if let Some(all) = &mut self.followers {
            all.kept = self.live.zxid;
        }
    }

    /// Freezes the reads of a member, or of all.
    pub(super) fn freeze(&mut self, server: Option<ServerId>, connections: &mut Connections) {
        match &mut self.followers {
            None => self.lag.freeze(&mut self.live, connections),
            Some(all) => all.set_held(server, true),
        }
    }

    /// Ends that: connections get the events that they missed.
    pub(super) fn thaw(&mut self, server: Option<ServerId>, connections: &mut Connections) {
        self.lag.thaw(&mut self.live, connections);
        if let Some(all) = &mut self.followers {
            all.set_held(server, false);
        }
    }

    /// Brings one connection up to date, if its reads are frozen.
    pub(super) fn catch_up(&mut self, id: ConnId, connections: &mut Connections) {
        self.lag.catch_up(id, &mut self.live, connections);
    }

    /// The state that a connection sees.
    pub(super) fn view_of(&mut self, id: ConnId, connections: &Connections) -> &mut View {
        let connection = connections.get(id);
        let server = connection.map(|own| own.server);
        let own = match (&mut self.followers, server) {
            (Some(all), Some(server)) => all.all.get_mut(&server).map(|it| &mut it.view),
            _ if connection.is_some_and(|own| own.lagging) => self.lag.view_mut(),
            _ => None,
        };
        own.unwrap_or(&mut self.live)
    }

    /// All states, the live one last.
    pub(super) fn views(&self) -> impl Iterator<Item = &View> {
        let followers = self.followers.iter().flat_map(|all| all.all.values());
        let own = followers.map(|follower| &follower.view);
        self.lag.view().into_iter().chain(own).chain([&self.live])
    }

    /// The states that connections of a server see, that of the server itself last.
    pub(super) fn views_of(&self, server: ServerId) -> impl Iterator<Item = &View> {
        let own = self.follower(server).map(|follower| &follower.view);
        let shared = self.views().filter(move |_| own.is_none());
        shared.chain(own)
    }

    /// The state of a server.
    pub(super) fn view_at(&self, server: ServerId) -> &View {
        self.views_of(server).last().unwrap_or(&self.live)
    }

    pub(super) fn views_mut(&mut self) -> impl Iterator<Item = &mut View> {
        let followers = self.followers.iter_mut();
        let own = followers.flat_map(|all| all.all.values_mut().map(|it| &mut it.view));
        self.lag
            .view_mut()
            .into_iter()
            .chain(own)
            .chain([&mut self.live])
    }
}
