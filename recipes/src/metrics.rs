//! What a lock costs its users, counted as it is used.
//!
//! Counters are atomics that are shared by all clones of a lock; a snapshot reads them one by one, so that its numbers may
//! be some operations apart. Durations go into buckets of powers of two microseconds: cheap, and right within a factor of two.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Buckets of a histogram: the last one takes everything from 2^38 microseconds, some three days.
const BUCKETS: usize = 40;

/// What a lock's users have done and waited for, in this process, over all clones of the lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockMetrics {
    /// How often it was acquired.
    pub acquired: u64,
    /// How often somebody was ahead at first.
    pub contended: u64,
    /// How often a try was refused.
    pub refused: u64,
    /// How often an attempt ended without the lock: given up, timed out, or failed.
    pub given_up: u64,
    /// How often a holder lost it before releasing it.
    pub lost: u64,
    /// From the call to the grant.
    pub wait: DurationHistogram,
    /// From the grant to the release.
    pub hold: DurationHistogram,
}

/// How long something took, how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurationHistogram {
    counts: [u64; BUCKETS],
    total: Duration,
}

impl Default for DurationHistogram {
    fn default() -> Self {
        Self {
            counts: [0; BUCKETS],
            total: Duration::ZERO,
        }
    }
}

impl DurationHistogram {
    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all of them.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.total
    }

    /// A duration that this share of all were shorter than: 0.5 for the median. Right within a factor of two, on the high
    /// side; zero when there were none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        let all = self.count();
        let mut below = 0;
        for (bucket, count) in (0_u32..).zip(self.counts) {
            below += count;
            #[allow(
                clippy::cast_precision_loss,
                reason = "a share of so many is near enough"
            )]
            if below > 0 && below as f64 >= share * all as f64 {
                return Duration::from_micros(1 << bucket);
            }
        }
        Duration::ZERO
    }
}

/// The counters behind [`LockMetrics`].
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) acquired: AtomicU64,
    pub(crate) contended: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) given_up: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) wait: Buckets,
    pub(crate) hold: Buckets,
}

impl Recorder {
    pub(crate) fn snapshot(&self) -> LockMetrics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LockMetrics {
            acquired: read(&self.acquired),
            contended: read(&self.contended),
            refused: read(&self.refused),
            given_up: read(&self.given_up),
            lost: read(&self.lost),
            wait: self.wait.snapshot(),
            hold: self.hold.snapshot(),
        }
    }
}

/// Counts one more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The counters behind a [`DurationHistogram`].
#[derive(Debug)]
pub(crate) struct Buckets {
    counts: [AtomicU64; BUCKETS],
    total_micros: AtomicU64,
}

impl Default for Buckets {
    fn default() -> Self {
        Self {
            counts: [const { AtomicU64::new(0) }; BUCKETS],
            total_micros: AtomicU64::new(0),
        }
    }
}

impl Buckets {
    pub(crate) fn record(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        // Bucket n takes what is below 2^n.
        let bits = usize::try_from(u64::BITS - micros.leading_zeros()).unwrap_or(BUCKETS);
        if let Some(counter) = self.counts.get(bits.min(BUCKETS - 1)) {
            count(counter);
        }
        self.total_micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn snapshot(&self) -> DurationHistogram {
        DurationHistogram {
            counts: std::array::from_fn(|bucket| {
                self.counts
                    .get(bucket)
                    .map_or(0, |counter| counter.load(Ordering::Relaxed))
            }),
            total: Duration::from_micros(self.total_micros.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_right_within_a_factor_of_two() {
        let buckets = Buckets::default();
        assert_eq!(buckets.snapshot().quantile(0.5), Duration::ZERO);
        for micros in 1..=1000 {
            buckets.record(Duration::from_micros(micros));
        }
        let histogram = buckets.snapshot();
        assert_eq!(
            (histogram.count(), histogram.total()),
            (1000, Duration::from_micros(500_500))
        );
        for (share, exact) in [(0.5, 500), (0.99, 990), (1.0, 1000)] {
            let found = histogram.quantile(share).as_micros();
            assert!((exact..=2 * exact).contains(&found), "{share}: {found}");
        }
        buckets.record(Duration::MAX);
        assert_eq!(buckets.snapshot().count(), 1001);
    }
}
