//! Entry point of the fuzz target `ranks`: takes any bytes as a listing of a lock's directory. Panics only when `rank`
//! breaks a promise.
//!
//! The target itself is in `fuzz/`, and `tests/corpus.rs` replays its findings. It assumes nothing about names except
//! that no two children have the same one, which the server guarantees.
//!
//! Not here: the ranking (`queue::rank`).

use std::collections::BTreeSet;

use crate::{
    node::name,
    queue::rank::{Kind, Rank, Role, SEQUENCE_LIMIT, ahead, in_order, is_contended, rank},
};

/// The most children of a listing. More of them show nothing new, and the time grows with the square of their number.
const MOST: usize = 40;

const KINDS: [Kind; 4] = [Kind::Mutex, Kind::Read, Kind::Write, Kind::Latch];

/// Checks the ranking of a listing:
///
/// - At most one contender holds the lock exclusively, and then no other contender holds it.
/// - At least one contender holds the lock, unless the numbers are exhausted.
/// - A waiter waits for a contender ahead. When that contender is gone, one fewer is ahead.
/// - The order of the listing makes no difference.
pub fn ranks(input: &[u8]) {
    let names = names(input);
    let children: Vec<&str> = names.iter().map(String::as_str).collect();
    for child in &children {
        let _ = name::number(child);
    }
    // The queue of latches, and the queue of all other kinds.
    queue(&children, &[Kind::Latch]);
    queue(&children, &[Kind::Mutex, Kind::Read, Kind::Write]);
    for kind in KINDS {
        newcomer(&children, kind);
        sorted(&children, kind);
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
            let Some((number, role)) = kind.contender(mine) else {
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
            if kind.role() == role && is_counted(*kind, kinds) {
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

/// Whether contenders are counted under this kind. Mutexes and writers have the same ranks: they are counted as
/// mutexes.
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
    let (own, other) = (kind.contender(mine), kind.contender(nearest));
    assert!(children.contains(&nearest) && nearest != mine);
    assert!(other.is_some() && other < own, "{mine} waits for {nearest}");
    assert_eq!(second.is_some(), ahead > 1);
    assert!(second.is_none_or(|second| kind.contender(second) < own && second != nearest));
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
            let second = second.and_then(|second| kind.contender(second));
            assert_eq!(kind.contender(nearest), second);
        }
        other => unreachable!("{other:?} when the contender ahead is gone"),
    }
    // The writer ahead may become a reader, which keeps the number. Our own number is excluded: we did not become a
    // reader.
    let reader = nearest.replace(name::WRITE, name::READ);
    let turned = kind.contender(&reader);
    let is_ours = turned.map(|(number, _)| number) == own.map(|(number, _)| number);
    if is_last && reader != nearest && turned.is_some_and(|it| it.1 == Role::Shared) && !is_ours {
        let turned: Vec<&str> = others.iter().copied().chain([&*reader]).collect();
        assert_eq!(rank_in(kind, &turned, mine), Rank::First);
    }
}

/// A contender with the next number gets the lock at once if, and only if, the lock is not contended.
fn newcomer(children: &[&str], kind: Kind) {
    let numbers = children.iter().filter_map(|child| kind.contender(child));
    let next = numbers
        .map(|(number, _)| number)
        .max()
        .map_or(0, |last| last.saturating_add(1));
    let mine = format!("new-{}{next:010}", kind.marker());
    let all: Vec<&str> = children.iter().copied().chain([&*mine]).collect();
    let place = rank_in(kind, &all, &mine);
    if place != Rank::Exhausted {
        let contended = is_contended(kind, children.iter().copied());
        assert_eq!(place == Rank::First, !contended, "{all:?}");
    }
}

/// Participants are listed in the order of the queue, with the right number of contenders ahead.
fn sorted(children: &[&str], kind: Kind) {
    let ordered = in_order(kind, children.iter().map(|&it| it.to_owned()).collect());
    let contenders = children.iter().filter(|it| kind.contender(it).is_some());
    assert_eq!(ordered.len(), contenders.count());
    assert!(
        ordered
            .iter()
            .is_sorted_by_key(|child| kind.contender(child))
    );
    let seen = ahead(kind, ordered.iter().map(String::as_str));
    for (mine, seen) in ordered.iter().zip(seen) {
        let shared = matches!(kind.contender(mine), Some((_, Role::Shared)));
        let as_itself = match kind {
            Kind::Latch => Kind::Latch,
            _ if shared => Kind::Read,
            _ => Kind::Write,
        };
        match rank_in(as_itself, children, mine) {
            Rank::First => assert_eq!(seen, 0),
            Rank::Waiting { ahead, .. } => assert_eq!(seen, ahead),
            Rank::Gone | Rank::Exhausted => {}
        }
    }
}

fn rank_in<'a>(kind: Kind, children: &[&'a str], mine: &str) -> Rank<'a> {
    rank(kind, children.iter().copied(), mine)
}

/// Reads a name from each line of text. In a line that begins with `!`, the next two bytes choose the marker and the
/// number of a contender.
fn names(input: &[u8]) -> BTreeSet<String> {
    let lines = input.split(|byte| *byte == b'\n').take(MOST);
    let name = |line: &[u8]| match line {
        [b'!', marker, number, rest @ ..] => {
            let markers = [
                name::LOCK,
                name::READ,
                name::WRITE,
                name::LATCH,
                name::LEASE,
                name::KAZOO_LOCK,
                name::KAZOO_READ,
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
