//! The `record!` macro: declares a record from one list of its fields, in wire order.
//!
//! Not here: the encoding of the fields' types (`codec`).

use core::fmt;

/// Declares structs whose fields are encoded and decoded in the order of their declaration.
///
/// Each struct implements `Clone`, `Debug`, `PartialEq` and `Eq`. A decoding error names
/// `Struct.field`; inside a nested record, it names the field of the inner record. See the example
/// in the documentation of the crate.
///
/// `Debug` leaves out a field that is named behind the struct: `pub struct Login hides password`.
#[macro_export]
macro_rules! record {
    ($(
        $(#[$meta:meta])*
        $visibility:vis struct $name:ident $(hides $hidden:ident)? {
            $($(#[$field_meta:meta])* $field_visibility:vis $field:ident: $type:ty,)*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq)]
        $visibility struct $name {
            $($(#[$field_meta])* $field_visibility $field: $type,)*
        }

        impl ::core::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                let hidden: &[&str] = &[$(stringify!($hidden))?];
                let fields: &[(&str, &dyn ::core::fmt::Debug)] =
                    &[$((stringify!($field), &self.$field)),*];
                $crate::__debug(f, stringify!($name), fields, hidden)
            }
        }

        impl $crate::Encode for $name {
            #[allow(unused_variables)]
            #[inline]
            fn encode(&self, writer: &mut $crate::Writer<'_>) {
                $($crate::Encode::encode(&self.$field, writer);)*
            }
        }

        impl $crate::Decode for $name {
            #[allow(clippy::arithmetic_side_effects)]
            const SMALLEST: usize = 0 $(+ <$type as $crate::Decode>::SMALLEST)*;

            #[allow(unused_variables)]
            fn decode(reader: &mut $crate::Reader) -> ::core::result::Result<Self, $crate::DecodeError> {
                $(
                    reader.enter(concat!(stringify!($name), ".", stringify!($field)));
                    let $field = <$type as $crate::Decode>::decode(reader)?;
                )*
                Ok(Self { $($field,)* })
            }
        }
    )*};
}

/// Prints the fields of a record, without those that are hidden.
#[doc(hidden)]
pub fn debug(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    fields: &[(&str, &dyn fmt::Debug)],
    hidden: &[&str],
) -> fmt::Result {
    let mut text = f.debug_struct(name);
    for (field, value) in fields.iter().filter(|(field, _)| !hidden.contains(field)) {
        text.field(field, value);
    }
    if hidden.is_empty() {
        text.finish()
    } else {
        text.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use alloc::{string::String, vec::Vec};

    use bytes::Bytes;

    use crate::{Decode, DecodeErrorKind, Reader};

    record! {
        struct Inner { a: i32, b: Option<String>, }
        struct Outer { inner: Inner, list: Vec<Inner>, }
        struct Nothing {}
    }

    #[test]
    fn an_error_names_the_innermost_field() {
        let bytes = b"\0\0\0\x01\xff\xff\xff\xff\0\0\0\x01\0\0\0\x02\0\0\0\x0ax\0\0\0\0\0\0\0\0";
        let error = Outer::decode(&mut Reader::new(Bytes::from_static(bytes))).unwrap_err();
        assert_eq!((error.field, error.offset), ("Inner.b", 16));
        assert_eq!(
            error.kind,
            DecodeErrorKind::TooLong {
                announced: 10,
                left: 9
            }
        );
    }

    #[test]
    fn the_smallest_record_is_the_sum_of_its_fields() {
        assert_eq!(
            (Inner::SMALLEST, Outer::SMALLEST, Nothing::SMALLEST),
            (8, 12, 0)
        );
    }
}
