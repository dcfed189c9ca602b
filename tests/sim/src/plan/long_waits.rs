//! Plans about waits that no event ends: events that are lost, a server that keeps the nodes of
//! sessions that have ended, and nodes that the others may not read.
//!
//! Not here: servers that lag behind or fail (`random`, `partitions`).

use super::{FaultKind, Plan, Target};
use crate::rng::Rng;

/// Draws a plan of this kind from a seed.
pub(super) fn plan(seed: u64) -> Plan {
    let rng = &mut Rng::of(seed, "long waits");
    let mut plan = Plan::blank(rng, seed);
    plan.servers = 3;
    plan.commit_ms = rng.one_of(&[1, 5, 20]);
    let timeout_ms = rng.within(5, 9) * plan.tick_ms;
    let targets = [
        Target::Mutex(0),
        Target::Read(0),
        Target::Write(0),
        Target::Permit,
        Target::Permits,
        Target::Reentrant(0),
        Target::Lead,
        Target::Plain,
    ];
    let target = rng.one_of(&targets);
    plan.contenders(rng, timeout_ms, target, 0);
    for _ in 0..rng.within(1, 4) {
        let at_ms = rng.within(0, 3000);
        plan.fault(at_ms, FaultKind::LoseEvent);
    }
    if rng.chance(500) {
        let (server, who) = (rng.small(0, 2), plan.any_client(rng));
        let at_ms = rng.within(0, 2000);
        plan.fault(at_ms, FaultKind::KeepEnded(server));
        let crash_ms = at_ms + rng.within(0, 1000);
        plan.fault(crash_ms, FaultKind::Crash(who, 2 * timeout_ms));
    }
    let rng = &mut Rng::of(seed, "hidden nodes");
    if rng.chance(500) {
        for client in &mut plan.clients {
            client.hides = rng.chance(500);
        }
    }
    plan
}
