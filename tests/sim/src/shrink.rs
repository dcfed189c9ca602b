//! Reduces a plan that fails to a smaller plan that still fails.
//!
//! It removes each part without which the run still breaks one of the same rules. The smaller plan
//! may break that rule in a different way than before. That is a finding, too.
//!
//! Not here: running a plan (`run`).

use std::collections::BTreeSet;

use crate::{
    check::{Rule, Violation},
    plan::Plan,
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
        let before = text(&shrinker.best);
        shrinker.fewer(|plan, at| remove(&mut plan.faults, at));
        shrinker.fewer(|plan, at| remove(&mut plan.clients, at));
        shrinker.fewer(|plan, at| {
            let clients = plan.clients.iter_mut();
            let mut tasks = clients.flat_map(|client| &mut client.tasks);
            let mut at = at;
            let task = tasks.find(|steps| {
                let is_here = at < steps.len();
                at -= if is_here { 0 } else { steps.len() };
                is_here
            });
            task.is_some_and(|steps| remove(steps, at))
        });
        shrinker.simpler();
        if text(&shrinker.best) == before || shrinker.runs == 0 {
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

    /// Removes each part that is not needed. `without` removes one, by its number, and returns
    /// whether there is such a part.
    fn fewer(&mut self, without: impl Fn(&mut Plan, usize) -> bool) {
        let mut at = 0;
        loop {
            let mut plan = self.best.clone();
            if !without(&mut plan, at) {
                return;
            }
            at += usize::from(!self.fails(plan));
        }
    }

    fn simpler(&mut self) {
        let tries: [fn(&mut Plan); 12] = [
            |plan| plan.servers = 1,
            |plan| plan.servers = 2,
            |plan| plan.yield_per_mille = 0,
            |plan| plan.prompt_per_mille = 0,
            |plan| plan.delay_ms = 1,
            |plan| plan.commit_ms = 0,
            |plan| plan.short_writes = false,
            |plan| plan.max_outstanding = 0,
            |plan| plan.latches = false,
            |plan| plan.reap_ms = 60_000,
            |plan| plan.clients.iter_mut().for_each(|it| it.drift_ppm = 0),
            |plan| plan.clients.iter_mut().for_each(|it| it.offset_ms = 0),
        ];
        for simplify in tries {
            let mut plan = self.best.clone();
            simplify(&mut plan);
            if text(&plan) != text(&self.best) {
                self.fails(plan);
            }
        }
    }
}

fn remove<T>(from: &mut Vec<T>, at: usize) -> bool {
    let is_there = at < from.len();
    if is_there {
        from.remove(at);
    }
    is_there
}

fn text(plan: &Plan) -> String {
    format!("{plan:?}")
}
