//! A cursor over untrusted bytes. It checks that bytes are present before it moves past them.
//!
//! Invariants:
//! - The cursor never passes the end of the input.
//! - A length from the input is compared with the remaining bytes before it is used for an
//!   allocation.
//! - The returned buffers are slices of the input, never copies.
//!
//! Not here: the fields of a record (`record!`), the encoding of each type (`codec`).

use alloc::string::String;
#[cfg(feature = "trace")]
use alloc::vec::Vec;

use byteorder::{BigEndian, ByteOrder};
use bytes::{Buf, Bytes};

use crate::{DecodeError, DecodeErrorKind};
#[cfg(feature = "trace")]
use crate::{Traced, TracedValue};

/// How a reader treats a vector count below -1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NegativeCounts {
    /// As an error: the peer is broken. For clients.
    #[default]
    Refuse,
    /// As an empty vector, like a Java server. For servers that must treat clients as ZooKeeper
    /// does.
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
    #[cfg(feature = "trace")]
    trace: Option<Vec<Traced>>,
}

impl Reader {
    /// Creates a reader at the first byte of `input`. The buffers that it returns share the memory
    /// of `input`.
    #[must_use]
    pub fn new(input: Bytes) -> Self {
        let total = input.len();
        Self {
            rest: input,
            total,
            field: "input",
            negative_counts: NegativeCounts::default(),
            lossy_strings: false,
            #[cfg(feature = "trace")]
            trace: None,
        }
    }

    /// Makes the reader note each value that it reads.
    #[cfg(feature = "trace")]
    #[must_use]
    pub fn with_trace(mut self) -> Self {
        self.trace = Some(Vec::new());
        self
    }

    /// The values that were read so far; none without [`with_trace`](Self::with_trace).
    #[cfg(feature = "trace")]
    #[must_use]
    pub fn trace(&self) -> &[Traced] {
        self.trace.as_deref().unwrap_or_default()
    }

    /// Notes the value of the last `length` bytes.
    #[cfg(feature = "trace")]
    fn note(&mut self, length: usize, value: TracedValue) {
        let read = self.total.saturating_sub(self.rest.len());
        let (field, offset) = (self.field, read.saturating_sub(length));
        if let Some(trace) = &mut self.trace {
            trace.push(Traced {
                field,
                offset,
                length,
                value,
            });
        }
    }

    /// Sets the rule for vector counts below -1.
    #[must_use]
    pub fn with_negative_counts(mut self, rule: NegativeCounts) -> Self {
        self.negative_counts = rule;
        self
    }

    /// Makes the reader replace bytes that are not valid text with U+FFFD, as a Java server does.
    #[must_use]
    pub fn with_lossy_strings(mut self) -> Self {
        self.lossy_strings = true;
        self
    }

    /// Sets the field that errors of the next read name. [`record!`](crate::record) calls it.
    pub fn enter(&mut self, field: &'static str) {
        self.field = field;
    }

    /// The number of bytes that are not read yet.
    #[must_use]
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// Returns all bytes that are not read yet. The reader is then at its end.
    #[must_use]
    pub fn take_rest(&mut self) -> Bytes {
        core::mem::take(&mut self.rest)
    }

    /// Makes an error at the current field and offset.
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
        let bytes = self.array::<N>()?;
        #[cfg(feature = "trace")]
        self.note(N, TracedValue::Fixed(Bytes::copy_from_slice(&bytes)));
        Ok(bytes)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
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
    #[inline]
    pub fn take_i32(&mut self) -> Result<i32, DecodeError> {
        let int = self.int()?;
        #[cfg(feature = "trace")]
        self.note(4, TracedValue::Int(int));
        Ok(int)
    }

    #[inline]
    fn int(&mut self) -> Result<i32, DecodeError> {
        Ok(BigEndian::read_i32(&self.array::<4>()?))
    }

    /// Reads a `long`: eight bytes.
    ///
    /// # Errors
    /// `Short` when fewer are left.
    #[inline]
    pub fn take_i64(&mut self) -> Result<i64, DecodeError> {
        let long = BigEndian::read_i64(&self.array::<8>()?);
        #[cfg(feature = "trace")]
        self.note(8, TracedValue::Long(long));
        Ok(long)
    }

    /// Reads a `buffer`: a length, then that many bytes. Returns `None` for null.
    ///
    /// The bytes share the memory of the input.
    ///
    /// # Errors
    /// - `Negative`: the length is below -1.
    /// - `TooLong`: the length is larger than the number of bytes that are left.
    /// - `Short`: fewer than four bytes are left, so the length is not complete.
    pub fn take_buffer(&mut self) -> Result<Option<Bytes>, DecodeError> {
        let length = self.take_length()?;
        let buffer = length.map(|length| self.rest.split_to(length));
        #[cfg(feature = "trace")]
        self.note(
            length.unwrap_or(0).saturating_add(4),
            TracedValue::Buffer(buffer.clone()),
        );
        Ok(buffer)
    }

    /// Reads a length, and checks that as many bytes are left. Returns `None` for null.
    fn take_length(&mut self) -> Result<Option<usize>, DecodeError> {
        let start = self.clone_position();
        let length = self.int()?;
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

    /// Reads a `ustring`. Returns `None` for null.
    ///
    /// Besides UTF-8, this accepts Java's form of a character above U+FFFF: two surrogates of three
    /// bytes each.
    ///
    /// # Errors
    /// The errors of [`take_buffer`](Self::take_buffer). Also `NotUtf8`, except in a reader
    /// [`with_lossy_strings`](Self::with_lossy_strings).
    pub fn take_string(&mut self) -> Result<Option<String>, DecodeError> {
        let start = self.clone_position();
        let Some(length) = self.take_length()? else {
            #[cfg(feature = "trace")]
            self.note(4, TracedValue::Text(None));
            return Ok(None);
        };
        // Borrow the bytes. To split off a `Bytes` that shares the memory would cost more than the
        // copy into a `String`.
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
        #[cfg(feature = "trace")]
        self.note(
            length.saturating_add(4),
            TracedValue::Text(Some(text.clone())),
        );
        Ok(Some(text))
    }

    /// Reads the count of a `vector`. Returns `None` for null.
    ///
    /// An element takes at least `smallest` bytes. This method refuses a count that does not fit in
    /// the remaining bytes, so the caller neither reads elements nor reserves memory for it.
    ///
    /// # Errors
    /// - `Negative`: the count is below -1, and the rule is [`NegativeCounts::Refuse`].
    /// - `TooLong`: the remaining bytes cannot hold that many elements.
    /// - `Short`: fewer than four bytes are left, so the count is not complete.
    pub fn take_count(&mut self, smallest: usize) -> Result<Option<usize>, DecodeError> {
        let start = self.clone_position();
        let count = self.int()?;
        if count == -1 {
            #[cfg(feature = "trace")]
            self.note(4, TracedValue::Count(None));
            return Ok(None);
        }
        let Ok(count) = usize::try_from(count) else {
            return match self.negative_counts {
                NegativeCounts::Empty => {
                    #[cfg(feature = "trace")]
                    self.note(4, TracedValue::Count(Some(0)));
                    Ok(Some(0))
                }
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
        #[cfg(feature = "trace")]
        self.note(4, TracedValue::Count(Some(count)));
        Ok(Some(count))
    }

    /// The current field and offset, for an error that is found after the reader has moved on.
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

/// Decodes UTF-8 in which a character above U+FFFF may be written as two encoded surrogates
/// (CESU-8).
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

/// The character of a surrogate pair. The arguments are the second and third byte of each encoded
/// surrogate.
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
    fn a_hostile_length_is_refused_at_its_own_offset() {
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
    fn a_count_too_large_for_the_input_is_refused_before_any_element_is_read() {
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
    fn a_count_below_minus_one_follows_the_rule_of_the_reader() {
        let bytes = b"\xff\xff\xff\xfe";
        let error = reader(bytes).take_count(4).unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::Negative(-2));
        let mut as_java = reader(bytes).with_negative_counts(NegativeCounts::Empty);
        assert_eq!(as_java.take_count(4), Ok(Some(0)));
    }

    #[test]
    fn java_surrogate_pairs_are_joined_and_lone_surrogates_are_refused() {
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
    fn a_lossy_reader_accepts_bytes_that_are_not_utf8() {
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
