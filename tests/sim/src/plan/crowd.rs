//! Plans with a crowd: many tasks of one client contend for one mutex, and others between them.
//!
//! A crowd makes few listings, and its contenders use those of each other (`crowd` in the recipes).
//! Four tasks of one client or fewer never do, and random plans have no more.

use super::{Cancel, Fault, FaultKind, Leave, Plan, Step, Target, aimed};
use crate::rng::Rng;

/// Draws a plan with a crowd from a seed.
pub(super) fn plan(seed: u64) -> Plan {
    let rng = &mut Rng::of(seed, "crowd");
    let mut plan = aimed::blank(rng, seed);
    let timeout_ms = rng.within(4, 12) * plan.tick_ms;
    let crowds = rng.small(1, 2);
    for _ in 0..crowds {
        let tasks = rng.within(6, 14);
        let tasks = (0..tasks).map(|_| contender(rng, false)).collect();
        aimed::client_of_tasks(rng, &mut plan, timeout_ms, tasks);
    }
    for _ in 0..rng.within(0, 2) {
        let steps = contender(rng, true);
        aimed::client(rng, &mut plan, timeout_ms, steps);
    }
    let clients = u32::try_from(plan.clients.len()).unwrap_or(1);
    for _ in 0..rng.within(0, 8) {
        let who = rng.small(1, clients);
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
        let at_ms = rng.within(0, 1500);
        plan.faults
            .extend(rng.pick(&kinds).map(|kind| Fault { at_ms, kind }));
    }
    plan.faults.sort_by_key(|fault| fault.at_ms);
    plan
}

/// A task that takes the mutex a few times, and sometimes gives up. One outside the crowd may be a
/// writer or a reader.
fn contender(rng: &mut Rng, is_other: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..rng.within(2, 4) {
        steps.push(Step::Sleep(rng.within(0, 100)));
        let kinds = [Target::Mutex(0), Target::Write(0), Target::Read(0)];
        let target = rng.pick(&kinds).filter(|_| is_other);
        let hold_ms = rng.within(0, 30);
        let mut step = aimed::lock(rng, target.unwrap_or(Target::Mutex(0)), hold_ms, 1);
        if let Step::Lock(step) = &mut step {
            if rng.chance(200) {
                step.cancel = Cancel::After(rng.within(1, 300));
            }
            if is_other {
                step.leave = Leave::Downgrade;
            }
        }
        steps.push(step);
    }
    steps
}
