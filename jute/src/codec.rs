//! How each primitive type of jute looks in bytes, one `impl` pair a type.
//!
//! Null is `Option::None`; a type without `Option` refuses null. Vectors reserve room only for what can be there.

use alloc::{borrow::Cow, string::String, vec::Vec};

use bytes::Bytes;

use crate::{DecodeError, DecodeErrorKind, Reader, Writer};

/// A value that can be written as jute.
pub trait Encode {
    /// Appends the value. It cannot fail here: see [`Writer::finish`].
    fn encode(&self, writer: &mut Writer<'_>);
}

/// A value that can be read from jute.
pub trait Decode: Sized {
    /// The fewest bytes that any value of the type takes: bounds how many of them an input can hold.
    const SMALLEST: usize;

    /// Reads one value from the front of the reader and leaves the rest.
    ///
    /// # Errors
    /// [`DecodeError`], naming the field and the offset.
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError>;
}

impl Encode for bool {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.put_slice(&[u8::from(*self)]);
    }
}

/// Any byte but zero is true, as for the Java reader.
impl Decode for bool {
    const SMALLEST: usize = 1;

    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(reader.take_array::<1>()? != [0])
    }
}

macro_rules! fixed_width {
    ($($type:ty: $width:literal),*) => {$(
        impl Encode for $type {
            fn encode(&self, writer: &mut Writer<'_>) {
                writer.put_slice(&self.to_be_bytes());
            }
        }

        impl Decode for $type {
            const SMALLEST: usize = $width;

            fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
                Ok(Self::from_be_bytes(reader.take_array::<$width>()?))
            }
        }
    )*};
}

fixed_width!(i8: 1, f32: 4, f64: 8);

impl Encode for i32 {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.put_i32(*self);
    }
}

impl Decode for i32 {
    const SMALLEST: usize = 4;

    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        reader.take_i32()
    }
}

impl Encode for i64 {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.put_i64(*self);
    }
}

impl Decode for i64 {
    const SMALLEST: usize = 8;

    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        reader.take_i64()
    }
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

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Some(value) => value.encode(writer),
            None => writer.put_null(),
        }
    }
}

/// Types whose length prefix can say null: `Option<T>` reads null as `None`, `T` itself refuses it.
macro_rules! nullable {
    ($($type:ty $(where $element:ident)? => $read:expr;)*) => {$(
        impl$(<$element: Decode + Clone>)? Decode for Option<$type> {
            const SMALLEST: usize = 4;

            fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
                $read(reader)
            }
        }

        impl$(<$element: Decode + Clone>)? Decode for $type {
            const SMALLEST: usize = 4;

            fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
                let null = reader.error(DecodeErrorKind::Null);
                Option::<Self>::decode(reader)?.ok_or(null)
            }
        }
    )*};
}

nullable! {
    Bytes => Reader::take_buffer;
    String => Reader::take_string;
    Cow<'static, str> => |reader: &mut Reader| Ok(reader.take_string()?.map(Cow::Owned));
    Vec<T> where T => take_vector;
    Cow<'static, [T]> where T => |reader: &mut Reader| Ok(take_vector(reader)?.map(Cow::Owned));
}

fn take_vector<T: Decode>(reader: &mut Reader) -> Result<Option<Vec<T>>, DecodeError> {
    let Some(count) = reader.take_count(T::SMALLEST)? else {
        return Ok(None);
    };
    // An element can be larger in memory than on the wire: reserve no more bytes than the input still has.
    let room = reader.left().checked_div(size_of::<T>()).unwrap_or(count);
    let mut elements = Vec::with_capacity(count.min(room));
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

    fn written<T: Encode>(value: &T) -> Bytes {
        let mut out = BytesMut::new();
        let mut writer = Writer::new(&mut out);
        value.encode(&mut writer);
        writer.finish().unwrap();
        out.freeze()
    }

    fn comes_back<T: Encode + Decode + PartialEq + Debug>(value: &T) {
        let bytes = written(value);
        assert!(bytes.len() >= T::SMALLEST);
        let mut reader = Reader::new(bytes);
        assert_eq!(&T::decode(&mut reader).unwrap(), value);
        assert_eq!(reader.left(), 0);
    }

    /// Made character by character: a pattern would be read anew for each, which takes minutes under miri.
    fn text() -> impl Strategy<Value = String> {
        vec(any::<char>(), 0..20).prop_map(String::from_iter)
    }

    proptest! {
        #![proptest_config(crate::cases::cases())]

        #[test]
        fn what_is_written_is_read(
            flag: bool, byte: i8, int: i32, long: i64, float in -1.0e30f32..1.0e30, double in -1.0e300f64..1.0e300,
            text in text(), maybe in option::of(text()), data in any::<Option<Vec<u8>>>(),
            many in option::of(vec(text(), 0..12)), numbers: Vec<i64>,
        ) {
            comes_back(&flag);
            comes_back(&byte);
            comes_back(&int);
            comes_back(&long);
            comes_back(&float);
            comes_back(&double);
            comes_back(&text);
            comes_back(&maybe);
            comes_back(&data.map(Bytes::from));
            comes_back(&many);
            comes_back(&numbers);
            comes_back(&Cow::<'static, str>::Owned(text));
        }

        #[test]
        fn no_bytes_panic(input: Vec<u8>) {
            let input = Bytes::from(input);
            let reader = || Reader::new(input.clone());
            let _ = bool::decode(&mut reader());
            let _ = f64::decode(&mut reader());
            let _ = Option::<Bytes>::decode(&mut reader());
            let _ = String::decode(&mut reader());
            let _ = Vec::<i64>::decode(&mut reader());
            let _ = Option::<Vec<String>>::decode(&mut reader());
            let _ = Vec::<Option<Bytes>>::decode(&mut reader());
        }
    }

    #[test]
    fn any_byte_but_zero_is_true() {
        for (byte, value) in [(0u8, false), (1, true), (2, true), (7, true), (255, true)] {
            let mut reader = Reader::new(Bytes::copy_from_slice(&[byte]));
            assert_eq!(bool::decode(&mut reader), Ok(value));
        }
    }

    #[test]
    fn null_is_refused_where_the_type_has_no_place_for_it() {
        let mut reader = Reader::new(Bytes::from_static(b"\xff\xff\xff\xff"));
        reader.enter("CreateRequest.path");
        let error = String::decode(&mut reader).unwrap_err();
        assert_eq!(
            error.to_string(),
            "CreateRequest.path at byte 0: null is not allowed here"
        );
    }
}
