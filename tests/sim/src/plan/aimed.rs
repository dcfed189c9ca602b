//! Plans that are aimed at what chance hardly ever meets.
//!
//! Not here: plans without an aim, and what the parts of a plan mean.

use super::{
    Cancel, ClientPlan, DRIFT_PPM, Entry, Fault, FaultKind, Leave, LockStep, Plan, RawStep, Step,
    Target, Trigger, Vanish,
};
use crate::rng::Rng;

/// The plan of a seed that has an aim.
pub(super) fn plan(seed: u64) -> Plan {
    let rng = &mut Rng::of(seed, "aimed plan");
    let mut plan = blank(rng, seed);
    match rng.within(0, 6) {
        0 => hears_late(rng, &mut plan),
        1 => hears_last(rng, &mut plan),
        2 => is_deleted(rng, &mut plan),
        3 => writes_too_late(rng, &mut plan),
        4 => oversleeps(rng, &mut plan),
        5 => misses_changes(rng, &mut plan),
        _ => takes_several(rng, &mut plan),
    }
    plan
}

/// Nobody does anything, and nothing goes wrong.
pub(super) fn blank(rng: &mut Rng, seed: u64) -> Plan {
    Plan {
        seed,
        servers: rng.small(2, 3),
        tick_ms: rng.within(2, 5) * 100,
        reap_ms: rng.within(2, 40) * 100,
        relay: rng.chance(700),
        commit_ms: 0,
        short_writes: false,
        delay_ms: rng.pick(&[1, 5]).unwrap_or(5),
        yield_per_mille: rng.pick(&[0, 50, 300]).unwrap_or(0),
        clients: Vec::new(),
        faults: Vec::new(),
    }
}

/// A holder hears late of a request and then of nothing, while another one waits.
fn hears_late(rng: &mut Rng, plan: &mut Plan) {
    let timeout_ms = rng.within(9, 20) * plan.tick_ms;
    holder_and_waiter(rng, plan, timeout_ms);
    // A client gives a connection up that is silent for two thirds of it, and pings after one. So it is no ping.
    let late_ms = rng.within(timeout_ms * 2 / 5, timeout_ms * 3 / 5);
    let vanish = Vanish {
        late_ms,
        ms: 2 * timeout_ms,
        fails_after_ms: None,
    };
    vanishes(rng, plan, Trigger::Any, vanish);
}

/// A holder hears of a ping and then of nothing, and its server may fail before the leader knows. Then the leader counts from
/// what it knew before, which the margin of the lease makes up for, and for a clock that is slow besides.
fn hears_last(rng: &mut Rng, plan: &mut Plan) {
    let timeout_ms = rng.within(6, 20) * plan.tick_ms;
    holder_and_waiter(rng, plan, timeout_ms);
    plan.relay = true;
    let fails = rng.chance(700);
    if let Some(holder) = plan.clients.first_mut() {
        let drift = i64::try_from(rng.within(0, DRIFT_PPM)).unwrap_or(0);
        holder.drift_ppm = if rng.chance(300) { drift } else { -drift };
    }
    let fails_after_ms = fails.then(|| rng.within(10, plan.tick_ms / 2));
    let vanish = Vanish {
        late_ms: 0,
        ms: 2 * timeout_ms,
        fails_after_ms,
    };
    vanishes(rng, plan, Trigger::Ping, vanish);
}

/// Some wait in the line, and the node of the next one is deleted by hand just before the holder lets go.
fn is_deleted(rng: &mut Rng, plan: &mut Plan) {
    let timeout_ms = rng.within(4, 9) * plan.tick_ms;
    contenders(rng, plan, timeout_ms, 60, 0);
    for _ in 0..rng.within(2, 5) {
        let who = rng.small(1, u32::try_from(plan.clients.len()).unwrap_or(1));
        plan.faults.push(Fault {
            at_ms: rng.within(0, 400),
            kind: FaultKind::DeleteBehind(who),
        });
    }
    plan.faults.sort_by_key(|fault| fault.at_ms);
}

/// Holders write under the lock, and nodes are deleted by hand: theirs, as a rule.
fn writes_too_late(rng: &mut Rng, plan: &mut Plan) {
    let timeout_ms = rng.within(4, 9) * plan.tick_ms;
    contenders(rng, plan, timeout_ms, 300, 6);
    for _ in 0..rng.within(3, 8) {
        plan.faults.push(Fault {
            at_ms: rng.within(0, 1500),
            kind: FaultKind::Delete(rng.next()),
        });
    }
    plan.faults.sort_by_key(|fault| fault.at_ms);
}

/// Clients sleep for longer than their sessions live, while they wait or hold.
fn oversleeps(rng: &mut Rng, plan: &mut Plan) {
    let timeout_ms = rng.within(2, 4) * plan.tick_ms;
    contenders(rng, plan, timeout_ms, timeout_ms, 2);
    for _ in 0..rng.within(2, 4) {
        let who = rng.small(1, u32::try_from(plan.clients.len()).unwrap_or(1));
        plan.faults.push(Fault {
            at_ms: rng.within(0, 6 * timeout_ms),
            kind: FaultKind::Pause(who, rng.within(timeout_ms, 3 * timeout_ms)),
        });
    }
    plan.faults.sort_by_key(|fault| fault.at_ms);
}

/// Nodes change while those who watch them are cut off.
fn misses_changes(rng: &mut Rng, plan: &mut Plan) {
    let timeout_ms = rng.within(6, 9) * plan.tick_ms;
    for _ in 0..3 {
        let mut steps = Vec::new();
        for _ in 0..12 {
            let node = rng.small(0, 1);
            let raw = [
                RawStep::Watch(node),
                RawStep::Set(node),
                RawStep::Read(node),
            ];
            steps.extend(rng.pick(&raw).map(Step::Raw));
            steps.push(Step::Sleep(rng.within(0, 200)));
        }
        client(rng, plan, timeout_ms, steps);
    }
    for _ in 0..rng.within(4, 8) {
        let who = rng.small(1, 3);
        plan.faults.push(Fault {
            at_ms: rng.within(0, 1200),
            kind: FaultKind::Cut(who),
        });
    }
    plan.faults.sort_by_key(|fault| fault.at_ms);
}

/// One takes several locks and vanishes with one of the creates, while another one takes the first of them again and again.
fn takes_several(rng: &mut Rng, plan: &mut Plan) {
    let timeout_ms = rng.within(2, 5) * plan.tick_ms;
    let several = (0..4).map(|_| lock(rng, Target::All, 10, 0)).collect();
    client(rng, plan, timeout_ms, several);
    let mut steps = Vec::new();
    for _ in 0..12 {
        steps.push(lock(rng, Target::Mutex(0), 5, 0));
        steps.push(Step::Sleep(rng.within(20, timeout_ms)));
    }
    client(rng, plan, timeout_ms, steps);
    for _ in 0..2 {
        let vanish = Vanish {
            late_ms: rng.within(0, timeout_ms / 2),
            ms: 2 * timeout_ms,
            fails_after_ms: None,
        };
        vanishes(rng, plan, Trigger::Create, vanish);
    }
    plan.faults.sort_by_key(|fault| fault.at_ms);
}

/// Some clients that want the same mutex, a few times each.
fn contenders(rng: &mut Rng, plan: &mut Plan, timeout_ms: u64, hold_ms: u64, looks: u64) {
    for _ in 0..rng.within(3, 4) {
        let steps = (0..rng.within(3, 6)).map(|_| {
            let hold_ms = rng.within(0, hold_ms);
            lock(rng, Target::Mutex(0), hold_ms, looks)
        });
        let steps = steps.collect();
        client(rng, plan, timeout_ms, steps);
    }
}

/// The first client holds for long and looks often at its lease; the second one waits.
pub(super) fn holder_and_waiter(rng: &mut Rng, plan: &mut Plan, timeout_ms: u64) {
    // A reader writes nothing under the lock, so that only pings keep its session.
    let target = if rng.chance(800) {
        Target::Read(0)
    } else {
        Target::Mutex(0)
    };
    let hold = lock(rng, target, 4 * timeout_ms, 80);
    client(rng, plan, timeout_ms, vec![hold]);
    let wait = lock(rng, Target::Mutex(0), 50, 0);
    let later = Step::Sleep(rng.within(50, timeout_ms / 4));
    let waiter_ms = rng.within(4, 9) * plan.tick_ms;
    client(rng, plan, waiter_ms, vec![later, wait]);
}

/// The first client vanishes, some time in the first half of what it takes.
pub(super) fn vanishes(rng: &mut Rng, plan: &mut Plan, trigger: Trigger, vanish: Vanish) {
    plan.faults.push(Fault {
        at_ms: rng.within(0, vanish.ms / 2),
        kind: FaultKind::Vanish(1, trigger, vanish),
    });
}

pub(super) fn client(rng: &mut Rng, plan: &mut Plan, timeout_ms: u64, steps: Vec<Step>) {
    let drift = rng.within(0, 2 * DRIFT_PPM);
    plan.clients.push(ClientPlan {
        id: u32::try_from(plan.clients.len() + 1).unwrap_or(1),
        drift_ppm: i64::try_from(drift).unwrap_or(0) - i64::try_from(DRIFT_PPM).unwrap_or(0),
        offset_ms: rng.within(0, 3_600_000),
        timeout_ms,
        tasks: vec![steps],
    });
}

pub(super) fn lock(rng: &mut Rng, target: Target, hold_ms: u64, looks: u64) -> Step {
    Step::Lock(LockStep {
        target,
        entry: Entry::Lock,
        cancel: Cancel::Never,
        hold_ms,
        limit_ms: None,
        obeys_revoke: false,
        looks,
        leave: rng
            .pick(&[Leave::Release, Leave::Drop])
            .unwrap_or(Leave::Release),
    })
}
