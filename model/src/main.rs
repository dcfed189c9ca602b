//! Explores all scenarios and prints a table, or tells how a shortcut goes wrong.
//!
//! ```sh
//! cargo run --release -p lockkeeper-model                  # the table of model/README.md
//! cargo run --release -p lockkeeper-model -- AlwaysSkip    # a shortest history that refutes it
//! ```

use std::{process::ExitCode, time::Instant};

use lockkeeper_model::{Outcome, Shortcut, explore, runs};

/// More would not fit into 16 GiB.
const MOST: usize = 60_000_000;

fn main() -> ExitCode {
    let Some(wanted) = std::env::args().nth(1) else {
        return table();
    };
    let Some(shortcut) = Shortcut::ALL
        .into_iter()
        .find(|shortcut| format!("{shortcut:?}") == wanted)
    else {
        eprintln!("no shortcut {wanted}; there are {:?}", Shortcut::ALL);
        return ExitCode::FAILURE;
    };
    let (scenario, _) = shortcut.undoing();
    match explore(&scenario, MOST).found {
        Some(found) => println!("{found}"),
        None => println!("nothing goes wrong"),
    }
    ExitCode::SUCCESS
}

fn table() -> ExitCode {
    println!(
        "| line | cuts | pauses | cancels | by hand | again | states | steps | depth | seconds |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let mut exit = ExitCode::SUCCESS;
    for (title, scenario) in runs::full() {
        let start = Instant::now();
        let outcome = explore(&scenario, MOST);
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
