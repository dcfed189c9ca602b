//! Which scenarios are explored: those of the tests, and all of them.

use lockkeeper_recipes::rank::Kind;

use crate::scenario::{Faults, Scenario};

/// Three mutexes; three writers that may become readers; two of them and a reader; one and two; and one of each kind.
#[must_use]
pub fn lines() -> [(&'static str, Scenario); 5] {
    use Kind::{Mutex, Read, Write};
    [
        ("3 mutexes", Scenario::new([Mutex; 3])),
        ("3 writers", Scenario::new([Write; 3]).with_downgrade()),
        (
            "2 writers, 1 reader",
            Scenario::new([Write, Write, Read]).with_downgrade(),
        ),
        (
            "1 writer, 2 readers",
            Scenario::new([Write, Read, Read]).with_downgrade(),
        ),
        (
            "mutex, writer, reader",
            Scenario::new([Mutex, Write, Read]).with_downgrade(),
        ),
    ]
}

/// What goes wrong in the tests: as much as half a minute allows.
#[must_use]
pub fn ordinary() -> Vec<(String, Scenario)> {
    let mut runs = Vec::new();
    for (name, scenario) in lines() {
        let heavy = if name == "3 mutexes" {
            vec![
                faults(0, 0, 0, 0, 2),
                faults(1, 0, 1, 1, 0),
                faults(0, 1, 1, 0, 0),
                faults(0, 0, 0, 2, 0),
            ]
        } else {
            Vec::new()
        };
        let light = [
            faults(1, 0, 0, 0, 0),
            faults(0, 0, 1, 0, 1),
            faults(0, 0, 0, 1, 0),
        ];
        for faults in light.into_iter().chain(heavy) {
            runs.push((title(name, faults), scenario.with_faults(faults)));
        }
    }
    runs
}

/// What goes wrong in the long run.
#[must_use]
pub fn full() -> Vec<(String, Scenario)> {
    let mut runs = Vec::new();
    for (name, scenario) in lines() {
        for faults in [
            faults(0, 0, 0, 0, 2),
            faults(1, 0, 1, 1, 0),
            faults(0, 1, 0, 1, 0),
            faults(0, 1, 1, 0, 0),
            faults(0, 0, 0, 2, 0),
            faults(2, 0, 1, 0, 0),
            faults(1, 1, 0, 0, 0),
        ] {
            runs.push((title(name, faults), scenario.with_faults(faults)));
        }
    }
    let (name, mutexes) = lines()[0];
    let each = faults(1, 1, 1, 1, 0);
    runs.push((title(name, each), mutexes.with_faults(each)));
    runs
}

fn faults(cuts: u8, pauses: u8, cancels: u8, by_hand: u8, again: u8) -> Faults {
    Faults {
        cuts,
        pauses,
        cancels,
        by_hand,
        again,
    }
}

fn title(line: &str, faults: Faults) -> String {
    let Faults {
        cuts,
        pauses,
        cancels,
        by_hand,
        again,
    } = faults;
    format!("| {line} | {cuts} | {pauses} | {cancels} | {by_hand} | {again} |")
}
