//! Parsing and printing durations, and waiting: `30`, `1.5s`, `500ms`, `1m30s`, `1h`, `1d`.
//!
//! A number without a unit means seconds, as for flock(1) and sleep(1). The rest is as `humantime` has it, but for its `M`: who
//! writes that may mean minutes, and would get months.

use std::{fmt, time::Duration};

use tokio::time::{Instant, sleep_until};

/// Waits until this moment, or for ever.
pub(crate) async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// The longest duration that is accepted: `1y` of `humantime`. Nobody waits longer, and a sum of two never overflows.
const LONGEST: Duration = Duration::from_secs(31_557_600);

/// Parses a duration. Zero is allowed.
pub(crate) fn parse(text: &str) -> Result<Duration, &'static str> {
    if text.contains('M') {
        return Err("M may be minutes or months: write m, or month");
    }
    let is_bare = !text.contains(|c: char| c.is_alphabetic());
    let parsed = humantime::parse_duration(&format!("{text}{}", if is_bare { "s" } else { "" }));
    match parsed {
        Ok(duration) if duration <= LONGEST => Ok(duration),
        Ok(_) | Err(humantime::DurationError::NumberOverflow) => Err("it must be a year or less"),
        Err(_) => Err(
            "a duration looks like 30, 1.5s, 500ms, 1m30s, 1h or 1d; without a unit it means seconds",
        ),
    }
}

/// Parses a duration of at least one millisecond. ZooKeeper counts a shorter one as zero.
pub(crate) fn parse_positive(text: &str) -> Result<Duration, &'static str> {
    match parse(text)? {
        duration if duration < Duration::from_millis(1) => Err("it must be 1ms or more"),
        duration => Ok(duration),
    }
}

/// A duration with three significant digits, and from a minute on with two units: `7.31 ms`, `1.05 s`, `3 m 12 s`, `4 d 3 h`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Human(pub(crate) Duration);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, ms) = (self.0.as_secs(), self.0.as_secs_f64() * 1e3);
        let (minutes, hours) = (seconds / 60, seconds / 3600);
        f.pad(&match ms {
            ..9.995 => format!("{ms:.2} ms"),
            ..99.95 => format!("{ms:.1} ms"),
            ..999.5 => format!("{ms:.0} ms"),
            ..9_995.0 => format!("{:.2} s", ms / 1e3),
            ..60_000.0 => format!("{:.1} s", ms / 1e3),
            _ if hours == 0 => format!("{minutes} m {} s", seconds % 60),
            _ if hours < 24 => format!("{hours} h {} m", minutes % 60),
            _ => format!("{} d {} h", hours / 24, hours % 24),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_may_have_a_unit() {
        for (text, ms) in [
            ("0", 0),
            ("30", 30_000),
            ("1.5s", 1_500),
            ("500ms", 500),
            ("1m30s", 90_000),
            ("1y", 31_557_600_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for (text, why) in [
            ("", "looks like"),
            ("-1", "looks like"),
            ("1m30", "looks like"),
            ("1e3", "looks like"),
            ("5M", "write m, or month"),
            ("9000h", "a year or less"),
            ("99999999999999999999", "a year or less"),
        ] {
            assert!(parse(text).unwrap_err().contains(why), "{text:?}");
        }
        assert!(parse_positive("0.1ms").is_err());
        assert_eq!(parse_positive("1ms"), Ok(Duration::from_millis(1)));
    }

    #[test]
    fn a_duration_is_printed_with_three_digits_or_two_units() {
        for (us, text) in [
            (0, "0.00 ms"),
            (7_314, "7.31 ms"),
            (9_996, "10.0 ms"),
            (41_260, "41.3 ms"),
            (412_000, "412 ms"),
            (999_600, "1.00 s"),
            (1_054_000, "1.05 s"),
            (59_900_000, "59.9 s"),
            (60_000_000, "1 m 0 s"),
            (3_599_000_000, "59 m 59 s"),
            (3_600_000_000, "1 h 0 m"),
            (100_000_000_000, "1 d 3 h"),
        ] {
            assert_eq!(Human(Duration::from_micros(us)).to_string(), text);
        }
    }
}
