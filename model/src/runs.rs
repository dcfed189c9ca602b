//! Which scenarios are explored: those of the tests, and all of them.

use lockkeeper_recipes::rank::Kind;

use crate::{Faults, Line, Scenario};

/// Three mutexes; three writers that may become readers; two of them and a reader; one and two; one of each kind; and those
/// who only try beside those who wait.
#[must_use]
pub fn lines() -> [(&'static str, Line); 8] {
    use Kind::{Mutex, Read, Write};
    [
        ("3 mutexes", Line::new([Mutex; 3])),
        ("3 writers", Line::new([Write; 3]).with_downgrade()),
        (
            "2 writers, 1 reader",
            Line::new([Write, Write, Read]).with_downgrade(),
        ),
        (
            "1 writer, 2 readers",
            Line::new([Write, Read, Read]).with_downgrade(),
        ),
        (
            "mutex, writer, reader",
            Line::new([Mutex, Write, Read]).with_downgrade(),
        ),
        (
            "2 mutexes, 1 try",
            Line::new([Mutex; 3]).with_tries([false, false, true]),
        ),
        (
            "1 mutex, 2 tries",
            Line::new([Mutex; 3]).with_tries([false, true, true]),
        ),
        (
            "writer, try to write, try to read",
            Line::new([Write, Write, Read])
                .with_tries([false, true, true])
                .with_downgrade(),
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
            runs.push((
                title(name, faults),
                Scenario::Line(scenario.with_faults(faults)),
            ));
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
            runs.push((
                title(name, faults),
                Scenario::Line(scenario.with_faults(faults)),
            ));
        }
    }
    let (name, mutexes) = lines()[0];
    let each = faults(1, 1, 1, 1, 0);
    runs.push((title(name, each), Scenario::Line(mutexes.with_faults(each))));
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
