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
    ensemble::{Ensemble, Step},
    member::Role,
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
        self.state.ensemble = Ensemble::new(servers, sync_limit, travel, &self.state.live);
        self.begin_interval(now);
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
        if self.state.ensemble.is_empty() {
            return;
        }
        let version = self.last_zxid();
        let config = Bytes::from(format!("{lines}version={:x}", version.0));
        for view in self.state.views_mut() {
            if let Some(node) = view.tree.get_mut(CONFIG_PATH) {
                node.data = Some(config.clone());
                node.meta.version = Version(-1);
                (node.meta.mzxid, node.meta.mtime) = (version, now.unix_ms);
            }
        }
    }

    /// The member that leads: of two, the one that was elected last.
    #[must_use]
    pub fn leader(&self) -> Option<ServerId> {
        self.state.ensemble.leader
    }

    /// Whether a server accepts sessions. One without a majority does not.
    #[must_use]
    pub fn is_serving(&self, server: ServerId) -> bool {
        self.state.ensemble.is_serving(server)
    }

    /// Whether a member is stopped: it accepts no connection.
    pub(super) fn is_stopped(&self, server: ServerId) -> bool {
        self.state.ensemble.role(server) == Role::Stopped
    }

    /// Stops a member: its connections are cut, and the others notice at once.
    pub fn stop_server(&mut self, server: ServerId, now: Now) {
        self.leave_ensemble(server, Role::Stopped);
        self.review(now);
    }

    /// Starts a stopped member again. It has lost nothing, and follows the leader if its links let
    /// it.
    pub fn start_server(&mut self, server: ServerId, now: Now) {
        if self.is_stopped(server) {
            self.state.ensemble.set_role(server, Role::Looking);
        }
        self.review(now);
    }

    /// Cuts or mends one direction of the link between two members. Nobody is told.
    pub fn set_cut_between(&mut self, from: ServerId, to: ServerId, is_cut: bool, now: Now) {
        self.state.ensemble.set_cut(from, to, is_cut);
        self.review(now);
    }

    /// The members elect a new leader now. The present one takes part, and may not win. If it is
    /// cut off from the winner, it goes on until it gives up. Returns the new leader; `None` if no
    /// other member has whole links to a majority.
    pub fn elect_another(&mut self, now: Now) -> Option<ServerId> {
        let ensemble = &self.state.ensemble;
        let former = ensemble.leader?;
        let running = ensemble.running();
        let (winner, voters) = ensemble.winner(&running, Some(former))?;
        for server in running {
            if server == former && !voters.contains(&server) {
                self.state.ensemble.set_role(server, Role::Former);
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
        let over = self.state.ensemble.overdue(now.instant);
        for server in &over {
            self.leave_ensemble(*server, Role::Looking);
        }
        if !over.is_empty() {
            self.review(now);
        }
    }

    /// The members do what follows from the present links.
    fn review(&mut self, now: Now) {
        while let Some(step) = self.state.ensemble.next_step() {
            self.carry_out(step, now);
        }
        self.state.ensemble.set_timers(now.instant);
        self.wire(now);
    }

    fn carry_out(&mut self, step: Step, now: Now) {
        match step {
            Step::GiveUp(server) => self.leave_ensemble(server, Role::Looking),
            Step::Follow(server) => {
                self.fail_server(server);
                self.state.ensemble.set_role(server, Role::Serving);
                self.wire(now);
                self.arrive(now);
            }
            Step::Elect(winner, voters) => {
                self.state.ensemble.follow(winner, voters);
                self.wire(now);
                self.begin_term(now);
                self.arrive(now);
                tracing::debug!(leader = winner.0, "elected a leader");
            }
        }
    }

    /// A member stops serving.
    fn leave_ensemble(&mut self, server: ServerId, role: Role) {
        if self.state.ensemble.members.contains_key(&server) {
            self.state.ensemble.leave(server, role);
            self.fail_server(server);
        }
    }

    /// What waited at links to the leader that are whole now arrives.
    fn wire(&mut self, now: Now) {
        for server in self.state.ensemble.servers() {
            self.arrive_late(server, now);
        }
        // The pings of the leader are ahead of its transactions.
        self.report_heard(now);
        self.resume_all();
    }
}
