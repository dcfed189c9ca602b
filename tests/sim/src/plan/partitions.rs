//! Plans that are aimed at links between servers that are cut, while clients on both sides want the
//! same lock.
//!
//! Not here: the other aimed plans (`aimed`, `under_way`), and the types of a plan (`plan`).

use super::{FaultKind, Plan, RawStep, Side, Step, Target};
use crate::rng::Rng;

/// Draws a plan of this kind from a seed.
pub(super) fn plan(seed: u64) -> Plan {
    let rng = &mut Rng::of(seed, "partitions");
    let mut plan = Plan::blank(rng, seed);
    plan.servers = 3;
    plan.commit_ms = rng.one_of(&[1, 5, 20]);
    plan.sync_limit = rng.within(4, 20);
    match rng.within(0, 5) {
        0 | 1 => cuts_off_the_holder(rng, &mut plan),
        2 => cuts_off_contenders(rng, &mut plan),
        3 => cuts_off_the_leader(rng, &mut plan),
        4 => cuts_one_direction_and_then_the_other(rng, &mut plan),
        _ => cuts_off_a_busy_holder(rng, &mut plan),
    }
    plan
}

/// The server of a holder that does nothing is cut off, while others wait.
fn cuts_off_the_holder(rng: &mut Rng, plan: &mut Plan) {
    let timeout_ms = session(rng, plan);
    let target = exclusive(rng);
    let hold = holds(rng, target, 4 * timeout_ms);
    let reads = idle_reads(rng, timeout_ms);
    plan.client_of_tasks(rng, timeout_ms, vec![vec![hold], reads]);
    waiters(rng, plan, timeout_ms, 0, target);
    for _ in 0..rng.within(1, 2) {
        let at_ms = rng.within(0, 3 * timeout_ms);
        cut_off(rng, plan, 1, at_ms);
    }
}

/// Clients on all servers want the same lock, while servers are cut off.
fn cuts_off_contenders(rng: &mut Rng, plan: &mut Plan) {
    let target = exclusive(rng);
    for _ in 0..rng.within(3, 5) {
        let timeout_ms = session(rng, plan);
        let steps = rng.several(3, 8, |rng| {
            let hold_ms = rng.within(0, timeout_ms);
            let step = Step::lock(rng, target, hold_ms, 6);
            let gives_up = rng.chance(200);
            let cancel_ms = rng.within(0, timeout_ms);
            step.given_up_after(gives_up.then_some(cancel_ms))
        });
        plan.client(rng, timeout_ms, steps);
    }
    let mut at_ms = 0;
    for _ in 0..rng.within(2, 5) {
        at_ms += rng.within(0, 4000);
        let who = plan.any_client(rng);
        if rng.chance(300) {
            isolate(rng, plan, at_ms);
        } else {
            cut_off(rng, plan, who, at_ms);
        }
    }
}

/// The leader is cut off from all servers, often with the holder as its client, and goes on.
fn cuts_off_the_leader(rng: &mut Rng, plan: &mut Plan) {
    let timeout_ms = session(rng, plan);
    let target = exclusive(rng);
    let hold = holds(rng, target, 4 * timeout_ms);
    let reads = idle_reads(rng, timeout_ms);
    plan.client_of_tasks(rng, timeout_ms, vec![vec![hold], reads]);
    waiters(rng, plan, timeout_ms, 0, target);
    let at_ms = rng.within(0, 2 * timeout_ms);
    let elected_ms = isolate(rng, plan, at_ms);
    if rng.chance(400) {
        // The holder hears nothing of the election. Then it may come to the former leader, and hear
        // nothing more again.
        let quiet_ms = rng.within(plan.tick_ms, plan.sync_limit * plan.tick_ms / 2);
        plan.fault(elected_ms - 10, FaultKind::Silence(1, quiet_ms));
        plan.fault(elected_ms - 5, FaultKind::Cut(1));
        let at_ms = elected_ms + quiet_ms + rng.within(50, 300);
        plan.fault(at_ms, FaultKind::Silence(1, 2 * timeout_ms));
    }
}

/// What the leader sends waits for a while. When it arrives, nothing more reaches the leader.
///
/// The first client takes the lock meanwhile, after it has done nothing for some time. It asks so
/// late that it does not leave the server for another one before the answer arrives.
fn cuts_one_direction_and_then_the_other(rng: &mut Rng, plan: &mut Plan) {
    plan.sync_limit = rng.within(10, 20);
    let timeout_ms = session(rng, plan);
    let target = exclusive(rng);
    let limit_ms = plan.sync_limit * plan.tick_ms;
    let first_ms = rng.within(timeout_ms / 2, timeout_ms).min(limit_ms);
    let at_ms = rng.within(0, timeout_ms);
    let asks_ms = at_ms + first_ms - rng.within(0, timeout_ms / 5).min(first_ms);
    let hold = holds(rng, target, 3 * timeout_ms);
    // The directory is there, so that one write is enough.
    let first = Step::lock(rng, target, 0, 0);
    plan.reap_ms = 4 * timeout_ms;
    plan.client(rng, timeout_ms, vec![first, Step::Sleep(asks_ms), hold]);
    if rng.chance(500) {
        plan.task(vec![Step::Sleep(asks_ms), Step::Raw(RawStep::Write)]);
    }
    waiters(rng, plan, timeout_ms, asks_ms, target);
    let second_ms = rng.within(limit_ms / 2, limit_ms * 2);
    plan.fault(at_ms, FaultKind::CutOff(1, Side::In, first_ms));
    let at_ms = at_ms + first_ms - rng.within(1, 20);
    plan.fault(at_ms, FaultKind::CutOff(1, Side::Out, second_ms));
    if rng.chance(700) {
        // It does not hear from its server that its node is gone, and cannot save its session on
        // another server.
        plan.fault(at_ms + 50, FaultKind::Silence(1, 2 * timeout_ms));
    }
}

/// A holder that was idle writes a few times, and its server is cut off at once: perhaps before the
/// leader hears of it. The holder cannot save its session on another server.
fn cuts_off_a_busy_holder(rng: &mut Rng, plan: &mut Plan) {
    plan.tick_ms = 500;
    (plan.delay_ms, plan.commit_ms) = (1, 1);
    let timeout_ms = 20 * plan.tick_ms;
    let target = exclusive(rng);
    let hold = holds(rng, target, 3 * timeout_ms);
    plan.client(rng, timeout_ms, vec![hold]);
    let at_ms = rng.within(0, 2 * timeout_ms);
    let mut writes = vec![Step::Sleep(at_ms)];
    for _ in 0..6 {
        for _ in 0..rng.within(3, 5) {
            writes.push(Step::Raw(RawStep::Write));
        }
        writes.push(Step::Sleep(rng.within(0, timeout_ms / 2)));
    }
    plan.task(writes);
    waiters(rng, plan, timeout_ms, 0, target);
    let at_ms = at_ms + rng.within(5, 150);
    plan.fault(at_ms, FaultKind::CutOff(1, Side::Both, 2 * timeout_ms));
    plan.fault(at_ms + 10, FaultKind::Silence(1, 2 * timeout_ms));
}

fn exclusive(rng: &mut Rng) -> Target {
    let others = [
        (2, Target::Write(0)),
        (2, Target::Latch),
        (1, Target::Plain),
        (1, Target::Lead),
    ];
    rng.weighted(Target::Mutex(0), &others, 4)
}

/// Holds a lock for long and often checks its lease. Most holders write nothing: a write that is
/// not answered would hold up the pings behind it.
fn holds(rng: &mut Rng, target: Target, hold_ms: u64) -> Step {
    let target = match target {
        Target::Mutex(line) | Target::Write(line) if rng.chance(800) => Target::Read(line),
        target => target,
    };
    Step::lock(rng, target, hold_ms, 60)
}

/// A session timeout: from two ticks to more than the sync limit.
fn session(rng: &mut Rng, plan: &Plan) -> u64 {
    rng.within(2, 20) * plan.tick_ms
}

/// Reads or syncs, with pauses; or nothing.
fn idle_reads(rng: &mut Rng, timeout_ms: u64) -> Vec<Step> {
    let mut steps = Vec::new();
    if rng.chance(500) {
        let syncs = rng.chance(300);
        for _ in 0..if syncs { 160 } else { 40 } {
            let pause_ms = rng.within(0, timeout_ms / 5);
            steps.push(Step::Sleep(if syncs { pause_ms / 2 } else { pause_ms }));
            let read = if syncs {
                RawStep::Sync
            } else {
                RawStep::Read(0)
            };
            steps.push(Step::Raw(read));
        }
    }
    steps
}

/// Adds clients that take the lock a few times, a little later than `from_ms`.
fn waiters(rng: &mut Rng, plan: &mut Plan, timeout_ms: u64, from_ms: u64, target: Target) {
    for _ in 0..rng.within(2, 3) {
        let mut steps = vec![Step::Sleep(from_ms + rng.within(50, timeout_ms / 2))];
        for _ in 0..rng.within(1, 3) {
            let hold_ms = rng.within(0, timeout_ms);
            steps.push(Step::lock(rng, target, hold_ms, 4));
        }
        let timeout_ms = session(rng, plan);
        plan.client(rng, timeout_ms, steps);
    }
}

/// Cuts the links of this client's server, for less or more than the sync limit.
fn cut_off(rng: &mut Rng, plan: &mut Plan, who: u32, at_ms: u64) {
    let limit_ms = plan.sync_limit * plan.tick_ms;
    let ms = if rng.chance(400) {
        rng.within(100, limit_ms)
    } else {
        rng.within(limit_ms, 2 * limit_ms)
    };
    let side = rng.weighted(Side::Both, &[(1, Side::Out), (1, Side::In)], 3);
    plan.fault(at_ms, FaultKind::CutOff(who, side, ms));
}

/// Cuts all links of the leader. Returns when the others have a new one.
fn isolate(rng: &mut Rng, plan: &mut Plan, at_ms: u64) -> u64 {
    let limit_ms = plan.sync_limit * plan.tick_ms;
    let elect_ms = rng.within(plan.tick_ms, limit_ms);
    let ms = rng.within(elect_ms / 2, 2 * limit_ms);
    plan.fault(at_ms, FaultKind::Isolate(elect_ms, ms));
    at_ms + elect_ms
}
