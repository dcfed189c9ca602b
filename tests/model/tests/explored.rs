//! Every state of the smaller scenarios.
//!
//! Not here: the larger ones (`.ci/nightly`, and `cargo run --release -p lockkeeper-model`); whether the model finds
//! faults (`cargo run -p lockkeeper-mutations`).

use lockkeeper_model::{Faults, Violation, runs};

/// Several times what any scenario here has. To reach it is a mistake in the model.
const MOST: usize = 4_000_000;

#[test]
fn nothing_that_can_happen_breaks_a_rule() {
    let runs = runs::quick();
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

/// What `PlainMutex` says of itself. Somebody deletes its node, the holder does not notice, and
/// another contender takes the lock. Then the release of the first one ends the hold of the other.
#[test]
fn the_plain_lock_does_not_survive_a_deletion_by_hand() {
    let found = runs::plain_by_hand().explore(MOST).found;
    let found = found.expect("a violation");
    assert_eq!(found.violation, Violation::DeletedAnothers, "{found}");
    println!("{found}");
}

/// A loss, or a ghost, matters: a contender that asks nobody waits for ever.
#[test]
fn a_contender_that_asks_nobody_waits_for_ever() {
    let names = [
        "3 mutexes",
        "2 writers, 1 reader",
        "3 plain locks",
        "semaphore of 1",
    ];
    for name in names {
        for counts in [&[0, 0, 0, 0, 0, 0, 1][..], &[0, 1, 0, 0, 0, 0, 0, 1]] {
            let faults = Faults::of(counts).expect("counts");
            let (title, scenario) = runs::named(name, faults).expect("a scenario");
            let found = scenario.without_questions().explore(MOST).found;
            let violation = found.map(|found| found.violation);
            assert_eq!(violation, Some(Violation::Stuck), "{title}");
        }
    }
}
