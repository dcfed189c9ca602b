//! Every state of the smaller scenarios.
//!
//! Not here: the larger ones (`.ci/nightly`, and `cargo run --release -p lockkeeper-model`); whether the model finds
//! faults (`cargo run -p lockkeeper-mutations`).

use lockkeeper_model::{Faults, Scenario, Violation, runs};

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

/// The rows with servers find nothing. Each weaker rule is refuted in one of them.
#[test]
fn a_late_write_does_harm_to_a_client_that_dials_any_server_or_forgets_creates() {
    let cuts = Faults::of(&[2]).expect("counts");
    let named = |name| runs::named(name, cuts).expect("a scenario").1;
    let found = |scenario: Scenario| {
        let found = scenario.explore(MOST).found.expect("a violation");
        println!("{found}");
        found.violation
    };
    let plain = named("3 plain locks, 3 servers").dialing_any();
    assert_eq!(found(plain), Violation::Orphan);
    assert_eq!(found(plain.with_late_deletes()), Violation::DeletedAnothers);
    let mutexes = named("3 mutexes, 3 servers, late nodes forgotten").dialing_any();
    assert_eq!(found(mutexes), Violation::Orphan);
    // Both servers may owe, so the client goes back to one that does.
    let mutexes = named("3 mutexes, 2 servers").forgetting();
    assert_eq!(found(mutexes), Violation::Orphan);
}

/// What `docs/safety.md` says of late writes: when every server owes the outcome of a write, the client
/// goes back to one of them.
#[test]
fn the_plain_lock_does_not_survive_a_return_when_all_servers_owe() {
    let (_, plain) = runs::named("3 plain locks", Faults::of(&[2]).expect("counts")).expect("it");
    let plain = plain.on_servers(2);
    let remainder = [
        (plain, Violation::Orphan),
        (plain.with_late_deletes(), Violation::DeletedAnothers),
    ];
    for (scenario, violation) in remainder {
        let found = scenario.explore(MOST).found.expect("a violation");
        assert_eq!(found.violation, violation, "{found}");
    }
}
