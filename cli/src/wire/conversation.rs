//! Both directions of one connection: cuts the bytes into messages, decodes each, and prints it.
//!
//! Invariants:
//! - Every byte that comes in is in exactly one message, in order.
//! - No bytes make this fail. What cannot be decoded is in a message with the reason.
//! - A message is printed as `proto` prints its record, so passwords and credentials are left out.
//! - Later versions may add keys to the JSON, but remove none.
//!
//! A reply does not name its operation, so this remembers the requests.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    OpCode, Request, Response, WatcherEvent, Xid,
    connect::{ConnectRequest, ConnectResponse},
    frame::{self, PREFIX_LEN},
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, DecodeError, Reader},
};
use serde_json::json;

use crate::{escape, exit::Failure, text};

/// A longer frame is taken for the end of what can be decoded.
const LONGEST_FRAME: usize = 64 << 20;

/// The first bytes of a connection with TLS: the type of a record with a handshake, and the major version.
const TLS_HANDSHAKE: [u8; 2] = [0x16, 3];
const ENCRYPTED: &str = "encrypted";
const NOT_SHOWN: &str = "TLS, which cannot be shown: use the port of the server without TLS";

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
    /// Whether the connection is not a recording: messages have a time, and their bytes are not shown.
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
#[derive(Debug)]
struct Message {
    /// What it is: `getData`, `reply to getData`, `event`.
    what: String,
    /// All bytes, with the length in front of a frame.
    bytes: Bytes,
    /// What it says, or why that is not known.
    said: Result<String, String>,
}

/// Bytes that are not decoded.
fn opaque(what: &str, bytes: BytesMut, error: Option<String>) -> Message {
    Message {
        what: what.to_owned(),
        said: error.map_or_else(|| Ok(readable(&bytes)), Err),
        bytes: bytes.freeze(),
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
            let why = (what == ENCRYPTED).then(|| "TLS".to_owned());
            return (!left.is_empty()).then(|| opaque(what, left.split(), why));
        }
        let start: [u8; PREFIX_LEN] = *left.first_chunk()?;
        if side == Side::Client && !direction.begun && start.iter().all(u8::is_ascii_lowercase) {
            // One of the four-letter words. Its answer is text.
            let word = opaque("word", left.split_to(PREFIX_LEN), None);
            direction.opaque = Some("bytes");
            self.sides[Side::Server as usize].opaque = Some("answer");
            return Some(word);
        }
        if side == Side::Client && !direction.begun && start.starts_with(&TLS_HANDSHAKE) {
            let message = opaque(ENCRYPTED, left.split(), Some(NOT_SHOWN.to_owned()));
            for side in &mut self.sides {
                side.opaque = Some(ENCRYPTED);
            }
            return Some(message);
        }
        let bytes: Bytes = match frame::split(left, LONGEST_FRAME) {
            Ok(message) => [&start[..], &message?].concat().into(),
            Err(error) => {
                direction.opaque = Some("bytes");
                return Some(opaque("bytes", left.split(), Some(error.to_string())));
            }
        };
        let mut what = "handshake".to_owned();
        let mut reader = Reader::new(bytes.clone());
        let decoded = self.decode(side, &mut reader, &mut what);
        let said = decoded.map(|said| match reader.left() {
            0 => said,
            left => format!("{said}, and {left} bytes more"),
        });
        let said = said.map_err(|error| error.to_string());
        Some(Message { what, bytes, said })
    }

    /// Decodes a frame; says what it is, and what is in it.
    fn decode(
        &mut self,
        side: Side,
        reader: &mut Reader,
        what: &mut String,
    ) -> Result<String, DecodeError> {
        let begun = std::mem::replace(&mut self.sides[side as usize].begun, true);
        reader.enter("frame length");
        i32::decode(reader)?;
        match (side, begun) {
            (Side::Client, false) => record::<ConnectRequest>(reader),
            (Side::Server, false) => record::<ConnectResponse>(reader),
            (Side::Client, true) => {
                "request".clone_into(what);
                let RequestHeader { xid, op } = RequestHeader::decode(reader)?;
                self.asked.push_back((xid, op));
                op.name().unwrap_or("request").clone_into(what);
                let request = Request::decode(op, reader)?;
                Ok(format!("xid {xid}, {request:?}"))
            }
            (Side::Server, true) => {
                "reply".clone_into(what);
                let ReplyHeader { xid, zxid, err } = ReplyHeader::decode(reader)?;
                if xid == Xid::NOTIFICATION {
                    "event".clone_into(what);
                    return record::<WatcherEvent>(reader);
                }
                let header = format!("xid {xid}, zxid {zxid}, {err}");
                let asked = self.asked.iter().position(|(asked, _)| *asked == xid);
                let Some((_, op)) = asked.and_then(|at| self.asked.remove(at)) else {
                    return Ok(header);
                };
                let name = op.name().unwrap_or("request");
                if !err.is_ok() {
                    *what = format!("refusal of {name}");
                    return Ok(header);
                }
                *what = format!("reply to {name}");
                let response = Response::decode(op, reader)?;
                Ok(format!("{header}, {response:?}"))
            }
        }
    }

    fn print(&mut self, side: Side, message: Message) -> Result<(), Failure> {
        let Message { what, bytes, said } = message;
        let from = ["client", "server"][side as usize];
        let direction = &mut self.sides[side as usize];
        let (number, offset, length) = (self.number, direction.offset, bytes.len());
        direction.offset += length;
        let now = self.is_live.then(text::now);
        let hex = (!self.is_live).then(|| hex::encode(&bytes));
        text::print(if self.json {
            let message = json!({
                "connection": number, "from": from, "what": what, "offset": offset, "bytes": length,
                "said": said.as_ref().ok(), "error": said.as_ref().err(), "hex": hex,
                "time_ms": now.map(text::millis),
            });
            format!("{message}\n")
        } else {
            let time = now.map_or(String::new(), |now| format!("{}  ", text::moment(now)));
            let bytes = hex.map_or(String::new(), |hex| format!(": 0x{hex}"));
            let said = said.unwrap_or_else(|error| error + &bytes);
            format!("{time}{number}  {from}  {what}, {length} bytes at {offset}: {said}\n")
        })
    }
}

/// A record as text.
fn record<T: Decode + std::fmt::Debug>(reader: &mut Reader) -> Result<String, DecodeError> {
    Ok(format!("{:?}", T::decode(reader)?))
}

/// Bytes as text, if they are visible text; else in hexadecimal.
fn readable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(|c| c.is_control() && c != '\n') => {
            format!("\"{}\"", escape::harmless(text))
        }
        _ => format!("0x{}", hex::encode(bytes)),
    }
}
