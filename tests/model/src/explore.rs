//! Every reachable state, breadth first, so that the first violation found has a shortest history.
//!
//! A state that was reached is kept as a fingerprint of 128 bits, not in full: 30 bytes instead
//! of 500. Two different states with one fingerprint would be taken for one. Among 100 million
//! states that happens with a probability below 10^-22.

use std::{collections::VecDeque, fmt};

use crate::{
    Violation,
    action::{Action, describe},
    check::check,
    client, doubt,
    fair::{Graph, obliged},
    fingerprint::fingerprint,
    scenario::Scenario,
    server,
    state::State,
};

/// What an exploration found.
#[derive(Debug)]
pub struct Outcome {
    /// How many states were reached.
    pub states: usize,
    /// How many steps lead from one to another.
    pub steps: usize,
    /// How many steps the longest of all shortest paths has.
    pub depth: usize,
    /// How many circles there are, if they were looked for: components of the graph in which a run
    /// could stay, fair or not.
    pub circles: usize,
    /// What is wrong, if anything.
    pub found: Option<Found>,
}

/// A violation, and how it comes about.
#[derive(Debug)]
pub struct Found {
    /// What is wrong.
    pub violation: Violation,
    /// A shortest path there: a line for each step, with the live nodes in the order of the queue.
    pub history: Vec<String>,
    /// After how many of these steps a circle begins. Its last step leads back there.
    pub circle: Option<usize>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.history.iter().enumerate() {
            if self.circle == Some(number) {
                writeln!(f, "     and from here on, again and again:")?;
            }
            writeln!(f, "{:>3}. {step}", number + 1)?;
        }
        write!(f, "     => {:?}", self.violation)
    }
}

impl Scenario {
    /// Reaches every state, or the first violation.
    ///
    /// # Panics
    /// When there are more than `most` states.
    #[must_use]
    pub fn explore(&self, most: usize) -> Outcome {
        let mut reached = Reached::new();
        let mut graph = Graph::default();
        let mut frontier = VecDeque::from([State::initial(self)]);
        reached.insert(fingerprint(&frontier[0]), 0);
        let (mut at, mut steps) = (0, 0);
        let mut wrong = None;
        while let Some(state) = frontier.pop_front() {
            assert!(reached.states.len() <= most, "more than {most} states");
            if let Some(violation) = check(&state, self) {
                wrong = Some((at, violation));
                break;
            }
            let mut progress = None;
            if self.is_fair {
                graph.enter(&state, self);
            }
            self.each_step(&state, &mut |action, made| {
                steps += 1;
                let after = made.canonical(self).sorted(self);
                let (next, is_new) = reached.insert(fingerprint(&after), at);
                if is_new {
                    frontier.push_back(after);
                }
                if self.is_fair {
                    graph.step([&state, &made], action, index(next));
                }
                if obliged(action, &state) != 0 && progress.is_none() {
                    progress = Some(next);
                }
            });
            if progress.is_none() && !state.is_over() {
                wrong = Some((at, Violation::Stuck));
                break;
            }
            reached.progress.push(progress.map_or(u32::MAX, index));
            at += 1;
        }
        let (mut circles, mut circle) = (0, None);
        if wrong.is_none() && self.is_fair {
            (circles, circle) = graph.circles();
            wrong = circle
                .as_ref()
                .map(|it| (it.start as usize, Violation::Livelock));
        } else if wrong.is_none() {
            wrong = reached.endless().map(|at| (at, Violation::Livelock));
        }
        let found = wrong.map(|(at, violation)| {
            let mut path = reached.path(at);
            let circle = circle.map(|circle| {
                path.extend(circle.states.into_iter().map(|at| at as usize));
                reached.path(at).len() - 1
            });
            Found {
                violation,
                history: self.history(&reached, &path),
                circle,
            }
        });
        Outcome {
            states: reached.states.len(),
            steps,
            depth: reached.path(reached.states.len() - 1).len() - 1,
            circles,
            found,
        }
    }

    /// All that can happen next.
    fn each_step(&self, state: &State, visit: &mut impl FnMut(Action, State)) {
        client::each_step(state, self, visit);
        server::each_step(state, self, visit);
        doubt::each_step(state, self, visit);
    }

    /// The steps on this path. Each contender keeps its letter in it, in whatever order the states
    /// were sorted.
    fn history(&self, reached: &Reached, path: &[usize]) -> Vec<String> {
        let mut state = State::initial(self);
        let steps = path.iter().skip(1).map(|at| {
            let wanted = reached.states[*at];
            let (mut words, mut next) = (String::new(), None);
            self.each_step(&state, &mut |action, after| {
                let canonical = after.canonical(self);
                if next.is_none() && fingerprint(&canonical.sorted(self)) == wanted {
                    words = describe(&state, action, &after);
                    next = Some(canonical);
                }
            });
            state = next.expect("a step that was made before");
            words
        });
        steps.collect()
    }
}

/// The states reached so far, in the order in which they were.
struct Reached {
    /// The fingerprints.
    states: Vec<u128>,
    /// From which one each was reached first.
    from: Vec<u32>,
    /// Where each goes without further faults, when all requests are answered from the end of the
    /// history.
    progress: Vec<u32>,
    /// Where a state with some fingerprint is, or the next free place. At least half of it is free.
    table: Vec<u32>,
}

impl Reached {
    fn new() -> Self {
        Self {
            states: Vec::new(),
            from: Vec::new(),
            progress: Vec::new(),
            table: vec![u32::MAX; 1 << 16],
        }
    }

    /// The index of the state, and whether it is new.
    fn insert(&mut self, state: u128, from: usize) -> (usize, bool) {
        if self.states.len() * 2 >= self.table.len() {
            self.table = vec![u32::MAX; self.table.len() * 2];
            for at in 0..self.states.len() {
                let slot = self.slot(self.states[at]);
                self.table[slot] = index(at);
            }
        }
        let slot = self.slot(state);
        let is_new = self.table[slot] == u32::MAX;
        if is_new {
            self.table[slot] = index(self.states.len());
            self.states.push(state);
            self.from.push(index(from));
        }
        (self.table[slot] as usize, is_new)
    }

    /// Where the state is in the table, or would be.
    fn slot(&self, state: u128) -> usize {
        let mask = self.table.len() - 1;
        let mut slot = usize::try_from(state >> 64).unwrap_or(0) & mask;
        while self.table[slot] != u32::MAX && self.states[self.table[slot] as usize] != state {
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// A state from which not all contenders ever end, although no more faults happen.
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

    /// The indices on the path to a state, from the first on.
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
}

fn index(at: usize) -> u32 {
    u32::try_from(at).expect("fewer states than fit into memory")
}
