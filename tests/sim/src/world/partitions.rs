//! Links between servers that are cut, servers that give up their leader, and leaders that are
//! deposed but go on.
//!
//! Not here: what waits meanwhile and what is lost (the engine:
//! `server/src/engine/replication.rs`).

use lockkeeper_server::engine::{Direction, ServerId};

use super::{Coming, World};
use crate::plan::Side;

/// One direction of a link is cut.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    since: u64,
    until: u64,
}

const DIRECTIONS: [Direction; 2] = [Direction::ToLeader, Direction::FromLeader];

impl World {
    /// Cuts the link between the server of this client and its leader.
    pub(super) fn cut_off(&mut self, client: u32, side: Side, ms: u64) {
        if !self.all_down {
            self.figures.count("fault: server cut off from its leader");
            let server = self.server_of(client);
            self.line(client, || format!("is on s{server}"));
            self.cut(server, side, ms);
        }
    }

    /// The server of this client is the leader. Cuts all links to it.
    pub(super) fn isolate(&mut self, client: u32, elect_ms: u64, ms: u64) {
        if self.all_down || self.isolated.is_some() {
            return;
        }
        self.figures.count("fault: leader cut off from all servers");
        let former = self.server_of(client);
        self.line(client, || format!("is on s{former}"));
        for server in 0..self.plan.servers {
            self.cut(server, Side::Both, ms);
        }
        self.isolated = Some(former);
        self.engine.lead_alone(ServerId(former));
        let at = self.now() + elect_ms * 1000;
        self.at(at, Coming::Elect(former));
    }

    fn cut(&mut self, server: u32, side: Side, ms: u64) {
        let now = self.now();
        let until = now + ms * 1000;
        for (index, direction) in DIRECTIONS.into_iter().enumerate() {
            let is_meant = match side {
                Side::Both => true,
                Side::ToLeader => direction == Direction::ToLeader,
                Side::FromLeader => direction == Direction::FromLeader,
            };
            let cut = self.server(server).and_then(|it| it.cuts.get_mut(index));
            if let Some(cut) = cut.filter(|_| is_meant) {
                let cut = cut.get_or_insert(Cut { since: now, until });
                cut.until = cut.until.max(until);
                self.engine.cut_link(ServerId(server), direction);
            }
        }
        let patience = self.plan.sync_limit * self.plan.tick_ms * 1000;
        self.at(now + patience, Coming::GiveUp(server));
        self.at(until, Coming::Mend(server));
    }

    /// The directions whose time is over are whole again.
    pub(super) fn mend(&mut self, server: u32) {
        let now = self.now();
        for (index, direction) in DIRECTIONS.into_iter().enumerate() {
            let cut = self.server(server).and_then(|it| it.cuts.get_mut(index));
            if cut.is_some_and(|cut| cut.take_if(|cut| cut.until <= now).is_some()) {
                self.line(0, || format!("s{server} {direction:?} is whole again"));
                let now = self.engine_now();
                self.engine.mend_link(ServerId(server), direction, now);
                self.after_engine();
            }
        }
        let is_cut = self.server(server).is_some_and(|it| it.is_cut());
        if self.isolated == Some(server) && !is_cut {
            self.isolated = None;
        }
    }

    /// A server gives up its leader if it has been cut off for so long. It serves nobody until its
    /// link is whole again.
    pub(super) fn give_up(&mut self, server: u32) {
        let patience = self.plan.sync_limit * self.plan.tick_ms * 1000;
        let long_ago = self.now().saturating_sub(patience);
        let Some(state) = self.server(server) else {
            return;
        };
        let cuts = state.cuts.into_iter().flatten();
        if cuts.clone().any(|cut| cut.since <= long_ago) {
            let until = cuts.map(|cut| cut.until).max().unwrap_or(0);
            state.down_until = state.down_until.max(until + 1);
            self.figures.count("servers that gave up their leader");
            self.lose(server);
        }
    }

    /// The others elect a leader.
    pub(super) fn elect_without(&mut self, former: u32) {
        if self.isolated.take_if(|it| *it == former).is_none() || self.all_down {
            return;
        }
        let until = self.server(former).map(|it| it.ends()).unwrap_or_default();
        let now = self.now();
        let mut voters = 0;
        for server in 0..self.plan.servers {
            // A server with a cut of its own, which ends later, takes no part.
            if server == former || self.server(server).is_none_or(|it| it.ends() > until) {
                continue;
            }
            voters += 1;
            self.lose(server);
            if let Some(state) = self.server(server) {
                for cut in state.cuts.iter_mut().flatten() {
                    cut.until = now;
                }
                state.down_until = now;
            }
            self.mend(server);
        }
        if voters == 0 {
            return;
        }
        let now = self.engine_now();
        let lost = self.engine.depose(self.kept, now);
        self.figures.count("leaders deposed that went on");
        if lost > 0 {
            self.figures.count("leaders deposed with lost transactions");
        }
        self.line(0, || {
            format!("a new leader without s{former}; {lost} transactions are lost")
        });
        self.after_engine();
    }

    /// All servers have restarted: the links between them are whole.
    pub(super) fn links_are_whole(&mut self) {
        self.isolated = None;
        for server in &mut self.servers {
            server.cuts = [None; 2];
        }
    }

    /// A server loses its leader, and closes the connections of its clients.
    fn lose(&mut self, server: u32) {
        self.line(0, || format!("s{server} gives up its leader"));
        self.engine.fail_server(ServerId(server));
        self.after_engine();
        self.cut_links(|link| link.server == server);
    }
}

impl super::Server {
    fn is_cut(&self) -> bool {
        self.cuts.iter().any(Option::is_some)
    }

    /// When the last cut of its link ends; 0 if the link is whole.
    fn ends(&self) -> u64 {
        let ends = self.cuts.iter().flatten().map(|cut| cut.until);
        ends.max().unwrap_or(0)
    }
}
