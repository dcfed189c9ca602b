//! Decoding takes memory in proportion to the bytes that are present, not to the lengths that they
//! announce.
//!
//! This is a separate test program, because counting replaces the allocator of the whole program.
//! The counter counts each thread separately.

mod message;
mod schema;

use allocation_counter::AllocationInfo;
use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{OpCode, frame};
use proptest::{collection::vec, prelude::*};

use message::Kind;
use schema::Holds;

/// The most bytes of memory for each byte of input.
///
/// The densest input is the results of a multi. A result takes 9 bytes on the wire. In memory it
/// has space for data and a `Stat`, and the capacity of the vector around it may just have doubled.
const PER_BYTE: u64 = 48;

/// Bytes of memory in addition: a vector starts with a capacity of four elements.
const FIXED: u64 = 512;

/// The memory that decoding `input` takes. The peak includes the decoded value, which is dropped
/// before this returns.
fn cost(kind: Kind, input: &Bytes) -> AllocationInfo {
    allocation_counter::measure(|| {
        let _ = kind.decode_all(input);
    })
}

fn is_in_proportion(kind: Kind, input: &Bytes) -> Result<(), TestCaseError> {
    let peak = cost(kind, input).bytes_max;
    let most = PER_BYTE * input.len() as u64 + FIXED;
    prop_assert!(peak <= most, "{peak} bytes for {} of {kind:?}", input.len());
    Ok(())
}

#[test]
#[cfg_attr(
    miri,
    ignore = "memory is measured without miri; under miri this takes hours"
)]
fn complete_and_truncated_and_hostile_messages_take_memory_in_proportion() {
    for kind in message::kinds() {
        message::check(kind, |bytes| {
            for length in 0..=bytes.len() {
                is_in_proportion(kind, &bytes.slice(..length))?;
            }
            for place in schema::places(kind, &bytes) {
                if matches!(place.holds, Holds::Length | Holds::Count) {
                    for announced in [1 << 16, 1 << 24, 1 << 30, i32::MAX] {
                        let mut hostile = BytesMut::from(&bytes[..]);
                        *hostile[place.offset..].first_chunk_mut().unwrap() =
                            i32::to_be_bytes(announced);
                        is_in_proportion(kind, &hostile.freeze())?;
                    }
                }
            }
            Ok(())
        });
    }
}

proptest! {
    #![proptest_config(message::cases())]

    #[test]
    fn arbitrary_bytes_take_memory_in_proportion(input in vec(any::<u8>(), 0..300)) {
        let input = Bytes::from(input);
        for kind in message::kinds() {
            is_in_proportion(kind, &input)?;
        }
    }

    #[test]
    fn inputs_of_few_distinct_bytes_take_memory_in_proportion(input in vec(prop_oneof![8 => Just(0), 1 => 0..4_u8, 1 => Just(255)], 0..300)) {
        let input = Bytes::from(input);
        for kind in message::kinds() {
            is_in_proportion(kind, &input)?;
        }
    }
}

#[test]
#[cfg_attr(
    miri,
    ignore = "memory is measured without miri; under miri this takes hours"
)]
fn the_densest_messages_take_memory_in_proportion() {
    // One more than a power of two, so the capacity of the vector has just doubled.
    const MANY: i32 = (1 << 13) + 1;
    let count = MANY.to_be_bytes();
    let list = |of: &[u8]| [&count[..], &of.repeat(MANY as usize)].concat();
    let stat = [0; 68];
    // The header of a part, with an empty path and a version, or with nothing.
    let part = |op: u8, body: &[u8]| [&[0, 0, 0, op, 0, 0, 0, 0, 0], body].concat();
    let parts = |part: Vec<u8>| [&part.repeat(MANY as usize)[..], END].concat();
    for (kind, bytes) in [
        (Kind::Response(OpCode::GET_CHILDREN), list(&[0; 4])),
        (
            Kind::Response(OpCode::GET_ACL),
            [&list(&[0; 12])[..], &stat].concat(),
        ),
        (Kind::Response(OpCode::WHO_AM_I), list(&[0; 8])),
        (Kind::Response(OpCode::MULTI), parts(part(2, b""))),
        (Kind::Request(OpCode::MULTI), parts(part(13, &[0; 8]))),
        (
            Kind::Request(OpCode::SET_WATCHES),
            [&[0; 8][..], &list(&[0; 4]).repeat(3)].concat(),
        ),
    ] {
        let bytes = Bytes::from(bytes);
        assert_eq!(
            kind.recode_all(&bytes).map(|again| again.len()),
            Ok(bytes.len())
        );
        is_in_proportion(kind, &bytes).unwrap();
    }
}

/// The header that ends a list.
const END: &[u8] = b"\xff\xff\xff\xff\x01\xff\xff\xff\xff";

#[test]
fn the_data_of_a_node_is_not_copied() {
    let length: i32 = 1 << 20;
    let bytes = [&length.to_be_bytes()[..], &vec![7; 1 << 20], &[0; 68]].concat();
    let kind = Kind::Response(OpCode::GET_DATA);
    assert!(cost(kind, &Bytes::from(bytes)).bytes_total < 100);
}

#[test]
fn refusing_a_hostile_length_allocates_nothing() {
    let hostile = Bytes::from_static(b"\x7f\xff\xff\xff/path");
    let kinds = [
        Kind::Request(OpCode::CREATE),
        Kind::Response(OpCode::GET_CHILDREN),
        Kind::Response(OpCode::GET_DATA),
    ];
    for kind in kinds {
        let taken = allocation_counter::measure(|| {
            kind.decode_all(&hostile).unwrap_err();
        });
        assert_eq!(taken.bytes_total, 0, "{kind:?}");
    }
    // An incomplete frame of any length allocates nothing, either.
    let mut stream = BytesMut::from(&b"\x7f\xff\xff\xffthe first bytes"[..]);
    let taken = allocation_counter::measure(|| {
        assert_eq!(frame::split(&mut stream, usize::MAX), Ok(None));
        frame::split(&mut stream, frame::SERVER_LIMIT).unwrap_err();
    });
    assert_eq!(taken.bytes_total, 0);
}
