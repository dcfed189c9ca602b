//! Who is ahead of whom, in all listings of at most six nodes.

use lockkeeper_recipes::{
    Loss,
    decisions::turn::{Out, Turn},
    rank::{Kind, Rank, SEQUENCE_LIMIT, rank},
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
    let watched = blocker(0).map(|_| names[own].as_str());
    let watched: Vec<_> = [watched, blocker(0), blocker(1)]
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(listed.ahead, blockers.len(), "{names:?}");
    assert_eq!(listed.missing, watched, "{names:?}");
    let suspects = (0..own).filter(|at| nodes[*at].0 == Node::Latch);
    let suspects: Vec<_> = suspects.map(|at| names[at].as_str()).collect();
    assert_eq!(listed.suspects, suspects, "{names:?}");

    let others = || children().filter(|child| *child != names[own]);
    assert_eq!(rank(kind, others(), &names[own]), Rank::Gone, "{names:?}");
    let gone = Turn::new(kind).listed(others(), &names[own]);
    assert_eq!(gone, Err(Out::Lost(Loss::Deleted)), "{names:?}");
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
