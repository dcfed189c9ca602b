//! Plans that are aimed at servers that refuse requests, and at clients whose queues of requests
//! are full.
//!
//! A server refuses what needs a leader while it has no majority, and any request while it
//! throttles. Not here: the other aimed plans (`aimed`, `under_way`, `partitions`), and the types
//! of a plan (`plan`).

use super::{
    Cancel, FaultKind, Leave, Plan, RawStep, Step, Target, Trigger,
    aimed::{blank, client, lock},
    under_way::{any_client, fault, with},
};
use crate::rng::Rng;

/// Draws a plan of this kind from a seed.
pub(super) fn plan(seed: u64) -> Plan {
    let rng = &mut Rng::of(seed, "servers");
    let mut plan = blank(rng, seed);
    plan.read_only = true;
    match rng.within(0, 5) {
        0 => throttles(rng, &mut plan),
        1 => fills_queues(rng, &mut plan),
        2 | 3 => has_no_majority(rng, &mut plan),
        _ => {
            fills_queues(rng, &mut plan);
            refuses(rng, &mut plan, 4000);
            refuses(rng, &mut plan, 4000);
        }
    }
    for client in &mut plan.clients {
        client.tasks.push(watches(rng));
    }
    plan.faults.sort_by_key(|fault| fault.at_ms);
    plan
}

/// Contenders take locks of all kinds, while the servers throttle and connections are lost.
fn throttles(rng: &mut Rng, plan: &mut Plan) {
    let timeout_ms = rng.within(3, 8) * plan.tick_ms;
    for _ in 0..3 {
        let steps = (0..rng.within(3, 6)).map(|_| {
            let target = any_lock(rng);
            varied(rng, target, timeout_ms)
        });
        let steps = steps.collect();
        client(rng, plan, timeout_ms, steps);
    }
    for _ in 0..rng.within(2, 5) {
        let at_ms = rng.within(0, 3000);
        throttle(rng, plan, at_ms);
    }
    for _ in 0..rng.within(0, 4) {
        let who = any_client(rng, plan);
        let at_ms = rng.within(0, 3000);
        let kinds = [
            (2, FaultKind::LoseReply(who, Trigger::Any)),
            (1, FaultKind::Pause(who, 2 * timeout_ms)),
        ];
        let kind = rng.weighted(FaultKind::Cut(who), &kinds, 3);
        fault(plan, at_ms, kind);
    }
}

/// Clients with small queues of requests do much at the same time, cancel much of it, and lose
/// their connections.
fn fills_queues(rng: &mut Rng, plan: &mut Plan) {
    plan.max_outstanding = rng.pick(&[1, 1, 2, 3]).unwrap_or(1);
    let timeout_ms = rng.within(3, 8) * plan.tick_ms;
    for _ in 0..2 {
        client(rng, plan, timeout_ms, Vec::new());
        let tasks = (0..rng.within(3, 6)).map(|_| {
            let steps = (0..rng.within(3, 6)).map(|_| {
                let target = any_lock(rng);
                match rng.within(0, 4) {
                    0 => Step::Raw(RawStep::Write),
                    1 => Step::Raw(RawStep::WriteTwo),
                    _ => varied(rng, target, timeout_ms),
                }
            });
            steps.collect()
        });
        let tasks = tasks.collect();
        if let Some(client) = plan.clients.last_mut() {
            client.tasks = tasks;
        }
    }
    for _ in 0..rng.within(1, 6) {
        let who = any_client(rng, plan);
        let at_ms = rng.within(0, 2000);
        let kinds = [
            (2, FaultKind::Slow(who, rng.within(50, 300), 1000)),
            (1, FaultKind::Silence(who, rng.within(100, 2 * timeout_ms))),
            (1, FaultKind::LoseReply(who, Trigger::Delete)),
            (1, FaultKind::Pause(who, rng.within(100, 2 * timeout_ms))),
        ];
        let kind = rng.weighted(FaultKind::Cut(who), &kinds, 2);
        fault(plan, at_ms, kind);
    }
}

/// Servers have no majority when clients come, and for so long that sessions end.
fn has_no_majority(rng: &mut Rng, plan: &mut Plan) {
    let timeout_ms = rng.within(2, 5) * plan.tick_ms;
    for _ in 0..3 {
        let mut steps = Vec::new();
        for _ in 0..rng.within(4, 8) {
            let target = any_lock(rng);
            steps.push(varied(rng, target, timeout_ms));
            steps.push(Step::Sleep(rng.within(0, timeout_ms)));
        }
        client(rng, plan, timeout_ms, steps);
    }
    let server = rng.small(0, plan.servers - 1);
    let ms = rng.within(100, 3 * timeout_ms);
    fault(plan, 0, FaultKind::ReadOnly(server, ms));
    for _ in 0..rng.within(2, 4) {
        refuses(rng, plan, 8 * timeout_ms);
    }
}

/// Adds a time in which servers refuse requests, and often a client that has to come back
/// meanwhile.
fn refuses(rng: &mut Rng, plan: &mut Plan, within_ms: u64) {
    let session_ms = plan.clients.iter().map(|client| client.timeout_ms).max();
    let session_ms = session_ms.unwrap_or(0);
    let at_ms = rng.within(0, within_ms);
    let server = rng.small(0, plan.servers - 1);
    match rng.within(0, 4) {
        0 => throttle(rng, plan, at_ms),
        1 | 2 => {
            let ms = rng.within(100, 4 * session_ms);
            fault(plan, at_ms, FaultKind::NoMajority(ms));
        }
        _ => {
            let ms = rng.within(100, 4 * session_ms);
            fault(plan, at_ms, FaultKind::ReadOnly(server, ms));
        }
    }
    let who = any_client(rng, plan);
    let later_ms = at_ms + rng.within(0, session_ms);
    match rng.within(0, 9) {
        0..4 => fault(plan, later_ms, FaultKind::Crash(who, 50)),
        4..7 => fault(plan, later_ms, FaultKind::Cut(who)),
        _ => {}
    }
}

fn throttle(rng: &mut Rng, plan: &mut Plan, at_ms: u64) {
    let count = rng.small(1, 12);
    let every = rng.small(1, 4);
    let ms = rng.within(200, 2000);
    fault(plan, at_ms, FaultKind::Throttle(count, every, ms));
}

/// A step that takes this lock and leaves it in some way.
fn varied(rng: &mut Rng, target: Target, timeout_ms: u64) -> Step {
    let hold_ms = rng.within(0, 200);
    let looks = rng.within(0, 3);
    let step = lock(rng, target, hold_ms, looks);
    let cancels = [
        (2, Cancel::Polls(rng.within(1, 8))),
        (1, Cancel::After(rng.within(0, timeout_ms))),
    ];
    let cancel = rng.weighted(Cancel::Never, &cancels, 6);
    let leaves = [
        (3, Leave::Drop),
        (1, Leave::GiveUp(rng.within(1, 3))),
        (1, Leave::With),
        (1, Leave::Downgrade),
    ];
    let leave = rng.weighted(Leave::Release, &leaves, 3);
    with(step, |step| (step.cancel, step.leave) = (cancel, leave))
}

fn any_lock(rng: &mut Rng) -> Target {
    let line = rng.small(0, 1);
    let others = [
        (2, Target::Write(line)),
        (2, Target::Read(line)),
        (2, Target::Lease),
        (2, Target::Plain),
        (1, Target::Leases),
        (1, Target::All),
        (1, Target::Lead),
    ];
    rng.weighted(Target::Mutex(line), &others, 3)
}

/// The steps of a task that watches nodes, which it and others change.
fn watches(rng: &mut Rng) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..rng.within(2, 5) {
        let node = rng.small(0, 1);
        let others = [
            (2, RawStep::Set(node)),
            (1, RawStep::Delete(node)),
            (1, RawStep::Create(node)),
        ];
        let step = rng.weighted(RawStep::Watch(node), &others, 6);
        steps.push(Step::Raw(step));
        steps.push(Step::Sleep(rng.within(0, 1000)));
    }
    steps
}
