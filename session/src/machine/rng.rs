//! Random choices from a seed: the order of servers, jitter. Not for secrets.

use std::time::Duration;

/// The increment of `SplitMix64` at each draw.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// `SplitMix64`: small, and good enough to spread clients.
///
/// Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014.
#[derive(Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 when that is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    /// A duration from zero to `longest`, in whole microseconds.
    pub(crate) fn up_to(&mut self, longest: Duration) -> Duration {
        let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX - 1);
        Duration::from_micros(self.below(micros.saturating_add(1)))
    }

    /// Puts a list in random order (Fisher-Yates).
    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            let other = self.below(last as u64 + 1);
            list.swap(last, usize::try_from(other).unwrap_or(last));
        }
    }
}
