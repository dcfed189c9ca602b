//! Parsing whole numbers. An error says which numbers are right.

use std::{fmt, ops::RangeBounds, str::FromStr};

/// Makes a parser of whole numbers in this range. Its error says which numbers are right.
pub(crate) fn number<T: FromStr + PartialOrd>(
    range: impl RangeBounds<T> + fmt::Debug + Clone,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let parsed = text.parse().ok().filter(|it| range.contains(it));
        parsed.ok_or_else(|| {
            let right = format!("it must be a whole number: {range:?}");
            right.replace("..=", " to ").replace("..", " or more")
        })
    }
}
