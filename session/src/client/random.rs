//! The random numbers of a client: from the system, or from a seed.
//!
//! Not here: the machine's random numbers, which come from the seed in its settings.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
};

use crate::machine::rng::{Rng, STEP};

/// Makes these numbers differ from those that the machine draws from the same seed.
const APART: u64 = 0x6c6f_636b_6b65_6570;

/// A source of random numbers.
#[derive(Debug)]
pub(crate) struct Random(Option<AtomicU64>);

impl Random {
    /// The system's randomness, or repeatable numbers: the same for the same seed.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self(seed.map(|seed| AtomicU64::new(seed ^ APART)))
    }

    /// Draws the next number.
    pub(crate) fn next(&self) -> u64 {
        let Some(state) = &self.0 else {
            return random_u64();
        };
        Rng::new(state.fetch_add(STEP, Ordering::Relaxed)).next()
    }
}

/// A number that differs from process to process and from call to call.
///
/// The standard library offers no random numbers, but it keys its hash maps from the system's
/// randomness.
pub(crate) fn random_u64() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_numbers_and_the_system_never_does() {
        let draw = |random: &Random| [random.next(), random.next(), random.next()];
        assert_eq!(draw(&Random::new(Some(7))), draw(&Random::new(Some(7))));
        assert_ne!(draw(&Random::new(Some(7))), draw(&Random::new(Some(8))));
        let seeded = Random::new(Some(7));
        assert_ne!(draw(&seeded), draw(&seeded));
        assert_ne!(draw(&Random::new(None)), draw(&Random::new(None)));
    }
}
