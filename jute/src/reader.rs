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

use byteorder::{BigEndian, ByteOrder};
use bytes::{Buf, Bytes};

use crate::{
    Decode, DecodeError, DecodeErrorKind, Names,
    names::{self, LENGTH},
};

/// Reads jute values from the front of a buffer.
#[derive(Clone, Debug)]
pub struct Reader {
    rest: Bytes,
    total: usize,
    field: &'static str,
    is_tolerant: bool,
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
            is_tolerant: false,
        }
    }

    /// Makes the reader as tolerant as a Java server, for servers that must treat clients as
    /// `ZooKeeper` does: a vector count below -1 is that of an empty vector, and bytes that are not
    /// valid text become U+FFFD.
    #[must_use]
    pub fn tolerant(mut self) -> Self {
        self.is_tolerant = true;
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

    /// The bytes that are not read yet.
    #[must_use]
    pub fn into_rest(self) -> Bytes {
        self.rest
    }

    /// Moves past these bytes, if they come next. For a value that most messages have, this is less
    /// work than to read it.
    #[inline]
    pub fn take_if(&mut self, bytes: &[u8]) -> bool {
        let comes = self.rest.starts_with(bytes);
        if comes {
            self.rest.advance(bytes.len());
        }
        comes
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

    /// The error for a null that was read last, where none is allowed.
    #[must_use]
    pub fn null(&self) -> DecodeError {
        let error = self.error(DecodeErrorKind::Null);
        DecodeError {
            offset: error.offset.saturating_sub(LENGTH),
            ..error
        }
    }

    /// The next `N` bytes, which stay in the reader.
    #[inline]
    fn peek<const N: usize>(&self) -> Result<[u8; N], DecodeError> {
        self.rest.first_chunk::<N>().copied().ok_or_else(|| {
            self.error(DecodeErrorKind::Short {
                needed: N,
                left: self.left(),
            })
        })
    }

    /// The next `N` bytes.
    #[inline]
    pub(crate) fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let bytes = self.peek()?;
        self.rest.advance(N);
        Ok(bytes)
    }

    /// Reads a `buffer`: a length, then that many bytes. Returns `None` for null.
    ///
    /// The bytes share the memory of the input.
    pub(crate) fn take_buffer(&mut self) -> Result<Option<Bytes>, DecodeError> {
        let buffer = self.peek_value()?.map(|end| self.rest.slice(LENGTH..end));
        let length = buffer.as_ref().map_or(0, Bytes::len);
        self.rest.advance(length.saturating_add(LENGTH));
        Ok(buffer)
    }

    /// The end of the value behind the length in front, with that length; `None` for null. As many
    /// bytes are there.
    fn peek_value(&self) -> Result<Option<usize>, DecodeError> {
        let Some(length) = self.peek_length(false)? else {
            return Ok(None);
        };
        self.check_fits(length, length)?;
        Ok(Some(length.saturating_add(LENGTH)))
    }

    /// The length or count in front; `None` for null. One below -1 is an error, or else 0.
    fn peek_length(&self, or_zero: bool) -> Result<Option<usize>, DecodeError> {
        let length = BigEndian::read_i32(&self.peek::<LENGTH>()?);
        match usize::try_from(length) {
            Ok(length) => Ok(Some(length)),
            Err(_) if length == -1 => Ok(None),
            Err(_) if or_zero => Ok(Some(0)),
            Err(_) => Err(self.error(DecodeErrorKind::Negative(length))),
        }
    }

    /// Checks that so many bytes are left behind the length in front.
    fn check_fits(&self, announced: usize, bytes: usize) -> Result<(), DecodeError> {
        let left = self.left().saturating_sub(LENGTH);
        if bytes > left {
            return Err(self.error(DecodeErrorKind::TooLong { announced, left }));
        }
        Ok(())
    }

    /// Reads a `ustring`. Returns `None` for null.
    ///
    /// Besides UTF-8, this accepts Java's form of a character above U+FFFF: two surrogates of three
    /// bytes each.
    ///
    /// # Errors
    /// - `Negative`: the length is below -1.
    /// - `TooLong`: the length is larger than the number of bytes that are left.
    /// - `Short`: fewer than four bytes are left, so the length is not complete.
    /// - `NotUtf8`: the bytes are not text, and the reader is not [`tolerant`](Self::tolerant).
    pub fn take_string(&mut self) -> Result<Option<String>, DecodeError> {
        let Some(end) = self.peek_value()? else {
            self.rest.advance(LENGTH);
            return Ok(None);
        };
        // Borrow the bytes. To split off a `Bytes` that shares the memory would cost more than the
        // copy into a `String`.
        let bytes = self.rest.get(LENGTH..end).unwrap_or_default();
        let text = match core::str::from_utf8(bytes) {
            Ok(text) => String::from(text),
            Err(_) => join_surrogates(bytes)
                .or_else(|| {
                    let lossy = || String::from_utf8_lossy(bytes).into_owned();
                    self.is_tolerant.then(lossy)
                })
                .ok_or_else(|| self.error(DecodeErrorKind::NotUtf8))?,
        };
        self.rest.advance(end);
        Ok(Some(text))
    }

    /// Reads a `vector` of `ustring`. Returns `None` for null.
    ///
    /// The names share the memory of the input, unless one of them is not UTF-8 there.
    pub(crate) fn take_names(&mut self) -> Result<Option<Names>, DecodeError> {
        let Some(count) = self.take_count(LENGTH)? else {
            return Ok(None);
        };
        if let Some(length) = self.peek_names(count) {
            return Ok(Some(Names::checked(count, self.rest.split_to(length))));
        }
        (0..count)
            .map(|_| String::decode(self))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// The length of so many strings in front, if they are all UTF-8.
    fn peek_names(&self, count: usize) -> Option<usize> {
        let mut rest = &self.rest[..];
        for _ in 0..count {
            (_, rest) = names::split_first(rest)?;
        }
        let all = self.rest.get(..self.left().saturating_sub(rest.len()))?;
        // Where everything is ASCII, with each length below 128, no name has to be checked alone.
        let is_text =
            all.is_ascii() || names::each(all).all(|name| core::str::from_utf8(name).is_ok());
        is_text.then_some(all.len())
    }

    /// Reads the count of a `vector`. Returns `None` for null.
    ///
    /// An element takes at least `smallest` bytes. This method refuses a count that does not fit in
    /// the remaining bytes, so the caller neither reads elements nor reserves memory for it.
    pub(crate) fn take_count(&mut self, smallest: usize) -> Result<Option<usize>, DecodeError> {
        let count = self.peek_length(self.is_tolerant)?;
        if let Some(count) = count {
            self.check_fits(count, count.saturating_mul(smallest.max(1)))?;
        }
        self.rest.advance(LENGTH);
        Ok(count)
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
        i32::decode(&mut r).unwrap();
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
        let mut as_java = reader(bytes).tolerant();
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
    fn a_tolerant_reader_accepts_bytes_that_are_not_utf8() {
        let mut tolerant = reader(b"\0\0\0\x03a\xffb").tolerant();
        assert_eq!(tolerant.take_string().unwrap().unwrap(), "a\u{fffd}b");
    }

    #[test]
    fn buffers_share_the_memory_of_the_input() {
        let input = Bytes::from_static(b"\0\0\0\x03abc");
        let buffer = Reader::new(input.clone()).take_buffer().unwrap().unwrap();
        assert_eq!(buffer.as_ptr(), input[4..].as_ptr());
    }
}
