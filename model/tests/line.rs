//! The line of waiters, in every state that it can reach; and what each shortcut would bring about.
//!
//! Not here: the long runs (`cargo run --release -p lockkeeper-model`).

use lockkeeper_model::{Shortcut, runs};

/// Several times what any run here has: reaching it is a mistake in the model.
const MOST: usize = 4_000_000;

#[test]
fn whatever_happens_nobody_is_skipped_forgotten_or_left_behind() {
    let runs = runs::ordinary();
    let half = runs.len().div_ceil(2);
    std::thread::scope(|scope| {
        for runs in runs.chunks(half) {
            scope.spawn(move || {
                for (title, scenario) in runs {
                    let outcome = scenario.explore(MOST);
                    println!("{title} {} states, {} steps", outcome.states, outcome.steps);
                    if let Some(found) = outcome.found {
                        panic!("{title}\n{found}");
                    }
                }
            });
        }
    });
}

#[test]
fn every_shortcut_is_found_to_be_none() {
    for shortcut in Shortcut::ALL {
        let (scenario, violation) = shortcut.undoing();
        let found = scenario.explore(MOST).found;
        let found = found.unwrap_or_else(|| panic!("{shortcut:?} does no harm"));
        println!("{shortcut:?}:\n{found}\n");
        assert_eq!(found.violation, violation, "{shortcut:?}:\n{found}");
        assert!(!found.history.is_empty());
    }
}

/// The shortcut is what goes wrong in them, and nothing else.
#[test]
fn without_the_shortcut_nothing_goes_wrong_in_the_same_scenario() {
    for shortcut in Shortcut::ALL {
        let (scenario, _) = shortcut.undoing();
        let scenario = scenario.without_shortcut();
        if let Some(found) = scenario.explore(MOST).found {
            panic!("{shortcut:?}\n{found}");
        }
    }
}

/// A listing from a server that lags has to be among what is explored, or else the model would prove nothing of it: with a
/// plain listing after a lost create, the history that refutes it must contain one.
#[test]
fn servers_lag_in_the_model() {
    let (scenario, _) = Shortcut::PlainListing.undoing();
    let found = scenario.explore(MOST).found.expect("refuted");
    let lags = |step: &String| step.contains("from before the last");
    assert!(found.history.iter().any(lags), "{found}");
}
