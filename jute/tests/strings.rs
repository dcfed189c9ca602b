//! Strings as Java writes them. For characters above U+FFFF, Java's form is not UTF-8.
//!
//! Source: `BinaryOutputArchive.writeString` encodes each UTF-16 unit by itself.

use bytes::Bytes;
use lockkeeper_jute::{DecodeError, Reader};
use proptest::{collection::vec, prelude::*};

use lockkeeper_test_support::cases::cases;

/// Encoded high and low surrogates, the characters next to the surrogate range, parts of a
/// surrogate, and a letter.
const PIECES: &[&[u8]] = &[
    b"\xed\xa0\xbd",
    b"\xed\xaf\xbf",
    b"\xed\xb0\x80",
    b"\xed\xb4\x92",
    b"\xed\x9f\xbf",
    b"\xee\x80\x80",
    b"\xed",
    b"\xb4",
    b"a",
];

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_string_that_java_wrote_is_read(text in vec(any::<char>(), 0..20).prop_map(String::from_iter)) {
        prop_assert_eq!(read(&as_java_writes(&text)), Ok(text.clone()));
        prop_assert_eq!(read(text.as_bytes()), Ok(text));
    }

    /// With these pieces, each character can be written in only one way.
    #[test]
    fn the_reader_accepts_only_bytes_that_java_writes(pieces in vec(prop::sample::select(PIECES), 0..8)) {
        let bytes = pieces.concat();
        if let Ok(text) = read(&bytes) {
            prop_assert_eq!(as_java_writes(&text), bytes);
        }
    }
}

fn read(content: &[u8]) -> Result<String, DecodeError> {
    let length = i32::try_from(content.len()).unwrap();
    let input = [&length.to_be_bytes(), content].concat();
    let text = Reader::new(Bytes::from(input)).take_string()?;
    Ok(text.unwrap())
}

fn as_java_writes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for unit in text.encode_utf16() {
        if let Some(character) = char::from_u32(u32::from(unit)) {
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 3]).as_bytes());
        } else {
            let low_six_bits = |bits: u16| 0x80 | u8::try_from(bits & 0x3f).unwrap();
            bytes.extend_from_slice(&[0xed, low_six_bits(unit >> 6), low_six_bits(unit)]);
        }
    }
    bytes
}
