//! Servers that refuse: those without a majority refuse clients, and those with too much to do
//! refuse requests.
//!
//! Not here: what such a server answers (the engine: `server/src/engine/handshake.rs`, `rules.rs`).

use lockkeeper_proto::ErrorCode;
use lockkeeper_server::engine::{Effect, ServerId, When};

use super::{Coming, World};

impl World {
    /// A server has no majority for this long.
    pub(super) fn loses_majority(&mut self, fault: usize, server: u32, ms: u64) {
        if !self.has_leader() {
            return;
        }
        self.figures.count("fault: server without a majority");
        let until = self.now() + ms * 1000;
        if let Some(state) = self.server(server) {
            state.alone_until = state.alone_until.max(until);
        }
        self.set_alone(server, true);
        self.at(until, Coming::FaultEnd(fault));
    }

    /// A server has a majority again, if no other fault keeps it from that.
    pub(super) fn has_majority(&mut self, server: u32) {
        let now = self.now();
        let is_over = |state: &mut super::Server| state.alone_until <= now;
        if !self.no_majority && self.server(server).is_some_and(is_over) {
            self.set_alone(server, false);
        }
    }

    /// No server has a majority for this long. Meanwhile no session ends.
    pub(super) fn all_lose_majority(&mut self, fault: usize, ms: u64) {
        if !self.has_leader() {
            return;
        }
        self.figures.count("fault: no majority");
        self.no_majority = true;
        for server in 0..self.plan.servers {
            self.set_alone(server, true);
        }
        let until = self.now() + ms * 1000;
        self.at(until, Coming::FaultEnd(fault));
    }

    /// A leader begins.
    pub(super) fn all_have_majority(&mut self) {
        self.no_majority = false;
        let now = self.engine_now();
        self.engine.restart(now);
        self.after_engine();
        self.cut_links(|_| true);
    }

    fn set_alone(&mut self, server: u32, is_alone: bool) {
        self.engine.set_alone(ServerId(server), is_alone);
        self.after_engine();
        self.cut_links(|link| link.server == server);
    }

    /// The servers refuse the next request, and one in `every` after it.
    pub(super) fn throttle(&mut self, fault: usize, count: u32, every: u32, ms: u64) {
        for number in 0..count {
            let when = When::any().nth(1 + number * every);
            let effect = Effect::Refuse(ErrorCode::THROTTLED_OP);
            self.throttles
                .push((fault, self.engine.add_rule(when, effect)));
        }
        let at = self.now() + ms * 1000;
        self.at(at, Coming::FaultEnd(fault));
    }

    pub(super) fn throttle_ends(&mut self, fault: usize) {
        let engine = &mut self.engine;
        self.throttles.retain(|(by, rule)| {
            let is_meant = *by == fault;
            if is_meant {
                engine.remove_rule(*rule);
            }
            !is_meant
        });
    }

    /// Counts the writes of a client while callers of it wait for capacity.
    pub(super) fn look_at_capacity(&mut self, client: u32) {
        if self.plan.max_outstanding == 0 {
            return;
        }
        let handle = self.clients.get(&client).and_then(|own| own.handle.clone());
        if handle.is_some_and(|handle| handle.metrics().waiting > 0) {
            self.figures
                .count("writes while callers waited for capacity");
        }
    }
}
