//! Explores scenarios, and prints a row of the table in the README for each.
//!
//! ```sh
//! cargo run --release -p lockkeeper-model                              # all scenarios
//! cargo run --release -p lockkeeper-model -- --nightly                 # those that `.ci/nightly` explores
//! cargo run --release -p lockkeeper-model -- "3 mutexes"               # the rows that contain this text
//! cargo run --release -p lockkeeper-model -- "3 mutexes" 1 0 0 2 0     # with so many cuts, pauses, ... (the first columns)
//! cargo run --release -p lockkeeper-model -- fair                      # whether contenders go in circles; or with the text of rows
//! cargo run --release -p lockkeeper-model -- lease                     # whether a lease outlives its session
//! ```
//!
//! The first violation is printed with a shortest history, and ends the program with status 1.

use std::{process::ExitCode, time::Instant};

use lockkeeper_model::{Faults, Scenario, lease, runs};

/// More would not fit into 16 GiB.
const MOST: usize = 200_000_000;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let [wanted, name @ ..] = &arguments[..]
        && wanted == "lease"
    {
        return explore_leases(&name.join(" "));
    }
    let Some(runs) = chosen(&arguments) else {
        eprintln!("no scenario for {arguments:?}");
        return ExitCode::from(2);
    };
    let is_fair = arguments.first().is_some_and(|wanted| wanted == "fair");
    let last = if is_fair {
        "contenders come | states | steps | circles"
    } else {
        "states | steps | depth"
    };
    println!(
        "| scenario | cuts | pauses | cancels | by hand | again | deaths | losses | ghosts | {last} | seconds |"
    );
    println!("|---{}|", "|--:".repeat(9 + last.split('|').count()));
    for (title, scenario) in runs {
        let start = Instant::now();
        let outcome = scenario.explore(MOST);
        let (states, steps) = (outcome.states, outcome.steps);
        let last = if is_fair {
            outcome.circles
        } else {
            outcome.depth
        };
        let seconds = start.elapsed().as_secs_f64();
        println!("{title} {states} | {steps} | {last} | {seconds:.1} |");
        if let Some(found) = outcome.found {
            println!("\n{found}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Prints the rows whose names contain this text. The weak rules must be refuted, and the other one
/// must not.
fn explore_leases(name: &str) -> ExitCode {
    println!("| rule | states | steps | seconds |");
    println!("|---|--:|--:|--:|");
    let mut runs = lease::runs();
    runs.retain(|(title, ..)| title.contains(name));
    for (title, rule, limits) in runs {
        let start = Instant::now();
        let outcome = rule.explore(limits, MOST);
        let (states, steps) = (outcome.states, outcome.steps);
        let seconds = start.elapsed().as_secs_f64();
        println!("| {title} | {states} | {steps} | {seconds:.1} |");
        let is_refuted = outcome.found.is_some();
        if let Some(found) = outcome.found {
            println!("\n{found}");
        }
        if is_refuted != rule.is_weak() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn chosen(arguments: &[String]) -> Option<Vec<(String, Scenario)>> {
    let [wanted, numbers @ ..] = arguments else {
        return Some(runs::full());
    };
    if wanted == "--nightly" {
        return Some(runs::nightly());
    }
    if wanted == "fair" {
        let mut all = runs::fair(true);
        all.retain(|(title, _)| title.contains(&numbers.join(" ")));
        return (!all.is_empty()).then_some(all);
    }
    if numbers.is_empty() {
        let mut all = runs::full();
        all.retain(|(title, _)| title.contains(wanted));
        return (!all.is_empty()).then_some(all);
    }
    let numbers: Option<Vec<u8>> = numbers.iter().map(|number| number.parse().ok()).collect();
    let faults = Faults::of(&numbers?)?;
    runs::named(wanted, faults).map(|run| vec![run])
}
