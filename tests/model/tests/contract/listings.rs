//! What a listing proves, after any deletions: that only those are ahead whom it still shows.

use lockkeeper_recipes::{decisions::listing::Listing, rank::Kind};

use crate::nodes::{Node, Numbered, blocks, listings, name, twins};

/// Contenders, first those that are ahead of the others.
type Queue<'a> = Vec<(Numbered, &'a str)>;

/// `listing` shows these, and leaves some out. Those whose bits are set are then gone.
fn check(kind: Kind, mut listing: Listing<&str>, left_out: usize, queue: &Queue<'_>, gone: usize) {
    let is_gone = |at: usize| gone >> at & 1 == 1;
    let what = format!("{kind:?} {left_out} {gone:b} of {queue:?}");
    let others = || queue.iter().flat_map(|(node, _)| twins(*node));
    let others: Vec<_> = others()
        .filter(|twin| queue.iter().all(|(_, name)| name != twin))
        .collect();
    for twin in &others {
        listing.gone(twin);
    }
    // In two orders.
    let mut deleted: Vec<_> = (0..queue.len()).filter(|at| is_gone(*at)).collect();
    if left_out % 2 == 0 {
        deleted.reverse();
    }
    for at in &deleted {
        listing.gone(queue[*at].1);
        listing.gone(queue[*at].1);
    }
    // A writer may have become a reader with the same number.
    let is_void = kind != Kind::Read && deleted.iter().any(|at| queue[*at].0.0 == Node::Write);
    let shown = |at: &usize| !is_void && !is_gone(*at);
    let (rest, names) = listing.parts();
    let left: Vec<_> = (0..queue.len()).filter(shown).collect();
    assert!(names.eq(left.iter().map(|at| &queue[*at].1)), "{what}");
    assert_eq!(rest, left_out, "{what}");
    for (own, (_, name)) in queue.iter().enumerate() {
        assert_eq!(listing.shows(name), shown(&own), "{name}: {what}");
        let Some(ahead) = listing.ahead(name) else {
            assert!(!shown(&own), "{name}: {what}");
            continue;
        };
        assert!(shown(&own), "{name}: {what}");
        let names: Vec<_> = left.iter().rev().filter(|at| **at < own).collect();
        assert!(ahead.names().eq(names.iter().map(|at| &queue[**at].1)));
        assert_eq!(ahead.count(), left_out + names.len(), "{name}: {what}");
        assert_eq!(ahead.is_complete(), left_out == 0, "{name}: {what}");
    }
    for twin in &others {
        assert!(!listing.shows(twin) && listing.ahead(twin).is_none());
    }
}

/// Another node with the number of ours is no order.
fn check_twin(kind: Kind, queue: &Queue<'_>, own: usize) {
    let twin = format!("twin-of-{}", queue[own].1);
    let names = queue.iter().map(|(_, name)| *name).chain([&*twin]);
    let mut listing = Listing::all(kind, queue[queue.len() - 1].1, names);
    for (at, (_, name)) in queue.iter().enumerate() {
        let ahead = listing.ahead(name).map(|ahead| ahead.count());
        let expected = (at != own).then_some(at + usize::from(at > own));
        assert_eq!(ahead, expected, "{name} with {twin} in {queue:?}");
    }
    assert!(listing.ahead(&twin).is_none(), "{twin} in {queue:?}");
    listing.gone(&twin);
    let is_known = listing.ahead(queue[own].1).is_some();
    assert_eq!(is_known, queue[own].0.0 != Node::Write, "{twin}");
}

#[test]
fn a_listing_proves_only_what_it_shows_without_those_that_are_gone() {
    let mut checked = 0;
    let few = [Node::Lock, Node::Write, Node::KazooRead];
    for count in 1..=5 {
        let kinds = if count < 4 { &Node::ALL[..] } else { &few };
        for nodes in listings(kinds, count) {
            let names: Vec<_> = nodes.iter().copied().map(name).collect();
            let all: Queue<'_> = nodes
                .iter()
                .copied()
                .zip(names.iter().map(|it| &**it))
                .collect();
            let children = || names.iter().rev().map(|it| &**it);
            for own in (0..count).filter(|own| nodes[*own].0.is_queued()) {
                let mut queue = all[..=own].to_vec();
                queue.retain(|((node, _), _)| node.is_queued());
                let listing = Listing::all(Kind::Mutex, &names[own], children());
                for gone in 0..1 << queue.len() {
                    check(Kind::Mutex, listing.clone(), 0, &queue, gone);
                    checked += 1;
                }
                (0..queue.len()).for_each(|at| check_twin(Kind::Write, &queue, at));
                let Some(kind) = nodes[own].0.contender() else {
                    continue;
                };
                queue.retain(|(node, _)| blocks(*node, nodes[own]));
                let left_out = queue.len().saturating_sub(2);
                let near: Queue<'_> = [&queue[left_out..], &[all[own]]].concat();
                for gone in 0..1 << near.len() {
                    let names = near.iter().map(|(_, name)| *name);
                    let listing = Listing::near(kind, left_out, names);
                    check(kind, listing, left_out, &near, gone);
                    checked += 1;
                }
            }
        }
    }
    println!("{checked} listings with deletions");
}

/// Those ahead in a long queue leave one by one. To look at few of them takes less than a listing.
#[test]
fn a_long_listing_proves_no_more_than_a_short_one() {
    for (kind, node) in [(Kind::Mutex, Node::Lock), (Kind::Latch, Node::Latch)] {
        let names: Vec<_> = (0..300).map(|number| name((node, number))).collect();
        let mut listing = Listing::all(kind, &names[299], names.iter());
        for first in 0..names.len() {
            for (own, name) in names.iter().enumerate() {
                let ahead = listing.ahead(name);
                assert_eq!(ahead.is_some(), own >= first, "{first} {own}");
                let Some(ahead) = ahead else { continue };
                assert!(
                    ahead.names().copied().eq(names[first..own].iter().rev()),
                    "{first} {own}"
                );
                let few = 8.max((names.len() - first) / 8);
                assert!(ahead.is_few(few) && !ahead.is_few(few + 1), "{first} {own}");
            }
            listing.gone(&names[first]);
        }
        assert!(Listing::<String>::default().ahead(&names[0]).is_none());
    }
}
