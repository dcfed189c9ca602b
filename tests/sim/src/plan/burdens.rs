//! Plans with servers that no fault of the network explains: slow ones, ones with little memory,
//! and ones that lie.
//!
//! Not here: what such a server does (`world::burdens`).

use super::{FaultKind, Plan, RawStep, Step, Target, Trigger};
use crate::rng::Rng;

/// The bytes of replies for which a small server has room: a listing of 4,000 contenders.
const MEMORY: usize = 256 * 1024;

/// One client has so much to do at once that the last request waits for longer than the session
/// timeout.
pub(super) fn slow_server(seed: u64) -> Plan {
    let rng = &mut Rng::of(seed, "slow server");
    let mut plan = Plan::blank(rng, seed);
    (plan.tick_ms, plan.delay_ms, plan.yield_per_mille) = (200, 1, 0);
    plan.service_us = 10_000;
    plan.most_bytes = MEMORY;
    let timeout_ms = rng.within(1000, 1500);
    let is_crowd = rng.chance(300);
    let tasks = rng.several(300, 400, |rng| {
        vec![if is_crowd {
            Step::lock(rng, Target::Mutex(0), 0, 0)
        } else {
            Step::Raw(RawStep::Write)
        }]
    });
    plan.client_of_tasks(rng, timeout_ms, tasks);
    plan
}

/// A crowd enters a queue at once, and the connection is lost with all its creates.
pub(super) fn small_server(seed: u64) -> Plan {
    let rng = &mut Rng::of(seed, "small server");
    let mut plan = Plan::blank(rng, seed);
    (plan.delay_ms, plan.yield_per_mille) = (5, 0);
    plan.most_bytes = MEMORY;
    let timeout_ms = 20 * plan.tick_ms;
    // The directory is there when the crowd comes.
    let mut tasks = vec![vec![Step::lock(rng, Target::Mutex(0), 1000, 0)]];
    let contender = |_| vec![Step::Sleep(500), Step::lock(rng, Target::Mutex(0), 0, 0)];
    tasks.extend((0..250).map(contender));
    plan.client_of_tasks(rng, timeout_ms, tasks);
    let kind = FaultKind::LoseReply(1, Trigger::Create);
    plan.fault(400, kind);
    plan
}

/// Several clients contend, and servers tell them of nodes and transactions that are not theirs.
pub(super) fn liar(seed: u64) -> Plan {
    let rng = &mut Rng::of(seed, "liar");
    let mut plan = Plan::blank(rng, seed);
    plan.lies_per_mille = rng.within(50, 400);
    let timeout_ms = 10 * plan.tick_ms;
    for _ in 0..rng.within(2, 4) {
        let tasks = rng.several(1, 3, contender);
        plan.client_of_tasks(rng, timeout_ms, tasks);
    }
    plan
}

fn contender(rng: &mut Rng) -> Vec<Step> {
    let kinds = [Target::Mutex(0), Target::Mutex(0), Target::Permit];
    rng.several(2, 6, |rng| {
        let target = rng.one_of(&kinds);
        let hold_ms = rng.within(0, 100);
        Step::lock(rng, target, hold_ms, 1)
    })
}
