//! One type for all kinds of messages, and strategies that make arbitrary messages of each kind.
//!
//! [`kinds`] asks the crate which operations it knows. [`Kind::messages`] panics for an operation
//! without a strategy. So when an operation is added to the crate, the tests either include it or
//! fail.

#![allow(
    dead_code,
    reason = "shared by several test programs; each of them uses a part"
)]

mod operations;
mod records;

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    OpCode, Request, Response, WatcherEvent,
    connect::{ConnectRequest, ConnectResponse},
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer},
};
use proptest::{
    strategy::{BoxedStrategy, Strategy},
    test_runner::{Config, TestCaseResult, TestRunner},
};

pub(crate) use lockkeeper_test_support::cases::cases;

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

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    ConnectRequest(ConnectRequest),
    ConnectResponse(ConnectResponse),
    RequestHeader(RequestHeader),
    ReplyHeader(ReplyHeader),
    WatcherEvent(WatcherEvent),
    Request(Request),
    Response(Response),
}

/// All kinds of messages.
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

/// Checks a property as `proptest!` does, but with a quarter of the configured cases
/// (`PROPTEST_CASES`).
///
/// A test calls this for each of some sixty kinds.
pub(crate) fn check<S: Strategy>(strategy: &S, property: impl Fn(S::Value) -> TestCaseResult) {
    let configured = cases();
    let config = Config {
        cases: configured.cases.div_ceil(4),
        failure_persistence: None,
        ..configured
    };
    let checked = TestRunner::new(config).run(strategy, property);
    checked.unwrap_or_else(|error| panic!("{error}"));
}

impl Kind {
    pub(crate) fn decode(self, reader: &mut Reader) -> Result<Message, DecodeError> {
        Ok(match self {
            Self::ConnectRequest => Message::ConnectRequest(Decode::decode(reader)?),
            Self::ConnectResponse => Message::ConnectResponse(Decode::decode(reader)?),
            Self::RequestHeader => Message::RequestHeader(Decode::decode(reader)?),
            Self::ReplyHeader => Message::ReplyHeader(Decode::decode(reader)?),
            Self::WatcherEvent => Message::WatcherEvent(Decode::decode(reader)?),
            Self::Request(op) => Message::Request(Request::decode(op, reader)?),
            Self::Response(op) => Message::Response(Response::decode(op, reader)?),
        })
    }

    /// Decodes a message from `bytes`, with the reader that clients use.
    pub(crate) fn decode_all(self, bytes: &Bytes) -> Result<Message, DecodeError> {
        self.decode(&mut Reader::new(bytes.clone()))
    }

    /// Arbitrary messages of this kind.
    pub(crate) fn messages(self) -> BoxedStrategy<Message> {
        match self {
            Self::ConnectRequest => records::connect_request()
                .prop_map(Message::ConnectRequest)
                .boxed(),
            Self::ConnectResponse => records::connect_response()
                .prop_map(Message::ConnectResponse)
                .boxed(),
            Self::RequestHeader => records::request_header()
                .prop_map(Message::RequestHeader)
                .boxed(),
            Self::ReplyHeader => records::reply_header()
                .prop_map(Message::ReplyHeader)
                .boxed(),
            Self::WatcherEvent => records::watcher_event()
                .prop_map(Message::WatcherEvent)
                .boxed(),
            Self::Request(op) => operations::request(op).prop_map(Message::Request).boxed(),
            Self::Response(op) => operations::response(op).prop_map(Message::Response).boxed(),
        }
    }
}

impl Message {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::ConnectRequest(_) => Kind::ConnectRequest,
            Self::ConnectResponse(_) => Kind::ConnectResponse,
            Self::RequestHeader(_) => Kind::RequestHeader,
            Self::ReplyHeader(_) => Kind::ReplyHeader,
            Self::WatcherEvent(_) => Kind::WatcherEvent,
            Self::Request(request) => Kind::Request(request.op()),
            Self::Response(response) => Kind::Response(response.op()),
        }
    }

    pub(crate) fn encoded(&self) -> Bytes {
        let mut out = BytesMut::new();
        let mut writer = Writer::new(&mut out);
        match self {
            Self::ConnectRequest(it) => it.encode(&mut writer),
            Self::ConnectResponse(it) => it.encode(&mut writer),
            Self::RequestHeader(it) => it.encode(&mut writer),
            Self::ReplyHeader(it) => it.encode(&mut writer),
            Self::WatcherEvent(it) => it.encode(&mut writer),
            Self::Request(it) => it.encode(&mut writer),
            Self::Response(it) => it.encode(&mut writer),
        }
        writer.finish().unwrap();
        out.freeze()
    }
}
