//! The target `ranks`: any bytes as a listing of a lock's directory.
//!
//! It assumes nothing about names except that no two children have the same one, which the server
//! guarantees. It reads names by itself, as a second opinion.

use std::collections::BTreeSet;

use lockkeeper_recipes::rank::{Kind, Rank, SEQUENCE_LIMIT, is_contended, rank};

/// The most children of a listing. More of them show nothing new, and the time grows with the
/// square of their number.
const MOST: usize = 40;

const KINDS: [Kind; 4] = [Kind::Mutex, Kind::Read, Kind::Write, Kind::Latch];

/// Whether a contender shares the lock with others of its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Exclusive,
    Shared,
}

/// The markers of contenders in the queue of mutexes, readers and writers.
const MARKERS: [(&str, Role); 5] = [
    ("lock-", Role::Exclusive),
    ("__READ__", Role::Shared),
    ("__WRIT__", Role::Exclusive),
    ("__lock__", Role::Exclusive),
    ("__rlock__", Role::Shared),
];
const LATCH: (&str, Role) = ("latch-", Role::Exclusive);

/// The number and the role of a contender in the queue of this kind; `None` for a child that is not
/// in it.
fn contender(kind: Kind, child: &str) -> Option<(i32, Role)> {
    let markers = if kind == Kind::Latch {
        &[LATCH][..]
    } else {
        &MARKERS[..]
    };
    // What the server appends: `%010d`.
    let text = child.as_bytes();
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit());
    let (before, number) = child.split_at(child.len() - digits.count());
    markers.iter().find_map(|(marker, role)| {
        let number = if before.ends_with(marker) {
            number.to_owned()
        } else {
            before
                .strip_suffix('-')?
                .ends_with(marker)
                .then(|| format!("-{number}"))?
        };
        let value: i32 = number.parse().ok()?;
        (format!("{value:010}") == number).then_some((value, *role))
    })
}

fn role(kind: Kind) -> Role {
    if kind == Kind::Read {
        Role::Shared
    } else {
        Role::Exclusive
    }
}

fn marker(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "__READ__",
        Kind::Write => "__WRIT__",
        Kind::Latch => "latch-",
        _ => "lock-",
    }
}

/// Checks the ranking of a listing:
///
/// - At most one contender holds the lock exclusively, and then no other contender holds it.
/// - At least one contender holds the lock, unless the numbers are exhausted.
/// - A waiter waits for a contender ahead. When that contender is gone, one fewer is ahead.
/// - The order of the listing makes no difference.
pub fn ranks(input: &[u8]) {
    let names = names(input);
    let children: Vec<&str> = names.iter().map(String::as_str).collect();
    // The queue of latches, and the queue of all other kinds.
    queue(&children, &[Kind::Latch]);
    queue(&children, &[Kind::Mutex, Kind::Read, Kind::Write]);
    for kind in KINDS {
        newcomer(&children, kind);
    }
}

/// Checks the contenders of one queue, each in the role that its name says.
fn queue(children: &[&str], kinds: &[Kind]) {
    let reversed: Vec<&str> = children.iter().rev().copied().collect();
    let (mut holders, mut exclusive, mut contenders, mut exhausted) = (0, 0, 0, false);
    for mine in children {
        for kind in kinds {
            let place = rank_in(*kind, children, mine);
            assert_eq!(place, rank_in(*kind, &reversed, mine), "{mine}");
            let Some((number, role)) = contender(*kind, mine) else {
                assert_eq!(place, Rank::Gone, "{mine}");
                continue;
            };
            match &place {
                Rank::Gone => unreachable!("{mine} is there"),
                Rank::Exhausted => {}
                Rank::First => assert!((0..=SEQUENCE_LIMIT).contains(&number), "{mine}"),
                Rank::Waiting { .. } => waits(children, mine, *kind, &place),
            }
            // Count each contender once: in its own role.
            if self::role(*kind) == role && is_counted(*kind, kinds) {
                contenders += 1;
                exhausted |= place == Rank::Exhausted;
                if place == Rank::First {
                    holders += 1;
                    exclusive += i32::from(role == Role::Exclusive);
                }
            }
        }
    }
    assert!(
        exclusive == 0 || holders == 1,
        "{holders} hold it: {children:?}"
    );
    assert!(
        holders > 0 || contenders == 0 || exhausted,
        "no contender holds it: {children:?}"
    );
}

/// Whether contenders are counted under this kind. Mutexes and writers have the same ranks: they
/// are counted as mutexes.
fn is_counted(kind: Kind, kinds: &[Kind]) -> bool {
    kinds.len() == 1 || kind != Kind::Write
}

/// Checks the rank of a waiter.
fn waits(children: &[&str], mine: &str, kind: Kind, place: &Rank<'_>) {
    let Rank::Waiting {
        ahead,
        nearest,
        second,
        is_last,
    } = *place
    else {
        return;
    };
    let (own, other) = (contender(kind, mine), contender(kind, nearest));
    assert!(children.contains(&nearest) && nearest != mine);
    assert!(other.is_some() && other < own, "{mine} waits for {nearest}");
    assert_eq!(second.is_some(), ahead > 1);
    assert!(second.is_none_or(|second| contender(kind, second) < own && second != nearest));
    assert!(!is_last || ahead == 1);
    let others: Vec<&str> = children
        .iter()
        .filter(|it| **it != nearest)
        .copied()
        .collect();
    match rank_in(kind, &others, mine) {
        Rank::First => assert_eq!(ahead, 1),
        Rank::Waiting {
            ahead: left,
            nearest,
            ..
        } => {
            assert_eq!(left + 1, ahead);
            let second = second.and_then(|second| contender(kind, second));
            assert_eq!(contender(kind, nearest), second);
        }
        other => unreachable!("{other:?} when the contender ahead is gone"),
    }
    // The writer ahead may become a reader, which keeps the number. Our own number is excluded: we
    // did not become a reader.
    let writer = nearest.rsplit_once("__WRIT__");
    let writer = writer.filter(|(_, number)| number.parse::<i32>().is_ok());
    let reader = writer.map(|(who, number)| format!("{who}__READ__{number}"));
    if is_last
        && let Some(reader) = reader
        && let Some((number, Role::Shared)) = contender(kind, &reader)
        && own.is_none_or(|(own, _)| own != number)
    {
        let turned: Vec<&str> = others.iter().copied().chain([&*reader]).collect();
        assert_eq!(rank_in(kind, &turned, mine), Rank::First);
    }
}

/// A contender with the next number gets the lock at once if, and only if, the lock is not
/// contended.
fn newcomer(children: &[&str], kind: Kind) {
    let numbers = children.iter().filter_map(|child| contender(kind, child));
    let next = numbers
        .map(|(number, _)| number)
        .max()
        .map_or(0, |last| last.saturating_add(1));
    let mine = format!("new-{}{next:010}", marker(kind));
    let all: Vec<&str> = children.iter().copied().chain([&*mine]).collect();
    let place = rank_in(kind, &all, &mine);
    if place != Rank::Exhausted {
        let contended = is_contended(kind, children.iter().copied());
        assert_eq!(place == Rank::First, !contended, "{all:?}");
    }
}

fn rank_in<'a>(kind: Kind, children: &[&'a str], mine: &str) -> Rank<'a> {
    rank(kind, children.iter().copied(), mine)
}

/// Reads a name from each line of text. In a line that begins with `!`, the next two bytes choose
/// the marker and the number of a contender.
fn names(input: &[u8]) -> BTreeSet<String> {
    let lines = input.split(|byte| *byte == b'\n').take(MOST);
    let name = |line: &[u8]| match line {
        [b'!', marker, number, rest @ ..] => {
            let markers = [
                "lock-",
                "__READ__",
                "__WRIT__",
                "latch-",
                "lease-",
                "__lock__",
                "__rlock__",
            ];
            let marker = markers.get(usize::from(*marker) % markers.len()).copied();
            let number = match number {
                0xf0.. => i32::from(*number).saturating_sub(0x100),
                0xe0.. => SEQUENCE_LIMIT
                    .saturating_sub(0xe8)
                    .saturating_add(i32::from(*number)),
                few => i32::from(few % 16),
            };
            let who = String::from_utf8_lossy(rest);
            format!("{who}{}{number:010}", marker.unwrap_or_default())
        }
        line => String::from_utf8_lossy(line).into_owned(),
    };
    lines.map(name).filter(|name| !name.is_empty()).collect()
}
