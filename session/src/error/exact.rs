//! Durations in messages.

use std::{fmt, time::Duration};

/// A duration as messages name it: `250 ms`, `1.5 s`. To the millisecond; a shorter one to the
/// microsecond.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
#[allow(
    clippy::exhaustive_structs,
    reason = "it is for the messages of recipes"
)]
pub struct Exact(pub Duration);

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        let millis = (micros + 500) / 1000;
        let (thousandths, unit) = match millis {
            _ if micros < 1000 => (micros, "ms"),
            ..1000 => (millis * 1000, "ms"),
            _ => (millis, "s"),
        };
        let (whole, rest) = (thousandths / 1000, format!("{:03}", thousandths % 1000));
        match rest.trim_end_matches('0') {
            "" => write!(f, "{whole} {unit}"),
            rest => write!(f, "{whole}.{rest} {unit}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_not_rounded_away() {
        for (micros, text) in [
            (0, "0 ms"),
            (250, "0.25 ms"),
            (20_000, "20 ms"),
            (299_852, "300 ms"),
            (999_499, "999 ms"),
            (999_999, "1 s"),
            (1_050_400, "1.05 s"),
            (90_000_000, "90 s"),
        ] {
            assert_eq!(Exact(Duration::from_micros(micros)).to_string(), text);
        }
    }
}
