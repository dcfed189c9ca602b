//! The errors of decoding and encoding.
//!
//! Invariant: errors are `Copy` and allocate nothing, so refusing hostile input is cheap.
//! Not here: the checks that return these errors (`reader`, `writer`).

use core::fmt;

/// Reading failed: the field, the byte offset and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The field being read, as `Record.field`; `"input"` outside any record.
    pub field: &'static str,
    /// Offset in the input, in bytes, at which reading failed.
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
        /// The size of the value in bytes.
        needed: usize,
        /// The number of bytes that are left.
        left: usize,
    },
    /// The length of a string or buffer, or the count of a vector, is too large for the rest of the
    /// input.
    TooLong {
        /// The length or count that was announced.
        announced: usize,
        /// The number of bytes that are left.
        left: usize,
    },
    /// A length or count below -1. (-1 is null.)
    Negative(i32),
    /// Null where the record does not allow it.
    Null,
    /// A string that is not UTF-8.
    ///
    /// The surrogate pairs that Java writes for characters above U+FFFF are accepted.
    NotUtf8,
    /// A type number that the record does not know. The bytes after it cannot be read without
    /// knowing the type.
    Unknown(i32),
    /// A value that does not belong to the request that the message answers.
    Unasked,
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
            DecodeErrorKind::Unasked => f.write_str("not what was asked for"),
        }
    }
}

impl core::error::Error for DecodeError {}

/// Writing failed: a string, buffer or vector is longer than 2^31-1, the largest length that its
/// prefix can hold.
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
    fn the_text_of_an_error_names_the_field_the_offset_and_the_reason() {
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
            (
                DecodeErrorKind::Unasked,
                "Stat.czxid at byte 5: not what was asked for",
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
