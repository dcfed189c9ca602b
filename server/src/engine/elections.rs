//! What the members of an ensemble do when they are stopped, cut off from each other, or without a
//! leader.
//!
//! Not here: who is elected, and when members give up (`ensemble`); what reaches a leader
//! (`replication`).

use std::time::Duration;

use bytes::Bytes;
use lockkeeper_proto::Version;

use super::{
    Engine,
    basics::{Now, ServerId},
    ensemble::{Ensemble, Role, Step},
    followers::{Follower, Followers},
    relay::Relay,
    tree::CONFIG_PATH,
};

impl Engine {
    /// From now on, there are `servers` members with links between each two of them, and they elect
    /// their leaders. A transaction travels to each member for at most `travel`. Call this before the
    /// first connection.
    ///
    /// Each member reports its sessions every half tick. It gives up its role after `sync_limit`
    /// without what the role needs.
    pub fn set_ensemble(&mut self, servers: u32, sync_limit: Duration, travel: Duration, now: Now) {
        self.state.followers = Some(Followers::new(servers, travel, &self.state.live));
        self.state.ensemble = Some(Ensemble::new(servers, sync_limit));
        self.relay = Some(Relay::new(self.config.tick_time / 2, now.instant));
        self.review(now);
    }

    /// The addresses for clients, in the order of the servers. Members of an ensemble list them in
    /// their configuration node. There are no ports between members: the node shows zeros.
    ///
    /// Source: `ZKDatabase.initConfigInZKDatabase`, `QuorumMaj.toString`.
    pub(crate) fn set_addresses(&mut self, addresses: Vec<String>, now: Now) {
        let line = |(number, address): (u32, &String)| {
            let host = address.rsplit_once(':').map_or("", |(host, _)| host);
            format!("server.{number}={host}:0:0:participant;{address}\n")
        };
        let lines: String = (1..).zip(&addresses).map(line).collect();
        self.addresses = addresses;
        if self.state.ensemble.is_none() {
            return;
        }
        let version = self.last_zxid();
        let config = Bytes::from(format!("{lines}version={:x}", version.0));
        for view in self.state.views_mut() {
            if let Some(node) = view.tree.get_mut(CONFIG_PATH) {
                node.data = Some(config.clone());
                (node.version, node.mzxid, node.mtime) = (Version(-1), version, now.unix_ms);
            }
        }
    }

    /// The member that leads: of two, the one that was elected last.
    #[must_use]
    pub fn leader(&self) -> Option<ServerId> {
        self.state.ensemble.as_ref()?.leader
    }

    /// Whether a server accepts sessions. One without a majority does not.
    #[must_use]
    pub fn is_serving(&self, server: ServerId) -> bool {
        let ensemble = self.state.ensemble.as_ref();
        ensemble.is_none_or(|it| it.is_serving(server))
    }

    /// Whether a member is stopped: it accepts no connection.
    pub(super) fn is_stopped(&self, server: ServerId) -> bool {
        let ensemble = self.state.ensemble.as_ref();
        ensemble.is_some_and(|it| it.role(server) == Role::Stopped)
    }

    /// Stops a member: its connections are cut, and the others notice at once.
    pub fn stop_server(&mut self, server: ServerId, now: Now) {
        self.leave_ensemble(server, Role::Stopped);
        self.review(now);
    }

    /// Starts a stopped member again. It has lost nothing, and follows the leader if its links let
    /// it.
    pub fn start_server(&mut self, server: ServerId, now: Now) {
        self.members(|ensemble| ensemble.start(server));
        self.review(now);
    }

    /// Cuts or mends one direction of the link between two members. Nobody is told.
    pub fn set_cut_between(&mut self, from: ServerId, to: ServerId, is_cut: bool, now: Now) {
        self.members(|ensemble| ensemble.set_cut(from, to, is_cut));
        self.review(now);
    }

    /// The members elect a new leader now. The present one takes part, and may not win. If it is
    /// cut off from the winner, it goes on until it gives up. Returns the new leader; `None` if no
    /// other member has whole links to a majority.
    pub fn elect_another(&mut self, now: Now) -> Option<ServerId> {
        let ensemble = self.state.ensemble.as_ref()?;
        let former = ensemble.leader?;
        let running = ensemble.running();
        let known = |server| self.state.view_at(server).zxid;
        let (winner, voters) = ensemble.winner(&running, Some(former), known)?;
        for server in running {
            if server == former && !voters.contains(&server) {
                self.members(|ensemble| ensemble.set_role(server, Role::Former));
            } else {
                self.leave_ensemble(server, Role::Looking);
            }
        }
        self.carry_out(Step::Elect(winner, voters), now);
        self.review(now);
        Some(winner)
    }

    /// Members whose time is over give up.
    pub(super) fn give_up(&mut self, now: Now) {
        let ensemble = self.state.ensemble.as_ref();
        let over = ensemble.map_or(Vec::new(), |all| all.overdue(now.instant));
        for server in &over {
            self.leave_ensemble(*server, Role::Looking);
        }
        if !over.is_empty() {
            self.review(now);
        }
    }

    /// The members do what follows from the present links.
    fn review(&mut self, now: Now) {
        let step = |engine: &Self| {
            let known = |server| engine.state.view_at(server).zxid;
            engine.state.ensemble.as_ref()?.next_step(known)
        };
        while let Some(step) = step(self) {
            self.carry_out(step, now);
        }
        self.members(|ensemble| ensemble.set_timers(now.instant));
        self.wire(now);
    }

    fn carry_out(&mut self, step: Step, now: Now) {
        match step {
            Step::GiveUp(server) => self.leave_ensemble(server, Role::Looking),
            Step::Follow(server) => {
                self.fail_server(server);
                self.members(|ensemble| ensemble.set_role(server, Role::Serving));
                self.wire(now);
                self.arrive(now);
            }
            Step::Elect(winner, voters) => {
                self.members(|ensemble| ensemble.follow(winner, voters));
                self.wire(now);
                self.begin_term(now);
                self.arrive(now);
                tracing::debug!(leader = winner.0, "elected a leader");
            }
        }
    }

    /// Changes the members, if there are any.
    fn members(&mut self, change: impl FnOnce(&mut Ensemble)) {
        if let Some(ensemble) = &mut self.state.ensemble {
            change(ensemble);
        }
    }

    /// A member stops serving.
    fn leave_ensemble(&mut self, server: ServerId, role: Role) {
        let ensemble = self.state.ensemble.as_mut();
        if ensemble.is_some_and(|ensemble| ensemble.leave(server, role)) {
            self.fail_server(server);
        }
    }

    /// Cuts and mends the links to the leader as the links between the members are.
    fn wire(&mut self, now: Now) {
        let (Some(ensemble), Some(followers)) = (&self.state.ensemble, &mut self.state.followers)
        else {
            return;
        };
        let is_in_sync = ensemble.is_in_sync();
        followers.commits = ensemble.leader.is_none() || is_in_sync;
        for (server, Follower { link, .. }) in &mut followers.all {
            let is_followed = is_in_sync && ensemble.leader == Some(*server);
            link.leads = ensemble.leads(*server) && !is_followed;
            (link.to_leader_cut, link.from_leader_cut) = ensemble.cuts_of(*server);
        }
        let all: Vec<_> = followers.all.keys().copied().collect();
        for server in all {
            self.arrive_late(server, now);
        }
        // The pings of the leader are ahead of its transactions.
        self.report_heard(now);
        self.resume_input(now);
    }
}
