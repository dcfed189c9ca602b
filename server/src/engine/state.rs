//! What the servers know: the state of the leader, and how the states of the others differ from it.
//!
//! Not here: sessions, and what connections have asked for.

use lockkeeper_proto::{ErrorCode, Response, SessionId, Xid, Zxid};

use super::{
    basics::{Config, ConnId, Now, ServerId},
    commit::{Commit, Deed},
    connections::Connections,
    ensemble::Ensemble,
    followers::{Election, Follower, Followers},
    hash::Seeded,
    lag::Lag,
    link::{Link, Upward},
    view::View,
};

/// The states of all servers.
#[derive(Debug)]
pub(super) struct State {
    live: View,
    servers: Servers,
    knows_sasl: bool,
}

/// How servers differ from the live state.
#[derive(Debug)]
enum Servers {
    /// All show it, except those whose reads are frozen.
    Alike(Lag),
    /// Each has a state of its own, and learns transactions from a leader. In an ensemble they
    /// elect it.
    Followers(Followers, Option<Ensemble>),
}

impl State {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            live: View::new(Seeded(config.seed), config.first_zxid),
            servers: Servers::Alike(Lag::default()),
            knows_sasl: config.sasl.is_some(),
        }
    }

    pub(super) fn set_followers(&mut self, followers: Followers, ensemble: Option<Ensemble>) {
        self.servers = Servers::Followers(followers, ensemble);
    }

    /// The state of the leader.
    pub(super) fn live(&self) -> &View {
        &self.live
    }

    pub(super) fn followers(&self) -> Option<&Followers> {
        match &self.servers {
            Servers::Alike(_) => None,
            Servers::Followers(all, _) => Some(all),
        }
    }

    pub(super) fn followers_mut(&mut self) -> Option<&mut Followers> {
        match &mut self.servers {
            Servers::Alike(_) => None,
            Servers::Followers(all, _) => Some(all),
        }
    }

    pub(super) fn follower_mut(&mut self, server: ServerId) -> Option<&mut Follower> {
        self.followers_mut()?.get_mut(server)
    }

    pub(super) fn ensemble(&self) -> Option<&Ensemble> {
        match &self.servers {
            Servers::Alike(_) => None,
            Servers::Followers(_, ensemble) => ensemble.as_ref(),
        }
    }

    pub(super) fn ensemble_mut(&mut self) -> Option<&mut Ensemble> {
        match &mut self.servers {
            Servers::Alike(_) => None,
            Servers::Followers(_, ensemble) => ensemble.as_mut(),
        }
    }

    /// Whether somebody orders writes and ends sessions: only an ensemble may have no leader.
    pub(super) fn has_leader(&self) -> bool {
        let ensemble = self.ensemble();
        ensemble.is_none_or(|ensemble| ensemble.leader().is_some())
    }

    /// The last transaction that a follower knows.
    pub(super) fn known_to(&self, server: ServerId) -> Zxid {
        let follower = self.followers().and_then(|all| all.get(server));
        follower.map_or(Zxid::ZERO, |follower| follower.view.zxid)
    }

    pub(super) fn link(&self, server: ServerId) -> Option<&Link> {
        Some(&self.followers()?.get(server)?.link)
    }

    pub(super) fn link_mut(&mut self, server: ServerId) -> Option<&mut Link> {
        Some(&mut self.follower_mut(server)?.link)
    }

    /// Whether a handshake must wait until the link of this server is mended.
    pub(super) fn awaits_leader(&self, server: ServerId, resumes: bool) -> bool {
        let link = self.link(server);
        link.is_some_and(|link| link.delays_handshake(resumes))
    }

    /// What a server tells its leader reaches it now, unless it waits at a link that is cut.
    pub(super) fn send_up(&mut self, server: ServerId, upward: Upward) -> Option<Upward> {
        match self.link_mut(server) {
            Some(link) => link.send(upward),
            None => Some(upward),
        }
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
        match &mut self.servers {
            Servers::Alike(lag) => lag.note(commit.zxid, &changes),
            Servers::Followers(all, _) => {
                commit.reply.clone_from(&reply);
                all.send(commit, now.instant);
            }
        }
        reply
    }

    /// See [`Followers::elect`].
    pub(super) fn elect(&mut self, kept: Zxid, now: Now) -> Option<Election> {
        match &mut self.servers {
            Servers::Alike(_) => None,
            Servers::Followers(all, _) => all.elect(&mut self.live, kept, now),
        }
    }

    /// All servers were down until now. All transactions on their way arrive.
    pub(super) fn restart(&mut self) {
        match &mut self.servers {
            Servers::Alike(lag) => *lag = Lag::default(),
            Servers::Followers(all, _) => all.settle(self.live.zxid),
        }
    }

    /// A server fails. Its connections are cut already.
    pub(super) fn fail(&mut self, server: ServerId) {
        match &mut self.servers {
            Servers::Alike(lag) => lag.fail(server),
            Servers::Followers(all, _) => all.fail(server),
        }
    }

    /// Freezes the reads of a server, or of all. With `strict`, the server refuses clients that
    /// have seen more.
    pub(super) fn freeze(
        &mut self,
        server: Option<ServerId>,
        strict: bool,
        connections: &mut Connections,
    ) {
        match &mut self.servers {
            Servers::Alike(lag) => {
                let server = server.unwrap_or(ServerId::FIRST);
                lag.freeze(server, strict, &mut self.live, connections);
            }
            Servers::Followers(all, _) => all.set_held(server, true),
        }
    }

    /// Ends that: connections get the events that they missed.
    pub(super) fn thaw(&mut self, server: Option<ServerId>, connections: &mut Connections) {
        match &mut self.servers {
            Servers::Alike(lag) => lag.thaw(server, &mut self.live, connections),
            Servers::Followers(all, _) => all.set_held(server, false),
        }
    }

    /// Brings one connection up to date, if its reads are frozen.
    pub(super) fn catch_up(&mut self, id: ConnId, connections: &mut Connections) {
        if let Servers::Alike(lag) = &mut self.servers {
            lag.catch_up(id, &mut self.live, connections);
        }
    }

    /// Whether a client that has seen the transaction `seen` lags on this server; `None` if the
    /// server refuses it.
    pub(super) fn lags(&self, server: ServerId, seen: Zxid) -> Option<bool> {
        match &self.servers {
            Servers::Alike(lag) => lag.lags(server, seen),
            Servers::Followers(all, _) => (seen <= all.get(server)?.view.zxid).then_some(false),
        }
    }

    /// Whether this server has no majority, and serves nobody.
    pub(super) fn is_alone(&self, server: ServerId) -> bool {
        matches!(&self.servers, Servers::Alike(lag) if lag.is_alone(server))
    }

    pub(super) fn set_alone(&mut self, server: ServerId) {
        if let Servers::Alike(lag) = &mut self.servers {
            lag.set_alone(server);
        }
    }

    /// The state that a connection sees.
    pub(super) fn view_of(&mut self, id: ConnId, connections: &Connections) -> &mut View {
        let (server, lagging) = connections
            .get(id)
            .map_or((ServerId::FIRST, false), |own| (own.server, own.lagging));
        let own = match &mut self.servers {
            Servers::Alike(lag) if lagging => lag.view_mut(server),
            Servers::Alike(_) => None,
            Servers::Followers(all, _) => all.get_mut(server).map(|follower| &mut follower.view),
        };
        own.unwrap_or(&mut self.live)
    }

    /// All states, the live one last.
    pub(super) fn views(&self) -> Box<dyn Iterator<Item = &View> + '_> {
        let live = [&self.live];
        match &self.servers {
            Servers::Alike(lag) => Box::new(lag.views().chain(live)),
            Servers::Followers(all, _) => Box::new(all.views().chain(live)),
        }
    }

    pub(super) fn views_mut(&mut self) -> Box<dyn Iterator<Item = &mut View> + '_> {
        let live = [&mut self.live];
        match &mut self.servers {
            Servers::Alike(lag) => Box::new(lag.views_mut().chain(live)),
            Servers::Followers(all, _) => Box::new(all.views_mut().chain(live)),
        }
    }
}
