//! A histogram of latencies, with buckets of equal relative width.

use std::time::Duration;

/// Buckets for each doubling. A value that is read back is less than 1/64 (1.6 %) below the value
/// that was added.
const STEPS: usize = 64;
/// The number of bits of a bucket's index that hold the step.
const STEP_BITS: u32 = STEPS.ilog2();
/// Enough for every duration of less than 2^64 ns.
const BUCKETS: usize = STEPS * (64 - STEP_BITS as usize);

/// A histogram of durations of 64 ns and more. Shorter durations count as 64 ns.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: vec![0; BUCKETS],
            count: 0,
        }
    }
}

impl Histogram {
    /// Counts one duration.
    pub fn add(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(nanos)] += 1;
        self.count += 1;
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
    }

    /// How many durations were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// A percentile of the counted durations, in microseconds; 0 if nothing was counted.
    ///
    /// It is the lower end of the bucket that contains the percentile.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "microseconds, for people")]
    pub fn percentile_us(&self, per_cent: u64) -> f64 {
        let wanted = (self.count * per_cent).div_ceil(100).max(1);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return lower_end(index) as f64 / 1000.0;
            }
        }
        0.0
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "a step is less than STEPS after the mask"
)]
fn bucket(nanos: u64) -> usize {
    let nanos = nanos.max(STEPS as u64);
    let octave = nanos.ilog2() - STEP_BITS;
    let step = (nanos >> octave) as usize % STEPS;
    octave as usize * STEPS + step
}

fn lower_end(bucket: usize) -> u64 {
    ((STEPS + bucket % STEPS) as u64) << (bucket / STEPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_at_most_a_64th_wide() {
        for nanos in [64, 65, 127, 128, 1000, 123_456, 987_654_321, u64::MAX >> 1] {
            let low = lower_end(bucket(nanos));
            assert!(low <= nanos && nanos - low <= nanos / 64, "{nanos}");
        }
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_match_the_added_durations() {
        let mut histogram = Histogram::default();
        assert!(histogram.percentile_us(50) < f64::EPSILON);
        for micros in 1..=100 {
            histogram.add(Duration::from_micros(micros));
        }
        let mut both = histogram.clone();
        both.merge(&histogram);
        assert_eq!(both.count(), 200);
        for (per_cent, micros) in [(50, 50.0), (99, 99.0), (100, 100.0)] {
            let read = both.percentile_us(per_cent);
            assert!(read <= micros && read > micros * 0.98, "{read}");
        }
    }
}
