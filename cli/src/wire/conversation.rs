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
    jute::{Decode, DecodeError, Reader, Traced, TracedValue},
};

use super::Side;

/// A longer frame is taken for the end of what can be decoded.
const LONGEST_FRAME: usize = 64 << 20;

/// A connection.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// The bytes of each side.
    sides: [Direction; 2],
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
    pub(super) fields: Vec<Traced>,
    /// Why the last field is only bytes.
    pub(super) error: Option<String>,
}

impl Conversation {
    /// Takes bytes of one side, and returns the messages that are complete now.
    pub(super) fn hear(&mut self, side: Side, bytes: &[u8]) -> Vec<Message> {
        self.sides[side as usize].left.extend_from_slice(bytes);
        std::iter::from_fn(|| self.next(side)).collect()
    }

    /// The connection has ended: returns the bytes that are in no message.
    pub(super) fn end(&mut self) -> Vec<Message> {
        let mut rest = |side| {
            let length = self.sides[side as usize].left.len();
            let why = "the rest of the message is missing".to_owned();
            (length > 0).then(|| self.opaque(side, length, "incomplete", Some(why)))
        };
        let sides = [Side::Client, Side::Server];
        sides.into_iter().filter_map(&mut rest).collect()
    }

    fn next(&mut self, side: Side) -> Option<Message> {
        let word = self.word;
        let direction = &mut self.sides[side as usize];
        let length = direction.left.len();
        if length == 0 {
            return None;
        }
        if direction.broken || (word && side == Side::Server) {
            let what = if word { "answer" } else { "bytes" };
            return Some(self.opaque(side, length, what, None));
        }
        let start: Option<[u8; PREFIX_LEN]> = direction.left.first_chunk().copied();
        let is_word = start.is_some_and(|start| start.iter().all(u8::is_ascii_lowercase));
        if side == Side::Client && !direction.begun && is_word {
            direction.broken = true;
            self.word = true;
            return Some(self.opaque(side, PREFIX_LEN, "word", None));
        }
        match frame::split(&mut direction.left, LONGEST_FRAME) {
            Ok(message) => {
                let whole = [&start?[..], &message?].concat();
                Some(self.decode(side, whole.into()))
            }
            Err(error) => {
                direction.broken = true;
                Some(self.opaque(side, length, "bytes", Some(error.to_string())))
            }
        }
    }

    /// The next bytes, which are not decoded.
    fn opaque(&mut self, side: Side, length: usize, what: &str, error: Option<String>) -> Message {
        let bytes = self.sides[side as usize].left.split_to(length).freeze();
        self.message(side, bytes, what.to_owned(), Vec::new(), error)
    }

    /// A message. What is behind its fields is one more.
    fn message(
        &mut self,
        side: Side,
        bytes: Bytes,
        what: String,
        mut fields: Vec<Traced>,
        error: Option<String>,
    ) -> Message {
        let end = fields.last().map_or(0, |last| last.offset + last.length);
        if end < bytes.len() {
            fields.push(Traced {
                field: "bytes",
                offset: end,
                length: bytes.len() - end,
                value: TracedValue::Fixed(bytes.slice(end..)),
            });
        }
        let direction = &mut self.sides[side as usize];
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
    fn decode(&mut self, side: Side, whole: Bytes) -> Message {
        let mut reader = Reader::new(whole.clone()).with_trace();
        reader.enter("frame length");
        let _ = i32::decode(&mut reader);
        let begun = std::mem::replace(&mut self.sides[side as usize].begun, true);
        let (what, done) = match (side, begun) {
            (Side::Client, false) => ("handshake".to_owned(), all::<ConnectRequest>(&mut reader)),
            (Side::Server, false) => ("handshake".to_owned(), all::<ConnectResponse>(&mut reader)),
            (Side::Client, true) => self.request(&mut reader),
            (Side::Server, true) => self.reply(&mut reader),
        };
        let fields = reader.trace().to_vec();
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
            let decoded = Response::decode(op, reader).map(drop);
            (format!("reply to {name}"), decoded)
        } else {
            (format!("refusal of {name}"), Ok(()))
        }
    }
}

fn all<T: Decode>(reader: &mut Reader) -> Result<(), DecodeError> {
    T::decode(reader).map(drop)
}
