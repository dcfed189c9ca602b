//! Plans that are aimed at transactions in transit between servers, and at locks and settings that
//! other plans leave out.
//!
//! Not here: the other aimed plans (`aimed`), and the types of a plan (`plan`).

use super::{
    Cancel, DRIFT_PPM, Fault, FaultKind, LockStep, Plan, RawStep, Step, Target, Trigger, Vanish,
    aimed::{blank, client, holder_and_waiter, lock, vanishes},
};
use crate::rng::Rng;

/// Draws a plan of this kind from a seed.
pub(super) fn plan(seed: u64) -> Plan {
    let rng = &mut Rng::of(seed, "plan under way");
    let mut plan = blank(rng, seed);
    match rng.within(0, 7) {
        0 => reconnects_while_writes_are_pending(rng, &mut plan),
        1 => deposes_leaders(rng, &mut plan),
        2 => uses_plain_lock(rng, &mut plan),
        3 => uses_latches(rng, &mut plan),
        4 => asks_holders_to_release(rng, &mut plan),
        5 => exceeds_hold_limits(rng, &mut plan),
        6 => writes_in_parts(rng, &mut plan),
        _ => vanishes_after_ping_with_slow_clock(rng, &mut plan),
    }
    plan.faults.sort_by_key(|fault| fault.at_ms);
    plan
}

/// A client writes without a pause, and loses its connection again and again while a write is
/// pending.
fn reconnects_while_writes_are_pending(rng: &mut Rng, plan: &mut Plan) {
    plan.servers = 3;
    plan.delay_ms = 1;
    plan.commit_ms = rng.pick(&[100, 300]).unwrap_or(100);
    let writes = (0..20).map(|_| Step::Raw(RawStep::Write)).collect();
    let timeout_ms = 9 * plan.tick_ms;
    client(rng, plan, timeout_ms, writes);
    for client in &mut plan.clients {
        let tasks = rng.within(1, 3);
        client.tasks = (0..tasks)
            .filter_map(|_| client.tasks.first().cloned())
            .collect();
    }
    for number in 0..rng.within(4, 8) {
        let at_ms = number * rng.within(50, 300);
        fault(plan, at_ms, FaultKind::LoseReply(1, Trigger::Create));
    }
}

/// Leaders are deposed, and the newest writes of contenders are lost with them.
fn deposes_leaders(rng: &mut Rng, plan: &mut Plan) {
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

/// Contenders for the plain lock, while replies are lost and servers lag.
fn uses_plain_lock(rng: &mut Rng, plan: &mut Plan) {
    plan.commit_ms = rng.pick(&[0, 20, 100]).unwrap_or(0);
    let timeout_ms = rng.within(4, 9) * plan.tick_ms;
    contenders(rng, plan, timeout_ms, Target::Plain, 2);
    for _ in 0..rng.within(3, 8) {
        let who = any_client(rng, plan);
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

/// Clients take part in an election through latches, while they are paused, cut off or deleted.
fn uses_latches(rng: &mut Rng, plan: &mut Plan) {
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
        let who = any_client(rng, plan);
        let long_ms = rng.within(timeout_ms / 2, 3 * timeout_ms);
        let kinds = [
            (2, FaultKind::Pause(who, long_ms)),
            (2, FaultKind::Silence(who, long_ms)),
            (1, FaultKind::Expire(who)),
            (1, FaultKind::Delete(rng.draw())),
        ];
        let kind = rng.weighted(FaultKind::Cut(who), &kinds, 1);
        let at_ms = rng.within(0, 6 * timeout_ms);
        fault(plan, at_ms, kind);
    }
}

/// A client asks holders to release, and most of them do. Their connections are cut now and then.
fn asks_holders_to_release(rng: &mut Rng, plan: &mut Plan) {
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

/// Holders set a hold limit, and often hold for longer than that.
fn exceeds_hold_limits(rng: &mut Rng, plan: &mut Plan) {
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
        let who = any_client(rng, plan);
        let at_ms = rng.within(0, 2 * timeout_ms);
        fault(plan, at_ms, FaultKind::Cut(who));
    }
}

/// Sockets take only parts of each write, while clients write much at a time and cancel some of it.
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
        let who = any_client(rng, plan);
        let at_ms = rng.within(0, 1000);
        fault(plan, at_ms, FaultKind::Cut(who));
    }
}

/// A holder with a slow clock gets the reply to a ping and then nothing more.
///
/// Its server fails before the leader knows of the ping.
fn vanishes_after_ping_with_slow_clock(rng: &mut Rng, plan: &mut Plan) {
    // The longest timeout that a server grants. The longer the timeout, the less the rounding to
    // ticks hides the slow clock.
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

/// Adds clients that each take the same lock a few times.
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

pub(super) fn with(mut step: Step, change: impl FnOnce(&mut LockStep)) -> Step {
    if let Step::Lock(step) = &mut step {
        change(step);
    }
    step
}

pub(super) fn any_client(rng: &mut Rng, plan: &Plan) -> u32 {
    rng.small(1, u32::try_from(plan.clients.len()).unwrap_or(1))
}

pub(super) fn fault(plan: &mut Plan, at_ms: u64, kind: FaultKind) {
    plan.faults.push(Fault { at_ms, kind });
}
