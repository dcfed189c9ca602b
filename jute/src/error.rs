//! Why bytes could not be read, or a value not be written.
//!
//! Errors are `Copy` and allocate nothing, so that hostile input is cheap to refuse.

use core::fmt;

/// Reading failed: which field, at which byte, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The field being read, as `Record.field`; `"input"` outside any record.
    pub field: &'static str,
    /// Bytes of the input that had been consumed when reading failed.
    pub offset: usize,
    /// What was wrong.
    pub kind: DecodeErrorKind,
}

/// What was wrong with the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The input ends inside a value of fixed size.
    Short {
        /// Bytes that the value takes.
        needed: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// The length of a string or buffer, or the count of a vector, is larger than what is left of the input.
    TooLong {
        /// The length or count that was announced.
        announced: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// A length or count below zero that is not the -1 of null.
    Negative(i32),
    /// Null where the record does not allow it.
    Null,
    /// A string that is neither UTF-8 nor the surrogate pairs that Java writes for characters above U+FFFF.
    NotUtf8,
    /// A discriminant that the record does not know, where the bytes behind it cannot be told without it.
    Unknown(i32),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}: ", self.field, self.offset)?;
        match self.kind {
            DecodeErrorKind::Short { needed, left } => {
                write!(f, "{needed} bytes needed, {left} left")
            }
            DecodeErrorKind::TooLong { announced, left } => {
                write!(f, "length {announced} announced, {left} bytes left")
            }
            DecodeErrorKind::Negative(length) => write!(f, "negative length {length}"),
            DecodeErrorKind::Null => f.write_str("null is not allowed here"),
            DecodeErrorKind::NotUtf8 => f.write_str("not valid UTF-8"),
            DecodeErrorKind::Unknown(value) => write!(f, "unknown type {value}"),
        }
    }
}

impl core::error::Error for DecodeError {}

/// Writing failed: a string, buffer or vector is longer than the 2^31-1 that its length prefix can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeError {
    /// The length that does not fit.
    pub length: usize,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "length {} does not fit the 31 bits of a jute length",
            self.length
        )
    }
}

impl core::error::Error for EncodeError {}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn an_error_says_where_and_what() {
        for (kind, text) in [
            (
                DecodeErrorKind::Short { needed: 8, left: 2 },
                "Stat.czxid at byte 5: 8 bytes needed, 2 left",
            ),
            (
                DecodeErrorKind::TooLong {
                    announced: 1 << 30,
                    left: 1,
                },
                "Stat.czxid at byte 5: length 1073741824 announced, 1 bytes left",
            ),
            (
                DecodeErrorKind::Negative(-2),
                "Stat.czxid at byte 5: negative length -2",
            ),
            (
                DecodeErrorKind::Null,
                "Stat.czxid at byte 5: null is not allowed here",
            ),
            (
                DecodeErrorKind::NotUtf8,
                "Stat.czxid at byte 5: not valid UTF-8",
            ),
            (
                DecodeErrorKind::Unknown(7),
                "Stat.czxid at byte 5: unknown type 7",
            ),
        ] {
            let (field, offset) = ("Stat.czxid", 5);
            let error = DecodeError {
                field,
                offset,
                kind,
            };
            assert_eq!(error.to_string(), text);
        }
        let length = 1 << 31;
        assert_eq!(
            EncodeError { length }.to_string(),
            "length 2147483648 does not fit the 31 bits of a jute length"
        );
    }
}
