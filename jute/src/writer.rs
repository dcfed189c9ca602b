//! Appends jute values to a buffer.
//!
//! Invariant: writing never fails in the middle. The writer remembers a length that does not fit,
//! and [`Writer::finish`] reports it. `finish` then also removes the bytes of the record, so a
//! half-written record never reaches the wire. Not here: the encoding of each type (`codec`).

use bytes::BytesMut;

use crate::EncodeError;

/// Appends jute values to the end of a buffer.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut BytesMut,
    start: usize,
    too_long: Option<usize>,
}

impl<'a> Writer<'a> {
    /// Creates a writer that appends to `out`. The bytes that are already in `out` stay.
    pub fn new(out: &'a mut BytesMut) -> Self {
        let start = out.len();
        Self {
            out,
            start,
            too_long: None,
        }
    }

    /// Appends raw bytes.
    #[inline]
    pub fn put_slice(&mut self, bytes: &[u8]) {
        // Not `put_slice`, which is no inline function: four bytes would cost two calls.
        self.out.extend_from_slice(bytes);
    }

    /// Appends a length or count. A value above 2^31-1 makes [`finish`](Self::finish) fail.
    #[inline]
    pub fn put_length(&mut self, length: usize) {
        let value = i32::try_from(length).unwrap_or_else(|_| {
            self.too_long = Some(length);
            0
        });
        self.put_slice(&value.to_be_bytes());
    }

    /// Appends a `buffer` or `ustring`: its length, then its bytes.
    #[inline]
    pub fn put_buffer(&mut self, bytes: &[u8]) {
        self.put_length(bytes.len());
        if self.too_long.is_none() {
            self.put_slice(bytes);
        }
    }

    /// Ends the record and returns its length in bytes.
    ///
    /// # Errors
    /// [`EncodeError`] when a length did not fit. The buffer then holds only the bytes from before
    /// this writer.
    #[inline]
    pub fn finish(self) -> Result<usize, EncodeError> {
        match self.too_long {
            None => Ok(self.out.len().saturating_sub(self.start)),
            Some(length) => {
                self.out.truncate(self.start);
                Err(EncodeError { length })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_that_does_not_fit_leaves_the_buffer_unchanged() {
        let mut out = BytesMut::from(&b"before"[..]);
        let mut writer = Writer::new(&mut out);
        writer.put_length(1);
        writer.put_length(1 << 31);
        assert_eq!(writer.finish(), Err(EncodeError { length: 1 << 31 }));
        assert_eq!(&out[..], b"before");
    }
}
