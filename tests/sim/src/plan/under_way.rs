//! Plans that are aimed at what is under way between servers, and at the kinds of locks that others leave out.
//!
//! Not here: the other plans with an aim (`aimed`), and what the parts of a plan mean.

use super::{
    Cancel, DRIFT_PPM, Fault, FaultKind, LockStep, Plan, RawStep, Step, Target, Trigger, Vanish,
    aimed::{blank, client, holder_and_waiter, lock, vanishes},
};
use crate::rng::Rng;

/// The plan of a seed that has an aim of this kind.
pub(super) fn plan(seed: u64) -> Plan {
    let rng = &mut Rng::of(seed, "plan under way");
    let mut plan = blank(rng, seed);
    match rng.within(0, 7) {
        0 => comes_back_elsewhere(rng, &mut plan),
        1 => is_deposed(rng, &mut plan),
        2 => has_no_line(rng, &mut plan),
        3 => stands(rng, &mut plan),
        4 => is_asked(rng, &mut plan),
        5 => holds_too_long(rng, &mut plan),
        6 => writes_in_parts(rng, &mut plan),
        _ => hears_of_a_ping(rng, &mut plan),
    }
    plan.faults.sort_by_key(|fault| fault.at_ms);
    plan
}

/// One writes without a pause, and loses its connection again and again while something of it is on its way.
fn comes_back_elsewhere(rng: &mut Rng, plan: &mut Plan) {
    plan.servers = 3;
    plan.delay_ms = 1;
    plan.commit_ms = rng.pick(&[100, 300]).unwrap_or(100);
    let writes = (0..20).map(|_| Step::Raw(RawStep::Write)).collect();
    let timeout_ms = 9 * plan.tick_ms;
    client(rng, plan, timeout_ms, writes);
    for one in &mut plan.clients {
        let tasks = rng.within(1, 3);
        one.tasks = (0..tasks)
            .filter_map(|_| one.tasks.first().cloned())
            .collect();
    }
    for number in 0..rng.within(4, 8) {
        let at_ms = number * rng.within(50, 300);
        fault(plan, at_ms, FaultKind::LoseReply(1, Trigger::Create));
    }
}

/// Leaders are deposed, with whatever contenders have written just then.
fn is_deposed(rng: &mut Rng, plan: &mut Plan) {
    plan.commit_ms = rng.pick(&[50, 200, 400]).unwrap_or(50);
    let timeout_ms = rng.within(4, 9) * plan.tick_ms;
    let target = rng.pick(&[Target::Mutex(0), Target::Write(0), Target::Plain]);
    let target = target.unwrap_or(Target::Mutex(0));
    contenders(rng, plan, timeout_ms, target, 3);
    for _ in 0..rng.within(2, 6) {
        let away_ms = rng.within(0, timeout_ms);
        let at_ms = rng.within(0, 3000);
        fault(plan, at_ms, FaultKind::Depose(away_ms));
    }
}

/// The lock without a line, where replies are lost and servers lag.
fn has_no_line(rng: &mut Rng, plan: &mut Plan) {
    plan.commit_ms = rng.pick(&[0, 20, 100]).unwrap_or(0);
    let timeout_ms = rng.within(4, 9) * plan.tick_ms;
    contenders(rng, plan, timeout_ms, Target::Plain, 2);
    for _ in 0..rng.within(3, 8) {
        let who = somebody(rng, plan);
        let trigger = rng.pick(&[Trigger::Create, Trigger::Delete, Trigger::Any]);
        let trigger = trigger.unwrap_or(Trigger::Any);
        let server = rng.small(0, plan.servers - 1);
        let kinds = [
            (4, FaultKind::LoseReply(who, trigger)),
            (1, FaultKind::CutWrite(who, trigger)),
            (2, FaultKind::Lag(server, rng.within(0, 1000))),
            (
                1,
                FaultKind::Pause(who, rng.within(timeout_ms, 2 * timeout_ms)),
            ),
            (1, FaultKind::Expire(who)),
        ];
        let kind = rng.weighted(FaultKind::Cut(who), &kinds, 2);
        let at_ms = rng.within(0, 2000);
        fault(plan, at_ms, kind);
    }
}

/// Some stand for an election in the background, and cannot be sure of their connections, or to run at all.
fn stands(rng: &mut Rng, plan: &mut Plan) {
    plan.commit_ms = rng.pick(&[0, 0, 20]).unwrap_or(0);
    let timeout_ms = rng.within(2, 5) * plan.tick_ms;
    for _ in 0..3 {
        let steps = (0..2).map(|_| {
            let target = rng.weighted(Target::Latch, &[(1, Target::Lead)], 4);
            let hold_ms = rng.within(1, 4) * timeout_ms;
            lock(rng, target, hold_ms, 60)
        });
        let steps = steps.collect();
        client(rng, plan, timeout_ms, steps);
    }
    for _ in 0..rng.within(2, 5) {
        let who = somebody(rng, plan);
        let long_ms = rng.within(timeout_ms / 2, 3 * timeout_ms);
        let kinds = [
            (2, FaultKind::Pause(who, long_ms)),
            (2, FaultKind::Silence(who, long_ms)),
            (1, FaultKind::Expire(who)),
            (1, FaultKind::Delete(rng.next())),
        ];
        let kind = rng.weighted(FaultKind::Cut(who), &kinds, 1);
        let at_ms = rng.within(0, 6 * timeout_ms);
        fault(plan, at_ms, kind);
    }
}

/// Holders are asked to let go, and do, while their connections are cut now and then.
fn is_asked(rng: &mut Rng, plan: &mut Plan) {
    plan.delay_ms = 1;
    plan.commit_ms = rng.pick(&[0, 20]).unwrap_or(0);
    let timeout_ms = rng.within(2, 4) * plan.tick_ms;
    for _ in 0..2 {
        let steps = (0..3).map(|_| {
            let obeys_revoke = rng.chance(800);
            let hold_ms = if obeys_revoke { 5 * timeout_ms } else { 50 };
            let step = lock(rng, Target::Mutex(0), hold_ms, 10);
            with(step, |step| step.obeys_revoke = obeys_revoke)
        });
        let steps = steps.collect();
        client(rng, plan, timeout_ms, steps);
    }
    let mut steps = Vec::new();
    for _ in 0..10 {
        steps.push(Step::Sleep(rng.within(0, 2 * timeout_ms)));
        steps.push(Step::Raw(RawStep::Revoke));
    }
    client(rng, plan, timeout_ms, steps);
    for _ in 0..rng.within(0, 4) {
        let who = rng.small(1, 2);
        let at_ms = rng.within(0, 10 * timeout_ms);
        fault(plan, at_ms, FaultKind::Cut(who));
    }
}

/// Holders set themselves a limit and hold on for longer.
fn holds_too_long(rng: &mut Rng, plan: &mut Plan) {
    plan.delay_ms = 1;
    let timeout_ms = rng.within(2, 4) * plan.tick_ms;
    let target = rng.pick(&[
        Target::Mutex(0),
        Target::Write(0),
        Target::Read(0),
        Target::Lease,
        Target::Plain,
        Target::Plain,
    ]);
    let target = target.unwrap_or(Target::Mutex(0));
    for _ in 0..3 {
        let steps = (0..2).map(|_| {
            let hold_ms = rng.within(0, 5) * timeout_ms;
            let step = lock(rng, target, hold_ms, 8);
            let limit_ms = rng.within(0, timeout_ms);
            with(step, |step| step.limit_ms = Some(limit_ms))
        });
        let steps = steps.collect();
        client(rng, plan, timeout_ms, steps);
    }
    if rng.chance(300) {
        let who = somebody(rng, plan);
        let at_ms = rng.within(0, 2 * timeout_ms);
        fault(plan, at_ms, FaultKind::Cut(who));
    }
}

/// Sockets take only parts of what is written, while much is written at a time and some of it is given up.
fn writes_in_parts(rng: &mut Rng, plan: &mut Plan) {
    plan.short_writes = true;
    let timeout_ms = rng.within(4, 9) * plan.tick_ms;
    for _ in 0..2 {
        client(rng, plan, timeout_ms, Vec::new());
        let tasks = (0..4).map(|_| {
            let steps = (0..8).map(|_| match rng.within(0, 3) {
                0 => Step::Raw(RawStep::WriteTwo),
                1 => Step::Raw(RawStep::Write),
                _ => {
                    let cancel = rng.pick(&[
                        Cancel::Never,
                        Cancel::Polls(1),
                        Cancel::Polls(2),
                        Cancel::After(3),
                    ]);
                    let line = rng.small(0, 1);
                    let step = lock(rng, Target::Mutex(line), 2, 0);
                    with(step, |step| step.cancel = cancel.unwrap_or(Cancel::Never))
                }
            });
            steps.collect()
        });
        let tasks = tasks.collect();
        if let Some(client) = plan.clients.last_mut() {
            client.tasks = tasks;
        }
    }
    for _ in 0..rng.within(0, 3) {
        let who = somebody(rng, plan);
        let at_ms = rng.within(0, 1000);
        fault(plan, at_ms, FaultKind::Cut(who));
    }
}

/// A holder with a slow clock hears of a ping, and then of nothing: its server fails before the leader knows of the ping.
fn hears_of_a_ping(rng: &mut Rng, plan: &mut Plan) {
    // The longest that a server grants as it comes: the longer, the less do ticks hide of what the clock loses.
    let timeout_ms = 20 * plan.tick_ms;
    holder_and_waiter(rng, plan, timeout_ms);
    plan.relay = true;
    if let Some(holder) = plan.clients.first_mut() {
        holder.drift_ppm = -i64::try_from(DRIFT_PPM).unwrap_or(0);
    }
    let vanish = Vanish {
        late_ms: 0,
        ms: 2 * timeout_ms,
        fails_after_ms: Some(rng.within(5, 20)),
    };
    vanishes(rng, plan, Trigger::Ping, vanish);
}

/// Some clients that want the same lock, a few times each.
fn contenders(rng: &mut Rng, plan: &mut Plan, timeout_ms: u64, target: Target, looks: u64) {
    for _ in 0..rng.within(3, 4) {
        let steps = (0..rng.within(4, 8)).map(|_| {
            let hold_ms = rng.within(0, 200);
            let step = lock(rng, target, hold_ms, looks);
            let cancel_ms = rng.within(0, 400);
            let gives_up = rng.chance(200);
            with(step, |step| {
                if gives_up {
                    step.cancel = Cancel::After(cancel_ms);
                }
            })
        });
        let steps = steps.collect();
        client(rng, plan, timeout_ms, steps);
    }
}

fn with(mut step: Step, change: impl FnOnce(&mut LockStep)) -> Step {
    if let Step::Lock(step) = &mut step {
        change(step);
    }
    step
}

fn somebody(rng: &mut Rng, plan: &Plan) -> u32 {
    rng.small(1, u32::try_from(plan.clients.len()).unwrap_or(1))
}

fn fault(plan: &mut Plan, at_ms: u64, kind: FaultKind) {
    plan.faults.push(Fault { at_ms, kind });
}
