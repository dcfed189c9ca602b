//! The line of waiters, in every state that it can reach; and what each shortcut would bring about.
//!
//! Not here: the long runs (`cargo run --release -p lockkeeper-model`).

use lockkeeper_model::{Shortcut, Violation, runs};

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
        let undoing = shortcut.undoing();
        assert!(!undoing.is_empty(), "{shortcut:?} is not tried");
        for (scenario, violation) in undoing {
            let found = scenario.explore(MOST).found;
            let found = found.unwrap_or_else(|| panic!("{shortcut:?} does no harm: {scenario:?}"));
            println!("{shortcut:?}:\n{found}\n");
            assert_eq!(found.violation, violation, "{shortcut:?}:\n{found}");
            assert!(!found.history.is_empty());
        }
    }
}

/// The shortcut is what goes wrong in them, and nothing else.
#[test]
fn without_the_shortcut_nothing_goes_wrong_in_the_same_scenario() {
    for shortcut in Shortcut::ALL {
        for (scenario, _) in shortcut.undoing() {
            if let Some(found) = scenario.without_shortcut().explore(MOST).found {
                panic!("{shortcut:?}\n{found}");
            }
        }
    }
}

/// A listing from a server that lags has to be among what is explored, or else the model would prove nothing of it: with a
/// plain listing after a lost create, the history that refutes it must contain one.
#[test]
fn servers_lag_in_the_model() {
    for (scenario, _) in Shortcut::PlainListing.undoing() {
        let found = scenario.explore(MOST).found.expect("refuted");
        let lags = |step: &String| step.contains("from before the last");
        assert!(found.history.iter().any(lags), "{found}");
    }
}

/// What `PlainMutex` says of itself: when somebody deletes its node under a holder that does not notice, and another takes the
/// lock, the release of the first ends the hold of the other.
#[test]
fn the_plain_lock_does_not_stand_a_deletion_by_hand() {
    let found = runs::plain_by_hand()
        .explore(MOST)
        .found
        .expect("a weakness");
    assert_eq!(found.violation, Violation::DeletedAnothers, "{found}");
}
