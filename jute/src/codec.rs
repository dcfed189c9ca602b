//! Encoding and decoding of jute's primitive types, strings, buffers and vectors.
//!
//! Invariants:
//! - Null is `Option::None`. A type without `Option` refuses null.
//! - Before it reads the elements, a vector reserves at most as many bytes of memory as the input
//!   still has.
//!
//! Not here: the cursor over the input (`reader`), the fields of a record (`record!`).

use alloc::{borrow::Cow, string::String, vec::Vec};

use byteorder::{BigEndian, ByteOrder as _};
use bytes::Bytes;

use crate::{DecodeError, Names, Reader, Writer};

/// A value that can be encoded as jute.
pub trait Encode {
    /// Appends the value. This cannot fail: [`Writer::finish`] reports a length that does not fit.
    fn encode(&self, writer: &mut Writer<'_>);
}

/// A value that can be read from jute.
pub trait Decode: Sized {
    /// The fewest bytes that a value of this type takes. It bounds how many values an input can
    /// hold.
    const SMALLEST: usize;

    /// Reads one value from the front of the reader. The bytes after it stay in the reader.
    ///
    /// # Errors
    /// [`DecodeError`] names the field and the offset.
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError>;
}

impl Encode for bool {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.put_slice(&[u8::from(*self)]);
    }
}

/// Any byte other than zero is true, as in the Java reader.
impl Decode for bool {
    const SMALLEST: usize = 1;

    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(reader.take::<1>()? != [0])
    }
}

// Inline, as records are in another crate: a call costs more than the value.
macro_rules! fixed_width {
    ($($type:ty: $width:literal, $read:path;)*) => {$(
        impl Encode for $type {
            #[inline]
            fn encode(&self, writer: &mut Writer<'_>) {
                writer.put_slice(&self.to_be_bytes());
            }
        }

        impl Decode for $type {
            const SMALLEST: usize = $width;

            #[inline]
            fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
                Ok($read(&reader.take::<$width>()?))
            }
        }
    )*};
}

fixed_width! {
    i32: 4, BigEndian::read_i32;
    i64: 8, BigEndian::read_i64;
}

impl Encode for Bytes {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.put_buffer(self);
    }
}

impl Encode for String {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.put_buffer(self.as_bytes());
    }
}

impl<T: Encode> Encode for [T] {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.put_length(self.len());
        for element in self {
            element.encode(writer);
        }
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, writer: &mut Writer<'_>) {
        self.as_slice().encode(writer);
    }
}

impl Encode for Cow<'static, str> {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.put_buffer(self.as_bytes());
    }
}

impl<T: Encode + Clone> Encode for Cow<'static, [T]> {
    fn encode(&self, writer: &mut Writer<'_>) {
        (**self).encode(writer);
    }
}

/// A byte that may be missing at the end of a message, as `readOnly` of the handshake.
impl Encode for Option<bool> {
    fn encode(&self, writer: &mut Writer<'_>) {
        if let Some(value) = self {
            value.encode(writer);
        }
    }
}

impl Decode for Option<bool> {
    const SMALLEST: usize = 0;

    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        if reader.left() == 0 {
            return Ok(None);
        }
        bool::decode(reader).map(Some)
    }
}

/// Implements the codec of types whose length prefix can be null (-1).
///
/// `Option<T>` reads null as `None`; `T` itself refuses it.
macro_rules! nullable {
    ($($type:ty $(where $element:ident)? => $read:expr;)*) => {$(
        impl$(<$element: Encode + Clone>)? Encode for Option<$type> {
            fn encode(&self, writer: &mut Writer<'_>) {
                match self {
                    Some(value) => value.encode(writer),
                    None => (-1_i32).encode(writer),
                }
            }
        }

        impl$(<$element: Decode + Clone>)? Decode for Option<$type> {
            const SMALLEST: usize = 4;

            fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
                $read(reader)
            }
        }

        impl$(<$element: Decode + Clone>)? Decode for $type {
            const SMALLEST: usize = 4;

            fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
                let value = Option::<Self>::decode(reader)?;
                value.ok_or_else(|| reader.null())
            }
        }
    )*};
}

nullable! {
    Bytes => Reader::take_buffer;
    String => Reader::take_string;
    Names => Reader::take_names;
    Cow<'static, str> => |reader: &mut Reader| Ok(reader.take_string()?.map(Cow::Owned));
    Vec<T> where T => take_vector;
    Cow<'static, [T]> where T => |reader: &mut Reader| Ok(take_vector(reader)?.map(Cow::Owned));
}

fn take_vector<T: Decode>(reader: &mut Reader) -> Result<Option<Vec<T>>, DecodeError> {
    let Some(count) = reader.take_count(T::SMALLEST)? else {
        return Ok(None);
    };
    // An element can take more bytes in memory than on the wire: reserve at most as many bytes as
    // the input still has.
    let bound = reader.left().checked_div(size_of::<T>()).unwrap_or(count);
    let mut elements = Vec::with_capacity(count.min(bound));
    for _ in 0..count {
        elements.push(T::decode(reader)?);
    }
    Ok(Some(elements))
}

#[cfg(test)]
mod tests {
    use core::fmt::Debug;

    use alloc::string::ToString;
    use bytes::BytesMut;
    use proptest::{collection::vec, option, prelude::*};

    use super::*;

    fn encoded<T: Encode>(value: &T) -> Bytes {
        let mut out = BytesMut::new();
        let mut writer = Writer::new(&mut out);
        value.encode(&mut writer);
        writer.finish().unwrap();
        out.freeze()
    }

    fn check_round_trip<T: Encode + Decode + PartialEq + Debug>(value: &T) {
        let bytes = encoded(value);
        assert!(bytes.len() >= T::SMALLEST);
        let mut reader = Reader::new(bytes);
        assert_eq!(&T::decode(&mut reader).unwrap(), value);
        assert_eq!(reader.left(), 0);
    }

    /// Arbitrary text, made of single characters.
    ///
    /// proptest would parse a regular expression again for each value, which takes minutes under
    /// miri.
    fn text() -> impl Strategy<Value = String> {
        vec(any::<char>(), 0..20).prop_map(String::from_iter)
    }

    proptest! {
        #![proptest_config(crate::cases::cases())]

        #[test]
        fn an_encoded_value_decodes_to_an_equal_value(
            flag: bool, missing: Option<bool>, int: i32, long: i64,
            text in text(), maybe in option::of(text()), data in any::<Option<Vec<u8>>>(),
            many in option::of(vec(text(), 0..12)), numbers: Vec<i64>,
        ) {
            check_round_trip(&flag);
            check_round_trip(&missing);
            check_round_trip(&int);
            check_round_trip(&long);
            check_round_trip(&text);
            check_round_trip(&maybe);
            check_round_trip(&data.map(Bytes::from));
            check_round_trip(&many);
            check_round_trip(&numbers);
            check_round_trip(&Cow::<'static, str>::Owned(text));
        }

        #[test]
        fn decoding_arbitrary_bytes_never_panics(input: Vec<u8>) {
            let input = Bytes::from(input);
            let reader = || Reader::new(input.clone());
            let _ = bool::decode(&mut reader());
            let _ = i64::decode(&mut reader());
            let _ = Option::<Bytes>::decode(&mut reader());
            let _ = String::decode(&mut reader());
            let _ = Vec::<i64>::decode(&mut reader());
            let _ = Option::<Vec<String>>::decode(&mut reader());
            let _ = Vec::<Option<Bytes>>::decode(&mut reader());
        }
    }

    #[test]
    fn any_byte_other_than_zero_is_true() {
        for (byte, value) in [(0u8, false), (1, true), (2, true), (7, true), (255, true)] {
            let mut reader = Reader::new(Bytes::copy_from_slice(&[byte]));
            assert_eq!(bool::decode(&mut reader), Ok(value));
        }
    }

    #[test]
    fn null_is_refused_by_a_type_without_option() {
        let mut reader = Reader::new(Bytes::from_static(b"\xff\xff\xff\xff"));
        reader.enter("CreateRequest.path");
        let error = String::decode(&mut reader).unwrap_err();
        assert_eq!(
            error.to_string(),
            "CreateRequest.path at byte 0: null is not allowed here"
        );
    }
}
