//! Properties of all messages of all kinds, and of bytes that are not a message.
//!
//! `schema`, which the crate does not use, makes arbitrary messages, and tells the places of lengths
//! and counts. Not here: the memory that decoding takes (`allocation.rs`).

mod message;
mod schema;

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::jute::{DecodeErrorKind, Reader};
use proptest::{prelude::*, test_runner::TestCaseResult};

use message::Kind;
use schema::Holds;

/// The kinds to test: all of them. Under miri all would take an hour, so it is every thirteenth.
fn kinds() -> impl Iterator<Item = Kind> {
    let step = if cfg!(miri) { 13 } else { 1 };
    message::kinds().into_iter().step_by(step)
}

/// Checks a property of arbitrary messages of each kind. `message::check` sets their number.
fn for_all_messages(property: impl Fn(Kind, &Bytes) -> TestCaseResult) {
    for kind in kinds() {
        message::check(kind, |bytes| property(kind, &bytes));
    }
}

#[test]
fn the_crate_knows_29_operations_and_five_other_messages() {
    assert_eq!(message::kinds().len(), 5 + 2 * 29);
}

/// The fields have the types, the order and the names of the schema.
#[test]
fn a_message_decodes_to_the_fields_of_the_schema_and_encodes_to_the_same_bytes() {
    for_all_messages(|kind, bytes| {
        prop_assert_eq!(message::assert_agree(&[kind], bytes), Ok(()));
        Ok(())
    });
}

/// Newer servers may add fields after a message. In the handshake, the end of the frame is the end
/// of the message.
#[test]
fn bytes_after_a_message_stay_in_the_reader() {
    for_all_messages(|kind, bytes| {
        if matches!(kind, Kind::ConnectRequest | Kind::ConnectResponse) {
            return Ok(());
        }
        let mut longer = BytesMut::from(&bytes[..]);
        longer.extend_from_slice(b"more");
        let mut reader = Reader::new(longer.freeze());
        let again = kind.recode(&mut reader);
        prop_assert_eq!(again.as_ref(), Ok(bytes));
        prop_assert_eq!(reader.left(), 4);
        Ok(())
    });
}

#[test]
fn decoding_a_truncated_message_fails_at_the_truncated_field() {
    for_all_messages(|kind, bytes| {
        let places = schema::places(kind, bytes);
        for length in 0..bytes.len() {
            let error = match (kind.recode_all(&bytes.slice(..length)), kind) {
                // The last byte of a handshake is optional. Without it, the bytes are a different
                // valid message.
                (Ok(short), Kind::ConnectRequest | Kind::ConnectResponse) => {
                    prop_assert_eq!(length, bytes.len() - 1);
                    prop_assert_eq!(short, bytes.slice(..length));
                    continue;
                }
                (Ok(short), _) => {
                    return Err(TestCaseError::fail(format!("{length} bytes: {short:?}")));
                }
                (Err(error), _) => error,
            };
            let place = places.iter().find(|place| place.offset == error.offset);
            prop_assert!(place.is_some() && error.offset <= length, "{}", error);
            let holds = place.map(|place| place.holds);
            let rest = length - error.offset;
            match error.kind {
                DecodeErrorKind::Short { needed, left } => {
                    let width = match holds {
                        Some(Holds::Bool) => 1,
                        Some(Holds::Long) => 8,
                        _ => 4,
                    };
                    prop_assert_eq!((needed, left), (width, rest));
                    prop_assert!(rest < width);
                }
                DecodeErrorKind::TooLong { announced, left } => {
                    prop_assert!(matches!(holds, Some(Holds::Length | Holds::Count)));
                    prop_assert_eq!(left + 4, rest);
                    prop_assert_eq!(Ok(announced), int_at(bytes, error.offset).try_into());
                }
                other => return Err(TestCaseError::fail(format!("{length} bytes: {other:?}"))),
            }
        }
        Ok(())
    });
}

#[test]
fn a_hostile_length_or_count_is_refused_at_its_own_offset() {
    for_all_messages(|kind, bytes| {
        for place in schema::places(kind, bytes) {
            if !matches!(place.holds, Holds::Length | Holds::Count) {
                continue;
            }
            let left = bytes.len() - place.offset - 4;
            let one_too_many = i32::try_from(left + 1).unwrap();
            for announced in [-2, -5, i32::MIN, one_too_many, 1 << 30, i32::MAX] {
                let expected = match usize::try_from(announced) {
                    Ok(announced) => DecodeErrorKind::TooLong { announced, left },
                    Err(_) => DecodeErrorKind::Negative(announced),
                };
                let error = kind.recode_all(&patched(bytes, place.offset, announced));
                let error = error.map_err(|error| (error.offset, error.kind));
                prop_assert_eq!(error.err(), Some((place.offset, expected)));
            }
            // Null is an error at this offset, unless the record allows null. If it does, a later
            // field may be wrong.
            match kind.recode_all(&patched(bytes, place.offset, -1)) {
                Err(error) if error.kind == DecodeErrorKind::Null => {
                    prop_assert_eq!(error.offset, place.offset);
                }
                Err(error) => prop_assert!(error.offset > place.offset, "{}", error),
                Ok(_) => {}
            }
        }
        Ok(())
    });
}

#[test]
fn a_reader_with_the_rule_of_java_reads_a_negative_count_as_zero() {
    let decode = |kind: Kind, bytes: Bytes| {
        let mut reader = Reader::new(bytes).tolerant();
        let decoded = kind.recode(&mut reader);
        (decoded, reader.left())
    };
    for_all_messages(|kind, bytes| {
        for place in schema::places(kind, bytes) {
            let zero = decode(kind, patched(bytes, place.offset, 0));
            for announced in [-2, -5, i32::MIN] {
                let negative = decode(kind, patched(bytes, place.offset, announced));
                match place.holds {
                    Holds::Count => prop_assert_eq!(&negative, &zero),
                    // The rule does not apply to lengths.
                    Holds::Length => {
                        let error = negative.0.map_err(|error| (error.offset, error.kind));
                        let expected = DecodeErrorKind::Negative(announced);
                        prop_assert_eq!(error.err(), Some((place.offset, expected)));
                    }
                    Holds::Bool | Holds::Int | Holds::Long => {}
                }
            }
        }
        Ok(())
    });
}

/// `bytes` with `value` at `offset`. Unchanged if fewer than four bytes are there.
fn patched(bytes: &Bytes, offset: usize, value: i32) -> Bytes {
    let mut patched = BytesMut::from(&bytes[..]);
    if let Some(slot) = patched[offset..].first_chunk_mut() {
        *slot = value.to_be_bytes();
    }
    patched.freeze()
}

fn int_at(bytes: &Bytes, offset: usize) -> i32 {
    i32::from_be_bytes(*bytes[offset..].first_chunk().unwrap())
}
