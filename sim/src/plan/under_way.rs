//! Plans that are aimed at what is under way between servers, and at the kinds of locks that others leave out.
//!
//! Not here: the other plans with an aim (`aimed`), and what the parts of a plan mean.

use super::{ClientPlan, Fault, FaultKind, Plan, RawStep, Step, Trigger, aimed::blank};
use crate::rng::Rng;

/// The plan of a seed that has an aim of this kind.
pub(super) fn plan(seed: u64) -> Plan {
    let rng = &mut Rng::of(seed, "plan under way");
    let mut plan = blank(rng, seed);
    comes_back_elsewhere(rng, &mut plan);
    plan
}

/// One writes without a pause, and loses its connection again and again while something of it is on its way.
fn comes_back_elsewhere(rng: &mut Rng, plan: &mut Plan) {
    plan.servers = 3;
    plan.delay_ms = 1;
    plan.commit_ms = rng.pick(&[100, 300]).unwrap_or(100);
    let writes = || (0..20).map(|_| Step::Raw(RawStep::Write)).collect();
    plan.clients.push(ClientPlan {
        id: 1,
        drift_ppm: 0,
        offset_ms: 0,
        timeout_ms: 9 * plan.tick_ms,
        tasks: (0..rng.within(1, 3)).map(|_| writes()).collect(),
    });
    for number in 0..rng.within(4, 8) {
        plan.faults.push(Fault {
            at_ms: number * rng.within(50, 300),
            kind: FaultKind::LoseReply(1, Trigger::Create),
        });
    }
    plan.faults.sort_by_key(|fault| fault.at_ms);
}
