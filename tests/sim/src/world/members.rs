//! Servers that are stopped, cut off from each other, or late; and their elections.
//!
//! Not here: when servers give up, whom they elect, and what is lost (the engine:
//! `server/src/engine/ensemble.rs`, `elections.rs`, `replication.rs`).

use std::collections::BTreeMap;

use lockkeeper_server::engine::ServerId;

use super::{Coming, World};
use crate::plan::Side;

impl World {
    pub(super) fn all_servers(&self) -> Vec<ServerId> {
        self.servers.keys().copied().collect()
    }

    /// A server fails, and stays down for `ms` milliseconds.
    pub(super) fn fail(&mut self, server: ServerId, ms: u64) {
        self.figures.count("fault: server failed");
        self.stop(server, ms);
    }

    pub(super) fn stop(&mut self, server: ServerId, ms: u64) {
        let until = self.now() + ms * 1000;
        let Some(state) = self.servers.get_mut(&server) else {
            return;
        };
        state.down_until = state.down_until.max(until);
        state.serves = false;
        let now = self.engine_now();
        self.engine.stop_server(server, now);
        self.after_engine();
        self.cut_links(|link| link.server == server.0);
        self.at(until, Coming::Mend);
    }

    /// A server learns of no transaction for `ms` milliseconds.
    pub(super) fn lag(&mut self, server: ServerId, ms: u64) {
        self.figures.count("fault: server lags");
        let until = self.now() + ms * 1000;
        if let Some(state) = self.servers.get_mut(&server) {
            state.lag_until = until;
        }
        self.engine.set_lags(server, true);
        self.at(until, Coming::Mend);
    }

    /// Cuts the links between a server and all others.
    pub(super) fn cut_off(&mut self, server: ServerId, side: Side, ms: u64) {
        let until = self.now() + ms * 1000;
        self.line(0, || format!("{server:?} is cut off: {side:?}"));
        let others = self.all_servers().into_iter();
        for other in others.filter(|other| *other != server) {
            let ways = match side {
                Side::Both => &[(server, other), (other, server)][..],
                Side::Out => &[(server, other)],
                Side::In => &[(other, server)],
            };
            for (from, to) in ways {
                let end = self.cuts.entry((*from, *to)).or_default();
                *end = until.max(*end);
                let now = self.engine_now();
                self.engine.set_cut_between(*from, *to, true, now);
            }
        }
        self.after_engine();
        self.at(until, Coming::Mend);
    }

    /// What is over by now ends: cuts, times in which servers are down, and lags.
    pub(super) fn mend(&mut self) {
        let (time, now) = (self.now(), self.engine_now());
        let all = std::mem::take(&mut self.cuts).into_iter();
        let (over, left): (BTreeMap<_, _>, _) = all.partition(|(_, until)| *until <= time);
        self.cuts = left;
        for (from, to) in over.into_keys() {
            self.engine.set_cut_between(from, to, false, now);
        }
        for (server, state) in &self.servers {
            if state.down_until <= time {
                self.engine.start_server(*server, now);
            }
            if state.lag_until <= time {
                self.engine.set_lags(*server, false);
            }
        }
        self.after_engine();
    }

    /// The servers elect another leader, if they can.
    pub(super) fn depose(&mut self) {
        let (former, now) = (self.engine.leader(), self.engine_now());
        let next = self.engine.elect_another(now);
        self.after_engine();
        let goes_on = |it| self.engine.is_serving(it) && self.is_cut(it, next);
        if former.is_some_and(goes_on) {
            self.figures.count("leaders deposed that went on");
        }
    }

    fn is_cut(&self, one: ServerId, other: Option<ServerId>) -> bool {
        other.is_some_and(|other| {
            self.cuts.contains_key(&(one, other)) || self.cuts.contains_key(&(other, one))
        })
    }

    /// Counts the servers that have given up, and the elections that have lost transactions.
    pub(super) fn look_at_servers(&mut self) {
        let mut given_up = Vec::new();
        for (server, state) in &mut self.servers {
            let serves = self.engine.is_serving(*server);
            if std::mem::replace(&mut state.serves, serves) && !serves {
                given_up.push(*server);
            }
        }
        for server in given_up {
            self.figures.count("servers that gave up");
            self.line(0, || format!("{server:?} gives up"));
        }
        let lost = self.engine.counters().lost;
        let before = std::mem::replace(&mut self.lost, lost);
        if lost > before {
            self.figures.count("elections that lost transactions");
            self.line(0, || format!("{} transactions are lost", lost - before));
        }
        let leader = self.engine.leader();
        if std::mem::replace(&mut self.leader, leader) != leader {
            self.line(0, || format!("the leader is {leader:?}"));
        }
    }
}
