//! What a listing proves to other tasks of the client, after any deletions.

use lockkeeper_recipes::{decisions::listing::Listing, rank::Kind};

use crate::nodes::{Node, Numbered, listings, name, twins};

/// All nodes whose bits are set.
fn chosen(names: &[String], set: usize) -> impl Iterator<Item = &String> {
    let is_in = move |at: &usize| set >> at & 1 == 1;
    (0..names.len()).filter(is_in).map(|at| &names[at])
}

fn check(nodes: &[Numbered], names: &[String], gone: usize, changed: usize) {
    let mut listing = Listing::new(Kind::Mutex, 7, names.iter().map(String::as_str));
    assert_eq!(listing.connection() == 7, is_useful(nodes), "{names:?}");
    // Deletions come in any order: here in two of them.
    let mut deleted: Vec<_> = chosen(names, gone).collect();
    if changed > 0 {
        deleted.reverse();
    }
    chosen(names, changed).for_each(|name| listing.event(name, false));
    for name in deleted {
        listing.event(name, true);
    }
    listing.event("x-lock-0000000099", true);
    // Another node with the same number is another node, unless the listing shows it, too.
    let twins: Vec<_> = nodes.iter().flat_map(|node| twins(*node)).collect();
    let twins = || twins.iter().filter(|twin| !names.contains(twin));
    twins().for_each(|twin| listing.event(twin, true));
    for twin in twins() {
        assert!(!listing.is_first(twin), "{twin} beside {names:?}");
        assert_eq!(listing.few_ahead(twin), None, "{twin} beside {names:?}");
    }
    for own in (0..nodes.len()).filter(|at| nodes[*at].0.contender().is_some()) {
        let is_shown = |at: usize| nodes[at].0.is_queued() && gone >> at & 1 == 0;
        let ahead = (0..own).filter(|at| is_shown(*at) && nodes[*at].1 < nodes[own].1);
        let ahead: Vec<_> = ahead.map(|at| names[at].as_str()).collect();
        let proves = is_useful(nodes) && is_shown(own);
        let what = format!("{}: {gone:b} of {names:?}", names[own]);
        assert_eq!(
            listing.is_first(&names[own]),
            proves && ahead.is_empty(),
            "{what}"
        );
        assert_eq!(
            listing.few_ahead(&names[own]),
            proves.then_some(ahead),
            "{what}"
        );
    }
    assert!(!listing.is_first("x-lock-0000000099"));
}

/// A writer may become a reader with the same number, and another kind of lock may be ahead.
fn is_useful(nodes: &[Numbered]) -> bool {
    let is_bad = |(node, _): &Numbered| matches!(node, Node::Write | Node::Latch);
    !nodes.iter().any(is_bad)
}

/// Those ahead in a long queue leave one by one.
#[test]
fn a_long_listing_proves_no_more_than_a_short_one() {
    for (kind, node) in [(Kind::Mutex, Node::Lock), (Kind::Latch, Node::Latch)] {
        let names: Vec<_> = (0..300).map(|number| name((node, number))).collect();
        let mut listing = Listing::new(kind, 7, names.iter().map(String::as_str));
        for first in 0..names.len() {
            for (own, name) in names.iter().enumerate() {
                assert_eq!(listing.is_first(name), own == first, "{first} {own}");
                if let Some(few) = listing.few_ahead(name) {
                    assert_eq!(few, names[first..own], "{first} {own}");
                }
            }
            listing.event(&names[first], true);
        }
    }
}

#[test]
fn a_listing_proves_only_what_it_shows_without_those_that_are_gone() {
    let mut checked = 0;
    let few = [Node::Lock, Node::Write, Node::KazooRead];
    for count in 0..=6 {
        let kinds = if count < 4 { &Node::ALL[..] } else { &few };
        for nodes in listings(kinds, count) {
            let names: Vec<_> = nodes.iter().copied().map(name).collect();
            for gone in 0..1 << count {
                for changed in [0, !gone] {
                    check(&nodes, &names, gone, changed);
                    checked += 1;
                }
            }
        }
    }
    println!("{checked} listings with deletions");
}
