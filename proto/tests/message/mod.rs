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
    jute::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, TracedValue, Writer},
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

    /// As [`recode`](Self::recode), with the reader that clients use.
    pub(crate) fn recode_all(self, bytes: &Bytes) -> Result<Bytes, DecodeError> {
        self.recode(&mut Reader::new(bytes.clone()))
    }
}

/// Checks that messages of these kinds, one behind the other, are decoded completely, to the fields
/// of the schema, and that they are encoded to the same bytes.
pub(crate) fn assert_agree(kinds: &[Kind], bytes: &Bytes) -> Result<(), DecodeError> {
    let mut reader = Reader::new(bytes.clone()).with_trace();
    let (mut again, mut places) = (BytesMut::new(), Vec::new());
    for kind in kinds {
        let begin = again.len();
        again.extend_from_slice(&kind.recode(&mut reader)?);
        let read = &bytes[begin..bytes.len() - reader.left()];
        let in_all = |place: schema::Place| (place.field, begin + place.offset, place.holds);
        places.extend(schema::places(*kind, read).into_iter().map(in_all));
    }
    assert_eq!(again, bytes, "{kinds:?}");
    let fields = reader.trace().iter().map(|read| {
        let holds = match &read.value {
            TracedValue::Fixed(_) => Holds::Bool,
            TracedValue::Int(_) => Holds::Int,
            TracedValue::Long(_) => Holds::Long,
            TracedValue::Buffer(_) | TracedValue::Text(_) => Holds::Length,
            TracedValue::Count(_) => Holds::Count,
        };
        let (_, name) = read.field.split_once('.').unwrap();
        (name.to_owned(), read.offset, holds)
    });
    assert_eq!(fields.collect::<Vec<_>>(), places);
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
