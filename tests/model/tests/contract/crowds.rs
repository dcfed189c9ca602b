//! What the contenders of one client hand over to each other: for all places of five contenders
//! among seven nodes, and all sets of nodes that are gone.
//!
//! Whom a crowd names is ahead, and its listing is the newest one, without those whose deletion was
//! told. The node of one contender may be of a former directory, which gave the same numbers.

use std::{ops::Range, sync::Arc};

use lockkeeper_recipes::{
    decisions::crowd::{Crowd, Member},
    rank::Kind,
};

const NODES: i32 = 7;

/// A set of nodes by their numbers.
type Set = u32;

fn sets() -> Range<Set> {
    0..1 << NODES
}

fn numbers(set: Set) -> impl DoubleEndedIterator<Item = i32> + Clone {
    (0..NODES).filter(move |number| set >> number & 1 == 1)
}

fn node(number: i32) -> Arc<str> {
    format!("x-lock-{number:010}").into()
}

struct Case {
    ours: Set,
    /// The number of the contender whose node is of the former directory.
    former: Option<i32>,
    is_lone: bool,
    gone: Set,
}

impl Case {
    /// The node of our contender with this number.
    fn own(&self, number: i32) -> Arc<str> {
        if self.former == Some(number) {
            format!("former-lock-{number:010}").into()
        } else {
            node(number)
        }
    }

    /// These contenders are told whom to wait for when those just ahead have left.
    fn check_left(&self, members: &[Member], ours: Set) {
        for (member, number) in members.iter().zip(numbers(ours)) {
            for (lowest, highest) in (0..number).flat_map(|it| (it..number).map(move |to| (it, to)))
            {
                let mut others = numbers(ours).filter(|other| *other < number).rev();
                let next = others.find(|other| *other > highest || *other < lowest);
                let left = member.left((lowest, highest));
                assert_eq!(left.map(|(name, _)| name), next.map(|next| self.own(next)));
            }
        }
    }

    fn check(&self) {
        let ours = || numbers(self.ours);
        let crowd = Arc::new(Crowd::default());
        let mut members = Vec::new();
        if self.is_lone {
            let mut lone = crowd.join().0;
            assert_eq!(lone.entered(&"lone-lock-0000000000".into()), None);
            members.push(lone);
        }
        let lone = members.len();
        members.extend(ours().map(|_| crowd.join().0));
        for (ahead, (member, number)) in members[lone..].iter_mut().zip(ours()).enumerate() {
            let last = ours().take_while(|other| *other < number).last();
            let named = last.map(|last| (self.own(last), ahead + lone));
            assert_eq!(member.entered(&self.own(number)), named);
        }
        let listed = |connection: u64, set: Set| {
            let children = numbers(set).map(node).collect();
            members[lone].listed(Kind::Mutex, connection, &children);
        };
        listed(7, Set::MAX);
        for number in 0..NODES {
            members[lone].event(&format!("twin-lock-{number:010}"), true);
            members[lone].event(&node(number), false);
        }
        numbers(self.gone).for_each(|number| members[lone].event(&node(number), true));
        let present = !self.gone;
        let proves = |connection| {
            for (member, number) in members[lone..].iter().zip(ours()) {
                let own = self.own(number);
                let is_shown = present >> number & 1 == 1 && self.former != Some(number);
                let ahead = numbers(present).take_while(|other| *other < number);
                let is_first = is_shown && ahead.clone().next().is_none();
                assert_eq!(member.is_first(&own, |on| on == connection), is_first);
                assert!(!member.is_first(&own, |on| on != connection));
                let few = is_shown.then(|| ahead.map(node).collect());
                assert_eq!(member.few_ahead(&own), few);
            }
        };
        proves(7);
        listed(8, present);
        proves(8);
        self.check_left(&members[lone..], self.ours);
        // Who has left is named no more, and a crowd of few keeps no listing.
        if self.is_lone {
            let left = self.gone.count_ones() as usize % 5;
            members.remove(lone + left);
            let number = ours().nth(left).expect("five of them");
            self.check_left(&members[lone..], self.ours & !(1 << number));
            return;
        }
        members.remove(0);
        let first = ours().nth(1).expect("five of them");
        assert_eq!(members[0].left((first, first)), None);
        assert_eq!(members[0].few_ahead(&node(first)), None);
    }
}

#[test]
fn a_crowd_names_only_contenders_ahead_and_forgets_only_nodes_that_are_gone() {
    let mut checked = 0;
    for ours in sets().filter(|set| set.count_ones() == 5) {
        for former in [None].into_iter().chain(numbers(ours).map(Some)) {
            for gone in sets() {
                for is_lone in [false, true] {
                    Case {
                        ours,
                        former,
                        is_lone,
                        gone,
                    }
                    .check();
                    checked += 1;
                }
            }
        }
    }
    println!("{checked} crowds");
}

#[test]
fn a_few_list_the_queue_themselves_and_of_a_crowd_some_do() {
    let crowd = Arc::new(Crowd::default());
    let (mut members, mut unlisted) = (Vec::new(), 0);
    for size in 1..200 {
        let (member, lists) = crowd.join();
        members.push(member);
        unlisted = if lists { 0 } else { unlisted + 1 };
        assert!(lists || size > 4);
        assert!(
            unlisted * 4 < size,
            "{unlisted} of {size} came without a listing"
        );
    }
}
