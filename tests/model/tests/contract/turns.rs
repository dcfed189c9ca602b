//! When a waiter in a queue takes the lock, and when it waits: all orders of listings, events and
//! connections.
//!
//! The nodes ahead only become fewer. A session never sees an earlier prefix, so a listing shows no
//! node that it knows to be gone.

use std::collections::HashSet;

use lockkeeper_recipes::{
    Loss,
    decisions::turn::{Next, Out, Turn},
    rank::Kind,
};

use crate::{
    nodes::{Node, Numbered, blocks, name, twins},
    permits::facts,
};

/// Connections are made so often.
const CONNECTIONS: u64 = 2;

type Name = &'static str;

/// The contender, which is the last node, and those ahead of it.
struct Queue {
    kind: Kind,
    nodes: Vec<Numbered>,
    names: Vec<Name>,
}

/// A set of nodes by their indices.
type Set = u8;

fn has(set: Set, at: usize) -> bool {
    set >> at & 1 == 1
}

/// What the waiter relies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Basis {
    Nothing,
    /// Exactly these were ahead, which `asked` connection has shown. All others are known to be
    /// gone.
    Behind(Set),
    /// A node of another task is ahead.
    Follows,
    /// Another task's listing shows nobody ahead.
    Told,
}

#[expect(clippy::struct_excessive_bools, reason = "they are independent")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    turn: Turn<Name>,
    connection: u64,
    is_up: bool,
    asked: u64,
    is_asking: bool,
    /// Watches that are set and have not fired, whose events have an order.
    watched: Set,
    /// Watches that are asked for. Until they are set, nothing of these nodes is told.
    arming: Set,
    /// Deletions that were told, and nodes that a listing does not show.
    gone: Set,
    basis: Basis,
    /// Whether the deletion of the last one ahead was told on the connection of the basis.
    is_proof: bool,
    /// The node just ahead, while the waiter waits for it; and whether it has left.
    nearest: Option<usize>,
    has_left: bool,
}

impl Queue {
    fn new(own: Node, ahead: &[Node]) -> Self {
        let nodes = ahead.iter().chain([&own]).zip(0..);
        let nodes: Vec<_> = nodes.map(|(node, number)| (*node, number)).collect();
        // A few names for the whole run of the test.
        let leak = |node| -> Name { name(node).leak() };
        Self {
            kind: own.contender().expect("a contender of ours"),
            names: nodes.iter().copied().map(leak).collect(),
            nodes,
        }
    }

    fn own(&self) -> usize {
        self.nodes.len() - 1
    }

    /// Those of a set that block the contender.
    fn blockers(&self, set: Set) -> Set {
        let own = self.nodes[self.own()];
        let blocking = (0..self.own()).filter(|at| has(set, *at) && blocks(self.nodes[*at], own));
        blocking.fold(0, |set, at| set | 1 << at)
    }

    fn start(&self) -> World {
        let mut turn = Turn::new(self.kind);
        turn.asked(1);
        World {
            turn,
            connection: 1,
            is_up: true,
            asked: 1,
            is_asking: false,
            watched: 0,
            arming: 0,
            gone: 0,
            basis: Basis::Nothing,
            is_proof: false,
            nearest: None,
            has_left: false,
        }
    }

    fn at(&self, name: Name) -> usize {
        let mut names = self.names.iter();
        names
            .position(|other| *other == name)
            .expect("a node of the queue")
    }

    /// The waiter watches these, and no longer those that are of no use.
    fn watch(&self, world: &mut World, missing: &[Name]) {
        let own = self.own();
        for name in missing {
            world.arming |= 1 << self.at(name);
        }
        for at in 0..=own {
            if !world.turn.watches(self.names[at], self.names[own]) {
                world.watched &= !(1 << at);
                world.arming &= !(1 << at);
            }
        }
        assert!(
            has(world.wanted(), own),
            "our own node is not watched: {world:?}"
        );
        world.has_left = false;
    }

    /// What must hold, whatever happened.
    fn check(&self, world: &World) {
        let own = self.names[self.own()];
        for (at, name) in self.names.iter().enumerate() {
            let is_believed = world.turn.watches(name, own);
            assert!(
                !is_believed || has(world.wanted(), at),
                "no watch on {name}: {world:?}"
            );
        }
        assert_ne!(world.turn.next(&facts(false)), Ok(Next::Grant), "{world:?}");
        match world.turn.next(&facts(true)) {
            Ok(Next::Grant) => {
                let is_alone = match world.basis {
                    Basis::Behind(ahead) => {
                        ahead & !world.gone == 0 && (ahead == 0 || world.is_proof)
                    }
                    Basis::Told => true,
                    Basis::Nothing | Basis::Follows => false,
                };
                assert!(is_alone, "granted: {world:?}");
            }
            Ok(Next::Wait) => {
                let ahead = self.blockers(world.wanted() & !world.gone);
                assert!(
                    ahead != 0 && has(world.wanted(), self.own()),
                    "waits: {world:?}"
                );
            }
            Ok(Next::List) => {}
            next => panic!("{next:?} with a valid lease: {world:?}"),
        }
    }

    fn each_step(&self, world: &World, visit: &mut impl FnMut(World)) {
        let mut step = |change: &dyn Fn(&mut World)| {
            let mut after = world.clone();
            change(&mut after);
            visit(after);
        };
        if world.is_up {
            step(&|it| it.is_up = false);
        } else if world.connection < CONNECTIONS {
            step(&|it| {
                it.is_up = true;
                it.connection += 1;
            });
        }
        if world.is_up && world.arming != 0 {
            step(&|it| it.watched |= std::mem::take(&mut it.arming));
        }
        let wants_list = world.turn.next(&facts(true)) == Ok(Next::List);
        if wants_list {
            step(&|it| {
                it.turn.asked(it.connection);
                (it.asked, it.is_asking) = (it.connection, true);
                (it.basis, it.is_proof, it.has_left) = (Basis::Nothing, false, false);
            });
        }
        for set in 0..1 << self.own() {
            if world.is_asking && world.arming == 0 && set & world.gone == 0 {
                step(&|it| self.listed(it, set));
            }
            // A listing with a writer proves nothing (`listings`).
            let is_writer = |at: usize| has(set, at) && self.nodes[at].0 == Node::Write;
            let is_proved = !(0..self.own()).any(is_writer);
            let is_ahead = set != 0 && set & world.gone == 0 && self.blockers(set) == set;
            if is_ahead && is_proved && wants_list && self.kind == Kind::Mutex {
                step(&|it| self.narrowed(it, set));
            }
        }
        let enters = world.basis == Basis::Nothing && world.wanted() == 0 && world.gone == 0;
        for at in (0..self.own()).filter(|at| self.blockers(1 << at) != 0) {
            if (enters || world.turn.has_left()) && !world.is_asking {
                step(&|it| {
                    let missing = it.turn.follow(&self.names[self.own()], self.names[at]);
                    (it.basis, it.is_proof) = (Basis::Follows, false);
                    // It may be gone, and this one was not told.
                    it.gone &= !(1 << at);
                    it.nearest = Some(at);
                    self.watch(it, &missing);
                });
            }
        }
        for listed_on in 0..=world.connection {
            let present = world.is_up.then_some(world.connection);
            if world.turn.may_be_first(present, listed_on) {
                let is_shown = world.is_up && [world.asked, listed_on].contains(&world.connection);
                let is_sound = world.has_left && has(world.watched, self.own()) && is_shown;
                assert!(
                    is_sound,
                    "uses a listing of connection {listed_on}: {world:?}"
                );
                step(&|it| {
                    it.turn.first();
                    it.basis = Basis::Told;
                });
            }
        }
        for at in (0..=self.own()).filter(|at| has(world.watched, *at)) {
            for is_deleted in [true, false] {
                if at != self.own() || !is_deleted {
                    step(&|it| self.event(it, at, is_deleted));
                }
            }
        }
        if has(world.watched, self.own()) {
            let own = self.names[self.own()];
            let present = world.is_up.then_some(world.connection);
            let out = world.turn.clone().event(own, true, own, present);
            assert_eq!(out, Err(Out::Lost(Loss::Deleted)));
        }
    }

    /// An event of another node with the same number says nothing.
    fn check_twins(&self, turn: Turn<Name>) {
        let own = self.names[self.own()];
        for twin in self.nodes.iter().flat_map(|node| twins(*node)) {
            assert!(!turn.watches(&twin, own) && !turn.is_nearest(&twin));
            for is_deleted in [true, false] {
                for present in [None, Some(1), Some(CONNECTIONS)] {
                    let mut after = turn;
                    let result = after.event(&twin, is_deleted, own, present);
                    assert_eq!(result, Ok(false), "{twin} beside {own}");
                    assert_eq!(after, turn, "{twin} beside {own}");
                }
            }
        }
    }

    fn listed(&self, world: &mut World, set: Set) {
        let own = self.own();
        let shown = (0..=own).filter(|at| has(set, *at) || *at == own);
        let listed = world
            .turn
            .listed(shown.map(|at| self.names[at]), &self.names[own]);
        world.is_asking = false;
        world.gone = !set & ((1 << own) - 1);
        world.basis = Basis::Behind(self.blockers(set));
        world.is_proof = false;
        if self.blockers(set) != 0 {
            world.nearest = (0..own).rev().find(|at| has(self.blockers(set), *at));
            self.watch(world, &listed.expect("our node is shown").missing);
        }
    }

    /// Another task's listing, without those that are known to be gone, shows these ahead.
    fn narrowed(&self, world: &mut World, set: Set) {
        let own = self.names[self.own()];
        let ahead: Vec<_> = (0..self.own()).filter(|at| has(set, *at)).collect();
        let names: Vec<_> = ahead.iter().map(|at| self.names[*at]).collect();
        let present = world.is_up.then_some(world.connection);
        let Some(missing) = world.turn.narrow(&own, &names, present) else {
            return;
        };
        assert!(
            world.is_up && world.asked == world.connection,
            "narrowed: {world:?}"
        );
        world.gone = !set & ((1 << self.own()) - 1);
        (world.basis, world.is_proof) = (Basis::Behind(set), false);
        world.nearest = ahead.last().copied();
        self.watch(world, &missing);
    }

    fn event(&self, world: &mut World, at: usize, is_deleted: bool) {
        let own = self.names[self.own()];
        let present = world.is_up.then_some(world.connection);
        world.watched &= !(1 << at);
        let is_watched_again = world.turn.event(self.names[at], is_deleted, own, present);
        if at == self.own() {
            // Until the next listing nothing is proved.
            assert_eq!(is_watched_again, Ok(true), "our node is not watched again");
            world.arming |= 1 << at;
            (world.basis, world.is_proof, world.has_left) = (Basis::Nothing, false, false);
            return;
        }
        assert_eq!(is_watched_again, Ok(false));
        if is_deleted {
            world.gone |= 1 << at;
            // It is not told twice.
            world.arming &= !(1 << at);
            let is_present = world.is_up && world.asked == world.connection;
            // Else our own node may have been deleted before.
            let is_present = is_present && has(world.watched, self.own());
            world.has_left |= world.nearest == Some(at);
            if let Basis::Behind(ahead) = world.basis
                && has(ahead, at)
            {
                // A writer may have become a reader.
                let stays = self.nodes[at].0 != Node::Write || self.kind == Kind::Read;
                let is_last = ahead & !world.gone == 0;
                world.is_proof = is_present && stays && is_last && ahead == 1 << at;
            }
        }
    }
}

impl World {
    /// What is watched, or will be.
    fn wanted(&self) -> Set {
        self.watched | self.arming
    }
}

fn explore(queue: &Queue, granted: &mut HashSet<(bool, bool)>) -> usize {
    let mut reached = HashSet::from([queue.start()]);
    let mut frontier = vec![queue.start()];
    while let Some(world) = frontier.pop() {
        queue.check(&world);
        if world.turn.next(&facts(true)) == Ok(Next::Grant) {
            granted.insert((world.basis == Basis::Told, world.is_proof));
        }
        queue.each_step(&world, &mut |after| {
            if reached.insert(after.clone()) {
                frontier.push(after);
            }
        });
    }
    let turns: HashSet<_> = reached.iter().map(|world| world.turn).collect();
    for turn in turns {
        queue.check_twins(turn);
    }
    reached.len()
}

#[test]
fn a_waiter_takes_its_turn_only_by_what_it_was_told_and_never_waits_without_a_watch() {
    let kinds = [Node::Lock, Node::Write, Node::Read];
    let (mut states, mut granted) = (0, HashSet::new());
    for count in 0..=4 {
        let ahead = (0..count).fold(vec![Vec::new()], |listings, _| {
            let longer = |nodes: Vec<Node>| kinds.map(|kind| [nodes.as_slice(), &[kind]].concat());
            listings.into_iter().flat_map(longer).collect()
        });
        for own in kinds {
            let queues = ahead.iter().map(|ahead| Queue::new(own, ahead));
            states += queues
                .map(|queue| explore(&queue, &mut granted))
                .sum::<usize>();
        }
    }
    states += explore(&Queue::new(Node::Lock, &[Node::Lock; 5]), &mut granted);
    // By a listing, by a deletion, and by the listing of another task.
    assert!(granted.is_superset(&HashSet::from([
        (false, false),
        (false, true),
        (true, false)
    ])));
    println!("{states} states of waiters");
}
