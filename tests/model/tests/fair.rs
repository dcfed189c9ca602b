//! Nobody goes in circles for ever: in every fair run, each contender ends.
//!
//! Not here: the larger scenarios (`cargo run --release -p lockkeeper-model -- fair`).

use lockkeeper_model::{Faults, Outcome, Planted, Scenario, Violation, runs};

/// Several times what any scenario here has.
const MOST: usize = 1_000_000;

fn fair(name: &str) -> Scenario {
    let (_, scenario) = runs::named(name, Faults::default()).expect("a scenario");
    scenario.fair()
}

fn is_livelock(outcome: &Outcome) -> bool {
    let found = outcome.found.as_ref();
    if let Some(found) = found {
        println!("{found}\n");
    }
    found.is_some_and(|it| it.violation == Violation::Livelock && it.circle.is_some())
}

#[test]
fn every_contender_ends_if_nobody_is_passed_over() {
    for (title, scenario) in runs::fair(false) {
        let outcome = scenario.explore(MOST);
        println!(
            "{title} {} states, {} circles",
            outcome.states, outcome.circles
        );
        if let Some(found) = outcome.found {
            panic!("{title}\n{found}");
        }
    }
}

#[test]
fn contenders_that_give_way_go_in_circles() {
    for mistake in [Planted::EntersAgain, Planted::GivesWay] {
        let outcome = fair("3 mutexes").planted(mistake).explore(MOST);
        assert!(is_livelock(&outcome), "{mistake:?}");
    }
}

/// It goes in circles, but the holder releases in the end.
#[test]
fn a_busy_waiter_is_passed_over_by_no_holder_for_ever() {
    let outcome = fair("3 mutexes").planted(Planted::NeverWaits).explore(MOST);
    assert!(outcome.found.is_none() && outcome.circles > 0);
}

/// It has no order, and says so: a contender waits for ever while others come back.
#[test]
fn a_plain_lock_may_be_taken_by_others_for_ever() {
    let outcome = fair("3 plain locks").for_ever().explore(MOST);
    assert!(is_livelock(&outcome));
}
