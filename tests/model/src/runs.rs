//! Which scenarios are explored: those of the tests, and all of them.

use lockkeeper_recipes::rank::Kind;

use crate::{Counted, Faults, Line, Recipe, Scenario};

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

/// Three plain locks, of a client each, of two clients, and those who only try; and semaphores
/// whose limit is fixed.
#[must_use]
pub fn counted() -> [(&'static str, Counted); 5] {
    let plain = Counted::new(Recipe::Plain);
    let semaphore = |limit, changes| Counted::new(Recipe::Semaphore { limit, changes });
    [
        ("3 plain locks", plain),
        ("3 plain locks of 2 clients", plain.with_shared_client()),
        (
            "2 plain locks of 1 client, 1 try",
            plain.with_shared_client().with_tries([false, false, true]),
        ),
        ("semaphore of 1", semaphore(1, None)),
        ("semaphore of 2", semaphore(2, None)),
    ]
}

/// A semaphore whose limit is changed while it is used: many more states.
fn changed() -> (&'static str, Counted) {
    let recipe = Recipe::Semaphore {
        limit: 2,
        changes: Some(1),
    };
    ("semaphore of 2, limit changed once", Counted::new(recipe))
}

/// The one thing that the plain lock does not stand, and says so: a node of everybody's name, deleted by hand.
#[must_use]
pub fn plain_by_hand() -> Scenario {
    let plain = Counted::new(Recipe::Plain);
    Scenario::Counted(plain.with_faults(faults(0, 0, 0, 1, 0)))
}

/// What goes wrong in the tests: as much as a minute allows.
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
    let each = [
        faults(0, 0, 0, 0, 1),
        faults(1, 0, 0, 0, 0),
        faults(0, 1, 0, 0, 0),
        faults(0, 0, 1, 0, 0),
        faults(0, 0, 0, 1, 0),
    ];
    runs.extend(in_counted(counted(), &each));
    runs.extend(in_counted([changed()], &[Faults::default()]));
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
    let each = [
        faults(0, 0, 0, 0, 2),
        faults(1, 0, 1, 0, 0),
        faults(0, 1, 1, 0, 0),
        faults(2, 0, 0, 0, 0),
        faults(1, 1, 0, 0, 0),
        faults(1, 0, 0, 1, 0),
        faults(0, 1, 0, 1, 0),
        faults(0, 0, 1, 1, 0),
    ];
    runs.extend(in_counted(counted(), &each));
    let each = [
        faults(0, 0, 0, 0, 1),
        faults(1, 0, 0, 0, 0),
        faults(0, 1, 0, 0, 0),
        faults(0, 0, 1, 0, 0),
    ];
    runs.extend(in_counted([changed()], &each));
    runs
}

/// These locks with each of these faults; the plain ones without what they do not stand.
fn in_counted<const N: usize>(
    locks: [(&'static str, Counted); N],
    each: &[Faults],
) -> Vec<(String, Scenario)> {
    let mut runs = Vec::new();
    for (name, lock) in locks {
        for faults in each.iter().copied() {
            if faults.by_hand == 0 || lock.recipe != Recipe::Plain {
                let lock = Scenario::Counted(lock.with_faults(faults));
                runs.push((title(name, faults), lock));
            }
        }
    }
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
