//! Decoding takes memory in proportion to the bytes that are present, not to the lengths that they
//! announce.
//!
//! This is a separate test program, because counting replaces the allocator of the whole program.
//! The counter counts each thread separately.

mod message;
mod schema;

use allocation_counter::AllocationInfo;
use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    Acl, OpCode, Request, Response, Stat, Version, Zxid, frame,
    multi::{MultiOp, MultiRequest, MultiResponse, MultiResult},
    records::{
        CheckVersionRequest, ClientInfo, GetAclResponse, GetChildrenResponse, GetDataResponse,
        SetWatches, WhoAmIResponse,
    },
};
use proptest::{collection::vec, prelude::*};

use message::{Kind, Message};
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
    allocation_counter::measure(|| drop(kind.decode_all(input)))
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
        message::check(&kind.messages(), |message| {
            let bytes = message.encoded();
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
    const MANY: usize = (1 << 13) + 1;
    let strings = || vec![String::new(); MANY];
    let acl = vec![Acl::new(lockkeeper_proto::Perms::ALL, "", ""); MANY];
    let info = ClientInfo {
        auth_scheme: String::new(),
        user: String::new(),
    };
    let check = MultiOp::Check(CheckVersionRequest {
        path: String::new(),
        version: Version::ANY,
    });
    let densest = [
        Message::Response(Response::GetChildren(GetChildrenResponse {
            children: strings(),
        })),
        Message::Response(Response::GetAcl(GetAclResponse { acl, stat: stat() })),
        Message::Response(Response::WhoAmI(WhoAmIResponse {
            client_info: vec![info; MANY],
        })),
        Message::Response(Response::Multi(MultiResponse {
            results: vec![MultiResult::Delete; MANY],
        })),
        Message::Request(Request::Multi(MultiRequest {
            ops: vec![check; MANY],
        })),
        Message::Request(Request::SetWatches(SetWatches {
            relative_zxid: Zxid::ZERO,
            data_watches: strings(),
            exist_watches: strings(),
            child_watches: strings(),
        })),
    ];
    for message in densest {
        let bytes = message.encoded();
        is_in_proportion(message.kind(), &bytes).unwrap();
    }
}

#[test]
fn the_data_of_a_node_is_not_copied() {
    let message = Message::Response(Response::GetData(GetDataResponse {
        data: Some(Bytes::from(vec![7; 1 << 20])),
        stat: stat(),
    }));
    let bytes = message.encoded();
    assert!(cost(message.kind(), &bytes).bytes_total < 100);
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

fn stat() -> Stat {
    Stat {
        czxid: Zxid::ZERO,
        mzxid: Zxid::ZERO,
        ctime: 0,
        mtime: 0,
        version: Version(0),
        cversion: Version(0),
        aversion: Version(0),
        ephemeral_owner: lockkeeper_proto::SessionId::NONE,
        data_length: 0,
        num_children: 0,
        pzxid: Zxid::ZERO,
    }
}
