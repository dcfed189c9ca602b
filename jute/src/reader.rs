//! A cursor over untrusted bytes: whoever moves it has checked that the bytes are there.
//!
//! Invariants: `taken` never passes the end; no length read from the input is used for an allocation before it was
//! compared with what is left. Buffers come out as slices of the input, never as copies.
//! Not here: what the fields of a record are (`record!`), how a type looks in bytes (`codec`).

use alloc::string::String;

use byteorder::{BigEndian, ByteOrder};
use bytes::{Buf, Bytes};

use crate::{DecodeError, DecodeErrorKind};

/// What a vector count below -1 means to this reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NegativeCounts {
    /// An error: a peer that sends one is broken. For clients.
    #[default]
    Refuse,
    /// An empty vector, as a Java server reads it. For servers that must treat clients as ZooKeeper does.
    Empty,
}

/// Reads jute values from the front of a buffer.
#[derive(Clone, Debug)]
pub struct Reader {
    rest: Bytes,
    total: usize,
    field: &'static str,
    negative_counts: NegativeCounts,
    lossy_strings: bool,
}

impl Reader {
    /// Reads from the first byte of `input`. Buffers that come out share its memory.
    #[must_use]
    pub fn new(input: Bytes) -> Self {
        let total = input.len();
        Self {
            rest: input,
            total,
            field: "input",
            negative_counts: NegativeCounts::default(),
            lossy_strings: false,
        }
    }

    /// The same reader with another rule for vector counts below -1.
    #[must_use]
    pub fn with_negative_counts(mut self, rule: NegativeCounts) -> Self {
        self.negative_counts = rule;
        self
    }

    /// The same reader, for which bytes that are no text become U+FFFD, as a Java server reads them.
    #[must_use]
    pub fn with_lossy_strings(mut self) -> Self {
        self.lossy_strings = true;
        self
    }

    /// Names the field that is read next, for errors. [`record!`](crate::record) calls it.
    pub fn enter(&mut self, field: &'static str) {
        self.field = field;
    }

    /// Bytes not yet read.
    #[must_use]
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// Everything not yet read; the reader is then at its end.
    #[must_use]
    pub fn take_rest(&mut self) -> Bytes {
        core::mem::take(&mut self.rest)
    }

    /// An error at the present field and offset.
    #[must_use]
    pub fn error(&self, kind: DecodeErrorKind) -> DecodeError {
        DecodeError {
            field: self.field,
            offset: self.total.saturating_sub(self.rest.len()),
            kind,
        }
    }

    /// Takes `N` bytes.
    ///
    /// # Errors
    /// `Short` when fewer are left.
    pub fn take_array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some(bytes) = self.rest.first_chunk::<N>().copied() else {
            return Err(self.error(DecodeErrorKind::Short {
                needed: N,
                left: self.left(),
            }));
        };
        self.rest.advance(N);
        Ok(bytes)
    }

    /// Reads an `int`: four bytes.
    ///
    /// # Errors
    /// `Short` when fewer are left.
    pub fn take_i32(&mut self) -> Result<i32, DecodeError> {
        Ok(BigEndian::read_i32(&self.take_array::<4>()?))
    }

    /// Reads a `long`: eight bytes.
    ///
    /// # Errors
    /// `Short` when fewer are left.
    pub fn take_i64(&mut self) -> Result<i64, DecodeError> {
        Ok(BigEndian::read_i64(&self.take_array::<8>()?))
    }

    /// Reads a `buffer`: a length, then as many bytes, shared with the input; `None` for null.
    ///
    /// # Errors
    /// `Negative` for a length below -1, `TooLong` for one that passes the end, `Short` without a whole length.
    pub fn take_buffer(&mut self) -> Result<Option<Bytes>, DecodeError> {
        let length = self.take_length()?;
        Ok(length.map(|length| self.rest.split_to(length)))
    }

    /// Reads the length of what follows, which is there; `None` for null.
    fn take_length(&mut self) -> Result<Option<usize>, DecodeError> {
        let start = self.clone_position();
        let length = self.take_i32()?;
        if length == -1 {
            return Ok(None);
        }
        let Ok(length) = usize::try_from(length) else {
            return Err(start.error(DecodeErrorKind::Negative(length)));
        };
        if length > self.left() {
            let kind = DecodeErrorKind::TooLong {
                announced: length,
                left: self.left(),
            };
            return Err(start.error(kind));
        }
        Ok(Some(length))
    }

    /// Reads a `ustring`; `None` for null.
    ///
    /// Besides UTF-8 this takes the two three-byte surrogates that Java's writer makes of a character above U+FFFF.
    ///
    /// # Errors
    /// As [`take_buffer`](Self::take_buffer), and `NotUtf8` (unless the reader takes such bytes as U+FFFD).
    pub fn take_string(&mut self) -> Result<Option<String>, DecodeError> {
        let start = self.clone_position();
        let Some(length) = self.take_length()? else {
            return Ok(None);
        };
        // Looked at where it lies: a slice that shares the memory would cost more than the copy.
        let bytes = self.rest.get(..length).unwrap_or_default();
        let text = match core::str::from_utf8(bytes) {
            Ok(text) => String::from(text),
            Err(_) => join_surrogates(bytes)
                .or_else(|| {
                    let lossy = || String::from_utf8_lossy(bytes).into_owned();
                    self.lossy_strings.then(lossy)
                })
                .ok_or_else(|| start.error(DecodeErrorKind::NotUtf8))?,
        };
        self.rest.advance(length);
        Ok(Some(text))
    }

    /// Reads the count of a `vector`; `None` for null.
    ///
    /// An element takes at least `smallest` bytes, so a count that could not be there is refused before any element
    /// is read, and before anyone reserves room for it.
    ///
    /// # Errors
    /// `Negative` for a count below -1 (unless the reader takes those as empty), `TooLong`, `Short`.
    pub fn take_count(&mut self, smallest: usize) -> Result<Option<usize>, DecodeError> {
        let start = self.clone_position();
        let count = self.take_i32()?;
        if count == -1 {
            return Ok(None);
        }
        let Ok(count) = usize::try_from(count) else {
            return match self.negative_counts {
                NegativeCounts::Empty => Ok(Some(0)),
                NegativeCounts::Refuse => Err(start.error(DecodeErrorKind::Negative(count))),
            };
        };
        if count.saturating_mul(smallest.max(1)) > self.left() {
            let kind = DecodeErrorKind::TooLong {
                announced: count,
                left: self.left(),
            };
            return Err(start.error(kind));
        }
        Ok(Some(count))
    }

    /// Where the reader stands, to say so in an error found after it moved on.
    fn clone_position(&self) -> Position {
        Position {
            field: self.field,
            offset: self.total.saturating_sub(self.rest.len()),
        }
    }
}

struct Position {
    field: &'static str,
    offset: usize,
}

impl Position {
    fn error(&self, kind: DecodeErrorKind) -> DecodeError {
        DecodeError {
            field: self.field,
            offset: self.offset,
            kind,
        }
    }
}

/// Decodes UTF-8 in which characters above U+FFFF may stand as two encoded surrogates (CESU-8).
///
/// Source: `BinaryOutputArchive.writeString` encodes each UTF-16 unit by itself.
fn join_surrogates(mut bytes: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(bytes.len());
    loop {
        match core::str::from_utf8(bytes) {
            Ok(rest) => {
                text.push_str(rest);
                return Some(text);
            }
            Err(error) => {
                let (valid, rest) = bytes.split_at_checked(error.valid_up_to())?;
                text.push_str(core::str::from_utf8(valid).ok()?);
                let (pair, rest) = rest.split_at_checked(6)?;
                let &[
                    0xed,
                    high1 @ 0xa0..=0xaf,
                    high2,
                    0xed,
                    low1 @ 0xb0..=0xbf,
                    low2,
                ] = pair
                else {
                    return None;
                };
                text.push(char_of_surrogates([high1, high2], [low1, low2])?);
                bytes = rest;
            }
        }
    }
}

/// The character of a surrogate pair, given the second and third byte of each encoded surrogate.
fn char_of_surrogates(high: [u8; 2], low: [u8; 2]) -> Option<char> {
    let ten_bits = |[first, second]: [u8; 2]| {
        (second & 0xc0 == 0x80).then(|| (u32::from(first & 0x0f) << 6) | u32::from(second & 0x3f))
    };
    char::from_u32(0x1_0000_u32.checked_add((ten_bits(high)? << 10) | ten_bits(low)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(bytes: &'static [u8]) -> Reader {
        Reader::new(Bytes::from_static(bytes))
    }

    #[test]
    fn null_and_empty_are_different() {
        assert_eq!(reader(b"\xff\xff\xff\xff").take_buffer(), Ok(None));
        assert_eq!(reader(b"\0\0\0\0").take_buffer(), Ok(Some(Bytes::new())));
        assert_eq!(reader(b"\xff\xff\xff\xff").take_string(), Ok(None));
        assert_eq!(reader(b"\0\0\0\0").take_string(), Ok(Some(String::new())));
    }

    #[test]
    fn a_hostile_length_is_refused_where_it_stands() {
        let mut r = reader(b"\0\0\0\x01\x40\0\0\0rest");
        r.take_i32().unwrap();
        r.enter("Record.data");
        let error = r.take_buffer().unwrap_err();
        assert_eq!((error.field, error.offset), ("Record.data", 4));
        assert_eq!(
            error.kind,
            DecodeErrorKind::TooLong {
                announced: 1 << 30,
                left: 4
            }
        );
        let error = reader(b"\xff\xff\xff\xfb").take_string().unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::Negative(-5));
    }

    #[test]
    fn a_count_that_cannot_be_there_is_refused_before_any_element() {
        let error = reader(b"\x7f\xff\xff\xff\0\0\0\0")
            .take_count(4)
            .unwrap_err();
        assert_eq!(
            error.kind,
            DecodeErrorKind::TooLong {
                announced: 0x7fff_ffff,
                left: 4
            }
        );
        assert_eq!(reader(b"\0\0\0\x01\0\0\0\0").take_count(4), Ok(Some(1)));
        assert_eq!(reader(b"\xff\xff\xff\xff").take_count(4), Ok(None));
    }

    #[test]
    fn a_count_below_minus_one_is_refused_or_empty_as_the_reader_was_told() {
        let bytes = b"\xff\xff\xff\xfe";
        let error = reader(bytes).take_count(4).unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::Negative(-2));
        let mut as_java = reader(bytes).with_negative_counts(NegativeCounts::Empty);
        assert_eq!(as_java.take_count(4), Ok(Some(0)));
    }

    #[test]
    fn java_surrogates_are_joined_and_lone_ones_refused() {
        // U+1F512 as UTF-8, and as the two surrogates d83d dd12 that Java writes.
        assert_eq!(
            reader(b"\0\0\0\x04\xf0\x9f\x94\x92")
                .take_string()
                .unwrap()
                .unwrap(),
            "🔒"
        );
        let java = b"\0\0\0\x08a\xed\xa0\xbd\xed\xb4\x92b";
        assert_eq!(reader(java).take_string().unwrap().unwrap(), "a🔒b");
        for bad in [
            b"\0\0\0\x03\xed\xa0\xbd",
            b"\0\0\0\x03\xed\xb4\x92",
            b"\0\0\0\x03a\xffb",
        ] {
            let error = reader(bad).take_string().unwrap_err();
            assert_eq!((error.kind, error.offset), (DecodeErrorKind::NotUtf8, 0));
        }
    }

    #[test]
    fn a_lossy_reader_takes_bytes_that_are_no_text() {
        let mut lossy = reader(b"\0\0\0\x03a\xffb").with_lossy_strings();
        assert_eq!(lossy.take_string().unwrap().unwrap(), "a\u{fffd}b");
    }

    #[test]
    fn buffers_share_the_memory_of_the_input() {
        let input = Bytes::from_static(b"\0\0\0\x03abc");
        let buffer = Reader::new(input.clone()).take_buffer().unwrap().unwrap();
        assert_eq!(buffer.as_ptr(), input[4..].as_ptr());
    }
}
