//! Explores all scenarios and prints a table, or tells how a shortcut goes wrong.
//!
//! ```sh
//! cargo run --release -p lockkeeper-model                  # the table of tests/model/README.md
//! cargo run --release -p lockkeeper-model -- try           # its rows whose titles have this in them
//! cargo run --release -p lockkeeper-model -- AlwaysSkip    # a shortest history that refutes it
//! ```

use std::{process::ExitCode, time::Instant};

use lockkeeper_model::{Outcome, Shortcut, runs};

/// More would not fit into 16 GiB.
const MOST: usize = 60_000_000;

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let Some(shortcut) = Shortcut::ALL
        .into_iter()
        .find(|shortcut| format!("{shortcut:?}") == wanted)
    else {
        return table(&wanted);
    };
    for (scenario, _) in shortcut.undoing() {
        match scenario.explore(MOST).found {
            Some(found) => println!("{found}\n"),
            None => println!("nothing goes wrong"),
        }
    }
    ExitCode::SUCCESS
}

/// The rows whose titles have `wanted` in them.
fn table(wanted: &str) -> ExitCode {
    let mut runs = runs::full();
    runs.retain(|(title, _)| title.contains(wanted));
    if runs.is_empty() {
        eprintln!(
            "no shortcut and no line {wanted}; shortcuts: {:?}",
            Shortcut::ALL
        );
        return ExitCode::FAILURE;
    }
    println!(
        "| line | cuts | pauses | cancels | by hand | again | states | steps | depth | seconds |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let mut exit = ExitCode::SUCCESS;
    for (title, scenario) in runs {
        let start = Instant::now();
        let outcome = scenario.explore(MOST);
        let Outcome {
            states,
            steps,
            depth,
            found,
        } = outcome;
        let seconds = start.elapsed().as_secs_f64();
        println!("{title} {states} | {steps} | {depth} | {seconds:.1} |");
        if let Some(found) = found {
            println!("\n{found}\n");
            exit = ExitCode::FAILURE;
        }
    }
    exit
}
