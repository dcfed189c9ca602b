//! Decodes every recorded message completely, to the fields of the schema, and encodes it to the
//! same bytes.
//!
//! The recordings in `golden/` are from two standalone Java servers, 3.8.0 and 3.9.3, that answered
//! the same script. `golden/<exchange>.<version>.hex` has the bytes that went over the wire:
//!
//! - `C>`: bytes of the client in hex, including the length before each message;
//! - `S>`: bytes of the server, in the same form;
//! - `#`: a comment. That above a message lists its fields, as the recorder has decoded them.
//!
//! No message is skipped: [`MALFORMED`] lists those that break the rules on purpose, with the exact
//! error. No message is lost: the test also compares the number of messages of each kind.

mod message;
mod schema;

use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    path::Path,
};

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    Request, Xid,
    frame::{self, FrameError},
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, DecodeError, Reader},
};

use message::{Kind, assert_agree};

/// The malformed messages that the client sent to both servers.
///
/// Each entry is the exchange, the index of the client's message in it (from 0, including the
/// handshake), and the error.
const MALFORMED: &str = "
error_marshalling 1: CreateRequest.path 8 TooLong { announced: 4, left: 2 }
error_marshalling 2: ExistsRequest.watch 14 Short { needed: 1, left: 0 }
error_marshalling 3: ExistsRequest.path 8 Negative(-2)
error_marshalling 4: ExistsRequest.path 8 TooLong { announced: 2147483647, left: 0 }
error_marshalling 5: CreateRequest.acl 20 TooLong { announced: 2147483647, left: 0 }
error_negative_vector_count 1: CreateRequest.acl 20 Negative(-2)
error_unimplemented 1: RequestHeader.op 8 Unknown(999)
frame_negative 1: Negative(-1)
frame_too_long 1: TooLong { length: 1048576, limit: 1048575 }
frame_zero 1: RequestHeader.xid 0 Short { needed: 4, left: 0 }
multi_bad_subop 1: MultiHeader.op 8 Unknown(7)
";

/// One exchange with one server.
struct Recording {
    /// The name of the exchange: `create2`.
    exchange: String,
    /// The version of the server: `3.9.3`.
    version: String,
    /// The messages of both sides, in order.
    sent: Vec<Sent>,
}

/// One line of bytes.
struct Sent {
    is_of_client: bool,
    bytes: Vec<u8>,
    /// The index of the connection in the exchange, from 0. A new connection follows each end of
    /// file.
    connection: usize,
    /// The file and line, for the message of a failed test.
    place: String,
}

/// All recordings, in the order of their file names.
fn recordings() -> Vec<Recording> {
    if cfg!(miri) {
        return UNDER_MIRI.map(|(name, text)| parse(name, text)).into();
    }
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden"));
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let read = |file: &std::path::PathBuf| {
        let name = file.file_name().unwrap().to_str().unwrap();
        parse(name, &fs::read_to_string(file).unwrap())
    };
    files.iter().map(read).collect()
}

fn parse(name: &str, text: &str) -> Recording {
    let stem = name.strip_suffix(".hex").and_then(|it| it.split_once('.'));
    let (exchange, version) = stem.unwrap_or_else(|| panic!("{name}"));
    let (mut sent, mut connection) = (Vec::new(), 0);
    for (index, line) in text.lines().enumerate() {
        let place = format!("golden/{name}:{}", index + 1);
        let (mark, rest) = line.split_at_checked(2).unwrap_or((line, ""));
        if mark == "# " {
            connection += usize::from(rest == "server closes the connection (EOF)");
            continue;
        }
        assert!(["C>", "S>"].contains(&mark), "{place}: {line}");
        let digits = rest.trim().as_bytes().chunks(2);
        let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        sent.push(Sent {
            is_of_client: mark == "C>",
            bytes: digits.map(byte).collect(),
            connection,
            place,
        });
    }
    Recording {
        exchange: exchange.to_owned(),
        version: version.to_owned(),
        sent,
    }
}

/// The name and the text of a file, compiled into the program.
macro_rules! in_place {
    ($name:literal) => {
        ($name, include_str!(concat!("golden/", $name)))
    };
}

/// The only recordings that are used under miri: miri cannot read files, and all recordings would
/// take an hour.
///
/// They contain, for each server, requests and replies of as many shapes as possible, and some
/// malformed messages.
const UNDER_MIRI: [(&str, &str); 14] = [
    in_place!("4lw_srvr.3.9.3.hex"),
    in_place!("addWatch_recursive.3.9.3.hex"),
    in_place!("create2.3.9.3.hex"),
    in_place!("error_marshalling.3.8.0.hex"),
    in_place!("error_negative_vector_count.3.8.0.hex"),
    in_place!("error_negative_vector_count.3.9.3.hex"),
    in_place!("frame_too_long.3.8.0.hex"),
    in_place!("getACL.3.8.0.hex"),
    in_place!("getChildren2.3.8.0.hex"),
    in_place!("getEphemerals.3.9.3.hex"),
    in_place!("multiRead.3.8.0.hex"),
    in_place!("multi_success.3.9.3.hex"),
    in_place!("setWatches2.3.9.3.hex"),
    in_place!("whoAmI.3.8.0.hex"),
];

#[test]
fn every_recorded_message_has_the_fields_of_the_schema_and_encodes_to_the_same_bytes() {
    let (mut kinds, mut exchanges) = (BTreeMap::new(), BTreeMap::new());
    for recording in recordings() {
        let versions: &mut Vec<_> = exchanges.entry(recording.exchange.clone()).or_default();
        versions.push(recording.version.clone());
        check(&recording, &mut kinds);
    }
    if cfg!(miri) {
        return; // only some of the recordings are present
    }
    let expected = [
        ("connect request", 152),
        ("connect response", 150),
        ("malformed", 2 * 11),
        ("notification", 52),
        ("refusal", 105),
        ("reply", 164),
        ("request", 254),
        ("word", 12),
    ];
    assert_eq!(kinds, BTreeMap::from(expected));
    assert_eq!(exchanges.len(), 79);
    for (exchange, versions) in exchanges {
        assert_eq!(versions, ["3.8.0", "3.9.3"], "{exchange}");
    }
}

#[test]
fn a_reader_with_the_rule_of_java_reads_a_negative_count_as_an_empty_list() {
    let mut recordings = recordings();
    recordings.retain(|it| it.exchange == "error_negative_vector_count");
    assert_eq!(recordings.len(), 2);
    for recording in recordings {
        let body = Bytes::copy_from_slice(&recording.sent[2].bytes[frame::PREFIX_LEN..]);
        let mut reader = Reader::new(body).tolerant();
        let header = RequestHeader::decode(&mut reader).unwrap();
        let Request::Create(create) = Request::decode(header.op, &mut reader).unwrap() else {
            panic!("{header:?}");
        };
        assert_eq!(create.acl.as_deref(), Some(&[][..]));
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
        let this = format!("{} {from_client}: ", recording.exchange);
        let mut wrong = MALFORMED
            .lines()
            .filter_map(|line| line.strip_prefix(&this));
        let wrong = wrong.next().filter(|_| sent.is_of_client);
        // A four-letter word or its answer is plain text without a length.
        let (kind, error) = if recording.exchange.starts_with("4lw_") {
            assert!(std::str::from_utf8(&sent.bytes).is_ok(), "{}", sent.place);
            ("word", None)
        } else {
            match conversation.check(sent) {
                Ok(kind) => (kind, None),
                Err(error) => ("malformed", Some(error)),
            }
        };
        assert_eq!(error.as_deref(), wrong, "{}", sent.place);
        from_client += usize::from(sent.is_of_client);
        *kinds.entry(kind).or_default() += 1;
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
    /// Checks one message and says what kind it is, or what is wrong with it.
    fn check(&mut self, sent: &Sent) -> Result<&'static str, String> {
        let mut stream = BytesMut::from(&sent.bytes[..]);
        let body = frame::split(&mut stream, frame::SERVER_LIMIT);
        let body = body.map_err(|error: FrameError| format!("{error:?}"))?;
        let body = body.unwrap_or_else(|| panic!("{}: less than a frame", sent.place));
        assert!(stream.is_empty(), "{}: more than a frame", sent.place);
        let checked = if sent.is_of_client {
            self.check_client(&body)
        } else {
            self.check_server(&body)
        };
        checked.map_err(
            |DecodeError {
                 field,
                 offset,
                 kind,
             }| format!("{field} {offset} {kind:?}"),
        )
    }

    fn check_client(&mut self, body: &Bytes) -> Result<&'static str, DecodeError> {
        if !std::mem::replace(&mut self.shook_client, true) {
            assert_agree(&[Kind::ConnectRequest], body)?;
            return Ok("connect request");
        }
        let header = RequestHeader::decode(&mut Reader::new(body.clone()))?;
        // The server also replies to a request that it cannot decode.
        self.unanswered.push_back(header);
        assert_agree(&[Kind::RequestHeader, Kind::Request(header.op)], body)?;
        Ok("request")
    }

    fn check_server(&mut self, body: &Bytes) -> Result<&'static str, DecodeError> {
        if !std::mem::replace(&mut self.shook_server, true) {
            assert_agree(&[Kind::ConnectResponse], body)?;
            return Ok("connect response");
        }
        let header = ReplyHeader::decode(&mut Reader::new(body.clone()))?;
        if header.xid == Xid::NOTIFICATION {
            assert_agree(&[Kind::ReplyHeader, Kind::WatcherEvent], body)?;
            return Ok("notification");
        }
        let request = self.unanswered.pop_front().expect("a reply to nothing");
        assert_eq!(request.xid, header.xid, "replies come in order");
        if !header.err.is_ok() {
            assert_agree(&[Kind::ReplyHeader], body)?;
            return Ok("refusal");
        }
        assert_agree(&[Kind::ReplyHeader, Kind::Response(request.op)], body)?;
        Ok("reply")
    }
}
