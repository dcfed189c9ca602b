//! When a waiter in a queue takes the lock, and when it waits: all orders of deletions, replies,
//! events and connections, and of what other tasks of the client learn.
//!
//! On one connection deletions are told in their order; those of an outage in any order, but before
//! all later ones and all replies.

use std::{collections::HashSet, hash::BuildHasherDefault, sync::Mutex};

use lockkeeper_model::Fingerprint;
use lockkeeper_recipes::{
    Loss,
    decisions::{
        life::Facts,
        listing::Listing,
        turn::{Next, Out, Turn},
    },
    rank::Kind,
};

use crate::{
    nodes::{self, Node, Numbered, blocks, twins},
    permits::facts,
};

type Worlds = HashSet<World, BuildHasherDefault<Fingerprint>>;

/// A set of nodes by their indices.
type Set = u8;

/// Those whose names the listing leaves out.
const LEFT_OUT: Set = 1 << 7;

fn has(set: Set, at: usize) -> bool {
    set >> at & 1 == 1
}

/// A name that is copied for little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Name(&'static str);

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        self.0
    }
}

impl From<&Self> for Name {
    fn from(name: &Self) -> Self {
        *name
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        static ALL: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
        let mut all = ALL.lock().expect("no panic under the lock");
        let known = all.iter().find(|known| **known == text).copied();
        Self(known.unwrap_or_else(|| {
            all.push(text.to_owned().leak());
            all[all.len() - 1]
        }))
    }
}

/// The waiter, which is the last node, and those ahead of it. Behind each writer is the reader that
/// it may become.
struct Queue {
    kind: Kind,
    nodes: Vec<Numbered>,
    names: Vec<Name>,
    own: usize,
    /// Whether other tasks of the client use the same listing, and wait with the nodes ahead.
    is_shared: bool,
    are_ours: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Doing {
    Decides,
    Waits,
    Lists,
    /// It was not answered yet for these.
    Looks(Set),
    Renews,
}

/// A watch, until the waiter reads its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Watch {
    None,
    Asked,
    Set,
    /// With its connection, until the next one restores it.
    Lost,
    /// The next one has found the node gone.
    Due,
    Deleted,
    Changed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    turn: Turn<Name>,
    doing: Doing,
    /// The listing that is kept.
    left_out: usize,
    shown: Set,
    /// Those ahead that may have left with one that did, and were not asked for since.
    unseen: Set,
    connection: u64,
    is_up: bool,
    alive: Set,
    /// Those that are there by what was told.
    visible: Set,
    /// Those that were there when our own node was deleted, if it was.
    at_end: Option<Set>,
    watches: [Watch; 8],
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Decide,
    Forget,
    Reply,
    Arm,
    Cut,
    Link,
    /// An event that is due, or was kept back to the end of its connection.
    Tell(usize),
    Read(usize),
    Delete(usize, bool),
    Change(usize),
    /// Another task learns that a node is gone.
    Learn(usize),
    /// Another task reads a listing, as new or old as can be.
    List(Set),
}

impl World {
    fn has(&self, watch: Watch) -> bool {
        self.watches.contains(&watch)
    }

    fn is_settled(&self) -> bool {
        self.is_up
            && ![Watch::Asked, Watch::Lost, Watch::Due]
                .map(|it| self.has(it))
                .contains(&true)
    }

    fn is_read(&self) -> bool {
        !self.has(Watch::Deleted) && !self.has(Watch::Changed)
    }

    fn each(&mut self, from: &[Watch], to: impl Fn(usize, Watch) -> Watch) {
        for (at, watch) in self.watches.iter_mut().enumerate() {
            if from.contains(watch) {
                *watch = to(at, *watch);
            }
        }
    }

    fn is_first(&self) -> bool {
        self.turn.is_next::<Name>(None)
    }
}

impl Queue {
    fn new(own: Node, ahead: &[Node], is_shared: bool, are_ours: bool) -> Self {
        let mut nodes = Vec::new();
        for (number, node) in (0..).zip(ahead) {
            nodes.push((*node, number));
            if *node == Node::Write {
                nodes.push((Node::Read, number));
            }
        }
        nodes.push((own, 9));
        Self {
            kind: own.contender().expect("a contender of ours"),
            names: (nodes.iter().map(|node| Name::from(&*nodes::name(*node)))).collect(),
            own: nodes.len() - 1,
            nodes,
            is_shared,
            are_ours,
        }
    }

    /// Whether a writer becomes this node.
    fn is_successor(&self, at: usize) -> bool {
        at > 0 && self.nodes[at].1 == self.nodes[at - 1].1
    }

    fn set(&self, is_in: impl Fn(usize) -> bool) -> Set {
        (0..=self.own)
            .filter(|at| is_in(*at))
            .map(|at| 1 << at)
            .sum()
    }

    fn blockers(&self, set: Set) -> Set {
        set & self.set(|at| blocks(self.nodes[at], self.nodes[self.own]))
    }

    fn set_of<'a>(&self, names: impl IntoIterator<Item = &'a Name>) -> Set {
        let names: Vec<_> = names.into_iter().collect();
        self.set(|at| names.contains(&&self.names[at]))
    }

    fn names_of(&self, set: Set) -> impl Iterator<Item = Name> {
        (0..=self.own)
            .filter(move |at| has(set, *at))
            .map(|at| self.names[at])
    }

    fn start(&self) -> World {
        let alive = self.set(|at| !self.is_successor(at));
        World {
            turn: Turn::new(self.kind),
            doing: Doing::Decides,
            left_out: 0,
            shown: 0,
            unseen: 0,
            connection: 1,
            is_up: true,
            alive,
            visible: alive,
            at_end: None,
            watches: [Watch::None; 8],
        }
    }

    fn keep(&self, world: &mut World, listing: &Listing<Name>) {
        let (left_out, names) = listing.parts();
        (world.left_out, world.shown) = (left_out, self.set_of(names));
    }

    fn listing(&self, world: &World) -> Listing<Name> {
        Listing::near(self.kind, world.left_out, self.names_of(world.shown))
    }

    fn gone(&self, world: &mut World, at: usize) {
        let mut listing = self.listing(world);
        listing.gone(self.names[at].0);
        self.keep(world, &listing);
    }

    fn next(&self, world: &mut World, is_lease_good: bool) -> Next<Name> {
        let (listing, own) = (self.listing(world), &self.names[self.own]);
        let present = world.is_up.then_some(world.connection);
        let facts = facts(is_lease_good);
        let over = Facts {
            session_loss: Some(Loss::Expired),
            ..facts
        };
        let mut late = world.turn;
        let late = late.next(&over, own, listing.ahead(own.0), present, |_| self.are_ours);
        assert_eq!(late, Err(Loss::Expired), "{world:?}");
        let next = world
            .turn
            .next(&facts, own, listing.ahead(own.0), present, |_| {
                self.are_ours
            });
        next.expect("the session lives")
    }

    fn watch(&self, world: &mut World, missing: &[Name]) {
        let missing = self.set_of(missing);
        let kept = self.set(|at| world.turn.watches(self.names[at].0, self.names[self.own].0));
        assert!(has(kept, self.own) && missing & !kept == 0, "{world:?}");
        for (at, watch) in world.watches.iter_mut().enumerate() {
            if !has(kept, at) {
                *watch = Watch::None;
            } else if has(missing, at) {
                assert_eq!(*watch, Watch::None, "set twice");
                *watch = Watch::Asked;
            }
        }
    }

    /// What the waiter does. Returns whether it goes on.
    fn decide(&self, world: &mut World) -> bool {
        assert_ne!(self.next(&mut { *world }, false), Next::Grant, "{world:?}");
        world.doing = Doing::Decides;
        world.unseen &= world.shown | LEFT_OUT;
        match self.next(world, true) {
            Next::List => (world.doing, world.unseen) = (Doing::Lists, 0),
            Next::Look(nodes) => {
                let nodes = self.set_of(&nodes);
                world.doing = Doing::Looks(nodes);
                world.unseen &= !nodes;
            }
            Next::Watch(_) | Next::Wait if world.unseen != 0 => {
                panic!("does not look: {world:?}");
            }
            Next::Watch(missing) => self.watch(world, &missing),
            Next::Wait => world.doing = Doing::Waits,
            Next::Renew => world.doing = Doing::Renews,
            Next::Grant => {
                // Its own node was there when nobody was ahead.
                let left = self.blockers(world.alive | world.at_end.unwrap_or(0));
                assert_eq!(left, 0, "granted: {world:?}");
                return false;
            }
        }
        true
    }

    fn read(&self, world: &mut World, at: usize) -> bool {
        let is_deleted = world.watches[at] == Watch::Deleted;
        world.watches[at] = Watch::None;
        if is_deleted {
            self.gone(world, at);
        }
        world.doing = Doing::Decides;
        let own = &self.names[self.own];
        if is_deleted && world.turn.watches(self.names[at].0, own.0) {
            world.unseen =
                self.set(|at| !world.turn.watches(self.names[at].0, own.0)) & world.shown;
            world.unseen |= if world.left_out > 0 { LEFT_OUT } else { 0 };
        }
        let result = world.turn.event(self.names[at].0, is_deleted, own.0);
        let is_over = at == self.own && is_deleted;
        let expected = if is_over {
            Err(Out::Lost(Loss::Deleted))
        } else {
            Ok(at == self.own)
        };
        assert_eq!(result, expected, "{world:?}");
        if at == self.own && !is_deleted {
            self.watch(world, std::slice::from_ref(own));
        }
        !is_over
    }

    fn reply(&self, world: &mut World) -> bool {
        let (own, has_own) = (&self.names[self.own], has(world.alive, self.own));
        match std::mem::replace(&mut world.doing, Doing::Decides) {
            Doing::Lists => {
                let children: Vec<_> = self.names_of(world.alive).collect();
                let listed = world.turn.listed(children.iter().map(|name| name.0), own);
                assert_eq!(listed.is_ok(), has_own, "{world:?}");
                if let Ok(listed) = listed {
                    let all = || Listing::all(self.kind, own.0, children);
                    let listing = if self.is_shared { all() } else { listed.near };
                    self.keep(world, &listing);
                }
            }
            Doing::Looks(left) => {
                let at = left.ilog2() as usize;
                if !has(world.alive, at) {
                    self.gone(world, at);
                }
                if left == 1 << at {
                    world.turn.looked();
                } else {
                    world.doing = Doing::Looks(left & !(1 << at));
                }
                return true;
            }
            _ => world.turn.confirmed(),
        }
        has_own
    }

    /// What a listing of another task may show: each of these, or the writer that the node was.
    fn may_list(&self, world: &World, set: Set) -> bool {
        let is_own_gone = !has(world.visible, self.own);
        let there = world
            .at_end
            .filter(|_| is_own_gone)
            .unwrap_or(world.visible);
        let was_writer = |at| self.is_successor(at) && has(set, at - 1);
        let is_covered = |at: usize| has(set, at) != was_writer(at) || !has(set | there, at);
        set == 0 || has(set, self.own) && (0..self.own).all(is_covered)
    }

    /// The world after a step; `None` if it is not possible, or ends the wait.
    fn after(&self, world: &World, step: Step) -> Option<World> {
        let mut after = *world;
        let it = &mut after;
        let is_free = matches!(it.doing, Doing::Decides | Doing::Waits);
        let is_possible = match step {
            Step::Decide => is_free && it.is_read() && self.decide(it),
            Step::Forget => {
                it.turn.forget();
                std::mem::replace(&mut it.doing, Doing::Decides) == Doing::Waits
            }
            Step::Reply => !is_free && it.is_settled() && self.reply(it),
            Step::Arm => {
                let alive = it.alive;
                let told = |at, _| {
                    if has(alive, at) {
                        Watch::Set
                    } else {
                        Watch::Deleted
                    }
                };
                it.each(&[Watch::Asked], told);
                it.is_up && !it.has(Watch::Lost) && !it.has(Watch::Due)
            }
            Step::Cut => {
                it.each(&[Watch::Set, Watch::Due], |_, _| Watch::Lost);
                if matches!(it.doing, Doing::Looks(_)) {
                    it.turn.forget();
                    it.doing = Doing::Decides;
                }
                std::mem::replace(&mut it.is_up, false)
            }
            Step::Link => {
                it.connection += 1;
                let alive = it.alive;
                let restored = |at, _| {
                    if has(alive, at) {
                        Watch::Set
                    } else {
                        Watch::Due
                    }
                };
                it.each(&[Watch::Asked, Watch::Lost], restored);
                it.visible = it.alive;
                !std::mem::replace(&mut it.is_up, true)
            }
            Step::Tell(at) => {
                let former = std::mem::replace(&mut it.watches[at], Watch::Deleted);
                let is_early = former == Watch::Asked && !it.is_up && !has(it.visible, at);
                former == Watch::Due || is_early
            }
            Step::Read(at) => {
                let is_told = matches!(it.watches[at], Watch::Deleted | Watch::Changed);
                is_told && is_free && self.read(it, at)
            }
            Step::Delete(at, becomes_reader) => {
                let is_writer = at < self.own && self.is_successor(at + 1);
                let is_there = has(it.alive, at) && !it.has(Watch::Due);
                it.alive &= !(1 << at);
                it.alive |= if becomes_reader { 2 << at } else { 0 };
                if at == self.own {
                    it.at_end = Some(it.alive);
                }
                if it.is_up {
                    it.visible = it.alive;
                    it.each(
                        &[Watch::Set],
                        |n, set| if n == at { Watch::Deleted } else { set },
                    );
                }
                is_there && (is_writer || !becomes_reader)
            }
            Step::Change(at) => {
                let former = std::mem::replace(&mut it.watches[at], Watch::Changed);
                former == Watch::Set && it.is_up && has(it.alive, at)
            }
            Step::Learn(at) => {
                self.gone(it, at);
                self.is_shared && has(world.shown & !world.visible, at)
            }
            Step::List(set) => {
                (it.left_out, it.shown) = (0, set);
                self.is_shared && self.may_list(it, set)
            }
        };
        is_possible.then_some(after)
    }

    /// When nothing more happens, it waits for somebody, has its turn, or is out. `ends` has worlds
    /// that are known to end so.
    fn check(&self, world: &World, ends: &mut Worlds) {
        let each = |step: fn(usize) -> Step| (0..=self.own).map(step);
        let steps = [Step::Link, Step::Arm, Step::Reply, Step::Decide];
        let steps = each(Step::Tell).chain(each(Step::Read)).chain(steps);
        let (mut after, mut on_the_way) = (*world, Vec::new());
        while !ends.contains(&after) {
            assert!(on_the_way.len() < 40, "goes in circles: {world:?}");
            on_the_way.push(after);
            if after.doing == Doing::Waits && after.is_settled() && after.is_read() {
                let watched = self.set(|at| after.watches[at] == Watch::Set);
                let is_woken = self.blockers(after.alive & watched) != 0;
                assert!(is_woken && has(watched, self.own), "waits: {world:?}");
                break;
            }
            let possible = |step: Step| match step {
                Step::Arm => after.has(Watch::Asked),
                _ => true,
            };
            let mut next = steps.clone().filter(|step| possible(*step));
            match next.find_map(|step| self.after(&after, step)) {
                Some(then) => after = then,
                None => break,
            }
        }
        ends.extend(on_the_way);
    }

    /// An event of another node with the same number says nothing.
    fn check_twins(&self, turn: &Turn<Name>) {
        let own = self.names[self.own].0;
        let twins = self.nodes.iter().flat_map(|node| twins(*node));
        for twin in twins.filter(|twin| self.names.iter().all(|name| name.0 != twin)) {
            for is_deleted in [true, false] {
                let mut after = *turn;
                assert_eq!(after.event(&twin, is_deleted, own), Ok(false));
                assert!(after == *turn && !turn.watches(&twin, own), "{twin}");
            }
        }
    }

    /// Returns how many states there are. Notes how the turn has come: by a listing, by events, by a
    /// question.
    fn explore(&self, connections: u64, ways: &mut HashSet<&str>) -> usize {
        let each = |step: fn(usize) -> Step| (0..=self.own).map(step);
        let steps = [
            Step::Decide,
            Step::Forget,
            Step::Reply,
            Step::Arm,
            Step::Cut,
            Step::Link,
        ];
        let deletes = each(|at| Step::Delete(at, false)).chain(each(|at| Step::Delete(at, true)));
        let told = each(Step::Tell)
            .chain(each(Step::Read))
            .chain(each(Step::Change));
        let steps = steps
            .into_iter()
            .chain(deletes)
            .chain(told)
            .chain(each(Step::Learn));
        let steps: Vec<_> = steps.chain((0..2 << self.own).map(Step::List)).collect();
        let mut reached = Worlds::from_iter([self.start()]);
        let (mut frontier, mut ends) = (vec![self.start()], Worlds::default());
        while let Some(world) = frontier.pop() {
            self.check(&world, &mut ends);
            let mut granted = world;
            if matches!(world.doing, Doing::Decides)
                && world.is_read()
                && !self.decide(&mut granted)
            {
                ways.extend((!world.is_first()).then_some("events"));
            }
            for after in steps.iter().filter_map(|step| self.after(&world, *step)) {
                if !world.is_first() && after.is_first() {
                    ways.insert(if world.doing == Doing::Lists {
                        "a listing"
                    } else {
                        "a question"
                    });
                }
                if after.connection <= connections && reached.insert(after) {
                    frontier.push(after);
                }
            }
        }
        let turns: HashSet<_> = reached.iter().map(|world| &world.turn).collect();
        for turn in turns {
            self.check_twins(turn);
        }
        reached.len()
    }
}

#[test]
fn a_waiter_takes_its_turn_only_by_what_it_was_told_and_never_waits_without_a_watch() {
    let kinds = [Node::Lock, Node::Write, Node::Read];
    let (mut states, mut ways) = (0, HashSet::new());
    let mut explore = |own, ahead: &[Node], is_shared, are_ours, connections| {
        let queue = Queue::new(own, ahead, is_shared, are_ours);
        states += queue.explore(connections, &mut ways);
    };
    for own in kinds {
        explore(own, &[], false, false, 2);
        for first in kinds {
            explore(own, &[first], false, false, 3);
        }
        explore(own, &[Node::Write, Node::Lock], false, false, 2);
    }
    explore(Node::Write, &[Node::Read; 2], false, false, 2);
    // Those whose listing others know are mutexes.
    for are_ours in [false, true] {
        for first in kinds {
            explore(Node::Lock, &[first], true, are_ours, 2);
        }
        explore(Node::Lock, &[Node::Lock; 2], true, are_ours, 2);
    }
    explore(Node::Lock, &[Node::Write, Node::Lock], true, true, 2);
    // It does not know the names of all who are ahead.
    explore(Node::Write, &[Node::Lock; 3], false, false, 1);
    explore(Node::Lock, &[Node::Lock; 3], true, true, 1);
    assert_eq!(ways, HashSet::from(["a listing", "events", "a question"]));
    println!("{states} states of waiters");
}
