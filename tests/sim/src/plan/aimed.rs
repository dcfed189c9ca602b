//! Plans that are aimed at situations which random plans hardly ever reach.
//!
//! Not here: random plans, and the types of a plan (`plan`); plans about transactions in transit
//! (`under_way`) and about links between servers (`partitions`).

use super::{DRIFT_PPM, FaultKind, Plan, RawStep, Step, Target, Trigger, Vanish};
use crate::rng::Rng;

/// Draws an aimed plan from a seed.
pub(super) fn plan(seed: u64) -> Plan {
    let rng = &mut Rng::of(seed, "aimed plan");
    let mut plan = Plan::blank(rng, seed);
    match rng.within(0, 6) {
        0 => vanishes_with_late_reply(rng, &mut plan),
        1 => vanishes_after_ping(rng, &mut plan),
        2 => deletes_next_waiter(rng, &mut plan),
        3 => deletes_nodes_under_holders(rng, &mut plan),
        4 => pauses_past_session_end(rng, &mut plan),
        5 => changes_watched_nodes_while_cut_off(rng, &mut plan),
        _ => vanishes_while_taking_several_locks(rng, &mut plan),
    }
    plan
}

/// A holder gets a reply late and then nothing more, while another client waits.
fn vanishes_with_late_reply(rng: &mut Rng, plan: &mut Plan) {
    let timeout_ms = rng.within(9, 20) * plan.tick_ms;
    plan.holder_and_waiter(rng, timeout_ms);
    // A client closes a connection after two thirds of the timeout in silence; the reply comes
    // before that.
    let late_ms = rng.within(timeout_ms * 2 / 5, timeout_ms * 3 / 5);
    let vanish = Vanish {
        late_ms,
        ms: 2 * timeout_ms,
        fails_after_ms: None,
    };
    plan.vanishes(rng, Trigger::Any, vanish);
}

/// A holder gets the reply to a ping and then nothing more, and its server may fail before the
/// leader knows of the ping.
///
/// Then the leader counts the session timeout from an earlier request. The margin of the lease must
/// cover that time, and a slow clock as well.
fn vanishes_after_ping(rng: &mut Rng, plan: &mut Plan) {
    let timeout_ms = rng.within(6, 20) * plan.tick_ms;
    plan.holder_and_waiter(rng, timeout_ms);
    let fails = rng.chance(700);
    let drift = i64::try_from(rng.within(0, DRIFT_PPM)).unwrap_or(0);
    plan.clients[0].drift_ppm = if rng.chance(300) { drift } else { -drift };
    let vanish = Vanish {
        late_ms: 0,
        ms: 2 * timeout_ms,
        fails_after_ms: fails.then(|| rng.within(10, plan.tick_ms / 2)),
    };
    plan.vanishes(rng, Trigger::Ping, vanish);
}

/// Several clients wait in the queue, and the node of the next waiter is deleted just before the
/// holder releases.
fn deletes_next_waiter(rng: &mut Rng, plan: &mut Plan) {
    let timeout_ms = rng.within(4, 9) * plan.tick_ms;
    contenders(rng, plan, timeout_ms, 60, 0);
    for _ in 0..rng.within(2, 5) {
        let who = plan.any_client(rng);
        plan.fault(rng.within(0, 400), FaultKind::DeleteBehind(who));
    }
}

/// Holders write under the lock, and contenders' nodes are deleted by hand, mostly those of the
/// holders.
fn deletes_nodes_under_holders(rng: &mut Rng, plan: &mut Plan) {
    let timeout_ms = rng.within(4, 9) * plan.tick_ms;
    contenders(rng, plan, timeout_ms, 300, 6);
    for _ in 0..rng.within(3, 8) {
        plan.fault(rng.within(0, 1500), FaultKind::Delete(rng.draw()));
    }
}

/// Clients are paused for longer than their sessions live, while they wait or hold.
fn pauses_past_session_end(rng: &mut Rng, plan: &mut Plan) {
    let timeout_ms = rng.within(2, 4) * plan.tick_ms;
    contenders(rng, plan, timeout_ms, timeout_ms, 2);
    for _ in 0..rng.within(2, 4) {
        let who = plan.any_client(rng);
        let at_ms = rng.within(0, 6 * timeout_ms);
        let ms = rng.within(timeout_ms, 3 * timeout_ms);
        plan.fault(at_ms, FaultKind::Pause(who, ms));
    }
}

/// Nodes change while the clients that watch them are cut off.
fn changes_watched_nodes_while_cut_off(rng: &mut Rng, plan: &mut Plan) {
    let timeout_ms = rng.within(6, 9) * plan.tick_ms;
    for _ in 0..3 {
        let mut steps = Vec::new();
        for _ in 0..12 {
            let node = rng.small(0, 1);
            let raw = rng.one_of(&[
                RawStep::Watch(node),
                RawStep::Set(node),
                RawStep::Read(node),
            ]);
            steps.extend([Step::Raw(raw), Step::Sleep(rng.within(0, 200))]);
        }
        plan.client(rng, timeout_ms, steps);
    }
    for _ in 0..rng.within(4, 8) {
        let who = rng.small(1, 3);
        plan.fault(rng.within(0, 1200), FaultKind::Cut(who));
    }
}

/// A client takes several locks and vanishes with one of the creates. Another client takes the
/// first lock again and again.
fn vanishes_while_taking_several_locks(rng: &mut Rng, plan: &mut Plan) {
    let timeout_ms = rng.within(2, 5) * plan.tick_ms;
    let several = (0..4).map(|_| Step::lock(rng, Target::All, 10, 0));
    let several = several.collect();
    plan.client(rng, timeout_ms, several);
    let mut steps = Vec::new();
    for _ in 0..12 {
        steps.push(Step::lock(rng, Target::Mutex(0), 5, 0));
        steps.push(Step::Sleep(rng.within(20, timeout_ms)));
    }
    plan.client(rng, timeout_ms, steps);
    for _ in 0..2 {
        let vanish = Vanish {
            late_ms: rng.within(0, timeout_ms / 2),
            ms: 2 * timeout_ms,
            fails_after_ms: None,
        };
        plan.vanishes(rng, Trigger::Create, vanish);
    }
}

/// Adds clients that each take the same mutex a few times.
fn contenders(rng: &mut Rng, plan: &mut Plan, timeout_ms: u64, hold_ms: u64, looks: u64) {
    for _ in 0..rng.within(3, 4) {
        let steps = rng.several(3, 6, |rng| {
            let hold_ms = rng.within(0, hold_ms);
            Step::lock(rng, Target::Mutex(0), hold_ms, looks)
        });
        plan.client(rng, timeout_ms, steps);
    }
}
