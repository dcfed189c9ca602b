//! Elections through a latch, and asking holders to release.
//!
//! Not here: elections with `lead` (`locks`).

use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use lockkeeper_recipes::{Guard, revoke};
use tokio::time::sleep;

use super::Worker;
use crate::{
    history::{Attempt, End, What},
    plan::{LockStep, Target},
};

impl Worker {
    /// Keeps a latch for a while, and checks now and then whether it leads.
    pub(super) async fn stand(&mut self, step: LockStep, attempts: &[Attempt]) {
        let latch = self.locks.election.latch();
        let (mut current, mut token) = (attempts.to_vec(), None);
        let looks = step.looks + 10;
        let part = Duration::from_millis(step.hold_ms.max(100) / looks);
        for _ in 0..looks {
            sleep(part).await;
            // A latch that was unsure for a while may lead again with the same token. Only another
            // token is a new attempt.
            let now = latch.token();
            if token.is_some() && now.is_some() && now != token {
                self.let_go(&current);
                self.ended(&current, &End::Dropped);
                current = self.ask(Target::Latch);
                token = None;
            }
            let Some(leads) = now else { continue };
            if token.is_none() && self.leads(&current, leads.get()) {
                token = now;
            }
            if token == now {
                self.leads_still(&current);
            }
        }
        if token.is_some() {
            self.let_go(&current);
        }
        drop(latch);
        let end = token.map_or(End::GivenUp, |_| End::Dropped);
        self.ended(&current, &end);
    }

    /// Records that this latch leads. Does nothing if its node is already gone: then the node's
    /// name is unknown.
    fn leads(&self, attempts: &[Attempt], token: u64) -> bool {
        let session = self.client.snapshot().session_id.0;
        let mut world = self.sim.lock();
        let Some(node) = world.node_of("/locks/e", token) else {
            return false;
        };
        world.figures.count("latches that became leader");
        for attempt in attempts {
            let what = What::Granted {
                attempt: *attempt,
                token,
                node: node.clone(),
                session,
            };
            world.record(self.plan.id, what);
        }
        true
    }

    fn leads_still(&self, attempts: &[Attempt]) {
        let mut world = self.sim.lock();
        let until = Duration::from_micros(world.now());
        for attempt in attempts {
            let attempt = *attempt;
            world.record(self.plan.id, What::Valid { attempt, until });
        }
    }

    /// Returns a future that ends when the holder is asked to release. It never ends if the step
    /// does not listen.
    pub(super) fn listen(
        &self,
        step: LockStep,
        attempts: &[Attempt],
        guards: &[&Guard],
    ) -> BoxFuture<'static, ()> {
        let (Some(guard), Some(attempt), true) =
            (guards.first(), attempts.first(), step.obeys_revoke)
        else {
            return std::future::pending().boxed();
        };
        let (sim, client, attempt) = (self.sim.clone(), self.plan.id, *attempt);
        sim.lock().record(client, What::Listening(attempt));
        let revoked = guard.revoked();
        async move {
            revoked.await;
            let mut world = sim.lock();
            world.figures.count("holders asked to release");
            world.record(client, What::Heard(attempt));
        }
        .boxed()
    }

    /// Asks the owner of a contender's node to release.
    pub(super) async fn revoke(&mut self) {
        if let Some(node) = self.somebody().await {
            let id = self.plan.id;
            let asking = What::Asking(node.clone());
            self.sim.lock().record(id, asking);
            if revoke(&self.client, &node).await.is_ok() {
                self.sim.lock().record(id, What::AskedToLetGo(node));
            }
        }
    }
}
