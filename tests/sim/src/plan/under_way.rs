//! Plans that are aimed at transactions in transit between servers, and at locks and settings that
//! other plans leave out.
//!
//! Not here: the other aimed plans (`aimed`), and the types of a plan (`plan`).

use super::{Cancel, DRIFT_PPM, FaultKind, Plan, RawStep, Step, Target, Trigger, Vanish};
use crate::rng::Rng;

/// Draws a plan of this kind from a seed.
pub(super) fn plan(seed: u64) -> Plan {
    let rng = &mut Rng::of(seed, "plan under way");
    let mut plan = Plan::blank(rng, seed);
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
    plan
}

/// A client writes without a pause, and loses its connection again and again while a write is
/// pending.
fn reconnects_while_writes_are_pending(rng: &mut Rng, plan: &mut Plan) {
    plan.servers = 3;
    plan.delay_ms = 1;
    plan.commit_ms = rng.one_of(&[100, 300]);
    let writes = vec![Step::Raw(RawStep::Write); 20];
    let timeout_ms = 9 * plan.tick_ms;
    plan.client(rng, timeout_ms, Vec::new());
    plan.clients[0].tasks = rng.several(1, 3, |_| writes.clone());
    for number in 0..rng.within(4, 8) {
        let at_ms = number * rng.within(50, 300);
        plan.fault(at_ms, FaultKind::LoseReply(1, Trigger::Create));
    }
}

/// Leaders are deposed, and the newest writes of contenders are lost with them.
fn deposes_leaders(rng: &mut Rng, plan: &mut Plan) {
    plan.commit_ms = rng.one_of(&[50, 200, 400]);
    let timeout_ms = rng.within(4, 9) * plan.tick_ms;
    let target = rng.one_of(&[Target::Mutex(0), Target::Write(0), Target::Plain]);
    plan.contenders(rng, timeout_ms, target, 3);
    for _ in 0..rng.within(2, 6) {
        let at_ms = rng.within(0, 3000);
        plan.fault(at_ms, FaultKind::Depose);
    }
}

/// Contenders for the plain lock, while replies are lost and servers lag.
fn uses_plain_lock(rng: &mut Rng, plan: &mut Plan) {
    plan.commit_ms = rng.one_of(&[0, 20, 100]);
    let timeout_ms = rng.within(4, 9) * plan.tick_ms;
    plan.contenders(rng, timeout_ms, Target::Plain, 2);
    for _ in 0..rng.within(3, 8) {
        let who = plan.any_client(rng);
        let trigger = rng.one_of(&[Trigger::Create, Trigger::Delete, Trigger::Any]);
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
        plan.fault(at_ms, kind);
    }
}

/// Clients take part in an election through latches, while they are paused, cut off or deleted.
fn uses_latches(rng: &mut Rng, plan: &mut Plan) {
    plan.commit_ms = rng.one_of(&[0, 0, 20]);
    let timeout_ms = rng.within(2, 5) * plan.tick_ms;
    for _ in 0..3 {
        let steps = (0..2).map(|_| {
            let target = rng.weighted(Target::Latch, &[(1, Target::Lead)], 4);
            let hold_ms = rng.within(1, 4) * timeout_ms;
            Step::lock(rng, target, hold_ms, 60)
        });
        let steps = steps.collect();
        plan.client(rng, timeout_ms, steps);
    }
    for _ in 0..rng.within(2, 5) {
        let who = plan.any_client(rng);
        let long_ms = rng.within(timeout_ms / 2, 3 * timeout_ms);
        let kinds = [
            (2, FaultKind::Pause(who, long_ms)),
            (2, FaultKind::Silence(who, long_ms)),
            (1, FaultKind::Expire(who)),
            (1, FaultKind::Delete(rng.draw())),
        ];
        let kind = rng.weighted(FaultKind::Cut(who), &kinds, 1);
        let at_ms = rng.within(0, 6 * timeout_ms);
        plan.fault(at_ms, kind);
    }
}

/// A client asks holders to release, and most of them do. Their connections are cut now and then.
fn asks_holders_to_release(rng: &mut Rng, plan: &mut Plan) {
    plan.delay_ms = 1;
    plan.commit_ms = rng.one_of(&[0, 20]);
    let timeout_ms = rng.within(2, 4) * plan.tick_ms;
    for _ in 0..2 {
        let steps = (0..3).map(|_| {
            let obeys_revoke = rng.chance(800);
            let hold_ms = if obeys_revoke { 5 * timeout_ms } else { 50 };
            let step = Step::lock(rng, Target::Mutex(0), hold_ms, 10);
            step.with(|step| step.obeys_revoke = obeys_revoke)
        });
        let steps = steps.collect();
        plan.client(rng, timeout_ms, steps);
    }
    let mut steps = Vec::new();
    for _ in 0..10 {
        steps.push(Step::Sleep(rng.within(0, 2 * timeout_ms)));
        steps.push(Step::Raw(RawStep::Revoke));
    }
    plan.client(rng, timeout_ms, steps);
    for _ in 0..rng.within(0, 4) {
        let who = rng.small(1, 2);
        let at_ms = rng.within(0, 10 * timeout_ms);
        plan.fault(at_ms, FaultKind::Cut(who));
    }
}

/// Holders set a hold limit, and often hold for longer than that.
fn exceeds_hold_limits(rng: &mut Rng, plan: &mut Plan) {
    plan.delay_ms = 1;
    let timeout_ms = rng.within(2, 4) * plan.tick_ms;
    let target = rng.one_of(&[
        Target::Mutex(0),
        Target::Write(0),
        Target::Read(0),
        Target::Permit,
        Target::Plain,
        Target::Plain,
    ]);
    for _ in 0..3 {
        let steps = (0..2).map(|_| {
            let hold_ms = rng.within(0, 5) * timeout_ms;
            let step = Step::lock(rng, target, hold_ms, 8);
            let limit_ms = rng.within(0, timeout_ms);
            step.with(|step| step.limit_ms = Some(limit_ms))
        });
        let steps = steps.collect();
        plan.client(rng, timeout_ms, steps);
    }
    if rng.chance(300) {
        let who = plan.any_client(rng);
        let at_ms = rng.within(0, 2 * timeout_ms);
        plan.fault(at_ms, FaultKind::Cut(who));
    }
}

/// Sockets take only parts of each write, while clients write much at a time and cancel some of it.
fn writes_in_parts(rng: &mut Rng, plan: &mut Plan) {
    plan.short_writes = true;
    let timeout_ms = rng.within(4, 9) * plan.tick_ms;
    for _ in 0..2 {
        plan.client_of_tasks(rng, timeout_ms, Vec::new());
        let tasks = (0..4).map(|_| {
            let steps = (0..8).map(|_| match rng.within(0, 3) {
                0 => Step::Raw(RawStep::WriteTwo),
                1 => Step::Raw(RawStep::Write),
                _ => {
                    let cancel = rng.one_of(&[
                        Cancel::Never,
                        Cancel::Polls(1),
                        Cancel::Polls(2),
                        Cancel::After(3),
                    ]);
                    let line = rng.small(0, 1);
                    let step = Step::lock(rng, Target::Mutex(line), 2, 0);
                    step.with(|step| step.cancel = cancel)
                }
            });
            steps.collect()
        });
        plan.clients.last_mut().expect("a client").tasks = tasks.collect();
    }
    for _ in 0..rng.within(0, 3) {
        let who = plan.any_client(rng);
        let at_ms = rng.within(0, 1000);
        plan.fault(at_ms, FaultKind::Cut(who));
    }
}

/// A holder with a slow clock gets the reply to a ping and then nothing more.
///
/// Its server fails before the leader knows of the ping.
fn vanishes_after_ping_with_slow_clock(rng: &mut Rng, plan: &mut Plan) {
    // The longest timeout that a server grants. The longer the timeout, the less the rounding to
    // ticks hides the slow clock.
    let timeout_ms = 20 * plan.tick_ms;
    plan.holder_and_waiter(rng, timeout_ms);
    plan.clients[0].drift_ppm = -i64::try_from(DRIFT_PPM).unwrap_or(0);
    let vanish = Vanish {
        late_ms: 0,
        ms: 2 * timeout_ms,
        fails_after_ms: Some(rng.within(5, 20)),
    };
    plan.vanishes(rng, Trigger::Ping, vanish);
}
