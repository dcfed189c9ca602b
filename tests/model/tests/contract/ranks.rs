//! Who is ahead of whom: in all listings of at most six nodes, in long ones, and by each name.

use lockkeeper_recipes::{
    Loss,
    decisions::turn::{Out, Turn},
    rank::{Kind, Rank, SEQUENCE_LIMIT, is_contended, rank},
};

use crate::nodes::{Node, Numbered, blocks, listings, name};

fn check(nodes: &[Numbered], names: &[String], own: usize, kind: Kind) {
    let children = || names.iter().map(String::as_str);
    let mut blockers: Vec<_> = (0..nodes.len())
        .filter(|other| blocks(nodes[*other], nodes[own]))
        .collect();
    // The nearest one first.
    blockers.sort_by_key(|at| (nodes[*at].1, nodes[*at].0.is_reader()));
    blockers.reverse();
    let blocker = |at: usize| blockers.get(at).map(|at| names[*at].as_str());
    // A writer may become a reader with the same number.
    let stays = |at: usize| nodes[at].0 != Node::Write || kind == Kind::Read;
    let expected = match blocker(0) {
        None => Rank::First,
        Some(nearest) => Rank::Waiting {
            ahead: blockers.len(),
            nearest,
            second: blocker(1),
            is_last: blockers.len() == 1 && stays(blockers[0]),
        },
    };
    assert_eq!(rank(kind, children(), &names[own]), expected, "{names:?}");
    // In another order: the one before it comes first.
    let rotated = names.iter().cycle().skip(own + names.len() - 1);
    let rotated = rotated.take(names.len()).map(String::as_str);
    assert_eq!(rank(kind, rotated, &names[own]), expected, "{names:?}");

    let mut turn = Turn::new(kind);
    let listed = turn.listed(children(), &names[own]).expect("it is listed");
    assert_eq!(listed.ahead, blockers.len(), "{names:?}");
    let own_if_behind = blocker(0).map(|_| names[own].as_str());
    let near: Vec<_> = [blocker(1), blocker(0), own_if_behind]
        .into_iter()
        .flatten()
        .collect();
    let (left_out, shown) = listed.near.parts();
    assert_eq!(left_out, blockers.len().saturating_sub(2), "{names:?}");
    assert!(shown.eq(near.iter().copied()), "{names:?}");
    let suspects = (0..own).filter(|at| nodes[*at].0 == Node::Latch);
    let suspects: Vec<_> = suspects.map(|at| names[at].as_str()).collect();
    assert_eq!(listed.suspects, suspects, "{names:?}");
    let is_mixed = nodes[own..].iter().any(|(node, _)| *node == Node::Latch);
    assert_eq!(listed.is_mixed, is_mixed, "{names:?}");

    let others = || children().filter(|child| *child != names[own]);
    assert_eq!(rank(kind, others(), &names[own]), Rank::Gone, "{names:?}");
    let gone = Turn::new(kind).listed(others(), &names[own]);
    assert_eq!(gone.err(), Some(Out::Lost(Loss::Deleted)), "{names:?}");
}

#[test]
fn nobody_but_those_ahead_that_do_not_share_block_a_contender() {
    let mut checked = 0;
    for count in 1..=6 {
        for nodes in listings(&Node::ALL[..5 + 2 * usize::from(count < 6)], count) {
            let names: Vec<_> = nodes.iter().copied().map(name).collect();
            for (own, (node, _)) in nodes.iter().enumerate() {
                if let Some(kind) = node.contender() {
                    check(&nodes, &names, own, kind);
                    checked += 1;
                }
            }
        }
    }
    println!("{checked} contenders in all listings of at most six nodes");
}

#[test]
fn a_long_queue_is_no_other_than_a_short_one() {
    let (locks, writers) = ([Node::Lock; 2], [Node::Write; 2]);
    for pair in [
        locks,
        writers,
        [Node::Read, Node::Write],
        [Node::Read, Node::KazooLock],
    ] {
        let nodes: Vec<Numbered> = pair.into_iter().cycle().zip(0..300).collect();
        let names: Vec<_> = nodes.iter().copied().map(name).collect();
        for (own, (node, _)) in nodes.iter().enumerate() {
            if let Some(kind) = node.contender() {
                check(&nodes[..=own], &names[..=own], own, kind);
            }
        }
    }
}

/// A marker, the kind, and whether it shares the lock.
const MARKERS: [(&str, Kind, bool); 7] = [
    ("lock-", Kind::Mutex, false),
    ("__lock__", Kind::Mutex, false),
    ("__READ__", Kind::Read, true),
    ("__rlock__", Kind::Read, true),
    ("__WRIT__", Kind::Write, false),
    ("latch-", Kind::Latch, false),
    ("lease-", Kind::Semaphore, false),
];

fn is_one_queue(one: Kind, other: Kind) -> bool {
    let is_of_lock = |kind| matches!(kind, Kind::Mutex | Kind::Read | Kind::Write);
    one == other || is_of_lock(one) && is_of_lock(other)
}

/// Two nodes of each two kinds and numbers, with each text before their markers.
#[test]
fn only_the_marker_and_the_number_tell_who_is_ahead() {
    let powers = (0..10).map(|power| 10_i32.pow(power));
    let mut numbers: Vec<_> = powers.flat_map(|it| [it - 1, it, it + 1]).collect();
    numbers.extend(
        (0..31)
            .map(|power| 1 << power)
            .filter(|it| *it < SEQUENCE_LIMIT),
    );
    numbers.extend([1_234_567_890, SEQUENCE_LIMIT]);
    numbers.sort_unstable();
    numbers.dedup();
    let texts = [
        "",
        "x-",
        "lock-",
        "-",
        "_c_37f2a2a2-6f2c-4c70-9f0e-3f1c7a3e9a11-",
        "__lock__",
    ];
    for ((own_marker, kind, reads), (marker, of, shares)) in MARKERS
        .into_iter()
        .flat_map(|own| MARKERS.map(|other| (own, other)))
    {
        let blocks = is_one_queue(kind, of) && !(reads && shares);
        for (at, pair) in numbers.windows(2).enumerate() {
            let text = |at: usize| texts[at % texts.len()];
            let lower = |marker| format!("{}{marker}{:010}", text(at / 7), pair[0]);
            let higher = |marker| format!("{}{marker}{:010}", text(at), pair[1]);
            let (own, other) = (higher(own_marker), lower(marker));
            let children = [own.as_str(), other.as_str()];
            let is_first = rank(kind, children, &own) == Rank::First;
            assert_eq!(is_first, !blocks, "{own} behind {other}");
            assert_eq!(
                is_contended(kind, [other.as_str()]),
                blocks,
                "{own} behind {other}"
            );
            let listed = Turn::new(kind)
                .listed(children, &own.as_str())
                .expect("it is listed");
            let is_suspect = listed.suspects == [other.as_str()];
            assert_eq!(is_suspect, !is_one_queue(kind, of), "{own} behind {other}");
            let (own, other) = (lower(own_marker), higher(marker));
            let children = [own.as_str(), other.as_str()];
            assert_eq!(
                rank(kind, children, &own),
                Rank::First,
                "{own} ahead of {other}"
            );
            let listed = Turn::new(kind)
                .listed(children, &own.as_str())
                .expect("it is listed");
            assert_eq!(listed.suspects, [""; 0], "{own} ahead of {other}");
        }
    }
}

#[test]
fn what_only_looks_like_a_contender_is_none() {
    for kind in [Kind::Mutex, Kind::Read, Kind::Write] {
        let marker = MARKERS.iter().find(|(_, of, _)| *of == kind).expect("one");
        let own = format!("x{}0000000005", marker.0);
        for (other, is_suspect) in [
            ("x-lock-000000001", false),
            ("x-lock-00000000001", false),
            ("x-lock-000000001a", false),
            ("x-lock-+000000001", false),
            ("x-lock- 000000001", false),
            ("x-lock--000000000", false),
            ("x-lock-00000000\u{e9}", false),
            ("x-lock-0000000001x", false),
            ("x-lock-0000000001-", false),
            ("x-LOCK-0000000001", false),
            ("x-lock_0000000001", false),
            ("x-lock0000000001", false),
            ("x_lock__0000000001", false),
            ("x_rlock__0000000001", false),
            ("x__WRIT_0000000001", false),
            ("x__READ_0000000001", false),
            ("x__write__0000000001", false),
            ("x-0000000001", false),
            ("0000000001", false),
            ("locks", false),
            ("lock-", false),
            ("Lock", false),
            ("", false),
            ("lock", true),
            ("leases", true),
            ("x-latch-0000000001", true),
            ("x-lease-0000000001", true),
            ("x-latch-0000000009", false),
        ] {
            let children = [other, own.as_str()];
            assert_eq!(rank(kind, children, &own), Rank::First, "{other:?}");
            assert_eq!(rank(kind, [other], &own), Rank::Gone, "{other:?}");
            assert!(!is_contended(kind, [other]), "{other:?}");
            let listed = Turn::new(kind)
                .listed(children, &own.as_str())
                .expect("it is listed");
            assert_eq!(listed.suspects == [other], is_suspect, "{other:?}");
        }
    }
}

/// The proof's numbers are never given twice, and never negative.
#[test]
fn numbers_without_an_order_are_refused() {
    let lock = |text: char, number: i32| format!("{text}-lock-{number:010}");
    for (own, other) in [
        (7, 7),
        (7, -5),
        (-5, 7),
        (SEQUENCE_LIMIT + 1, 7),
        (i32::MAX, i32::MIN),
    ] {
        let (own, other) = (lock('b', own), lock('a', other));
        let place = rank(Kind::Mutex, [own.as_str(), other.as_str()], &own);
        assert_eq!(place, Rank::Exhausted, "{own} beside {other}");
    }
}
