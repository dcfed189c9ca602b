//! The values that a reader has read, in order, with their offsets (feature `trace`).
//!
//! Invariant: the values follow each other without a gap. So their bytes are all that the reader
//! has passed, except by [`Reader::take_rest`](crate::Reader::take_rest).

#![cfg_attr(
    not(feature = "trace"),
    allow(unreachable_pub, dead_code, reason = "only values that nobody keeps")
)]

use alloc::string::String;

use bytes::Bytes;

/// One value that a reader [`with_trace`](crate::Reader::with_trace) has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    /// The field, as errors name it: `Struct.field`.
    pub field: &'static str,
    /// The offset of its first byte in the input.
    pub offset: usize,
    /// The number of its bytes, with a length in front of them.
    pub length: usize,
    /// What it is.
    pub value: TracedValue,
}

/// A value of a jute type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TracedValue {
    /// `boolean`, or another type of fixed length: its bytes.
    Fixed(Bytes),
    /// `int`.
    Int(i32),
    /// `long`.
    Long(i64),
    /// `buffer`; `None` for null.
    Buffer(Option<Bytes>),
    /// `ustring`; `None` for null.
    Text(Option<String>),
    /// The count of a `vector`, whose elements follow; `None` for null.
    Count(Option<usize>),
}

#[cfg(all(test, feature = "trace"))]
mod tests {
    use alloc::{string::String, vec::Vec};

    use bytes::Bytes;

    use super::TracedValue::{Buffer, Count, Fixed, Int, Long, Text};
    use crate::{Decode, Reader, record};

    record! {
        struct Inner { text: Option<String>, flag: bool, }
        struct Outer { number: i32, long: i64, list: Vec<Inner>, data: Option<Bytes>, more: i32, }
    }

    #[test]
    fn every_byte_that_was_read_belongs_to_one_value() {
        let input = b"\0\0\0\x07\0\0\0\0\0\0\0\x08\0\0\0\x01\0\0\0\x01x\x01\xff\xff\xff\xff\0\0";
        let mut reader = Reader::new(Bytes::from_static(input)).with_trace();
        assert!(Outer::decode(&mut reader).is_err(), "two bytes are missing");
        let values: Vec<_> = (reader.trace().iter())
            .map(|it| (it.field, it.offset, it.length, it.value.clone()))
            .collect();
        let flag = Fixed(Bytes::from_static(&[1]));
        assert_eq!(
            values,
            [
                ("Outer.number", 0, 4, Int(7)),
                ("Outer.long", 4, 8, Long(8)),
                ("Outer.list", 12, 4, Count(Some(1))),
                ("Inner.text", 16, 5, Text(Some("x".into()))),
                ("Inner.flag", 21, 1, flag),
                ("Outer.data", 22, 4, Buffer(None)),
            ]
        );
    }
}
