//! Plans that are aimed at servers that refuse clients or requests, and at clients whose queues of
//! requests are full.
//!
//! A server refuses clients while it has no majority, and any request while it throttles. Not here:
//! the other aimed plans (`aimed`, `under_way`, `partitions`), and the types of a plan (`plan`).

use super::{Cancel, FaultKind, Leave, Plan, RawStep, Step, Target, Trigger};
use crate::rng::Rng;

/// Draws a plan of this kind from a seed.
pub(super) fn plan(seed: u64) -> Plan {
    let rng = &mut Rng::of(seed, "servers");
    let mut plan = Plan::blank(rng, seed);
    plan.sync_limit = rng.within(0, 2);
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
    plan
}

/// Contenders take locks of all kinds, while the servers throttle and connections are lost.
fn throttles(rng: &mut Rng, plan: &mut Plan) {
    let timeout_ms = rng.within(3, 8) * plan.tick_ms;
    for _ in 0..3 {
        let steps = rng.several(3, 6, |rng| varied(rng, timeout_ms));
        plan.client(rng, timeout_ms, steps);
    }
    for _ in 0..rng.within(2, 5) {
        let at_ms = rng.within(0, 3000);
        throttle(rng, plan, at_ms);
    }
    for _ in 0..rng.within(0, 4) {
        let who = plan.any_client(rng);
        let at_ms = rng.within(0, 3000);
        let kinds = [
            (2, FaultKind::LoseReply(who, Trigger::Any)),
            (1, FaultKind::Pause(who, 2 * timeout_ms)),
        ];
        let kind = rng.weighted(FaultKind::Cut(who), &kinds, 3);
        plan.fault(at_ms, kind);
    }
}

/// Clients with small queues of requests do much at the same time, cancel much of it, and lose
/// their connections.
fn fills_queues(rng: &mut Rng, plan: &mut Plan) {
    plan.max_outstanding = rng.one_of(&[1, 1, 2, 3]);
    let timeout_ms = rng.within(3, 8) * plan.tick_ms;
    for _ in 0..2 {
        plan.client_of_tasks(rng, timeout_ms, Vec::new());
        plan.clients.last_mut().expect("a client").tasks = rng.several(3, 6, |rng| {
            rng.several(3, 6, |rng| {
                let target = any_lock(rng);
                match rng.within(0, 4) {
                    0 => Step::Raw(RawStep::Write),
                    1 => Step::Raw(RawStep::WriteTwo),
                    _ => varied_of(rng, target, timeout_ms),
                }
            })
        });
    }
    for _ in 0..rng.within(1, 6) {
        let who = plan.any_client(rng);
        let at_ms = rng.within(0, 2000);
        let kinds = [
            (2, FaultKind::Slow(who, rng.within(50, 300), 1000)),
            (1, FaultKind::Silence(who, rng.within(100, 2 * timeout_ms))),
            (1, FaultKind::LoseReply(who, Trigger::Delete)),
            (1, FaultKind::Pause(who, rng.within(100, 2 * timeout_ms))),
        ];
        let kind = rng.weighted(FaultKind::Cut(who), &kinds, 2);
        plan.fault(at_ms, kind);
    }
}

/// Servers have no majority when clients come, and for so long that sessions end.
fn has_no_majority(rng: &mut Rng, plan: &mut Plan) {
    let timeout_ms = rng.within(2, 5) * plan.tick_ms;
    for _ in 0..3 {
        let mut steps = Vec::new();
        for _ in 0..rng.within(4, 8) {
            steps.push(varied(rng, timeout_ms));
            steps.push(Step::Sleep(rng.within(0, timeout_ms)));
        }
        plan.client(rng, timeout_ms, steps);
    }
    let server = rng.small(0, plan.servers - 1);
    let ms = rng.within(100, 3 * timeout_ms);
    plan.fault(0, FaultKind::Alone(server, ms));
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
            plan.fault(at_ms, FaultKind::AllAlone(ms));
        }
        _ => {
            let ms = rng.within(100, 4 * session_ms);
            plan.fault(at_ms, FaultKind::Alone(server, ms));
        }
    }
    let who = plan.any_client(rng);
    let later_ms = at_ms + rng.within(0, session_ms);
    match rng.within(0, 9) {
        0..4 => plan.fault(later_ms, FaultKind::Crash(who, 50)),
        4..7 => plan.fault(later_ms, FaultKind::Cut(who)),
        _ => {}
    }
}

fn throttle(rng: &mut Rng, plan: &mut Plan, at_ms: u64) {
    let count = rng.small(1, 12);
    let every = rng.small(1, 4);
    let ms = rng.within(200, 2000);
    plan.fault(at_ms, FaultKind::Throttle(count, every, ms));
}

/// A step that takes some lock and leaves it in some way.
fn varied(rng: &mut Rng, timeout_ms: u64) -> Step {
    let target = any_lock(rng);
    varied_of(rng, target, timeout_ms)
}

fn varied_of(rng: &mut Rng, target: Target, timeout_ms: u64) -> Step {
    let hold_ms = rng.within(0, 200);
    let looks = rng.within(0, 3);
    let step = Step::lock(rng, target, hold_ms, looks);
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
    step.with(|step| (step.cancel, step.leave) = (cancel, leave))
}

fn any_lock(rng: &mut Rng) -> Target {
    let line = rng.small(0, 1);
    let others = [
        (2, Target::Write(line)),
        (2, Target::Read(line)),
        (2, Target::Permit),
        (2, Target::Plain),
        (1, Target::Permits),
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
