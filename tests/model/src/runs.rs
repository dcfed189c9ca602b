//! Which scenarios are explored: those of the tests, and all of them.

use lockkeeper_recipes::rank::Kind;

use crate::scenario::{CONTENDERS, Faults, Role, Scenario};

/// Contenders in a queue; some of them only try.
fn queue(kinds: [Kind; CONTENDERS], tries: [bool; CONTENDERS]) -> Scenario {
    Scenario::new(kinds.map(Role::Queue)).with_tries(tries)
}

fn queues() -> [(&'static str, Scenario); 8] {
    use Kind::{Mutex, Read, Write};
    let no_try = [false; CONTENDERS];
    let last = [false, false, true];
    let last_two = [false, true, true];
    [
        ("3 mutexes", queue([Mutex; 3], no_try)),
        ("3 writers", queue([Write; 3], no_try)),
        ("2 writers, 1 reader", queue([Write, Write, Read], no_try)),
        ("1 writer, 2 readers", queue([Write, Read, Read], no_try)),
        ("mutex, writer, reader", queue([Mutex, Write, Read], no_try)),
        ("2 mutexes, 1 try", queue([Mutex; 3], last)),
        ("1 mutex, 2 tries", queue([Mutex; 3], last_two)),
        (
            "writer, try to write, try to read",
            queue([Write, Write, Read], last_two),
        ),
    ]
}

/// Contenders of one client, which use each other's listings.
fn crowds() -> [(&'static str, Scenario); 3] {
    use Kind::{Mutex, Write};
    let mutexes = queue([Mutex; 3], [false; CONTENDERS]);
    let beside_writer = queue([Mutex, Mutex, Write], [false; CONTENDERS]);
    [
        ("3 mutexes of 2 clients", mutexes.with_shared_client()),
        ("3 mutexes of 1 client", mutexes.with_one_client()),
        (
            "2 mutexes of 1 client, 1 writer",
            beside_writer.with_shared_client(),
        ),
    ]
}

fn plain_locks() -> [(&'static str, Scenario); 3] {
    let plain = Scenario::new([Role::Plain; CONTENDERS]);
    let of_two = plain.with_shared_client();
    let last = [false, false, true];
    [
        ("3 plain locks", plain),
        ("3 plain locks of 2 clients", of_two),
        ("2 plain locks of 1 client, 1 try", of_two.with_tries(last)),
    ]
}

fn semaphores() -> [(&'static str, Scenario); 2] {
    [
        ("semaphore of 1", Scenario::semaphore(1, None)),
        ("semaphore of 2", Scenario::semaphore(2, None)),
    ]
}

/// The limit is changed while the semaphore is used.
fn changed_semaphores() -> [(&'static str, Scenario); 2] {
    let semaphore = |limit| Scenario::semaphore(limit, Some(1));
    [
        ("semaphore of 2, limit changed once", semaphore(2)),
        ("semaphore of 1, limit changed once", semaphore(1)),
    ]
}

/// The scenario with this name, and with these faults.
#[must_use]
pub fn named(name: &str, faults: Faults) -> Option<(String, Scenario)> {
    let all = queues()
        .into_iter()
        .chain(crowds())
        .chain(plain_locks())
        .chain(semaphores());
    let mut all = all.chain(changed_semaphores());
    let (name, scenario) = all.find(|(title, _)| *title == name)?;
    Some((title(name, faults), scenario.with_faults(faults)))
}

/// What the plain lock does not survive, and says so: its node, whose name all contenders use, is
/// deleted by hand.
#[must_use]
pub fn plain_by_hand() -> Scenario {
    Scenario::new([Role::Plain; CONTENDERS]).with_faults(faults(0, 0, 0, 1, 0))
}

/// The scenarios of the tests: as many faults as a minute allows.
#[must_use]
pub fn ordinary() -> Vec<(String, Scenario)> {
    let light = [
        faults(1, 0, 0, 0, 0),
        faults(0, 0, 1, 0, 1),
        faults(0, 0, 0, 1, 0),
    ];
    let mut runs = with_faults(&queues(), &light);
    let heavy = [
        faults(0, 0, 0, 0, 2),
        faults(1, 0, 1, 1, 0),
        faults(0, 1, 1, 0, 0),
        faults(0, 0, 0, 2, 0),
    ];
    runs.extend(with_faults(&queues()[..1], &heavy));
    runs.extend(with_faults(&crowds(), &light));
    runs.extend(with_faults(&crowds(), &[faults(0, 1, 0, 0, 0)]));
    let each = [
        faults(0, 0, 0, 0, 1),
        faults(1, 0, 0, 0, 0),
        faults(0, 1, 0, 0, 0),
        faults(0, 0, 1, 0, 0),
    ];
    runs.extend(with_faults(&plain_locks(), &each));
    runs.extend(with_faults(&semaphores(), &each));
    runs.extend(with_faults(&semaphores(), &[faults(0, 0, 0, 1, 0)]));
    runs.extend(with_faults(&changed_semaphores(), &[Faults::default()]));
    let bad = [bad_servers(1, 0), bad_servers(0, 1)];
    runs.extend(with_faults(&queues()[..2], &bad));
    runs.extend(with_faults(&crowds()[1..2], &bad));
    runs.extend(with_faults(&plain_locks()[..1], &bad));
    runs.extend(with_faults(&semaphores()[..1], &bad));
    runs
}

/// All scenarios.
#[must_use]
pub fn full() -> Vec<(String, Scenario)> {
    let mut runs = with_faults(
        &queues(),
        &[
            faults(0, 0, 0, 0, 2),
            faults(1, 0, 1, 1, 0),
            faults(0, 1, 0, 1, 0),
            faults(0, 1, 1, 0, 0),
            faults(0, 0, 0, 2, 0),
            faults(2, 0, 1, 0, 0),
            faults(1, 1, 0, 0, 0),
        ],
    );
    runs.extend(with_faults(&queues()[..1], &[faults(1, 1, 1, 1, 0)]));
    let of_crowds = [
        faults(0, 0, 0, 0, 2),
        faults(1, 0, 1, 0, 0),
        faults(1, 0, 0, 1, 0),
        faults(0, 1, 1, 0, 0),
        faults(0, 0, 1, 1, 0),
    ];
    runs.extend(with_faults(&crowds(), &of_crowds));
    let each = [
        faults(0, 0, 0, 0, 2),
        faults(1, 0, 1, 0, 0),
        faults(0, 1, 1, 0, 0),
        faults(2, 0, 0, 0, 0),
        faults(1, 1, 0, 0, 0),
    ];
    runs.extend(with_faults(&plain_locks(), &each));
    runs.extend(with_faults(&semaphores(), &each));
    let by_hand = [
        faults(1, 0, 0, 1, 0),
        faults(0, 1, 0, 1, 0),
        faults(0, 0, 1, 1, 0),
    ];
    runs.extend(with_faults(&semaphores(), &by_hand));
    let one = [
        faults(0, 0, 0, 0, 1),
        faults(1, 0, 0, 0, 0),
        faults(0, 1, 0, 0, 0),
        faults(0, 0, 1, 0, 0),
    ];
    runs.extend(with_faults(&changed_semaphores(), &one));
    let bad = [bad_servers(1, 0), bad_servers(0, 2), bad_servers(1, 1)];
    runs.extend(with_faults(&queues(), &bad));
    runs.extend(with_faults(&crowds(), &bad));
    runs.extend(with_faults(&plain_locks(), &bad));
    runs.extend(with_faults(&semaphores(), &bad));
    runs
}

fn with_faults(scenarios: &[(&str, Scenario)], each: &[Faults]) -> Vec<(String, Scenario)> {
    let mut runs = Vec::new();
    for (name, scenario) in scenarios {
        let with = |faults: &Faults| (title(name, *faults), scenario.with_faults(*faults));
        runs.extend(each.iter().map(with));
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
        ..Faults::default()
    }
}

/// Servers that lie, or die.
fn bad_servers(lies: u8, deaths: u8) -> Faults {
    Faults {
        lies,
        deaths,
        ..Faults::default()
    }
}

fn title(scenario: &str, faults: Faults) -> String {
    let Faults {
        cuts,
        pauses,
        cancels,
        by_hand,
        again,
        lies,
        deaths,
    } = faults;
    format!(
        "| {scenario} | {cuts} | {pauses} | {cancels} | {by_hand} | {again} | {lies} | {deaths} |"
    )
}
