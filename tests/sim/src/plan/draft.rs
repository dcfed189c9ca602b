//! The parts that plans are drawn from.
//!
//! The order of the draws decides what a seed means: a change of it changes all seeds.

use super::{
    Cancel, ClientPlan, DRIFT_PPM, Entry, Fault, FaultKind, Leave, LockStep, Plan, Step, Target,
    Trigger, Vanish,
};
use crate::rng::Rng;

impl Plan {
    /// A plan without clients and faults.
    pub(super) fn blank(rng: &mut Rng, seed: u64) -> Self {
        Self {
            seed,
            servers: rng.one_of(&[2, 3, 3, 3]),
            tick_ms: rng.within(2, 5) * 100,
            reap_ms: rng.within(2, 40) * 100,
            delay_ms: rng.one_of(&[1, 5]),
            yield_per_mille: rng.one_of(&[0, 50, 300]),
            prompt_per_mille: prompt_per_mille(seed),
            ..Self::default()
        }
    }

    /// Adds a client with one task.
    pub(super) fn client(&mut self, rng: &mut Rng, timeout_ms: u64, steps: Vec<Step>) {
        self.client_of_tasks(rng, timeout_ms, vec![steps]);
    }

    pub(super) fn client_of_tasks(
        &mut self,
        rng: &mut Rng,
        timeout_ms: u64,
        tasks: Vec<Vec<Step>>,
    ) {
        self.clients.push(ClientPlan {
            id: self.count() + 1,
            drift_ppm: drift_ppm(rng),
            offset_ms: rng.within(0, 3_600_000),
            timeout_ms,
            hides: false,
            tasks,
        });
    }

    /// Adds a task to the client that was added last.
    pub(super) fn task(&mut self, steps: Vec<Step>) {
        self.clients.last_mut().expect("a client").tasks.push(steps);
    }

    /// Adds clients that each take the same lock a few times, and give up now and then.
    pub(super) fn contenders(
        &mut self,
        rng: &mut Rng,
        timeout_ms: u64,
        target: Target,
        looks: u64,
    ) {
        for _ in 0..rng.within(3, 4) {
            let steps = rng.several(4, 8, |rng| {
                let hold_ms = rng.within(0, 200);
                let step = Step::lock(rng, target, hold_ms, looks);
                let cancel_ms = rng.within(0, 400);
                step.given_up_after(rng.chance(200).then_some(cancel_ms))
            });
            self.client(rng, timeout_ms, steps);
        }
    }

    /// The first client holds a lock for long and often checks its lease; the second client waits.
    pub(super) fn holder_and_waiter(&mut self, rng: &mut Rng, timeout_ms: u64) {
        // A reader writes nothing under the lock, so only pings keep its session alive.
        let target = if rng.chance(800) {
            Target::Read(0)
        } else {
            Target::Mutex(0)
        };
        let hold = Step::lock(rng, target, 4 * timeout_ms, 80);
        self.client(rng, timeout_ms, vec![hold]);
        let wait = Step::lock(rng, Target::Mutex(0), 50, 0);
        let later = Step::Sleep(rng.within(50, timeout_ms / 4));
        let waiter_ms = rng.within(4, 9) * self.tick_ms;
        self.client(rng, waiter_ms, vec![later, wait]);
    }

    pub(super) fn fault(&mut self, at_ms: u64, kind: FaultKind) {
        self.faults.push(Fault { at_ms, kind });
    }

    /// The first client vanishes, at a random time up to half of `vanish.ms`.
    pub(super) fn vanishes(&mut self, rng: &mut Rng, trigger: Trigger, vanish: Vanish) {
        let at_ms = rng.within(0, vanish.ms / 2);
        self.fault(at_ms, FaultKind::Vanish(1, trigger, vanish));
    }

    pub(super) fn any_client(&self, rng: &mut Rng) -> u32 {
        rng.small(1, self.count())
    }

    fn count(&self) -> u32 {
        u32::try_from(self.clients.len()).unwrap_or(1)
    }
}

impl Step {
    pub(super) fn lock(rng: &mut Rng, target: Target, hold_ms: u64, looks: u64) -> Self {
        Self::Lock(LockStep {
            target,
            entry: Entry::Lock,
            cancel: Cancel::Never,
            hold_ms,
            limit_ms: None,
            obeys_revoke: false,
            looks,
            leave: rng.one_of(&[Leave::Release, Leave::Drop]),
        })
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut LockStep)) -> Self {
        if let Self::Lock(step) = &mut self {
            change(step);
        }
        self
    }

    /// The step, given up after so many milliseconds.
    pub(super) fn given_up_after(self, ms: Option<u64>) -> Self {
        self.with(|step| step.cancel = ms.map_or(step.cancel, Cancel::After))
    }
}

/// How much a clock runs too fast or too slow.
pub(super) fn drift_ppm(rng: &mut Rng) -> i64 {
    let drift = rng.within(0, 2 * DRIFT_PPM);
    i64::try_from(drift).unwrap_or(0) - i64::try_from(DRIFT_PPM).unwrap_or(0)
}

/// In one plan of five, tasks often run in the middle of the task that wakes them.
pub(super) fn prompt_per_mille(seed: u64) -> u64 {
    if seed % 5 == 4 { 300 } else { 0 }
}
