//! Which scenarios are explored: those of the tests, and all of them.

use lockkeeper_recipes::rank::Kind;

use crate::scenario::{CONTENDERS, Faults, Role, Scenario};

/// Each scenario, with its group and its name.
fn scenarios() -> [(&'static str, &'static str, Scenario); 25] {
    use Kind::{Mutex, Read, Write};
    let queue = |kinds: [Kind; CONTENDERS]| Scenario::new(kinds.map(Role::Queue));
    let (last, last_two) = ([false, false, true], [false, true, true]);
    let mutexes = queue([Mutex; 3]);
    // Contenders of one client use each other's listings.
    let beside_writer = queue([Mutex, Mutex, Write]).with_shared_client();
    let try_to_read = queue([Write, Write, Read]).with_tries(last_two);
    let plain = Scenario::new([Role::Plain; CONTENDERS]);
    let plain_of_two = plain.with_shared_client();
    let semaphore = |limit| Scenario::semaphore(limit, None);
    let changed = |limit| Scenario::semaphore(limit, Some(1));
    [
        ("queue", "3 mutexes", mutexes),
        ("queue", "3 writers", queue([Write; 3])),
        ("queue", "2 writers, 1 reader", queue([Write, Write, Read])),
        ("queue", "1 writer, 2 readers", queue([Write, Read, Read])),
        (
            "queue",
            "mutex, writer, reader",
            queue([Mutex, Write, Read]),
        ),
        ("queue", "2 mutexes, 1 try", mutexes.with_tries(last)),
        ("queue", "1 mutex, 2 tries", mutexes.with_tries(last_two)),
        ("queue", "writer, try to write, try to read", try_to_read),
        (
            "crowd",
            "3 mutexes of 2 clients",
            mutexes.with_shared_client(),
        ),
        ("crowd", "3 mutexes of 1 client", mutexes.with_one_client()),
        (
            "crowd",
            "3 mutexes of 1 client, 1 asks",
            mutexes.with_one_client().with_active(1),
        ),
        ("crowd", "2 mutexes of 1 client, 1 writer", beside_writer),
        ("plain", "3 plain locks", plain),
        ("plain", "3 plain locks of 2 clients", plain_of_two),
        (
            "plain",
            "2 plain locks of 1 client, 1 try",
            plain_of_two.with_tries(last),
        ),
        ("permits", "semaphore of 1", semaphore(1)),
        ("permits", "semaphore of 2", semaphore(2)),
        ("changed", "semaphore of 2, limit changed once", changed(2)),
        ("changed", "semaphore of 1, limit changed once", changed(1)),
        ("late", "3 plain locks, 3 servers", plain.on_servers(3)),
        ("late", "3 plain locks, 1 server", plain.on_servers(1)),
        ("late", "3 mutexes, 1 server", mutexes.on_servers(1)),
        ("return", "3 mutexes, 2 servers", mutexes.on_servers(2)),
        (
            "late",
            "3 mutexes, 3 servers, late nodes forgotten",
            mutexes.on_servers(3).forgetting(),
        ),
        (
            "return",
            "semaphore of 1, 2 servers",
            semaphore(1).on_servers(2),
        ),
    ]
}

/// A group or one scenario, and the faults with which it is explored: how many cuts, pauses,
/// cancels, deletes by hand, starts again, deaths, losses and ghosts.
type Table = [(&'static str, &'static str)];

/// Those of the tests, each with less than 300,000 states.
const QUICK: &Table = &[
    ("3 mutexes", "100000 001010 000100 000020 011000 000200"),
    ("3 writers", "100000 001010 000100"),
    ("2 writers, 1 reader", "100000 000100"),
    ("1 writer, 2 readers", "100000 001010 000100"),
    ("mutex, writer, reader", "100000 000100"),
    ("2 mutexes, 1 try", "100000 001010 000100"),
    ("1 mutex, 2 tries", "100000 001010 000100"),
    ("crowd", "100000 000100"),
    ("3 mutexes of 1 client", "001010 010000"),
    ("3 mutexes of 2 clients", "001010 010000"),
    ("plain", "000010 100000 010000 001000"),
    ("permits", "000010 100000 010000 001000 000100"),
    ("changed", "000000"),
    ("3 mutexes", "000001"),
    ("3 mutexes of 1 client", "000001"),
    ("3 plain locks", "000001"),
    ("semaphore of 1", "000001"),
    ("queue", "0000001"),
    ("crowd", "0000001"),
    ("plain", "0000001 01000001"),
    ("permits", "0000001"),
    ("late", "200000"),
    ("semaphore of 1, 2 servers", "200000"),
];

/// Those that are explored each night beside them: mostly up to 600,000 states each.
const NIGHTLY: &Table = &[
    ("2 writers, 1 reader", "001010"),
    ("mutex, writer, reader", "001010"),
    ("writer, try to write, try to read", "100000 001010 000100"),
    ("3 mutexes", "101100 01000001"),
    ("2 mutexes of 1 client, 1 writer", "001010 010000"),
    ("3 writers", "000001"),
    ("permits", "01000001"),
    ("3 mutexes, 2 servers", "200000"),
];

/// Long waits.
const WAITS: &Table = &[
    ("queue", "1000001 01000001"),
    ("crowd", "1000001 01000001"),
    ("plain", "1000001 01000011"),
    ("permits", "1000001 01000011"),
];

/// Writes that come late, by server.
const LATE: &Table = &[
    ("late", "200000 201000 210000 200010"),
    ("return", "200000"),
    ("semaphore of 1, 2 servers", "201000 200010"),
];

const FULL: &Table = &[
    ("queue", "000020 101100 010100 011000 000200 201000 110000"),
    ("3 mutexes", "111100"),
    ("crowd", "000020 101000 100100 011000 001100"),
    ("plain", "000020 101000 011000 200000 110000"),
    ("permits", "000020 101000 011000 200000 110000"),
    ("permits", "100100 010100 001100"),
    ("changed", "000010 100000 010000 001000"),
    ("queue", "000002"),
    ("crowd", "000002"),
    ("plain", "000002"),
    ("permits", "000002"),
];

/// Where livelocks are looked for: in the tests.
const FAIR: &Table = &[
    ("queue", "000000"),
    ("3 mutexes", "010000"),
    ("crowd", "000000"),
    ("3 mutexes of 1 client", "0000001"),
    ("plain", "000000 100000"),
    ("permits", "000000 100000"),
];

/// And in all.
const FAIR_FULL: &Table = &[
    ("queue", "100000 001000 000100 1000001"),
    ("3 mutexes", "01000001"),
    ("crowd", "100000 001000 000100 1000001"),
    ("plain", "010000 001000 000020 1000001 01000011"),
    ("permits", "010000 001000 000100 1000001 01000011"),
    ("changed", "000000"),
];

/// Runs whose contenders come back for ever.
const FOR_EVER: &Table = &[
    ("3 mutexes", "000000"),
    ("1 writer, 2 readers", "000000"),
    ("semaphore of 1", "000000"),
];

const FOR_EVER_FULL: &Table = &[
    ("queue", "000000"),
    ("crowd", "000000"),
    ("permits", "000000 100000 001000 000100"),
    ("3 mutexes", "100000 001000 000100 0000001"),
];

/// The scenarios in which livelocks are looked for: those of the tests, or all of them.
#[must_use]
pub fn fair(all: bool) -> Vec<(String, Scenario)> {
    let (once, for_ever) = if all {
        (&[FAIR, FAIR_FULL].concat()[..], FOR_EVER_FULL)
    } else {
        (FAIR, FOR_EVER)
    };
    let for_ever = of_table(for_ever).into_iter();
    let for_ever = for_ever.map(|(title, it)| (format!("{title} for ever |"), it.for_ever()));
    let once = of_table(once).into_iter();
    let once = once.map(|(title, it)| (format!("{title} once |"), it));
    once.chain(for_ever)
        .map(|(title, it)| (title, it.fair()))
        .collect()
}

/// The scenario with this name, and with these faults.
#[must_use]
pub fn named(name: &str, faults: Faults) -> Option<(String, Scenario)> {
    let mut all = scenarios().into_iter();
    let (_, name, scenario) = all.find(|(_, title, _)| *title == name)?;
    Some((title(name, faults), scenario.with_faults(faults)))
}

/// What the plain lock does not survive, and says so: its node, whose name all contenders use, is
/// deleted by hand.
#[must_use]
pub fn plain_by_hand() -> Scenario {
    Scenario::new([Role::Plain; CONTENDERS]).with_faults(faults("000100"))
}

/// The scenarios of the tests.
#[must_use]
pub fn quick() -> Vec<(String, Scenario)> {
    of_table(QUICK)
}

/// The scenarios of each night.
#[must_use]
pub fn nightly() -> Vec<(String, Scenario)> {
    of_table(&[QUICK, NIGHTLY].concat())
}

/// All scenarios.
#[must_use]
pub fn full() -> Vec<(String, Scenario)> {
    of_table(&[FULL, WAITS, LATE].concat())
}

fn of_table(table: &Table) -> Vec<(String, Scenario)> {
    let mut runs = Vec::new();
    for (wanted, each) in table {
        for (group, name, scenario) in scenarios() {
            if [group, name].contains(wanted) {
                let each = each.split(' ').map(faults);
                runs.extend(each.map(|it| (title(name, it), scenario.with_faults(it))));
            }
        }
    }
    runs
}

/// One digit for each kind of fault, in the order of the columns.
fn faults(digits: &str) -> Faults {
    let digits: Vec<u8> = digits.bytes().map(|digit| digit - b'0').collect();
    Faults::of(&digits).expect("at most eight digits")
}

fn title(scenario: &str, faults: Faults) -> String {
    let counts = faults.counts().map(|count| count.to_string());
    format!("| {scenario} | {} |", counts.join(" | "))
}
