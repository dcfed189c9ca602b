//! All kinds of messages, and the check of one message against the schema.

#![allow(
    dead_code,
    reason = "shared by several test programs; each of them uses a part"
)]

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    OpCode, Request, Response, WatcherEvent,
    connect::{ConnectRequest, ConnectResponse},
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer},
};
use proptest::{
    strategy::Strategy,
    test_runner::{Config, TestCaseResult, TestRunner},
};

pub(crate) use lockkeeper_test_support::cases::cases;

use crate::schema::{self, Holds};

/// The kind of a message: the type that its bytes are decoded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    ConnectRequest,
    ConnectResponse,
    RequestHeader,
    ReplyHeader,
    WatcherEvent,
    /// The body of a request.
    Request(OpCode),
    /// The body of a successful reply to this operation.
    Response(OpCode),
}

/// All kinds of messages. [`schema`] panics for an operation that it does not know. So when an
/// operation is added to the crate, the tests either include it or fail.
pub(crate) fn kinds() -> Vec<Kind> {
    let mut kinds = vec![
        Kind::ConnectRequest,
        Kind::ConnectResponse,
        Kind::RequestHeader,
        Kind::ReplyHeader,
        Kind::WatcherEvent,
    ];
    // The larger range takes minutes under miri.
    let asked = if cfg!(miri) { -11..=107 } else { -256..=1024 };
    for op in asked.map(OpCode) {
        let unknown = |error: Option<DecodeError>| {
            error.is_some_and(|error| error.kind == DecodeErrorKind::Unknown(op.0))
        };
        let nothing = || Reader::new(Bytes::new());
        let known = !unknown(Request::decode(op, &mut nothing()).err());
        assert_eq!(known, !unknown(Response::decode(op, &mut nothing()).err()));
        if known {
            kinds.extend([Kind::Request(op), Kind::Response(op)]);
        }
    }
    kinds
}

/// Checks a property of arbitrary messages as `proptest!` does, but with a quarter of the
/// configured cases (`PROPTEST_CASES`).
///
/// A test calls this for each of some sixty kinds.
pub(crate) fn check(kind: Kind, property: impl Fn(Bytes) -> TestCaseResult) {
    let configured = cases();
    let config = Config {
        cases: configured.cases.div_ceil(4),
        failure_persistence: None,
        ..configured
    };
    let messages = schema::messages(kind).prop_map(Bytes::from);
    let checked = TestRunner::new(config).run(&messages, property);
    checked.unwrap_or_else(|error| panic!("{kind:?}: {error}"));
}

impl Kind {
    /// Decodes a message, and encodes it again if that is wanted.
    fn read(self, reader: &mut Reader, again: bool) -> Result<Bytes, DecodeError> {
        Ok(match self {
            Self::ConnectRequest => encoded(&ConnectRequest::decode(reader)?, again),
            Self::ConnectResponse => encoded(&ConnectResponse::decode(reader)?, again),
            Self::RequestHeader => encoded(&RequestHeader::decode(reader)?, again),
            Self::ReplyHeader => encoded(&ReplyHeader::decode(reader)?, again),
            Self::WatcherEvent => encoded(&WatcherEvent::decode(reader)?, again),
            Self::Request(op) => {
                let request = Request::decode(op, reader)?;
                assert_eq!(request.op(), op);
                encoded(&request, again)
            }
            Self::Response(op) => {
                let response = Response::decode(op, reader)?;
                assert_eq!(response.op(), op);
                encoded(&response, again)
            }
        })
    }

    /// Decodes a message, with the reader that clients use, and drops it.
    pub(crate) fn decode_all(self, bytes: &Bytes) -> Result<(), DecodeError> {
        self.read(&mut Reader::new(bytes.clone()), false).map(drop)
    }

    /// Decodes a message, and encodes it again.
    pub(crate) fn recode(self, reader: &mut Reader) -> Result<Bytes, DecodeError> {
        self.read(reader, true)
    }

    /// Decodes and encodes as [`recode`](Self::recode) does, with the reader that clients use.
    pub(crate) fn recode_all(self, bytes: &Bytes) -> Result<Bytes, DecodeError> {
        self.recode(&mut Reader::new(bytes.clone()))
    }
}

/// Checks messages of these kinds, one behind the other:
///
/// - They are decoded completely, and encoded to the same bytes.
/// - A length of -2 is an error that names the field of the schema there.
/// - A message that ends at another field is an error that names that field, or the count of a list
///   in front of it: a count is compared with the bytes that are left.
pub(crate) fn assert_agree(kinds: &[Kind], bytes: &Bytes) -> Result<(), DecodeError> {
    let mut reader = Reader::new(bytes.clone());
    let mut again = BytesMut::new();
    for kind in kinds {
        let begin = again.len();
        again.extend_from_slice(&kind.recode(&mut reader)?);
        let read = bytes.slice(begin..bytes.len() - reader.left());
        let places = schema::places(*kind, &read);
        for place in &places {
            let mut broken = BytesMut::from(&read[..]);
            let has_length = matches!(place.holds, Holds::Length | Holds::Count);
            if has_length {
                broken[place.offset..][..4].copy_from_slice(&(-2_i32).to_be_bytes());
            } else {
                broken.truncate(place.offset);
            }
            let Err(error) = kind.decode_all(&broken.freeze()) else {
                assert_eq!(place.field, "read_only", "{kind:?}");
                continue;
            };
            let named = places.iter().find(|it| it.offset == error.offset).unwrap();
            let (_, field) = error.field.split_once('.').unwrap();
            assert_eq!(field, named.field, "{kind:?}");
            let is_it = named.offset == place.offset;
            let is_ahead = !has_length && named.holds == Holds::Count;
            assert!(is_it || is_ahead, "{kind:?}: {field}, not {}", place.field);
        }
    }
    assert_eq!(again, bytes, "{kinds:?}");
    Ok(())
}

fn encoded(message: &impl Encode, again: bool) -> Bytes {
    if !again {
        return Bytes::new();
    }
    let mut out = BytesMut::new();
    let mut writer = Writer::new(&mut out);
    message.encode(&mut writer);
    writer.finish().unwrap();
    out.freeze()
}
