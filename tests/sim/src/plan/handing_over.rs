//! Plans about locks that are handed over: by tickets that are used in time or too late, once or twice,
//! while connections, servers and links fail.
//!
//! Not here: how a step hands a lock over (`work::handing`).

use super::{FaultKind, HandStep, Plan, Side, Step, Target, Trigger};
use crate::rng::Rng;

/// Draws a plan of this kind from a seed.
pub(super) fn plan(seed: u64) -> Plan {
    let rng = &mut Rng::of(seed, "plan handing over");
    let mut plan = Plan::blank(rng, seed);
    plan.servers = rng.one_of(&[1, 3, 3, 3]);
    if plan.servers > 1 {
        plan.commit_ms = rng.one_of(&[1, 5, 50]);
    }
    plan.sync_limit = rng.within(4, 20);
    let timeout_ms = rng.within(4, 9) * plan.tick_ms;
    for _ in 0..2 {
        let steps = rng.several(2, 4, |rng| {
            Step::HandOver(HandStep {
                hold_ms: rng.within(0, timeout_ms),
                away_ms: rng.one_of(&[0, 0, timeout_ms / 3, timeout_ms, 2 * timeout_ms]),
                processes: rng.within(2, 4),
                rival_ms: rng.chance(500).then_some(0),
            })
        });
        plan.client(rng, timeout_ms, steps);
    }
    plan.contenders(rng, timeout_ms, Target::Mutex(0), 3);
    for _ in 0..rng.within(0, 8) {
        let at_ms = rng.within(0, 12_000);
        let who = rng.small(1, 2);
        let (server, ms) = (rng.small(0, plan.servers - 1), rng.within(0, 3000));
        let kinds = [
            (4, FaultKind::LoseReply(who, Trigger::Any)),
            (2, FaultKind::CutWrite(who, Trigger::Any)),
            (1, FaultKind::Silence(who, ms)),
            (2, FaultKind::Slow(who, ms / 10, ms)),
            (1, FaultKind::Fail(server, ms)),
            (2, FaultKind::Lag(server, ms)),
            (1, FaultKind::Depose),
            (2, FaultKind::CutOff(who, Side::Both, ms)),
            (2, FaultKind::Pause(who, ms)),
            (2, FaultKind::Crash(who, ms / 3)),
        ];
        let kind = rng.weighted(FaultKind::Cut(who), &kinds, 2);
        plan.fault(at_ms, kind);
    }
    plan
}
