//! Both directions of one connection: cuts the bytes into messages, decodes each, and prints it.
//!
//! Invariants:
//! - Every byte that comes in is in exactly one message, in order.
//! - No bytes make this fail. What cannot be decoded is in a message with the reason.
//! - Later versions may add keys to the JSON, but remove none.
//!
//! A reply does not name its operation, so this remembers the requests.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    ErrorCode, OpCode, Request, Response, WatcherEvent, Xid,
    connect::{ConnectRequest, ConnectResponse},
    frame::{self, PREFIX_LEN},
    header::{ReplyHeader, RequestHeader},
    jute::{Decode as _, DecodeError, Reader, Traced, TracedValue},
};
use serde_json::{Value, json};

use crate::{exit::Failure, text};

/// A longer frame is taken for the end of what can be decoded.
const LONGEST_FRAME: usize = 64 << 20;

/// The sender of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// A connection.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    number: usize,
    /// Whether messages are printed as JSON.
    json: bool,
    /// Whether the connection is not a recording: messages have a time, and their secrets are not shown.
    is_live: bool,
    /// The bytes of each side.
    sides: [Direction; 2],
    /// The requests without a reply, in order.
    asked: VecDeque<(Xid, OpCode)>,
}

#[derive(Debug, Default)]
struct Direction {
    /// The bytes that are in no message yet.
    left: BytesMut,
    /// How many bytes came before these.
    offset: usize,
    /// Whether the handshake has come.
    begun: bool,
    /// What the bytes are if they cannot be cut into messages.
    opaque: Option<&'static str>,
}

/// A message, or bytes that are none.
#[derive(Debug, Default)]
struct Message {
    /// What it is: `getData`, `reply to getData`, `event`.
    what: String,
    /// All bytes, with the length in front of a frame.
    bytes: Bytes,
    /// The fields, in order and without a gap. What is behind them is not decoded.
    fields: Vec<Traced>,
    error: Option<String>,
}

/// Bytes that are not decoded.
fn opaque(what: &str, bytes: BytesMut, error: Option<String>) -> Message {
    Message {
        what: what.to_owned(),
        bytes: bytes.freeze(),
        error,
        ..Message::default()
    }
}

impl Conversation {
    pub(super) fn new(json: bool, is_live: bool, number: usize) -> Self {
        Self {
            number,
            json,
            is_live,
            ..Self::default()
        }
    }

    /// Takes bytes of one side, and prints the messages that are complete now.
    pub(super) fn hear(&mut self, side: Side, bytes: &[u8]) -> Result<(), Failure> {
        self.sides[side as usize].left.extend_from_slice(bytes);
        while let Some(message) = self.next(side) {
            self.print(side, message)?;
        }
        Ok(())
    }

    /// The connection has ended: prints the bytes that are in no message. What comes then belongs to the next one.
    pub(super) fn end(&mut self) -> Result<(), Failure> {
        for side in [Side::Client, Side::Server] {
            let bytes = self.sides[side as usize].left.split();
            if !bytes.is_empty() {
                let why = "the rest of the message is missing".to_owned();
                self.print(side, opaque("incomplete", bytes, Some(why)))?;
            }
        }
        *self = Self::new(self.json, self.is_live, self.number + 1);
        Ok(())
    }

    fn next(&mut self, side: Side) -> Option<Message> {
        let direction = &mut self.sides[side as usize];
        let left = &mut direction.left;
        if let Some(what) = direction.opaque {
            return (!left.is_empty()).then(|| opaque(what, left.split(), None));
        }
        let start: [u8; PREFIX_LEN] = *left.first_chunk()?;
        if side == Side::Client && !direction.begun && start.iter().all(u8::is_ascii_lowercase) {
            // One of the four-letter words. Its answer is text.
            let word = opaque("word", left.split_to(PREFIX_LEN), None);
            direction.opaque = Some("bytes");
            self.sides[Side::Server as usize].opaque = Some("answer");
            return Some(word);
        }
        let bytes: Bytes = match frame::split(left, LONGEST_FRAME) {
            Ok(message) => [&start[..], &message?].concat().into(),
            Err(error) => {
                direction.opaque = Some("bytes");
                return Some(opaque("bytes", left.split(), Some(error.to_string())));
            }
        };
        let mut what = "handshake".to_owned();
        let mut reader = Reader::new(bytes.clone()).with_trace();
        let decoded = self.decode(side, &mut reader, &mut what);
        Some(Message {
            what,
            bytes,
            fields: reader.trace().to_vec(),
            error: decoded.err().map(|error| error.to_string()),
        })
    }

    /// Decodes a frame, and says what it is.
    fn decode(
        &mut self,
        side: Side,
        reader: &mut Reader,
        what: &mut String,
    ) -> Result<(), DecodeError> {
        let begun = std::mem::replace(&mut self.sides[side as usize].begun, true);
        reader.enter("frame length");
        i32::decode(reader)?;
        match (side, begun) {
            (Side::Client, false) => ConnectRequest::decode(reader).map(drop),
            (Side::Server, false) => ConnectResponse::decode(reader).map(drop),
            (Side::Client, true) => {
                "request".clone_into(what);
                let header = RequestHeader::decode(reader)?;
                self.asked.push_back((header.xid, header.op));
                header.op.name().unwrap_or("request").clone_into(what);
                Request::decode(header.op, reader).map(drop)
            }
            (Side::Server, true) => {
                "reply".clone_into(what);
                let header = ReplyHeader::decode(reader)?;
                if header.xid == Xid::NOTIFICATION {
                    "event".clone_into(what);
                    return WatcherEvent::decode(reader).map(drop);
                }
                let asked = self.asked.iter().position(|(xid, _)| *xid == header.xid);
                let Some((_, op)) = asked.and_then(|at| self.asked.remove(at)) else {
                    return Ok(());
                };
                let name = op.name().unwrap_or("request");
                if header.err.is_ok() {
                    *what = format!("reply to {name}");
                    return Response::decode(op, reader).map(drop);
                }
                *what = format!("refusal of {name}");
                Ok(())
            }
        }
    }

    fn print(&mut self, side: Side, message: Message) -> Result<(), Failure> {
        let (what, bytes, mut fields) = (message.what, message.bytes, message.fields);
        let end = fields.last().map_or(0, |last| last.offset + last.length);
        if end < bytes.len() {
            fields.push(Traced {
                field: "bytes",
                offset: end,
                length: bytes.len() - end,
                value: TracedValue::Fixed(bytes.slice(end..)),
            });
        }
        let from = ["client", "server"][side as usize];
        let direction = &mut self.sides[side as usize];
        let (number, offset, length) = (self.number, direction.offset, bytes.len());
        direction.offset += length;
        let now = self.is_live.then(text::now);
        text::print(if self.json {
            let object = |it| as_object(it, &bytes, self.is_live);
            let fields: Vec<_> = fields.iter().map(object).collect();
            let time = now.map(text::millis);
            let message = json!({
                "connection": number, "from": from, "what": what, "offset": offset,
                "bytes": length, "error": message.error, "fields": fields, "time_ms": time,
            });
            format!("{message}\n")
        } else {
            let time = now.map_or(String::new(), |now| format!("{}  ", text::moment(now)));
            let fields = fields.iter().filter(|it| it.offset > 0);
            let word = |it| format!(" {}={}", short(it), value(it, self.is_live));
            let fields: String = fields.map(word).collect();
            let error = message.error.map(|error| format!(": {error}"));
            let error = error.unwrap_or_default();
            format!("{time}{number}  {from}  {what}, {length} bytes at {offset}{fields}{error}\n")
        })
    }
}

/// Fields whose values let others in.
const SECRETS: [&str; 5] = [
    "AuthPacket.auth",
    "SaslRequest.token",
    "SaslResponse.token",
    "ConnectRequest.password",
    "ConnectResponse.password",
];

/// The parts of the names of fields whose values are written in hexadecimal everywhere.
const IDS: [&str; 3] = ["zxid", "session_id", "owner"];

/// A field of these bytes as an object. If its value must be hidden, it has neither the value nor the bytes.
fn as_object(field: &Traced, bytes: &Bytes, hide: bool) -> Value {
    let bytes = bytes.slice(field.offset..field.offset + field.length);
    json!({
        "name": field.field,
        "offset": field.offset,
        "bytes": field.length,
        "value": value(field, hide),
        "hex": (!hide || !is_secret(field)).then(|| hex::encode(bytes)),
    })
}

fn is_secret(field: &Traced) -> bool {
    SECRETS.contains(&field.field)
}

/// The name of a field without that of its record.
fn short(field: &Traced) -> &str {
    let name = field.field.split_once('.');
    name.map_or(field.field, |(_, name)| name)
}

/// The value of a field, in the form that its meaning asks for.
fn value(field: &Traced, hide: bool) -> String {
    let name = short(field);
    match &field.value {
        _ if hide && is_secret(field) => "(not shown)".to_owned(),
        TracedValue::Int(op) if name == "op" => {
            let name = OpCode(*op).name();
            name.map_or(op.to_string(), |name| format!("{op} ({name})"))
        }
        TracedValue::Int(error) if name == "err" => ErrorCode(*error).to_string(),
        TracedValue::Int(int) => int.to_string(),
        TracedValue::Long(long) if IDS.iter().any(|id| name.contains(id)) => format!("0x{long:x}"),
        TracedValue::Long(long) => long.to_string(),
        TracedValue::Fixed(bytes) if name != "bytes" && **bytes == [0] => "false".to_owned(),
        TracedValue::Fixed(bytes) if name != "bytes" && **bytes == [1] => "true".to_owned(),
        TracedValue::Fixed(bytes) | TracedValue::Buffer(Some(bytes)) => readable(bytes),
        TracedValue::Text(Some(text)) => format!("\"{}\"", text::harmless(text)),
        TracedValue::Count(Some(1)) => "1 element".to_owned(),
        TracedValue::Count(Some(count)) => format!("{count} elements"),
        _ => "null".to_owned(),
    }
}

/// Bytes as text, if they are visible text; else in hexadecimal.
fn readable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(|c| c.is_control() && c != '\n') => {
            format!("\"{}\"", text::harmless(text))
        }
        _ => format!("0x{}", hex::encode(bytes)),
    }
}
