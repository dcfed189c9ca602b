//! Reduces a plan that fails to a smaller plan that still fails.
//!
//! It removes each part without which the run still breaks one of the same rules. The smaller plan
//! may break that rule in a different way than before. That is a finding, too.
//!
//! Not here: running a plan (`run`).

use std::collections::BTreeSet;

use crate::{
    check::{Rule, Violation},
    plan::{ClientPlan, Plan, Step},
    run::run,
};

/// Returns the smallest plan found that still breaks one of the broken rules. Tries at most `runs`
/// runs.
#[must_use]
pub fn shrink(plan: &Plan, violations: &[Violation], runs: u32) -> Plan {
    let rules = violations.iter().map(|violation| violation.rule).collect();
    let mut shrinker = Shrinker {
        best: plan.clone(),
        rules,
        runs,
    };
    loop {
        let before = weight(&shrinker.best);
        shrinker.fewer_faults();
        shrinker.fewer_clients();
        shrinker.fewer_steps();
        shrinker.simpler();
        if weight(&shrinker.best) == before || shrinker.runs == 0 {
            return shrinker.best;
        }
    }
}

struct Shrinker {
    best: Plan,
    rules: BTreeSet<Rule>,
    runs: u32,
}

impl Shrinker {
    /// Runs a smaller plan. If it still fails, it is the best plan from now on.
    fn fails(&mut self, plan: Plan) -> bool {
        if self.runs == 0 {
            return false;
        }
        self.runs -= 1;
        let outcome = run(&plan, false);
        let mut broken = outcome.violations.iter().map(|violation| violation.rule);
        let fails = broken.any(|rule| self.rules.contains(&rule));
        if fails {
            self.best = plan;
        }
        fails
    }

    fn fewer_faults(&mut self) {
        let mut length = self.best.faults.len().div_ceil(2);
        while length > 0 {
            let mut at = 0;
            while at < self.best.faults.len() {
                let mut plan = self.best.clone();
                let end = (at + length).min(plan.faults.len());
                plan.faults.drain(at..end);
                if !self.fails(plan) {
                    at += length;
                }
            }
            length /= 2;
        }
    }

    fn fewer_clients(&mut self) {
        let mut at = 0;
        while at < self.best.clients.len() {
            let mut plan = self.best.clone();
            plan.clients.remove(at);
            if !self.fails(plan) {
                at += 1;
            }
        }
    }

    fn fewer_steps(&mut self) {
        for client in 0..self.best.clients.len() {
            for task in 0..self.tasks(client) {
                for step in (0..self.steps(client, task)).rev() {
                    let mut plan = self.best.clone();
                    if let Some(steps) = steps_of(&mut plan, client, task) {
                        steps.remove(step);
                    }
                    self.fails(plan);
                }
            }
        }
    }

    fn simpler(&mut self) {
        let tries: [fn(&mut Plan); 14] = [
            |plan| plan.servers = 1,
            |plan| plan.servers = 2,
            |plan| plan.yield_per_mille = 0,
            |plan| plan.prompt_per_mille = 0,
            |plan| plan.delay_ms = 1,
            |plan| plan.relay = false,
            |plan| plan.commit_ms = 0,
            |plan| plan.short_writes = false,
            |plan| plan.read_only = false,
            |plan| plan.max_outstanding = 0,
            |plan| plan.latches = false,
            |plan| plan.reap_ms = 60_000,
            |plan| all_clients(plan, |client| client.drift_ppm = 0),
            |plan| all_clients(plan, |client| client.offset_ms = 0),
        ];
        for simplify in tries {
            let mut plan = self.best.clone();
            simplify(&mut plan);
            if format!("{plan:?}") != format!("{:?}", self.best) {
                self.fails(plan);
            }
        }
    }

    fn tasks(&self, client: usize) -> usize {
        self.best
            .clients
            .get(client)
            .map_or(0, |client| client.tasks.len())
    }

    fn steps(&self, client: usize, task: usize) -> usize {
        let client = self.best.clients.get(client);
        let task = client.and_then(|client| client.tasks.get(task));
        task.map_or(0, Vec::len)
    }
}

fn steps_of(plan: &mut Plan, client: usize, task: usize) -> Option<&mut Vec<Step>> {
    plan.clients.get_mut(client)?.tasks.get_mut(task)
}

fn all_clients(plan: &mut Plan, change: impl Fn(&mut ClientPlan)) {
    plan.clients.iter_mut().for_each(change);
}

/// The size of a plan: the length of its debug text.
fn weight(plan: &Plan) -> usize {
    format!("{plan:?}").len()
}
