//! The first waiter of a semaphore: all orders of what it is told, and all listings of six permits.

use std::collections::HashSet;

use lockkeeper_recipes::{
    Loss,
    decisions::{
        life::Facts,
        permit_turn::{Next, Out, PermitTurn},
    },
};

pub(crate) fn facts(is_lease_good: bool) -> Facts {
    Facts {
        is_lease_good,
        ..Facts::NONE
    }
}

/// What the waiter has seen: the newest listing, with a watch or not, and whether the limit that
/// was read behind it leaves room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Seen {
    listed: Option<bool>,
    has_room: Option<bool>,
}

fn check(turn: PermitTurn, seen: Seen) {
    let next = turn.next(&facts(true));
    let expected = match (seen.listed, seen.has_room) {
        (Some(_), None) => Next::ReadLimit,
        (Some(_), Some(true)) => Next::Grant,
        (Some(true), Some(false)) => Next::Wait,
        (None, _) | (Some(false), Some(false)) => Next::List,
    };
    assert_eq!(next, Ok(expected), "{turn:?} {seen:?}");
    assert_ne!(turn.next(&facts(false)), Ok(Next::Grant));
    let over = Facts {
        session_loss: Some(Loss::Expired),
        ..facts(true)
    };
    assert_eq!(turn.next(&over), Err(Loss::Expired));
}

#[test]
fn permits_are_granted_only_behind_a_listing_with_room_at_a_later_limit() {
    let mut reached = HashSet::from([(PermitTurn::default(), Seen::default())]);
    let mut frontier: Vec<_> = reached.iter().copied().collect();
    let names: Vec<_> = (0..6)
        .map(|number| format!("x-lease-{number:010}"))
        .collect();
    while let Some((turn, seen)) = frontier.pop() {
        check(turn, seen);
        let mut next = |turn: PermitTurn, seen: Seen| {
            if reached.insert((turn, seen)) {
                frontier.push((turn, seen));
            }
        };
        for is_watched in [false, true] {
            let mut listed = turn;
            listed.listed(is_watched);
            next(
                listed,
                Seen {
                    listed: Some(is_watched),
                    has_room: None,
                },
            );
        }
        let mut changed = turn;
        changed.changed();
        next(changed, Seen::default());
        if seen.listed.is_none() || seen.has_room.is_some() {
            continue;
        }
        for (shown, own, limit) in (0..64_u32)
            .flat_map(|shown| (0..64_u32).map(move |own| (shown, own)))
            .flat_map(|(shown, own)| (0..=7).map(move |limit| (shown, own, limit)))
        {
            let chosen = |set: u32| {
                let is_in = move |at: &usize| set >> at & 1 == 1;
                (0..6).filter(is_in).map(|at| names[at].as_str())
            };
            let mut counted = turn;
            let result = counted.counted(chosen(shown), chosen(own), limit);
            if own & !shown != 0 {
                assert_eq!(result, Err(Out::Lost(Loss::Deleted)));
            } else if own.count_ones() as usize > limit {
                assert_eq!(result, Err(Out::OverLimit));
            } else {
                assert_eq!(result, Ok(()));
                let has_room = Some(shown.count_ones() as usize <= limit);
                next(counted, Seen { has_room, ..seen });
            }
        }
    }
    println!("{} states of a waiter for permits", reached.len());
}
