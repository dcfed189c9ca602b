//! Random choices that depend only on the seed.
//!
//! Each user of random numbers has its own generator, made from the seed and the user's purpose. So
//! when a part of a plan is removed, the other parts draw the same numbers as before, as far as
//! possible.

use std::hash::{DefaultHasher, Hash, Hasher};

/// `SplitMix64`.
///
/// Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Makes the generator of a seed for one purpose.
    pub(crate) fn of(seed: u64, purpose: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        (seed, purpose).hash(&mut hasher);
        Self(hasher.finish())
    }

    /// Makes the generator whose state is the seed itself.
    #[must_use]
    pub const fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// Draws a number.
    pub const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    ///
    /// # Panics
    ///
    /// Panics if `bound` is zero.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.draw() % bound as u64).expect("below a usize")
    }

    /// Picks one of these, all with the same probability.
    ///
    /// # Panics
    ///
    /// Panics if there are none.
    pub fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.draw() % (high - low + 1)
    }

    /// A number as from [`within`](Self::within), for `u32`.
    pub(crate) fn small(&mut self, low: u32, high: u32) -> u32 {
        u32::try_from(self.within(low.into(), high.into())).unwrap_or(high)
    }

    /// True with a probability of `per_mille` in a thousand.
    pub(crate) fn chance(&mut self, per_mille: u64) -> bool {
        self.draw() % 1000 < per_mille
    }

    /// Makes from `low` to `high` values, both included.
    pub(crate) fn several<T>(
        &mut self,
        low: u64,
        high: u64,
        mut make: impl FnMut(&mut Self) -> T,
    ) -> Vec<T> {
        let count = self.within(low, high);
        (0..count).map(|_| make(self)).collect()
    }

    /// Picks one of several kinds by weight. `weight` is that of `first`.
    pub(crate) fn weighted<T: Copy>(&mut self, first: T, rest: &[(u64, T)], weight: u64) -> T {
        let total = weight + rest.iter().map(|(weight, _)| weight).sum::<u64>();
        let mut at = self.draw() % total;
        for (weight, kind) in rest {
            if at < *weight {
                return *kind;
            }
            at -= weight;
        }
        first
    }
}
