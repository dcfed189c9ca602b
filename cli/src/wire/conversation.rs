//! Both directions of one connection: cuts the bytes into messages, and decodes each.
//!
//! Invariants:
//! - Every byte that comes in is in exactly one message, in order.
//! - No bytes make this fail. What cannot be decoded is in a message with the reason.
//!
//! A reply does not name its operation, so this remembers the requests.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    OpCode, Request, Response, WatcherEvent, Xid,
    connect::{ConnectRequest, ConnectResponse},
    frame::{self, PREFIX_LEN},
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, DecodeError, Reader, TracedValue},
};

use super::Side;

/// A longer frame is taken for the end of what can be decoded.
const LONGEST_FRAME: usize = 64 << 20;

/// A connection.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    client: Direction,
    server: Direction,
    /// The requests without a reply, in order.
    asked: VecDeque<(Xid, OpCode)>,
    /// Whether the client has sent a four-letter word. The answer is text.
    word: bool,
}

#[derive(Debug, Default)]
struct Direction {
    /// The bytes that are in no message yet.
    left: BytesMut,
    /// How many bytes came before these.
    offset: usize,
    /// Whether the handshake has come.
    begun: bool,
    /// Whether the rest cannot be cut into messages.
    broken: bool,
}

/// A message, or bytes that are none.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) side: Side,
    /// The offset in the stream of this side.
    pub(super) offset: usize,
    /// All bytes, with the length in front of a frame.
    pub(super) bytes: Bytes,
    /// What it is: `getData`, `reply to getData`, `event`.
    pub(super) what: String,
    /// The fields, in order and without a gap.
    pub(super) fields: Vec<Field>,
    /// Why the last field is only bytes.
    pub(super) error: Option<String>,
}

/// A part of a message.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    /// The offset in the message.
    pub(super) offset: usize,
    pub(super) length: usize,
    pub(super) value: TracedValue,
}

impl Conversation {
    /// Takes bytes of one side, and returns the messages that are complete now.
    pub(super) fn hear(&mut self, side: Side, bytes: &[u8]) -> Vec<Message> {
        self.direction(side).left.extend_from_slice(bytes);
        std::iter::from_fn(|| self.next(side)).collect()
    }

    /// The connection has ended: returns the bytes that are in no message.
    pub(super) fn end(&mut self) -> Vec<Message> {
        let rest = |side| {
            let rest = self.direction(side).left.split().freeze();
            let why = "the rest of the message is missing".to_owned();
            (!rest.is_empty()).then(|| self.opaque(side, rest, "incomplete", Some(why)))
        };
        [Side::Client, Side::Server]
            .into_iter()
            .filter_map(rest)
            .collect()
    }

    fn direction(&mut self, side: Side) -> &mut Direction {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    fn next(&mut self, side: Side) -> Option<Message> {
        let word = self.word;
        let direction = self.direction(side);
        if direction.left.is_empty() {
            return None;
        }
        if direction.broken || (word && side == Side::Server) {
            let rest = direction.left.split().freeze();
            let what = if word { "answer" } else { "bytes" };
            return Some(self.opaque(side, rest, what, None));
        }
        let start = direction.left.first_chunk::<PREFIX_LEN>();
        let is_word = start.is_some_and(|start| start.iter().all(u8::is_ascii_lowercase));
        if side == Side::Client && !direction.begun && is_word {
            direction.broken = true;
            let word = direction.left.split_to(PREFIX_LEN).freeze();
            self.word = true;
            return Some(self.opaque(side, word, "word", None));
        }
        let prefix: Vec<u8> = start.map(|start| start.to_vec()).unwrap_or_default();
        match frame::split(&mut direction.left, LONGEST_FRAME) {
            Ok(None) => None,
            Ok(Some(message)) => {
                let whole = [prefix.as_slice(), &message].concat().into();
                Some(self.decode(side, whole, message))
            }
            Err(error) => {
                direction.broken = true;
                let rest = direction.left.split().freeze();
                Some(self.opaque(side, rest, "bytes", Some(error.to_string())))
            }
        }
    }

    /// Bytes that are not decoded.
    fn opaque(&mut self, side: Side, bytes: Bytes, what: &str, error: Option<String>) -> Message {
        let field = rest(bytes.clone(), 0);
        self.message(side, bytes, what.to_owned(), vec![field], error)
    }

    fn message(
        &mut self,
        side: Side,
        bytes: Bytes,
        what: String,
        fields: Vec<Field>,
        error: Option<String>,
    ) -> Message {
        let direction = self.direction(side);
        let offset = direction.offset;
        direction.offset += bytes.len();
        Message {
            side,
            offset,
            bytes,
            what,
            fields,
            error,
        }
    }

    /// Decodes the message of a frame.
    fn decode(&mut self, side: Side, whole: Bytes, message: Bytes) -> Message {
        let length = message.len();
        let mut reader = Reader::new(message).with_trace();
        let direction = self.direction(side);
        let is_handshake = !direction.begun;
        direction.begun = true;
        let (what, done) = match (side, is_handshake) {
            (Side::Client, true) => ("handshake".to_owned(), all::<ConnectRequest>(&mut reader)),
            (Side::Server, true) => ("handshake".to_owned(), all::<ConnectResponse>(&mut reader)),
            (Side::Client, false) => self.request(&mut reader),
            (Side::Server, false) => self.reply(&mut reader),
        };
        let mut fields = vec![Field {
            name: "frame length",
            offset: 0,
            length: PREFIX_LEN,
            value: TracedValue::Int(i32::try_from(length).unwrap_or(i32::MAX)),
        }];
        fields.extend(reader.trace().iter().map(|traced| Field {
            name: traced.field,
            offset: PREFIX_LEN + traced.offset,
            length: traced.length,
            value: traced.value.clone(),
        }));
        let end = fields.last().map_or(0, |last| last.offset + last.length);
        if end < whole.len() {
            fields.push(rest(whole.slice(end..), end));
        }
        let error = done.err().map(|error| error.to_string());
        self.message(side, whole, what, fields, error)
    }

    fn request(&mut self, reader: &mut Reader) -> (String, Result<(), DecodeError>) {
        let header = match RequestHeader::decode(reader) {
            Ok(header) => header,
            Err(error) => return ("request".to_owned(), Err(error)),
        };
        self.asked.push_back((header.xid, header.op));
        let name = header.op.name().unwrap_or("request").to_owned();
        (name, Request::decode(header.op, reader).map(drop))
    }

    fn reply(&mut self, reader: &mut Reader) -> (String, Result<(), DecodeError>) {
        let header = match ReplyHeader::decode(reader) {
            Ok(header) => header,
            Err(error) => return ("reply".to_owned(), Err(error)),
        };
        if header.xid == Xid::NOTIFICATION {
            return ("event".to_owned(), all::<WatcherEvent>(reader));
        }
        let asked = self.asked.iter().position(|(xid, _)| *xid == header.xid);
        let Some((_, op)) = asked.and_then(|at| self.asked.remove(at)) else {
            return ("reply".to_owned(), Ok(()));
        };
        let name = op.name().unwrap_or("request");
        if header.err.is_ok() {
            (
                format!("reply to {name}"),
                Response::decode(op, reader).map(drop),
            )
        } else {
            (format!("refusal of {name}"), Ok(()))
        }
    }
}

fn all<T: Decode>(reader: &mut Reader) -> Result<(), DecodeError> {
    T::decode(reader).map(drop)
}

/// A field of bytes without a meaning.
fn rest(bytes: Bytes, offset: usize) -> Field {
    Field {
        name: "bytes",
        offset,
        length: bytes.len(),
        value: TracedValue::Fixed(bytes),
    }
}
