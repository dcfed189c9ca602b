//! Decodes every recorded message completely, compares it with the recorder's comment, and encodes
//! it to the same bytes.
//!
//! The recordings (`golden/`, see `recording`) are the only reference in these tests that is not
//! from this workspace. No message is skipped: [`MALFORMED`] lists those that break the rules on
//! purpose, with the exact error. No message is lost: the test also compares the number of messages
//! of each kind.

mod describe;
mod recording;

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    Request, Response, WatcherEvent, Xid,
    connect::{ConnectRequest, ConnectResponse},
    frame::{self, FrameError},
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, DecodeError, DecodeErrorKind, Encode, NegativeCounts, Reader, Writer},
};

use recording::{Recording, Sent, Side};

/// The malformed messages that the client sent to both servers.
///
/// Each entry is the exchange, the index of the client's message in it (from 0, including the
/// handshake), and the error.
const MALFORMED: &[(&str, usize, Wrong)] = &[
    (
        "error_marshalling",
        1,
        message("CreateRequest.path", 8, too_long(4, 2)),
    ),
    (
        "error_marshalling",
        2,
        message("ExistsRequest.watch", 14, short(1)),
    ),
    (
        "error_marshalling",
        3,
        message("ExistsRequest.path", 8, DecodeErrorKind::Negative(-2)),
    ),
    (
        "error_marshalling",
        4,
        message("ExistsRequest.path", 8, too_long(0x7fff_ffff, 0)),
    ),
    (
        "error_marshalling",
        5,
        message("CreateRequest.acl", 20, too_long(0x7fff_ffff, 0)),
    ),
    (
        "error_negative_vector_count",
        1,
        message("CreateRequest.acl", 20, DecodeErrorKind::Negative(-2)),
    ),
    (
        "error_unimplemented",
        1,
        message("RequestHeader.op", 8, DecodeErrorKind::Unknown(999)),
    ),
    ("frame_negative", 1, Wrong::Frame(FrameError::Negative(-1))),
    (
        "frame_too_long",
        1,
        Wrong::Frame(FrameError::TooLong {
            length: 0x10_0000,
            limit: frame::SERVER_LIMIT,
        }),
    ),
    ("frame_zero", 1, message("RequestHeader.xid", 0, short(4))),
    (
        "multi_bad_subop",
        1,
        message("MultiHeader.op", 8, DecodeErrorKind::Unknown(7)),
    ),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Frame(FrameError),
    Message(DecodeError),
}

const fn message(field: &'static str, offset: usize, kind: DecodeErrorKind) -> Wrong {
    Wrong::Message(DecodeError {
        field,
        offset,
        kind,
    })
}

const fn short(needed: usize) -> DecodeErrorKind {
    DecodeErrorKind::Short { needed, left: 0 }
}

const fn too_long(announced: usize, left: usize) -> DecodeErrorKind {
    DecodeErrorKind::TooLong { announced, left }
}

#[test]
fn every_recorded_message_decodes_as_the_recorder_says_and_encodes_to_the_same_bytes() {
    let recordings = recording::all();
    let mut kinds = BTreeMap::new();
    for recording in &recordings {
        check(recording, &mut kinds);
    }
    if cfg!(miri) {
        return; // only some of the recordings are present
    }
    let total: usize = kinds.values().sum();
    let expected = [
        ("answer to a word", 6),
        ("connect request", 152),
        ("connect response", 150),
        ("four-letter word", 6),
        ("malformed", 2 * MALFORMED.len()),
        ("notification", 52),
        ("refusal", 105),
        ("reply", 164),
        ("request", 254),
    ];
    assert_eq!(kinds, BTreeMap::from(expected));
    assert_eq!((recordings.len(), total), (158, 911));
}

#[test]
#[cfg_attr(miri, ignore = "runs no code of the crate")]
fn both_servers_have_recordings_of_the_same_exchanges() {
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for recording in recording::all() {
        versions
            .entry(recording.exchange)
            .or_default()
            .push(recording.version);
    }
    assert_eq!(versions.len(), 79);
    for (exchange, versions) in versions {
        assert_eq!(versions, ["3.8.0", "3.9.3"], "{exchange}");
    }
}

#[test]
fn a_reader_with_the_rule_of_java_reads_a_negative_count_as_an_empty_list() {
    let recordings = recording::some(|name| name.starts_with("error_negative_vector_count."));
    assert_eq!(recordings.len(), 2);
    for recording in &recordings {
        let sent = &recording.sent[2];
        let body = Bytes::copy_from_slice(&sent.bytes[frame::PREFIX_LEN..]);
        let mut reader = Reader::new(body).with_negative_counts(NegativeCounts::Empty);
        let header = RequestHeader::decode(&mut reader).unwrap();
        let request = Request::decode(header.op, &mut reader).unwrap();
        let mut said = describe::request_header(header);
        said.extend(describe::request(&request));
        assert_eq!(said_of(28, said), sent.said());
        assert_eq!(reader.left(), 0);
    }
}

/// Checks the messages of a recording, and adds their number to the count of each kind.
fn check(recording: &Recording, kinds: &mut BTreeMap<&'static str, usize>) {
    let mut conversation = Conversation::default();
    let (mut connection, mut from_client) = (0, 0);
    for sent in &recording.sent {
        if sent.connection != connection {
            connection = sent.connection;
            conversation = Conversation::default();
        }
        let kind = if recording.exchange.starts_with("4lw_") {
            check_word(sent)
        } else {
            let wrong = MALFORMED.iter().find_map(|(exchange, index, wrong)| {
                let here = sent.side == Side::Client
                    && *exchange == recording.exchange
                    && *index == from_client;
                here.then_some(*wrong)
            });
            conversation.check(sent, wrong)
        };
        from_client += usize::from(sent.side == Side::Client);
        *kinds.entry(kind).or_default() += 1;
    }
}

/// Checks a four-letter word or its reply. Both are plain text without a length.
fn check_word(sent: &Sent) -> &'static str {
    let text = std::str::from_utf8(&sent.bytes).unwrap();
    match sent.side {
        Side::Client => {
            assert!(["ruok", "isro", "srvr"].contains(&text), "{}", sent.place);
            "four-letter word"
        }
        Side::Server => {
            let lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
            assert!(sent.comments.ends_with(&lines), "{}", sent.place);
            "answer to a word"
        }
    }
}

/// The state of a connection that is needed to decode its next message.
#[derive(Default)]
struct Conversation {
    shook_client: bool,
    shook_server: bool,
    /// Requests without a reply so far, oldest first.
    unanswered: VecDeque<RequestHeader>,
}

impl Conversation {
    /// Checks one message and says what kind it is.
    fn check(&mut self, sent: &Sent, wrong: Option<Wrong>) -> &'static str {
        let place = &sent.place;
        let mut stream = BytesMut::from(&sent.bytes[..]);
        let body = match frame::split(&mut stream, frame::SERVER_LIMIT) {
            Ok(body) => body.unwrap_or_else(|| panic!("{place}: less than a frame")),
            Err(error) => {
                assert_eq!(Some(Wrong::Frame(error)), wrong, "{place}");
                return "malformed";
            }
        };
        assert!(stream.is_empty(), "{place}: more than a frame");

        let mut reader = Reader::new(body.clone());
        let decoded = match sent.side {
            Side::Client => self.decode_client(&mut reader),
            Side::Server => self.decode_server(&mut reader),
        };
        let decoded = match (decoded, wrong) {
            (Ok(decoded), None) => decoded,
            (decoded, wrong) => {
                assert_eq!(decoded.err().map(Wrong::Message), wrong, "{place}");
                if let Ok(header) = RequestHeader::decode(&mut Reader::new(body.clone())) {
                    let head = said_of(body.len(), describe::request_header(header));
                    assert!(sent.said().starts_with(&head), "{place}");
                }
                return "malformed";
            }
        };
        assert_eq!(reader.left(), 0, "{place}: not read to the end");
        let said = said_of(body.len(), decoded.said);
        assert_eq!(said, sent.said(), "{place}");
        assert_eq!(decoded.again, sent.bytes, "{place}");
        decoded.kind
    }

    fn decode_client(&mut self, reader: &mut Reader) -> Result<Decoded, DecodeError> {
        if !std::mem::replace(&mut self.shook_client, true) {
            let message = ConnectRequest::decode(reader)?;
            let said = describe::connect_request(&message);
            return Ok(Decoded::new("connect request", said, |w| message.encode(w)));
        }
        let header = RequestHeader::decode(reader)?;
        // The server also replies to a request that it cannot decode.
        self.unanswered.push_back(header);
        let request = Request::decode(header.op, reader)?;
        assert_eq!(request.op(), header.op);
        let mut said = describe::request_header(header);
        said.extend(describe::request(&request));
        Ok(Decoded::new("request", said, |writer| {
            header.encode(writer);
            request.encode(writer);
        }))
    }

    fn decode_server(&mut self, reader: &mut Reader) -> Result<Decoded, DecodeError> {
        if !std::mem::replace(&mut self.shook_server, true) {
            let message = ConnectResponse::decode(reader)?;
            let said = describe::connect_response(&message);
            return Ok(Decoded::new("connect response", said, |w| {
                message.encode(w);
            }));
        }
        let header = ReplyHeader::decode(reader)?;
        let mut said = describe::reply_header(&header);
        if header.xid == Xid::NOTIFICATION {
            let event = WatcherEvent::decode(reader)?;
            said.extend(describe::event(&event));
            return Ok(Decoded::new("notification", said, |writer| {
                header.encode(writer);
                event.encode(writer);
            }));
        }
        let request = self.unanswered.pop_front().expect("a reply to nothing");
        assert_eq!(request.xid, header.xid, "replies come in order");
        if !header.err.is_ok() {
            said.push(describe::no_body());
            return Ok(Decoded::new("refusal", said, |w| header.encode(w)));
        }
        let response = Response::decode(request.op, reader)?;
        assert_eq!(response.op(), request.op);
        said.extend(describe::response(&response));
        Ok(Decoded::new("reply", said, |writer| {
            header.encode(writer);
            response.encode(writer);
        }))
    }
}

/// A decoded message.
struct Decoded {
    kind: &'static str,
    /// The fields of the message, as the recorder writes them.
    said: Vec<String>,
    /// The frame that the message encodes to.
    again: BytesMut,
}

impl Decoded {
    fn new(kind: &'static str, said: Vec<String>, write: impl FnOnce(&mut Writer<'_>)) -> Self {
        let mut again = BytesMut::new();
        frame::append(&mut again, write).unwrap();
        Self { kind, said, again }
    }
}

/// The description of a message of `length` bytes, as the recorder writes it.
fn said_of(length: usize, fields: Vec<String>) -> String {
    let all: Vec<String> = std::iter::once(format!("len={length}"))
        .chain(fields)
        .collect();
    all.join(" | ")
}
