//! Plans about clients that give their locks up: by a limit, or because a task closes the client of
//! all of them.
//!
//! Their holders believe that they hold until they are told. Nothing goes wrong, but messages are
//! slow.
//!
//! Not here: holders that know the limits of their holds (`under_way`).

use super::{Plan, Step, Target};
use crate::rng::Rng;

/// Draws a plan of this kind from a seed.
pub(super) fn plan(seed: u64) -> Plan {
    let rng = &mut Rng::of(seed, "plan giving up");
    let mut plan = Plan::blank(rng, seed);
    plan.told = true;
    // A task that runs late is told late, and only it knows that.
    plan.yield_per_mille = 0;
    plan.prompt_per_mille = 0;
    plan.delay_ms = rng.one_of(&[5, 20, 50]);
    let timeout_ms = rng.within(5, 9) * plan.tick_ms;
    let targets = [
        Target::Mutex(0),
        Target::Write(0),
        Target::Reentrant(0),
        Target::Plain,
        Target::Lead,
        Target::Latch,
    ];
    let target = rng.one_of(&targets);
    for _ in 0..rng.within(3, 5) {
        let closes = rng.chance(600);
        let holds = (0..2).map(|_| {
            let hold_ms = rng.within(timeout_ms / 2, 2 * timeout_ms);
            let limit_ms = rng.within(0, timeout_ms);
            let is_limited = !closes || rng.chance(300);
            Step::lock(rng, target, hold_ms, 0)
                .with(|step| step.limit_ms = is_limited.then_some(limit_ms))
        });
        let mut tasks = vec![holds.collect()];
        if closes {
            let later_ms = rng.within(0, 6 * timeout_ms);
            tasks.push(vec![Step::Sleep(later_ms), Step::Close]);
        }
        plan.client_of_tasks(rng, timeout_ms, tasks);
    }
    plan
}
