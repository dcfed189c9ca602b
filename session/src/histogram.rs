//! Counts durations in buckets of powers of two microseconds: cheap, and exact within a factor of
//! two.
//!
//! Not here: the measured durations (the metrics of clients and of locks).

use std::time::Duration;

/// The number of buckets. The last one takes everything from 2^38 microseconds (about three days)
/// on.
const BUCKETS: usize = 40;

/// A histogram of durations.
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
    /// Adds one duration.
    pub fn record(&mut self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        // Bucket n takes the durations below 2^n microseconds.
        let bits = usize::try_from(u64::BITS - micros.leading_zeros()).unwrap_or(BUCKETS);
        if let Some(count) = self.counts.get_mut(bits.min(BUCKETS - 1)) {
            *count = count.saturating_add(1);
        }
        self.total = self.total.saturating_add(duration);
    }

    /// Returns the number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of all durations.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.total
    }

    /// Returns a duration that is longer than this share of all durations: 0.5 for the median.
    ///
    /// The result is exact within a factor of two, on the high side. It is zero for an empty
    /// histogram.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        let all = self.count();
        let mut below = 0;
        for (upper, count) in self.buckets() {
            below += count;
            #[allow(clippy::cast_precision_loss, reason = "the share need not be exact")]
            if below > 0 && below as f64 >= share * all as f64 {
                return upper;
            }
        }
        Duration::ZERO
    }

    /// Returns the buckets, for an exporter.
    ///
    /// Each item has the upper bound of a bucket, and the number of durations that are below it and
    /// not below the bound of the bucket before. The last bucket also counts all longer durations.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let upper = (0_u32..).map(|bucket| Duration::from_micros(1 << bucket));
        upper.zip(self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_right_within_a_factor_of_two() {
        let mut histogram = DurationHistogram::default();
        assert_eq!(histogram.quantile(0.5), Duration::ZERO);
        for micros in 1..=1000 {
            histogram.record(Duration::from_micros(micros));
        }
        assert_eq!(
            (histogram.count(), histogram.total()),
            (1000, Duration::from_micros(500_500))
        );
        for (share, exact) in [(0.5, 500), (0.99, 990), (1.0, 1000)] {
            let found = histogram.quantile(share).as_micros();
            assert!((exact..=2 * exact).contains(&found), "{share}: {found}");
        }
        histogram.record(Duration::MAX);
        histogram.record(Duration::MAX);
        assert_eq!(histogram.count(), 1002);
        let in_buckets: u64 = histogram.buckets().map(|(_, count)| count).sum();
        assert_eq!(in_buckets, 1002);
    }
}
