//! Random plans: any steps, any faults, at any time.
//!
//! Not here: the types of a plan (`plan`), aimed plans (`aimed`, `under_way`, `partitions`,
//! `servers`).

use super::{
    Cancel, ClientPlan, Entry, Fault, FaultKind, Leave, LockStep, Plan, RawStep, Step, Target,
    Trigger,
    draft::{drift_ppm, prompt_per_mille},
};
use crate::rng::Rng;

/// Draws a random plan from a seed.
pub(super) fn plan(seed: u64) -> Plan {
    let rng = &mut Rng::of(seed, "plan");
    let tick_ms = rng.within(2, 5) * 100;
    let servers = rng.one_of(&[1, 2, 3, 3, 3, 3]);
    let clients = rng.small(2, 5);
    let storm_ms = rng.within(2, 20) * 1000;
    let focus = rng.one_of(&[None, None, Some(Target::Mutex(0)), Some(Target::Write(0))]);
    let clients: Vec<_> = (1..=clients)
        .map(|id| client(rng, id, tick_ms, focus))
        .collect();
    let count = u32::try_from(clients.len()).unwrap_or(1);
    let faults = rng.several(0, 14, |rng| Fault {
        at_ms: rng.within(0, storm_ms),
        kind: fault(rng, count, servers),
    });
    let mut plan = Plan {
        seed,
        servers,
        tick_ms,
        reap_ms: rng.within(2, 40) * 100,
        delay_ms: rng.one_of(&[1, 5, 5, 30, 200]),
        yield_per_mille: rng.one_of(&[0, 50, 300]),
        prompt_per_mille: prompt_per_mille(seed),
        clients,
        faults,
        ..Plan::default()
    };
    if plan.servers > 1 && rng.chance(300) {
        plan.commit_ms = rng.one_of(&[5, 50, 400]);
        for _ in 0..rng.small(0, 2) {
            plan.fault(rng.within(0, storm_ms), FaultKind::Depose);
        }
    }
    vary(&mut plan, &mut Rng::of(seed, "variety"));
    plan
}

/// Adds what only some plans have: short writes, plain locks, latches, hold limits, requests to
/// release.
fn vary(plan: &mut Plan, rng: &mut Rng) {
    plan.short_writes = rng.chance(200);
    let (has_plain, latch) = (rng.chance(250), rng.chance(250));
    let (limits, listens) = (rng.chance(200), rng.chance(200));
    let tasks = plan.clients.iter_mut().flat_map(|client| {
        let timeout_ms = client.timeout_ms;
        let steps = client.tasks.iter_mut().flatten();
        steps.map(move |step| (timeout_ms, step))
    });
    for (timeout_ms, step) in tasks {
        match step {
            Step::Lock(step) => {
                step.target = match step.target {
                    Target::Mutex(1) | Target::Reentrant(1) if has_plain => Target::Plain,
                    Target::Lead if latch => Target::Latch,
                    target => target,
                };
                let limit_ms = rng.within(0, timeout_ms);
                let may_end = limits && step.leave != Leave::Downgrade;
                step.limit_ms = (may_end && rng.chance(300)).then_some(limit_ms);
                step.obeys_revoke = listens && rng.chance(500);
            }
            Step::Raw(RawStep::Poke) if listens => *step = Step::Raw(RawStep::Revoke),
            _ => {}
        }
    }
}

fn client(rng: &mut Rng, id: u32, tick_ms: u64, focus: Option<Target>) -> ClientPlan {
    let drift_ppm = drift_ppm(rng);
    let timeout_ms = rng.within(2, 9) * tick_ms;
    let tasks = (0..rng.one_of(&[1, 1, 2, 3]))
        .map(|_| {
            let raw = focus.is_none() && rng.chance(200);
            rng.several(1, 7, |rng| step(rng, raw, timeout_ms, focus))
        })
        .collect();
    ClientPlan {
        id,
        drift_ppm,
        offset_ms: rng.within(0, 3_600_000),
        timeout_ms,
        hides: false,
        tasks,
    }
}

fn step(rng: &mut Rng, raw: bool, timeout_ms: u64, focus: Option<Target>) -> Step {
    if raw {
        let node = rng.small(0, 1);
        let common = RawStep::Read(node);
        let others = [
            (3, RawStep::Watch(node)),
            (2, RawStep::Set(node)),
            (1, RawStep::Delete(node)),
            (1, RawStep::Create(node)),
            (3, RawStep::Write),
            (2, RawStep::WriteTwo),
            (1, RawStep::Poke),
        ];
        return if rng.chance(200) {
            Step::Sleep(rng.within(0, 500))
        } else {
            Step::Raw(rng.weighted(common, &others, 5))
        };
    }
    if rng.chance(150) {
        return Step::Sleep(rng.within(0, 2 * timeout_ms));
    }
    let number = u32::from(rng.chance(250));
    let any = [
        (3, Target::Read(number)),
        (3, Target::Write(number)),
        (3, Target::Permit),
        (1, Target::Permits),
        (2, Target::Reentrant(number)),
        (1, Target::All),
        (1, Target::Lead),
    ];
    let target = match focus {
        None => rng.weighted(Target::Mutex(number), &any, 6),
        Some(Target::Write(_)) => rng.weighted(
            Target::Write(0),
            &[(1, Target::Read(0)), (1, Target::Mutex(0))],
            2,
        ),
        Some(focus) => focus,
    };
    let wait = rng.within(0, 3 * timeout_ms);
    let entries = [
        (2, Entry::Timeout(wait)),
        (1, Entry::Try),
        (4, Entry::Enqueue(rng.within(0, 200))),
    ];
    let cancels = [
        (1, Cancel::Polls(rng.within(1, 12))),
        (1, Cancel::After(rng.within(0, timeout_ms))),
    ];
    let leaves = [
        (3, Leave::Drop),
        (1, Leave::GiveUp(rng.within(1, 4))),
        (2, Leave::With),
        (2, Leave::Downgrade),
    ];
    let hold_ms = match rng.within(0, 9) {
        0 => rng.within(timeout_ms, 3 * timeout_ms),
        1..5 => rng.within(0, 300),
        _ => rng.within(0, 20),
    };
    Step::Lock(LockStep {
        target,
        entry: rng.weighted(Entry::Lock, &entries, 5),
        cancel: rng.weighted(Cancel::Never, &cancels, 6),
        hold_ms,
        limit_ms: None,
        obeys_revoke: false,
        looks: rng.within(0, 4),
        leave: rng.weighted(Leave::Release, &leaves, 4),
    })
}

fn fault(rng: &mut Rng, clients: u32, servers: u32) -> FaultKind {
    let client = rng.small(1, clients);
    let server = rng.small(0, servers - 1);
    let trigger = rng.one_of(&[
        Trigger::Any,
        Trigger::Create,
        Trigger::Create,
        Trigger::Delete,
        Trigger::Multi,
    ]);
    let long = rng.within(0, 6000);
    let short = rng.within(0, 1000);
    let kinds = [
        (2, FaultKind::CutWrite(client, trigger)),
        (6, FaultKind::LoseReply(client, trigger)),
        (2, FaultKind::CutReply(client)),
        (2, FaultKind::Silence(client, long)),
        (2, FaultKind::Slow(client, short, long)),
        (2, FaultKind::Fail(server, long)),
        (1, FaultKind::Restart(long)),
        (6, FaultKind::Lag(server, long)),
        (2, FaultKind::Expire(client)),
        (2, FaultKind::Delete(rng.draw())),
        (3, FaultKind::Pause(client, long)),
        (1, FaultKind::Crash(client, short)),
    ];
    rng.weighted(FaultKind::Cut(client), &kinds, 3)
}
