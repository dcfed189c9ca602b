//! When a waiter in a queue takes the lock, and when it waits: all orders of deletions, replies,
//! events and connections, and of what other tasks of the client learn.
//!
//! Time is what the servers have told the client. On one connection deletions are told in their
//! order; those of an outage in any order, but before all later ones and all replies.

use std::{collections::HashSet, mem};

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
    nodes::{Node, Numbered, blocks, name, twins},
    permits::facts,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

impl From<&'static str> for Name {
    fn from(name: &'static str) -> Self {
        Self(name)
    }
}

/// A set of nodes by their indices.
type Set = u8;

fn has(set: Set, at: usize) -> bool {
    set >> at & 1 == 1
}

/// The waiter, which is the last node, and those ahead of it. Behind each writer is the reader that
/// it may become.
struct Queue {
    kind: Kind,
    nodes: Vec<Numbered>,
    names: Vec<Name>,
    /// Whether other tasks of the client use the same listing.
    is_shared: bool,
    /// Whether other tasks of the client wait with the nodes ahead.
    are_ours: bool,
    connections: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Doing {
    /// It looks what to do next.
    Decides,
    Waits,
    Lists,
    /// The reply, with these nodes, has come, and is not read.
    Reads(Set),
    /// It was not answered yet for these.
    Looks(Set),
    Renews,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    turn: Turn<Name>,
    doing: Doing,
    /// The listing that is kept.
    left_out: usize,
    shown: Set,
    connection: u64,
    is_up: bool,
    alive: Set,
    /// Those that were there by what the client may know.
    visible: Set,
    /// Those that were there when our own node was deleted, if it was.
    at_end: Option<Set>,
    /// Watches that are set and have not fired.
    watched: Set,
    /// Watches that are asked for on this connection.
    arming: Set,
    /// Watches that the next connection restores.
    lost: Set,
    /// Watches that a restored connection has found fired.
    due: Set,
    /// Events that were told and not read.
    mail: Vec<(usize, bool)>,
}

impl Queue {
    fn new(own: Node, ahead: &[Node], is_shared: bool, are_ours: bool, connections: u64) -> Self {
        let numbered = (0..).zip(ahead.iter().chain([&own]));
        let mut nodes = Vec::new();
        for (number, node) in numbered {
            nodes.push((*node, number));
            if *node == Node::Write && usize::from(number) < ahead.len() {
                nodes.push((Node::Read, number));
            }
        }
        // A few names for the whole run of the test.
        let leak = |node| Name(name(node).leak());
        Self {
            kind: own.contender().expect("a contender of ours"),
            names: nodes.iter().copied().map(leak).collect(),
            nodes,
            is_shared,
            are_ours,
            connections,
        }
    }

    fn own(&self) -> usize {
        self.nodes.len() - 1
    }

    /// Whether a writer becomes this node.
    fn is_successor(&self, at: usize) -> bool {
        at > 0 && self.nodes[at].1 == self.nodes[at - 1].1
    }

    fn chosen(&self, is_chosen: impl Fn(usize) -> bool) -> Set {
        let chosen = (0..self.nodes.len()).filter(|at| is_chosen(*at));
        chosen.fold(0, |set, at| set | 1 << at)
    }

    /// Those of a set that block the contender.
    fn blockers(&self, set: Set) -> Set {
        let own = self.nodes[self.own()];
        set & self.chosen(|at| blocks(self.nodes[at], own))
    }

    fn start(&self) -> World {
        let alive = self.chosen(|at| !self.is_successor(at));
        World {
            turn: Turn::new(self.kind),
            doing: Doing::Decides,
            left_out: 0,
            shown: 0,
            connection: 1,
            is_up: true,
            alive,
            visible: alive,
            at_end: None,
            watched: 0,
            arming: 0,
            lost: 0,
            due: 0,
            mail: Vec::new(),
        }
    }

    fn set_of<'a>(&self, names: impl IntoIterator<Item = &'a Name>) -> Set {
        let names: Vec<_> = names.into_iter().collect();
        self.chosen(|at| names.contains(&&self.names[at]))
    }

    fn names_of(&self, set: Set) -> impl Iterator<Item = Name> {
        (0..self.nodes.len())
            .filter(move |at| has(set, *at))
            .map(|at| self.names[at])
    }

    fn listing(&self, world: &World) -> Listing<Name> {
        Listing::near(self.kind, world.left_out, self.names_of(world.shown))
    }

    /// Somebody has learned that this node is gone.
    fn gone(&self, world: &mut World, at: usize) {
        let mut listing = self.listing(world);
        listing.gone(self.names[at].0);
        world.shown = self.set_of(listing.parts().1);
    }

    // What the waiter does.

    fn next(&self, world: &mut World, facts: &Facts) -> Result<Next<Name>, Loss> {
        let (listing, own) = (self.listing(world), self.names[self.own()]);
        let present = world.is_up.then_some(world.connection);
        let next = world
            .turn
            .next(facts, &own, &listing, present, |_| self.are_ours);
        if next == Ok(Next::Wait) {
            let nearest = listing
                .ahead(own.0)
                .and_then(|it| it.names().next().copied());
            let needed = self.set_of([own].iter().chain(&nearest));
            let is_watched = nearest.is_some() && needed & !world.wanted() == 0;
            assert!(is_watched, "waits: {world:?}");
        }
        next
    }

    fn watch(&self, world: &mut World, missing: &[Name]) {
        let set = self.set_of(missing);
        let missing = set & !world.wanted();
        let asked = if world.is_up {
            &mut world.arming
        } else {
            &mut world.lost
        };
        *asked |= missing;
        let own = self.names[self.own()];
        let kept = self.chosen(|at| world.turn.watches(self.names[at].0, own.0));
        for set in [
            &mut world.watched,
            &mut world.arming,
            &mut world.lost,
            &mut world.due,
        ] {
            *set &= kept;
        }
        world.mail.retain(|(at, _)| has(kept, *at));
        assert!(
            has(world.wanted(), self.own()),
            "our node is not watched: {world:?}"
        );
    }

    /// It reads its events, and does what is to be done. Returns whether it goes on.
    fn decide(&self, world: &mut World) -> bool {
        let own = self.names[self.own()];
        for (at, is_deleted) in mem::take(&mut world.mail) {
            if is_deleted {
                self.gone(world, at);
            }
            let is_end = is_deleted && at == self.own();
            match world.turn.event(self.names[at].0, is_deleted, own.0) {
                Ok(true) => self.watch(world, &[own]),
                Ok(false) => assert!(!is_end),
                Err(out) => {
                    assert_eq!((out, is_end), (Out::Lost(Loss::Deleted), true));
                    return false;
                }
            }
        }
        world.doing = Doing::Decides;
        match self.next(world, &facts(true)).expect("the session lives") {
            Next::List => world.doing = Doing::Lists,
            Next::Look(nodes) => world.doing = Doing::Looks(self.set_of(&nodes)),
            Next::Watch(missing) => self.watch(world, &missing),
            Next::Wait => world.doing = Doing::Waits,
            Next::Renew => world.doing = Doing::Renews,
            Next::Grant => {
                let left = self.blockers(world.alive | world.at_end.unwrap_or(0));
                assert_eq!(left, 0, "granted: {world:?}");
                return false;
            }
        }
        true
    }

    fn read(&self, world: &mut World, set: Set) -> bool {
        world.doing = Doing::Decides;
        let own = &self.names[self.own()];
        let children: Vec<_> = self.names_of(set).map(|name| name.0).collect();
        let listed = match world.turn.listed(children.iter().copied(), own) {
            Ok(listed) => listed,
            Err(out) => {
                assert!(out == Out::Lost(Loss::Deleted) && !has(set, self.own()));
                return false;
            }
        };
        let shared = Listing::all(self.kind, own.0, children.into_iter().map(Name));
        let kept = if self.is_shared { shared } else { listed.near };
        let (left_out, names) = kept.parts();
        (world.left_out, world.shown) = (left_out, self.set_of(names));
        true
    }

    /// The servers answer.
    fn reply(&self, world: &mut World) -> bool {
        let has_own = has(world.alive, self.own());
        match world.doing {
            Doing::Lists => world.doing = Doing::Reads(world.alive),
            Doing::Looks(left) => {
                // The nearest one first.
                let at = left.ilog2() as usize;
                if !has(world.alive, at) {
                    self.gone(world, at);
                }
                world.doing = Doing::Looks(left & !(1 << at));
                if left == 1 << at {
                    world.turn.looked();
                    world.doing = Doing::Decides;
                }
            }
            Doing::Renews => {
                world.turn.confirmed();
                world.doing = Doing::Decides;
                return has_own;
            }
            _ => {}
        }
        true
    }

    // What happens around it.

    fn delete(&self, world: &mut World, at: usize, becomes_reader: bool) {
        world.alive &= !(1 << at);
        if becomes_reader {
            world.alive |= 2 << at;
        }
        if at == self.own() {
            world.at_end = Some(world.alive);
        }
        if world.is_up {
            world.visible = world.alive;
            world.tell(1 << at, true);
        }
    }

    /// All that may happen next.
    fn each_step(&self, world: &World, visit: &mut impl FnMut(World)) {
        let mut step = |change: &dyn Fn(&mut World) -> bool| {
            let mut after = world.clone();
            if change(&mut after) {
                visit(after);
            }
        };
        if matches!(world.doing, Doing::Decides | Doing::Waits) {
            step(&|it| self.decide(it));
        }
        if world.doing == Doing::Waits {
            step(&|it| {
                it.turn.forget();
                it.doing = Doing::Decides;
                true
            });
        }
        if let Doing::Reads(set) = world.doing {
            step(&|it| self.read(it, set));
        }
        if world.is_answered() {
            step(&|it| self.reply(it));
        }
        if world.is_up && world.arming != 0 && world.due == 0 {
            step(&|it| it.armed());
        }
        if !world.is_up && world.connection < self.connections {
            step(&|it| it.connect());
        }
        if world.is_up {
            for early in 0..=world.arming {
                if early & !(world.arming & !world.alive) == 0 {
                    step(&|it| it.disconnect(early));
                }
            }
        }
        for at in 0..self.nodes.len() {
            if has(world.due, at) {
                step(&|it| {
                    it.due &= !(1 << at);
                    it.mail.push((at, true));
                    true
                });
            }
            if has(world.alive & world.watched, at) {
                step(&|it| it.tell(1 << at, false));
            }
            if has(world.alive, at) && world.due == 0 {
                let is_writer = at < self.own() && self.is_successor(at + 1);
                for becomes_reader in [false, true] {
                    if is_writer || !becomes_reader {
                        step(&|it| {
                            self.delete(it, at, becomes_reader);
                            true
                        });
                    }
                }
            }
            if self.is_shared && has(world.shown & !world.visible, at) {
                step(&|it| {
                    self.gone(it, at);
                    true
                });
            }
        }
        if !self.is_shared {
            return;
        }
        // The listing of another task, as new or old as can be: it has shown each of these, or the
        // writer that the node was. Without our node it proves nothing.
        let is_own_gone = !has(world.visible, self.own());
        let there = world
            .at_end
            .filter(|_| is_own_gone)
            .unwrap_or(world.visible);
        let own = 1 << self.own();
        for set in (0..own).map(|set| set | own).chain([0]) {
            let was_writer = |at| self.is_successor(at) && has(set, at - 1);
            let is_covered = |at: usize| has(set, at) != was_writer(at) || !has(set | there, at);
            if set == 0 || (0..self.own()).all(is_covered) {
                step(&|it| {
                    (it.left_out, it.shown) = (0, set);
                    true
                });
            }
        }
    }

    // What must hold.

    fn check(&self, world: &World) {
        let own = self.names[self.own()];
        let believed = self.chosen(|at| world.turn.watches(self.names[at].0, own.0));
        assert_eq!(believed & !world.wanted(), 0, "no watch: {world:?}");
        if world.is_quiet() {
            let is_told = has(world.watched, self.own());
            let is_woken = self.blockers(world.alive & world.watched) != 0;
            assert!(is_told && is_woken, "waits for nobody: {world:?}");
        }
        if world.doing == Doing::Decides {
            let next = |facts| self.next(&mut world.clone(), &facts);
            assert_ne!(next(facts(false)), Ok(Next::Grant), "{world:?}");
            let over = Facts {
                session_loss: Some(Loss::Expired),
                ..facts(true)
            };
            assert_eq!(next(over), Err(Loss::Expired));
        }
        // When nothing more happens, it waits for somebody, has its turn, or is out.
        let mut after = world.clone();
        for _ in 0..30 {
            if after.is_quiet() {
                return;
            }
            let goes_on = match after.doing {
                _ if !after.is_up => after.connect(),
                _ if after.due != 0 => {
                    let due = mem::take(&mut after.due);
                    after
                        .mail
                        .extend((0..8).filter(|at| has(due, *at)).map(|at| (at, true)));
                    true
                }
                _ if after.arming != 0 => after.armed(),
                Doing::Reads(set) => self.read(&mut after, set),
                Doing::Decides | Doing::Waits => self.decide(&mut after),
                _ => self.reply(&mut after),
            };
            if !goes_on {
                return;
            }
        }
        panic!("goes in circles: {world:?}");
    }

    /// An event of another node with the same number says nothing.
    fn check_twins(&self, turn: Turn<Name>) {
        let own = self.names[self.own()].0;
        let is_other = |twin: &String| self.names.iter().all(|name| name.0 != *twin);
        let twins = self.nodes.iter().flat_map(|node| twins(*node));
        for twin in twins.filter(is_other) {
            assert!(!turn.watches(&twin, own));
            for is_deleted in [true, false] {
                let mut after = turn;
                assert_eq!(after.event(&twin, is_deleted, own), Ok(false));
                assert_eq!(after, turn, "{twin} beside {own}");
            }
        }
    }
}

impl World {
    /// Watches that are set, or will be, or whose events are on their way.
    fn wanted(&self) -> Set {
        let told = self.mail.iter().fold(0, |set, (at, _)| set | 1 << at);
        self.watched | self.arming | self.lost | self.due | told
    }

    /// It waits, and nothing is on its way to it.
    fn is_quiet(&self) -> bool {
        let is_told = self.mail.is_empty() && self.due == 0 && self.arming == 0;
        self.doing == Doing::Waits && self.is_up && is_told
    }

    /// Whether a reply may come.
    fn is_answered(&self) -> bool {
        let asks = matches!(self.doing, Doing::Lists | Doing::Looks(_) | Doing::Renews);
        asks && self.is_up && self.due == 0 && self.arming == 0
    }

    /// Watches of these fire. Those of one request do so in its order, which begins with our node.
    fn tell(&mut self, set: Set, is_deleted: bool) -> bool {
        let fired = set & self.watched;
        self.watched &= !set;
        let fired = (0..8).rev().filter(|at| has(fired, *at));
        self.mail.extend(fired.map(|at| (at, is_deleted)));
        true
    }

    fn armed(&mut self) -> bool {
        let arming = mem::take(&mut self.arming);
        self.watched |= arming;
        self.tell(arming & !self.alive, true)
    }

    /// Events that came before their requests were answered are told now.
    fn disconnect(&mut self, early: Set) -> bool {
        self.is_up = false;
        self.watched |= early;
        self.tell(early, true);
        self.lost |= mem::take(&mut self.watched) | mem::take(&mut self.due);
        self.lost |= mem::take(&mut self.arming) & !early;
        if matches!(self.doing, Doing::Looks(_)) {
            self.turn.forget();
            self.doing = Doing::Decides;
        }
        true
    }

    fn connect(&mut self) -> bool {
        self.connection += 1;
        self.is_up = true;
        self.visible = self.alive;
        let lost = mem::take(&mut self.lost);
        (self.due, self.watched) = (lost & !self.alive, lost & self.alive);
        true
    }

    fn is_first(&self) -> bool {
        self.turn.is_next::<Name>(None)
    }
}

/// How the turn comes: by a listing, by events, by a question.
#[derive(Debug, Default)]
struct Ways([bool; 3]);

fn explore(queue: &Queue, ways: &mut Ways) -> usize {
    let mut reached = HashSet::from([queue.start()]);
    let mut frontier = vec![queue.start()];
    while let Some(world) = frontier.pop() {
        queue.check(&world);
        let way = match world.doing {
            Doing::Reads(_) => 0,
            Doing::Decides | Doing::Waits => 1,
            _ => 2,
        };
        if way == 1 {
            let mut after = world.clone();
            ways.0[1] |= !queue.decide(&mut after) && !world.is_first() && after.is_first();
        }
        queue.each_step(&world, &mut |after| {
            ways.0[way] |= way != 1 && !world.is_first() && after.is_first();
            if reached.insert(after.clone()) {
                frontier.push(after);
            }
        });
    }
    let turns: HashSet<_> = reached.iter().map(|world| world.turn).collect();
    turns.into_iter().for_each(|turn| queue.check_twins(turn));
    reached.len()
}

#[test]
fn a_waiter_takes_its_turn_only_by_what_it_was_told_and_never_waits_without_a_watch() {
    let kinds = [Node::Lock, Node::Write, Node::Read];
    let (mut states, mut ways) = (0, Ways::default());
    let mut explore = |own, ahead: &[Node], is_shared, are_ours, connections| {
        let queue = Queue::new(own, ahead, is_shared, are_ours, connections);
        states += explore(&queue, &mut ways);
    };
    for own in kinds {
        explore(own, &[], false, false, 2);
        for first in kinds {
            explore(own, &[first], false, false, 3);
            for second in kinds {
                explore(own, &[first, second], false, false, 2);
            }
        }
    }
    // Those whose listing others know are mutexes.
    for are_ours in [false, true] {
        for first in kinds {
            explore(Node::Lock, &[first], true, are_ours, 2);
        }
        explore(Node::Lock, &[Node::Lock; 2], true, are_ours, 2);
    }
    explore(Node::Lock, &[Node::Write, Node::Lock], true, true, 2);
    // More than two ahead: it does not know all their names.
    explore(Node::Write, &[Node::Lock; 3], false, false, 1);
    explore(Node::Lock, &[Node::Lock; 3], true, true, 1);
    assert_eq!(ways.0, [true; 3], "by a listing, by events, by a question");
    println!("{states} states of waiters");
}
