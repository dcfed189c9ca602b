//! Parsing and printing durations: `30`, `1.5s`, `500ms`, `1m30s`, `1h`, `1d`.
//!
//! A number without a unit means seconds, as for flock(1) and sleep(1).

use std::{fmt, time::Duration};

/// The longest duration that is accepted: a year. Nobody waits longer, and a sum of two never overflows.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// The units, the largest first, in seconds. In a sum, each unit must be smaller than the one before.
const UNITS: [(&str, f64); 5] = [
    ("d", 86_400.0),
    ("h", 3600.0),
    ("m", 60.0),
    ("s", 1.0),
    ("ms", 0.001),
];

/// Parses a duration. Zero is allowed.
pub(crate) fn parse(text: &str) -> Result<Duration, BadDuration> {
    let mut seconds = 0.0;
    let mut units = UNITS.as_slice();
    let mut rest = text;
    loop {
        let end = |part: &str, is_part: fn(char) -> bool| {
            part.find(|c| !is_part(c)).unwrap_or(part.len())
        };
        let (number, after) = rest.split_at(end(rest, |c| c.is_ascii_digit() || c == '.'));
        let (unit, after) = after.split_at(end(after, |c| c.is_ascii_alphabetic()));
        let number: f64 = number.parse().map_err(|_| BadDuration::Form)?;
        // Only a number that stands alone may have no unit.
        let unit = if unit.is_empty() && rest == text {
            "s"
        } else {
            unit
        };
        let at = units.iter().position(|(name, _)| *name == unit);
        let at = at.ok_or(BadDuration::Form)?;
        seconds += number * units[at].1;
        units = &units[at + 1..];
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| *duration <= LONGEST)
        .ok_or(BadDuration::TooLong)
}

/// Parses a duration of at least one millisecond. ZooKeeper counts a shorter one as zero.
pub(crate) fn parse_positive(text: &str) -> Result<Duration, BadDuration> {
    let duration = parse(text)?;
    if duration < Duration::from_millis(1) {
        return Err(BadDuration::Zero);
    }
    Ok(duration)
}

/// Why a duration is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadDuration {
    /// It is not a number with a unit.
    Form,
    /// It is shorter than a millisecond.
    Zero,
    /// It is longer than a year.
    TooLong,
}

impl fmt::Display for BadDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => {
                "a duration looks like 30, 1.5s, 500ms, 1m30s, 1h or 1d; without a unit it means seconds"
            }
            Self::Zero => "it must be 1ms or more",
            Self::TooLong => "it must be a year or less",
        })
    }
}

impl std::error::Error for BadDuration {}

/// A duration with three significant digits: `7.31 ms`, `412 ms`, `1.05 s`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Human(pub(crate) Duration);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.as_secs_f64() * 1e3;
        let text = if ms < 9.995 {
            format!("{ms:.2} ms")
        } else if ms < 99.95 {
            format!("{ms:.1} ms")
        } else if ms < 999.5 {
            format!("{ms:.0} ms")
        } else if ms < 9_995.0 {
            format!("{:.2} s", ms / 1e3)
        } else {
            format!("{:.1} s", ms / 1e3)
        };
        f.pad(&text)
    }
}

/// Like [`Human`], but from a minute on with two units: `3 m 12 s`, `2 h 5 m`, `4 d 3 h`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Long(pub(crate) Duration);

impl fmt::Display for Long {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
        let text = if minutes == 0 {
            Human(self.0).to_string()
        } else if hours == 0 {
            format!("{minutes} m {} s", seconds % 60)
        } else if days == 0 {
            format!("{hours} h {} m", minutes % 60)
        } else {
            format!("{days} d {} h", hours % 24)
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read() {
        for (text, ms) in [
            ("0", 0),
            ("30", 30_000),
            ("1.5s", 1_500),
            (".5", 500),
            ("500ms", 500),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("1d", 86_400_000),
            ("1m30s", 90_000),
            ("1d2h3m4s5ms", 93_784_005),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn text_that_is_not_a_duration_is_refused() {
        for text in [
            "", "s", "-1", "1 s", "1w", "1m30", "30s1m", "1s1s", "1.2.3", "inf", "NaN", "1e3",
        ] {
            assert_eq!(parse(text), Err(BadDuration::Form), "{text:?}");
        }
        let endless = "9".repeat(400);
        for text in ["9000h", "99999999999999999999", endless.as_str()] {
            assert_eq!(parse(text), Err(BadDuration::TooLong), "{text:?}");
        }
        assert_eq!(parse_positive("0"), Err(BadDuration::Zero));
        assert_eq!(parse_positive("0.1ms"), Err(BadDuration::Zero));
        assert_eq!(parse_positive("1ms"), Ok(Duration::from_millis(1)));
    }

    #[test]
    fn a_duration_is_printed_with_three_digits() {
        for (us, text) in [
            (0, "0.00 ms"),
            (7_314, "7.31 ms"),
            (9_996, "10.0 ms"),
            (41_260, "41.3 ms"),
            (412_000, "412 ms"),
            (999_600, "1.00 s"),
            (1_054_000, "1.05 s"),
            (62_000_000, "62.0 s"),
        ] {
            assert_eq!(Human(Duration::from_micros(us)).to_string(), text);
        }
    }

    #[test]
    fn a_long_duration_is_printed_with_two_units() {
        for (seconds, text) in [
            (59, "59.0 s"),
            (60, "1 m 0 s"),
            (3_599, "59 m 59 s"),
            (3_600, "1 h 0 m"),
            (100_000, "1 d 3 h"),
        ] {
            assert_eq!(Long(Duration::from_secs(seconds)).to_string(), text);
        }
    }
}
