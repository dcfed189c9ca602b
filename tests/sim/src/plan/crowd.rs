//! Plans with a crowd: many tasks of one client contend for one mutex, and others between them.
//!
//! A crowd makes few listings, and its contenders use those of each other (`crowd` in the recipes).
//! Four tasks of one client or fewer never do, and random plans have no more.

use super::{FaultKind, Leave, Plan, Step, Target};
use crate::rng::Rng;

/// Draws a plan with a crowd from a seed.
pub(super) fn plan(seed: u64) -> Plan {
    let rng = &mut Rng::of(seed, "crowd");
    let mut plan = Plan::blank(rng, seed);
    let timeout_ms = rng.within(4, 12) * plan.tick_ms;
    let crowds = rng.small(1, 2);
    for _ in 0..crowds {
        let tasks = rng.several(6, 14, |rng| contender(rng, false));
        plan.client_of_tasks(rng, timeout_ms, tasks);
    }
    for _ in 0..rng.within(0, 2) {
        let steps = contender(rng, true);
        plan.client(rng, timeout_ms, steps);
    }
    for _ in 0..rng.within(0, 8) {
        let who = plan.any_client(rng);
        let kinds = [
            FaultKind::Cut(who),
            FaultKind::Cut(who),
            FaultKind::Delete(rng.draw()),
            FaultKind::Delete(rng.draw()),
            FaultKind::DeleteBehind(who),
            FaultKind::DeleteBehind(who),
            FaultKind::Pause(who, rng.within(1, 2 * timeout_ms)),
            FaultKind::Expire(who),
        ];
        plan.fault(rng.within(0, 1500), rng.one_of(&kinds));
    }
    plan
}

/// A task that takes the mutex a few times, and sometimes gives up. One outside the crowd may be a
/// writer or a reader.
fn contender(rng: &mut Rng, is_other: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..rng.within(2, 4) {
        steps.push(Step::Sleep(rng.within(0, 100)));
        let kinds = [Target::Mutex(0), Target::Write(0), Target::Read(0)];
        let target = rng.one_of(&kinds);
        let target = if is_other { target } else { Target::Mutex(0) };
        let hold_ms = rng.within(0, 30);
        let step = Step::lock(rng, target, hold_ms, 1);
        let gives_up = rng.chance(200);
        let step = step.given_up_after(gives_up.then(|| rng.within(1, 300)));
        steps.push(step.with(|step| {
            if is_other {
                step.leave = Leave::Downgrade;
            }
        }));
    }
    steps
}
