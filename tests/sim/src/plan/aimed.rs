//! Plans that are aimed at situations which random plans hardly ever reach.
//!
//! Not here: random plans, and the types of a plan (`plan`); plans about transactions in transit
//! (`under_way`) and about links between servers (`partitions`).

use super::{
    Cancel, ClientPlan, DRIFT_PPM, Entry, Fault, FaultKind, Leave, LockStep, Plan, RawStep, Step,
    Target, Trigger, Vanish, prompt_per_mille,
};
use crate::rng::Rng;

/// Draws an aimed plan from a seed.
pub(super) fn plan(seed: u64) -> Plan {
    let rng = &mut Rng::of(seed, "aimed plan");
    let mut plan = blank(rng, seed);
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

/// A plan without clients and faults.
pub(super) fn blank(rng: &mut Rng, seed: u64) -> Plan {
    Plan {
        seed,
        servers: rng.small(2, 3),
        tick_ms: rng.within(2, 5) * 100,
        reap_ms: rng.within(2, 40) * 100,
        relay: rng.chance(700),
        delay_ms: rng.pick(&[1, 5]).unwrap_or(5),
        yield_per_mille: rng.pick(&[0, 50, 300]).unwrap_or(0),
        prompt_per_mille: prompt_per_mille(seed),
        ..Plan::default()
    }
}

/// A holder gets a reply late and then nothing more, while another client waits.
fn vanishes_with_late_reply(rng: &mut Rng, plan: &mut Plan) {
    let timeout_ms = rng.within(9, 20) * plan.tick_ms;
    holder_and_waiter(rng, plan, timeout_ms);
    // A client closes a connection after two thirds of the timeout in silence; the reply comes
    // before that.
    let late_ms = rng.within(timeout_ms * 2 / 5, timeout_ms * 3 / 5);
    let vanish = Vanish {
        late_ms,
        ms: 2 * timeout_ms,
        fails_after_ms: None,
    };
    vanishes(rng, plan, Trigger::Any, vanish);
}

/// A holder gets the reply to a ping and then nothing more, and its server may fail before the
/// leader knows of the ping.
///
/// Then the leader counts the session timeout from an earlier request. The margin of the lease must
/// cover that time, and a slow clock as well.
fn vanishes_after_ping(rng: &mut Rng, plan: &mut Plan) {
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

/// Several clients wait in the queue, and the node of the next waiter is deleted just before the
/// holder releases.
fn deletes_next_waiter(rng: &mut Rng, plan: &mut Plan) {
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

/// Holders write under the lock, and contenders' nodes are deleted by hand, mostly those of the
/// holders.
fn deletes_nodes_under_holders(rng: &mut Rng, plan: &mut Plan) {
    let timeout_ms = rng.within(4, 9) * plan.tick_ms;
    contenders(rng, plan, timeout_ms, 300, 6);
    for _ in 0..rng.within(3, 8) {
        plan.faults.push(Fault {
            at_ms: rng.within(0, 1500),
            kind: FaultKind::Delete(rng.draw()),
        });
    }
    plan.faults.sort_by_key(|fault| fault.at_ms);
}

/// Clients are paused for longer than their sessions live, while they wait or hold.
fn pauses_past_session_end(rng: &mut Rng, plan: &mut Plan) {
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

/// Nodes change while the clients that watch them are cut off.
fn changes_watched_nodes_while_cut_off(rng: &mut Rng, plan: &mut Plan) {
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

/// A client takes several locks and vanishes with one of the creates. Another client takes the
/// first lock again and again.
fn vanishes_while_taking_several_locks(rng: &mut Rng, plan: &mut Plan) {
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

/// Adds clients that each take the same mutex a few times.
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

/// The first client holds a lock for long and often checks its lease; the second client waits.
pub(super) fn holder_and_waiter(rng: &mut Rng, plan: &mut Plan, timeout_ms: u64) {
    // A reader writes nothing under the lock, so only pings keep its session alive.
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

/// The first client vanishes, at a random time up to half of `vanish.ms`.
pub(super) fn vanishes(rng: &mut Rng, plan: &mut Plan, trigger: Trigger, vanish: Vanish) {
    plan.faults.push(Fault {
        at_ms: rng.within(0, vanish.ms / 2),
        kind: FaultKind::Vanish(1, trigger, vanish),
    });
}

pub(super) fn client(rng: &mut Rng, plan: &mut Plan, timeout_ms: u64, steps: Vec<Step>) {
    client_of_tasks(rng, plan, timeout_ms, vec![steps]);
}

pub(super) fn client_of_tasks(
    rng: &mut Rng,
    plan: &mut Plan,
    timeout_ms: u64,
    tasks: Vec<Vec<Step>>,
) {
    let drift = rng.within(0, 2 * DRIFT_PPM);
    plan.clients.push(ClientPlan {
        id: u32::try_from(plan.clients.len() + 1).unwrap_or(1),
        drift_ppm: i64::try_from(drift).unwrap_or(0) - i64::try_from(DRIFT_PPM).unwrap_or(0),
        offset_ms: rng.within(0, 3_600_000),
        timeout_ms,
        tasks,
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
