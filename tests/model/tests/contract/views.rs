//! What the contenders of a client know together: for all places of at most four contenders among
//! six nodes, all listings, and all that may happen behind one.
//!
//! The first two that wait ask the servers. The node of one contender may be of a former directory,
//! which gave the same numbers.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake},
};

use lockkeeper_recipes::{
    decisions::{
        turn::{Next, Turn},
        view::{Place, View},
    },
    rank::Kind,
};

use crate::permits::facts;

const NODES: i32 = 6;

/// A set of nodes by their numbers.
type Set = u32;

fn has(set: Set, number: i32) -> bool {
    set >> number & 1 == 1
}

fn numbers(set: Set) -> impl DoubleEndedIterator<Item = i32> + Clone {
    (0..NODES).filter(move |number| has(set, *number))
}

/// Those with lower numbers.
fn below(set: Set, number: i32) -> impl DoubleEndedIterator<Item = i32> + Clone {
    numbers(set & ((1 << number) - 1))
}

fn node(number: i32) -> Arc<str> {
    format!("x-lock-{number:010}").into()
}

#[derive(Debug, Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Wakes {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Gone(i32),
    Twin(i32),
    Leaves(i32),
}

/// What must be known.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Those of ours that wait.
    waiting: Set,
    /// The nodes that the listing shows, and how many more are ahead of them.
    shown: Set,
    left_out: usize,
}

impl Known {
    fn waits_behind(self, number: i32) -> usize {
        below(self.waiting, number).count()
    }

    fn rests(self, number: i32) -> bool {
        has(self.waiting, number) && self.waits_behind(number) >= 2
    }
}

struct Case {
    names: Vec<Arc<str>>,
    places: Vec<Option<(Place, Arc<Wakes>)>>,
    known: Known,
}

impl Case {
    fn new(ours: Set, former: Option<i32>) -> Self {
        let view = Arc::new(View::default());
        let name = |number| match former {
            Some(it) if it == number => format!("former-lock-{number:010}").into(),
            _ => node(number),
        };
        let names: Vec<_> = (0..NODES).map(name).collect();
        let place = |number: i32| {
            let mut place = has(ours, number).then(|| view.join().0)?;
            place.enter(&names[number.unsigned_abs() as usize]);
            Some((place, Arc::default()))
        };
        Self {
            // They enter in another order than that of their numbers.
            places: (0..NODES).rev().map(place).rev().collect(),
            names,
            known: Known {
                waiting: ours,
                shown: 0,
                left_out: 0,
            },
        }
    }

    fn name(&self, number: i32) -> &Arc<str> {
        &self.names[number.unsigned_abs() as usize]
    }

    /// What each of ours does, and whom it notes to be woken.
    fn check(&mut self, what: impl Fn() -> String) {
        let known = self.known;
        for number in 0..NODES {
            let own = self.name(number).clone();
            let Some((place, wakes)) = &mut self.places[number.unsigned_abs() as usize] else {
                continue;
            };
            let mut turn = Turn::new(Kind::Mutex);
            turn.forget();
            let next = place.next(&mut turn, &facts(true), &own, Some(1));
            assert_eq!(
                next.expect("the session lives").0,
                Next::List,
                "{own}: {}",
                what()
            );
            let mut turn = Turn::new(Kind::Mutex);
            let result = place.next(&mut turn, &facts(true), &own, Some(1));
            let (next, ahead) = result.expect("the session lives");
            let is_node = |it: i32| *self.names[it.unsigned_abs() as usize] == *node(it);
            let is_shown = has(known.shown, number) && is_node(number);
            let listed = below(known.shown, number);
            let count = if is_shown {
                known.left_out + listed.clone().count()
            } else {
                0
            };
            let waiting = known.waits_behind(number);
            let waiting = if has(known.waiting, number) {
                waiting
            } else {
                0
            };
            assert_eq!(ahead, count.max(waiting), "{own}: {}", what());
            let is_next = is_shown && count <= 1;
            assert_eq!(place.is_next(), is_next, "{own}: {}", what());
            let mut nearest = listed.rev();
            let expected = match nearest.next() {
                _ if known.rests(number) => Next::Wait,
                _ if !is_shown => Next::List,
                None if count > 0 => Next::List,
                None => Next::Renew,
                Some(first) => {
                    let is_ours = has(known.waiting, first) && is_node(first);
                    let second = nearest.next().filter(|_| !is_ours);
                    let ahead = [Some(first), second].into_iter().flatten();
                    Next::Watch([number].into_iter().chain(ahead).map(node).collect())
                }
            };
            assert_eq!(next, expected, "{own}: {}", what());
            let rests_behind = below(known.waiting, number).last();
            let rests_behind = rests_behind.filter(|_| known.rests(number));
            let expected = rests_behind.map(|it| self.names[it.unsigned_abs() as usize].clone());
            assert_eq!(place.rests_behind(), expected, "{own}: {}", what());
            // One that does not rest waits for its watches only.
            let noted = wakes.clone().into();
            let woken = pin!(place.wakes()).poll(&mut Context::from_waker(&noted));
            assert_eq!(woken, Poll::Pending, "{own}: {}", what());
            assert_eq!(wakes.count(), 0, "{own}: {}", what());
        }
    }

    /// Something has happened, so that this is known now. Who rested, and is to ask now, is woken
    /// once; nobody else is.
    fn now(&mut self, known: Known, what: impl Fn() -> String) {
        for (place, number) in self.places.iter_mut().zip(0..) {
            let Some((place, wakes)) = place else {
                continue;
            };
            let is_woken = self.known.rests(number) && !known.rests(number);
            assert_eq!(wakes.count(), usize::from(is_woken), "{number}: {}", what());
            let other = Arc::new(Wakes::default()).into();
            let polled = pin!(place.wakes()).poll(&mut Context::from_waker(&other));
            assert_eq!(polled.is_ready(), is_woken, "{number}: {}", what());
            *wakes = Arc::default();
        }
        self.known = known;
        self.check(what);
    }

    /// One of ours has listed these nodes.
    fn lists(&mut self, ours: i32, set: Set, is_mixed: bool, what: impl Fn() -> String) {
        let own = self.name(ours);
        let names: Vec<_> = numbers(set).map(node).collect();
        let mut turn = Turn::new(Kind::Mutex);
        let latch = is_mixed.then_some("x-latch-0000000099");
        let children = names.iter().map(|name| &**name).chain(latch);
        let listed = turn.listed(children.clone(), own).expect("it is shown");
        let place = self.places[ours.unsigned_abs() as usize].as_ref();
        let (place, _) = place.expect("one of ours");
        place.listed(
            Kind::Mutex,
            own,
            &children.map(Arc::from).collect(),
            &listed,
        );
        let Known { waiting, .. } = self.known;
        // Those of ours ahead had their nodes before. Who is behind the last one is nothing to us.
        let is_there = |it: i32| it >= ours || has(set, it) && *self.name(it) == node(it);
        let last = numbers(waiting).next_back().expect("the ours waits");
        let ahead = below(set, ours);
        let (shown, left_out): (Set, usize) = match ahead.clone().count() {
            _ if waiting.count_ones() > 1 => {
                let last = if is_mixed { ours } else { last };
                (set & ((2 << last) - 1), 0)
            }
            0 => (0, 0),
            // The names of the others are not kept.
            count => {
                let near = ahead.rev().take(2).chain([ours]).map(|it| 1 << it);
                (near.sum(), count.saturating_sub(2))
            }
        };
        let waiting = numbers(waiting)
            .filter(|it| is_there(*it))
            .map(|it| 1 << it)
            .sum();
        let known = Known {
            waiting,
            shown,
            left_out,
        };
        self.now(known, what);
    }

    fn happens(&mut self, event: Event, what: impl Fn() -> String) {
        let Known {
            mut waiting,
            mut shown,
            mut left_out,
        } = self.known;
        let some_place = || self.places.iter().flatten().next().map(|(place, _)| place);
        match event {
            Event::Gone(number) => {
                let name = node(number);
                some_place().expect("one of ours").gone(&name);
                shown &= !(1 << number);
                if *self.name(number) == name {
                    waiting &= !(1 << number);
                }
            }
            Event::Twin(number) => {
                let twin = format!("twin-lock-{number:010}");
                some_place().expect("one of ours").gone(&twin);
            }
            Event::Leaves(number) => {
                self.places[number.unsigned_abs() as usize] = None;
                waiting &= !(1 << number);
            }
        }
        if waiting == 0 && !matches!(event, Event::Twin(_)) {
            (shown, left_out) = (0, 0);
        }
        let known = Known {
            waiting,
            shown,
            left_out,
        };
        self.now(known, what);
    }
}

#[test]
fn the_first_ones_ask_and_the_others_are_woken_when_they_become_the_first() {
    let mut checked = 0;
    let ours = (1..1 << NODES).filter(|set: &Set| set.count_ones() <= 4);
    for (ours, lister) in ours.flat_map(|ours| numbers(ours).map(move |lister| (ours, lister))) {
        let formers = numbers(ours).filter(|former| *former != lister).map(Some);
        for former in formers.chain([None]) {
            for set in (0..1 << NODES).filter(|set| has(*set, lister)) {
                let events = (0..NODES)
                    .map(Event::Gone)
                    .chain(numbers(ours).map(Event::Leaves));
                for event in events.chain([Event::Twin(lister)]) {
                    let is_mixed = checked % 2 == 0;
                    let what = || format!("{ours:b} {former:?} {lister}: {set:b}, {event:?}");
                    let mut case = Case::new(ours, former);
                    case.check(what);
                    case.lists(lister, set, is_mixed, what);
                    case.happens(event, what);
                    checked += 1;
                }
            }
        }
    }
    println!("{checked} views");
}

#[test]
fn a_few_list_the_queue_themselves_and_of_a_crowd_some_do() {
    let view = Arc::new(View::default());
    let (mut places, mut unlisted) = (Vec::new(), 0);
    for size in 1..200 {
        let (place, lists) = view.join();
        places.push(place);
        unlisted = if lists { 0 } else { unlisted + 1 };
        assert!(lists || size > 4);
        assert!(
            unlisted * 4 < size,
            "{unlisted} of {size} came without a listing"
        );
    }
}
