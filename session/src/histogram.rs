//! How long something took, how often: buckets of powers of two microseconds, cheap and right within a factor of two.
//!
//! Not here: what is measured (the metrics of clients and of locks).

use std::time::Duration;

/// Buckets of a histogram: the last one takes everything from 2^38 microseconds, some three days.
const BUCKETS: usize = 40;

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
    /// Counts one more.
    pub fn record(&mut self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        // Bucket n takes what is below 2^n.
        let bits = usize::try_from(u64::BITS - micros.leading_zeros()).unwrap_or(BUCKETS);
        if let Some(count) = self.counts.get_mut(bits.min(BUCKETS - 1)) {
            *count = count.saturating_add(1);
        }
        self.total = self.total.saturating_add(duration);
    }

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
        for (upper, count) in self.buckets() {
            below += count;
            #[allow(
                clippy::cast_precision_loss,
                reason = "a share of so many is near enough"
            )]
            if below > 0 && below as f64 >= share * all as f64 {
                return upper;
            }
        }
        Duration::ZERO
    }

    /// The buckets, for an exporter: below which duration, and how many that were not below the one before. The last
    /// bucket holds all that were longer, too.
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
