//! Every reachable state, breadth first, so that the first thing found wrong has a shortest history.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use crate::Violation;

/// What is explored: a state from which it begins, and the steps from each.
pub(crate) trait World {
    type State: Copy + Eq + Hash;
    type Action: Copy;

    fn initial(&self) -> Self::State;
    /// All that can happen next.
    fn each_step(&self, state: &Self::State, visit: &mut impl FnMut(Self::Action, Self::State));
    /// The one state that stands for all that differ only in what cannot matter.
    fn canonical(&self, state: Self::State) -> Self::State;
    /// The one that stands for all orders of contenders who are alike.
    fn sorted(&self, state: Self::State) -> Self::State;
    /// What is wrong with a state.
    fn check(&self, state: &Self::State) -> Option<Violation>;
    /// Whether everybody is done.
    fn is_over(&self, state: &Self::State) -> bool;
    /// Whether the step happens by itself sooner or later. The others are faults, or a user's whim.
    fn is_progress(&self, action: Self::Action) -> bool;
    /// A step in words, told by the states around it.
    fn describe(&self, before: &Self::State, action: Self::Action, after: &Self::State) -> String;
}

/// What an exploration found.
#[derive(Debug)]
pub struct Outcome {
    /// How many states were reached.
    pub states: usize,
    /// How many steps lead from one to another.
    pub steps: usize,
    /// How many steps the longest of all shortest ways has.
    pub depth: usize,
    /// What is wrong, if anything.
    pub found: Option<Found>,
}

/// Something wrong, and how it comes about.
#[derive(Debug)]
pub struct Found {
    /// What is wrong.
    pub violation: Violation,
    /// A shortest way there, a line for each step, with the live nodes in the order of the line.
    pub history: Vec<String>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.history.iter().enumerate() {
            writeln!(f, "{:>3}. {step}", number + 1)?;
        }
        write!(f, "     => {:?}", self.violation)
    }
}

/// Reaches every state of a world, or the first that is wrong.
///
/// # Panics
/// When there are more than `most` states.
pub(crate) fn explore<W: World>(world: &W, most: usize) -> Outcome {
    let mut reached = Reached::<W>::new();
    reached.insert(world.initial(), 0);
    let (mut at, mut steps) = (0, 0);
    let mut wrong = None;
    while at < reached.states.len() && wrong.is_none() {
        assert!(reached.states.len() <= most, "more than {most} states");
        let state = reached.states[at];
        let mut progress = None;
        let mut visit = |action: W::Action, after: W::State| {
            steps += 1;
            let next = reached.insert(world.sorted(world.canonical(after)), at);
            if world.is_progress(action) && progress.is_none() {
                progress = Some(next);
            }
        };
        wrong = world.check(&state).map(|violation| (at, violation));
        if wrong.is_none() {
            world.each_step(&state, &mut visit);
            if progress.is_none() && !world.is_over(&state) {
                wrong = Some((at, Violation::Stuck));
            }
        }
        reached.progress.push(progress.map_or(u32::MAX, index));
        at += 1;
    }
    if wrong.is_none() {
        wrong = reached.endless().map(|at| (at, Violation::Livelock));
    }
    let found = wrong.map(|(at, violation)| Found {
        violation,
        history: reached.history(world, at),
    });
    Outcome {
        states: reached.states.len(),
        steps,
        depth: reached.path(reached.states.len() - 1).len() - 1,
        found,
    }
}

/// The states reached so far, in the order in which they were.
struct Reached<W: World> {
    states: Vec<W::State>,
    /// From which one each was reached first.
    from: Vec<u32>,
    /// Where each goes when nothing goes wrong any more and all requests are answered from the end of the history.
    progress: Vec<u32>,
    /// Where a state with some hash is, or the next one free: twice as large as needed, at least.
    table: Vec<u32>,
}

impl<W: World> Reached<W> {
    fn new() -> Self {
        Self {
            states: Vec::new(),
            from: Vec::new(),
            progress: Vec::new(),
            table: vec![u32::MAX; 1 << 16],
        }
    }

    /// The state's place. New ones come last.
    fn insert(&mut self, state: W::State, from: usize) -> usize {
        if self.states.len() * 2 >= self.table.len() {
            self.table = vec![u32::MAX; self.table.len() * 2];
            for at in 0..self.states.len() {
                let slot = self.slot(&self.states[at]);
                self.table[slot] = index(at);
            }
        }
        let slot = self.slot(&state);
        if self.table[slot] == u32::MAX {
            self.table[slot] = index(self.states.len());
            self.states.push(state);
            self.from.push(index(from));
        }
        self.table[slot] as usize
    }

    /// Where the state is in the table, or would be.
    fn slot(&self, state: &W::State) -> usize {
        let mut hasher = Mixer(0);
        state.hash(&mut hasher);
        let mask = self.table.len() - 1;
        let mut slot = usize::try_from(hasher.finish() >> 20).unwrap_or(0) & mask;
        while self.table[slot] != u32::MAX && self.states[self.table[slot] as usize] != *state {
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// A state from which the others are never done, although nothing goes wrong any more.
    fn endless(&self) -> Option<usize> {
        const UNSEEN: u32 = u32::MAX;
        let mut seen = vec![UNSEEN; self.states.len()];
        for start in 0..self.states.len() {
            let mut at = start;
            while seen[at] == UNSEEN {
                seen[at] = index(start);
                match self.progress[at] {
                    u32::MAX => break,
                    next => at = next as usize,
                }
                if seen[at] == index(start) {
                    return Some(at);
                }
            }
        }
        None
    }

    /// The places on the way to a state, from the first on.
    fn path(&self, at: usize) -> Vec<usize> {
        let mut path = vec![at];
        let mut at = at;
        while at != 0 {
            at = self.from[at] as usize;
            path.push(at);
        }
        path.reverse();
        path
    }

    /// The steps on the way to a state. Who is who stays the same in it, whatever order the states were sorted into.
    fn history(&self, world: &W, at: usize) -> Vec<String> {
        let mut state = world.initial();
        let path = self.path(at);
        let steps = path.iter().skip(1).map(|at| {
            let wanted = &self.states[*at];
            let (mut words, mut next) = (String::new(), None);
            let mut visit = |action: W::Action, after: W::State| {
                let canonical = world.canonical(after);
                if next.is_none() && world.sorted(canonical) == *wanted {
                    words = world.describe(&state, action, &after);
                    next = Some(canonical);
                }
            };
            world.each_step(&state, &mut visit);
            state = next.expect("a step that was made before");
            words
        });
        steps.collect()
    }
}

fn index(at: usize) -> u32 {
    u32::try_from(at).expect("fewer states than fit into memory")
}

/// A fast hash, not a strong one: nobody chooses our states to annoy us.
struct Mixer(u64);

impl Mixer {
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.mix(u64::from(byte));
    }

    fn write_isize(&mut self, number: isize) {
        self.mix(number.unsigned_abs() as u64);
    }
}
