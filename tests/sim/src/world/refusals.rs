//! Servers with too much to do, which refuse requests.
//!
//! Not here: what such a server answers (the engine: `server/src/engine/rules.rs`).

use lockkeeper_proto::ErrorCode;
use lockkeeper_server::engine::{Effect, When};

use super::{Coming, World};

impl World {
    /// The servers refuse the next request, and one in `every` after it.
    pub(super) fn throttle(&mut self, fault: usize, count: u32, every: u32, ms: u64) {
        for number in 0..count {
            let when = When::any().nth(1 + number * every);
            let effect = Effect::Refuse(ErrorCode::THROTTLED_OP);
            self.engine.rules().add(when, effect);
        }
        self.throttles += 1;
        let at = self.now() + ms * 1000;
        self.at(at, Coming::FaultEnd(fault));
    }

    /// The rest of the refusals is over when the last of several such faults ends.
    pub(super) fn throttle_ends(&mut self) {
        self.throttles -= 1;
        if self.throttles == 0 {
            self.engine.clear_faults();
            self.after_engine();
        }
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
