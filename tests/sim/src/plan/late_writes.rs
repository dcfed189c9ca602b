//! Plans about writes of a lost connection that reach the leader late. The link between a follower
//! and the leader is cut for a while, shorter than the sync limit. Meanwhile clients of the follower
//! lose their connections, again and again.
//!
//! Not here: what waits at a link (`lockkeeper_server`, `engine/member.rs`).

use super::{FaultKind, Plan, Side, Step, Target, Trigger};
use crate::rng::Rng;

/// Draws a plan of this kind from a seed.
pub(super) fn plan(seed: u64) -> Plan {
    let rng = &mut Rng::of(seed, "plan late writes");
    let mut plan = Plan::blank(rng, seed);
    plan.servers = 3;
    plan.commit_ms = rng.one_of(&[1, 5, 20]);
    if rng.chance(400) {
        holds_up_a_delete(rng, &mut plan);
    } else {
        holds_up_any_writes(rng, &mut plan);
    }
    plan
}

/// The first client releases a plain lock through a server that is cut off, and then does nothing,
/// while it loses more connections. So no other server owes the outcome of a write, and the client
/// always has one to go to. Its first delete would hit the node of the next holder.
fn holds_up_a_delete(rng: &mut Rng, plan: &mut Plan) {
    plan.sync_limit = 20;
    let timeout_ms = rng.within(8, 12) * plan.tick_ms;
    let hold_ms = rng.within(300, 1000);
    let hold = Step::lock(rng, Target::Plain, hold_ms, 2);
    plan.client(rng, timeout_ms, vec![hold]);
    for _ in 0..2 {
        let mut steps = vec![Step::Sleep(rng.within(50, hold_ms))];
        for _ in 0..2 {
            let hold_ms = rng.within(1000, 3000);
            steps.push(Step::lock(rng, Target::Plain, hold_ms, 30));
        }
        plan.client(rng, timeout_ms, steps);
    }
    let at_ms = hold_ms - rng.within(5, 50);
    let ms = rng.within(2000, 3900);
    plan.fault(at_ms, FaultKind::CutOff(1, Side::Out, ms));
    plan.fault(at_ms, FaultKind::LoseReply(1, Trigger::Delete));
    for second in 1..3 {
        let later_ms = 700 * second + rng.within(0, 300);
        plan.fault(at_ms + later_ms, FaultKind::Cut(1));
    }
}

/// Contenders for a lock with a queue lose so many connections that all servers may owe the outcome of
/// a write. Then they go back, and find their late nodes.
fn holds_up_any_writes(rng: &mut Rng, plan: &mut Plan) {
    plan.sync_limit = rng.within(10, 20);
    let timeout_ms = rng.within(5, 12) * plan.tick_ms;
    let targets = [
        Target::Mutex(0),
        Target::Mutex(0),
        Target::Write(0),
        Target::Permits,
        Target::Lead,
    ];
    let target = rng.one_of(&targets);
    plan.contenders(rng, timeout_ms, target, 3);
    let mut at_ms = 0;
    for _ in 0..rng.within(1, 3) {
        at_ms += rng.within(0, 2000);
        let who = plan.any_client(rng);
        let ms = rng.within(plan.tick_ms, plan.sync_limit * plan.tick_ms - 1);
        let side = rng.weighted(Side::Out, &[(1, Side::Both)], 2);
        plan.fault(at_ms, FaultKind::CutOff(who, side, ms));
        // Its next write lies in the queue of its server then.
        let trigger = rng.one_of(&[Trigger::Create, Trigger::Create, Trigger::Any]);
        plan.fault(at_ms + 1, FaultKind::LoseReply(who, trigger));
        for _ in 0..rng.within(1, 5) {
            let trigger = rng.one_of(&[Trigger::Any, Trigger::Create, Trigger::Multi]);
            let kinds = [(1, FaultKind::LoseReply(who, trigger))];
            let kind = rng.weighted(FaultKind::Cut(who), &kinds, 1);
            plan.fault(at_ms + rng.within(300, 300 + ms), kind);
        }
        at_ms += ms;
    }
}
