//! Every state of the world, breadth first, so that the first violation has a shortest history.

use std::{collections::HashMap, collections::VecDeque, fmt};

use super::world::{Limits, Rule, World};
use crate::fingerprint::fingerprint;

/// What an exploration found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// How many states were reached.
    pub states: usize,
    /// How many steps lead from one to another.
    pub steps: usize,
    /// A shortest history of two valid holders, if there is one.
    pub found: Option<Found>,
}

/// A shortest history of two valid holders.
#[derive(Debug)]
pub struct Found(Vec<&'static str>);

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.0.iter().enumerate() {
            writeln!(f, "{:>3}. {step}", number + 1)?;
        }
        write!(f, "     => TwoHolders")
    }
}

impl Rule {
    /// Reaches every state within these limits, or the first violation.
    ///
    /// # Panics
    /// When there are more than `most` states.
    #[must_use]
    pub fn explore(self, limits: Limits, most: usize) -> Outcome {
        let initial = World::initial(limits);
        // Each state that was reached: from which one, and by which step.
        let mut reached = HashMap::from([(fingerprint(&initial), (0_u32, ""))]);
        let mut paths = vec![(0_u32, "")];
        let mut frontier = VecDeque::from([(0_u32, initial)]);
        let mut steps = 0;
        while let Some((at, world)) = frontier.pop_front() {
            assert!(reached.len() <= most, "more than {most} states");
            if world.is_wrong(self) {
                return Outcome {
                    states: reached.len(),
                    steps,
                    found: Some(Found(history(&paths, at))),
                };
            }
            world.each_step(self, &mut |words, after| {
                steps += 1;
                reached.entry(fingerprint(&after)).or_insert_with(|| {
                    let next = u32::try_from(paths.len()).expect("few states");
                    paths.push((at, words));
                    frontier.push_back((next, after));
                    (at, words)
                });
            });
        }
        Outcome {
            states: reached.len(),
            steps,
            found: None,
        }
    }
}

fn history(paths: &[(u32, &'static str)], mut at: u32) -> Vec<&'static str> {
    let mut steps = Vec::new();
    while at != 0 {
        let (before, words) = paths[at as usize];
        steps.push(words);
        at = before;
    }
    steps.reverse();
    steps
}
