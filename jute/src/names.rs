//! A `vector` of `ustring` that stays in the memory of the message: decoding 1,000 names allocates
//! nothing.
//!
//! Invariant: `encoded` is `count` times a length, as on the wire, and so many bytes of UTF-8.
//!
//! Not here: the checks of what a message has (`reader`).

use alloc::{string::String, vec::Vec};
use core::{fmt, iter, str};

use bytes::{Bytes, BytesMut};

use crate::{Encode, Writer};

/// The bytes of a length or count.
pub(crate) const LENGTH: usize = 4;

/// A list of names. It shares the memory of the message from which it was decoded.
///
/// ```
/// use lockkeeper_jute::Names;
///
/// let names: Names = ["a", "b"].into_iter().collect();
/// assert_eq!((names.len(), names.iter().next()), (2, Some("a")));
/// assert_eq!(Vec::from(names), ["a", "b"]);
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Names {
    count: usize,
    encoded: Bytes,
}

impl Names {
    /// The caller has checked the invariant.
    pub(crate) fn checked(count: usize, encoded: Bytes) -> Self {
        Self { count, encoded }
    }

    /// The number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The names, in the order of the message.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        // Lengths below 128 are ASCII, so that one check does for all names.
        let mut rest = str::from_utf8(&self.encoded).map_err(|_| &self.encoded[..]);
        iter::from_fn(move || {
            let name;
            match &mut rest {
                Ok(text) => {
                    let (length, behind) = text.split_at_checked(LENGTH)?;
                    let length = length_of(*length.as_bytes().first_chunk()?)?;
                    (name, *text) = behind.split_at_checked(length)?;
                }
                Err(encoded) => {
                    let bytes;
                    (bytes, *encoded) = split_first(encoded)?;
                    name = str::from_utf8(bytes).ok()?;
                }
            }
            Some(name)
        })
    }
}

/// The bytes of each of these strings. Ends before one that is null or not complete.
pub(crate) fn each(mut encoded: &[u8]) -> impl Iterator<Item = &[u8]> {
    iter::from_fn(move || {
        let name;
        (name, encoded) = split_first(encoded)?;
        Some(name)
    })
}

/// The first string of these, and what is behind it. `None` if it is null or not complete.
#[inline]
pub(crate) fn split_first(encoded: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = encoded.split_first_chunk()?;
    rest.split_at_checked(length_of(*length)?)
}

#[inline]
fn length_of(encoded: [u8; LENGTH]) -> Option<usize> {
    usize::try_from(i32::from_be_bytes(encoded)).ok()
}

/// Names that are too long for a message make a list that cannot be encoded.
impl<N: AsRef<str>> FromIterator<N> for Names {
    fn from_iter<I: IntoIterator<Item = N>>(names: I) -> Self {
        let (mut count, mut encoded) = (0_usize, BytesMut::new());
        let mut writer = Writer::new(&mut encoded);
        for name in names {
            count = count.saturating_add(1);
            writer.put_buffer(name.as_ref().as_bytes());
        }
        if let Err(error) = writer.finish() {
            count = error.length;
        }
        Self::checked(count, encoded.freeze())
    }
}

impl From<Names> for Vec<String> {
    fn from(names: Names) -> Self {
        let mut strings = Self::with_capacity(names.count.min(names.encoded.len()));
        strings.extend(names.iter().map(String::from));
        strings
    }
}

impl Encode for Names {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.put_length(self.count);
        writer.put_slice(&self.encoded);
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::{Decode, DecodeError, DecodeErrorKind, Reader};

    fn encoded(value: &impl Encode) -> Bytes {
        let mut out = BytesMut::new();
        let mut writer = Writer::new(&mut out);
        value.encode(&mut writer);
        writer.finish().unwrap();
        out.freeze()
    }

    /// Decodes the names, and checks that this is as if they were strings one by one, also with the
    /// error and what is left.
    fn decode(reader: &Reader) -> Result<Names, DecodeError> {
        let (mut one, mut other) = (reader.clone(), reader.clone());
        let (names, strings) = (Names::decode(&mut one), Vec::<String>::decode(&mut other));
        assert_eq!(names.clone().map(Vec::from), strings.clone());
        if let (Ok(names), Ok(strings)) = (&names, &strings) {
            assert_eq!(one.left(), other.left());
            assert_eq!(
                (names.len(), names.is_empty()),
                (strings.len(), strings.is_empty())
            );
            assert_eq!(encoded(names), encoded(strings));
            assert_eq!(*names, strings.iter().collect());
            assert_eq!(format!("{names:?}"), format!("{strings:?}"));
        }
        names
    }

    fn of_bytes(names: &[&[u8]]) -> Reader {
        let names: Vec<_> = names
            .iter()
            .map(|name| Bytes::copy_from_slice(name))
            .collect();
        Reader::new(encoded(&names))
    }

    #[test]
    fn names_share_the_memory_of_the_message() {
        for names in [
            ["a-lock-0000000001", ""],
            ["größe", "🔒"],
            ["x", &"y".repeat(300)],
        ] {
            let message = encoded(&names.map(String::from).to_vec());
            let decoded = decode(&Reader::new(message.clone())).unwrap();
            assert_eq!(decoded.encoded.as_ptr(), message[4..].as_ptr());
            assert_eq!(
                decoded.iter().next().unwrap().as_ptr(),
                message[8..].as_ptr()
            );
        }
    }

    /// A length of 195 ends with the byte c3. Before a9, that is the letter é.
    #[test]
    fn a_length_is_no_part_of_a_name() {
        let mut name = [b'a'; 0xc3];
        name[0] = 0xa9;
        let error = decode(&of_bytes(&[&name])).unwrap_err();
        assert_eq!((error.kind, error.offset), (DecodeErrorKind::NotUtf8, 4));
        let as_java = decode(&of_bytes(&[&name]).tolerant()).unwrap();
        assert!(as_java.iter().next().unwrap().starts_with("\u{fffd}a"));
    }

    #[test]
    fn java_surrogate_pairs_are_joined() {
        let names = decode(&of_bytes(&[b"a", b"a\xed\xa0\xbd\xed\xb4\x92b", b"c"])).unwrap();
        assert!(names.iter().eq(["a", "a🔒b", "c"]));
        decode(&of_bytes(&[b"a", b"\xed\xa0\xbd"])).unwrap_err();
    }

    #[test]
    fn a_hostile_list_is_refused_where_it_is_wrong() {
        for (input, offset) in [
            (&b"\x7f\xff\xff\xff\0\0\0\x01a"[..], 0),
            (b"\xff\xff\xff\xff", 0),
            (b"\xff\xff\xff\xfe", 0),
            (b"\0\0\0\x02\0\0\0\x01a\x7f\xff\xff\xff", 9),
            (b"\0\0\0\x02\0\0\0\x01a\xff\xff\xff\xff", 9),
            (b"\0\0\0\x02\0\0\0\x01a\x80\0\0\0", 9),
            (b"\0\0\0\x02\0\0\0\x05abcde\0\0", 13),
            (b"\0\0\0\x02\0\0\0\x01\xff\x80\0\0\0", 4),
        ] {
            let mut reader = Reader::new(Bytes::from_static(input));
            reader.enter("Record.names");
            let error = decode(&reader).unwrap_err();
            assert_eq!((error.field, error.offset), ("Record.names", offset));
        }
    }

    /// Text of one name, or other bytes.
    fn name() -> impl Strategy<Value = Vec<u8>> {
        let text = vec(any::<char>(), 0..8).prop_map(|it| String::from_iter(it).into_bytes());
        let long = (0..300_usize).prop_map(|length| "x".repeat(length).into_bytes());
        let java = Just(b"\xed\xa0\xbd\xed\xb4\x92".to_vec());
        prop_oneof![4 => text, 2 => long, 1 => java, 1 => vec(any::<u8>(), 0..4)]
    }

    proptest! {
        #![proptest_config(crate::cases::cases())]

        #[test]
        fn names_are_decoded_as_strings_are(
            names in vec(name(), 0..6), cut in 0..40_usize, bytes: Vec<u8>,
        ) {
            let names: Vec<_> = names.into_iter().map(Bytes::from).collect();
            let mut message = BytesMut::from(&encoded(&names)[..]);
            message.truncate(message.len().saturating_sub(cut.saturating_sub(20)));
            message.extend_from_slice(&bytes[..bytes.len() * usize::from(cut > 10)]);
            for reader in [Reader::new(message.freeze()), Reader::new(bytes.into())] {
                let _ = decode(&reader);
                let _ = decode(&reader.tolerant());
            }
        }
    }
}
