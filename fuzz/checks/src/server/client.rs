//! One hostile client: what it has sent, which replies it must get, and what it got.
//!
//! It decodes the output as the protocol says, and knows nothing about the inside of the engine.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    OpCode, Response, SessionId, WatcherEvent, Xid, Zxid,
    connect::{ConnectRequest, ConnectResponse},
    frame,
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, Reader},
};

/// The client's end of one connection.
#[derive(Debug, Default)]
pub(super) struct Client {
    /// Bytes that were sent and are not a whole frame yet.
    sent: BytesMut,
    opening: Opening,
    /// Whole requests that were sent and are not answered yet.
    unanswered: VecDeque<(Xid, OpCode)>,
    got: BytesMut,
    pub(super) session: Option<(SessionId, Bytes)>,
    /// The server has closed the connection.
    pub(super) closed: bool,
    /// Whether the server is a member of an ensemble.
    is_of_member: bool,
    /// The highest zxid of the replies and events.
    zxid: Zxid,
    /// A hash of everything that the client got.
    pub(super) sum: u64,
}

/// The state of the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Opening {
    /// No whole message was sent.
    #[default]
    Silent,
    /// A four-letter word was sent: all output is text.
    Word,
    /// A handshake was sent.
    Asked,
    /// The handshake was answered with a session.
    Open,
    /// The handshake was refused.
    Refused,
    /// The client can no longer tell which reply belongs to which request.
    Confused,
}

impl Client {
    pub(super) fn of(is_of_member: bool) -> Self {
        Self {
            is_of_member,
            ..Self::default()
        }
    }

    /// Notes what the client sends.
    pub(super) fn sends(&mut self, bytes: &[u8]) {
        self.sent.extend_from_slice(bytes);
        if self.opening == Opening::Silent
            && let Some(word) = self.sent.first_chunk::<4>()
            && word.iter().all(u8::is_ascii_lowercase)
        {
            self.opening = Opening::Word;
        }
        if matches!(
            self.opening,
            Opening::Word | Opening::Confused | Opening::Refused
        ) {
            return self.sent.clear();
        }
        // The server reads nothing behind a frame of impossible length.
        while let Ok(Some(message)) = frame::split(&mut self.sent, frame::SERVER_LIMIT) {
            let mut reader = Reader::new(message);
            if self.opening == Opening::Silent {
                if ConnectRequest::decode(&mut reader).is_ok() {
                    self.opening = Opening::Asked;
                }
            } else if let Ok(RequestHeader { xid, op }) = RequestHeader::decode(&mut reader) {
                self.unanswered.push_back((xid, op));
            }
        }
    }

    /// Checks what the client gets.
    pub(super) fn gets(&mut self, bytes: &[u8]) {
        assert!(!self.closed, "output after the connection was closed");
        for byte in bytes {
            // FNV-1a.
            self.sum = (self.sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.opening == Opening::Word {
            assert!(std::str::from_utf8(bytes).is_ok());
            return;
        }
        self.got.extend_from_slice(bytes);
        if self.opening == Opening::Confused {
            return self.got.clear();
        }
        while let Some(message) = self.next_message() {
            let mut reader = Reader::new(message);
            if self.opening == Opening::Asked {
                self.greeted(&mut reader);
            } else {
                assert_eq!(self.opening, Opening::Open, "a reply without a session");
                self.told(&mut reader);
            }
            assert_eq!(reader.left(), 0);
            if self.opening == Opening::Confused {
                return self.got.clear();
            }
        }
        assert!(self.got.is_empty(), "the output ends within a frame");
    }

    fn next_message(&mut self) -> Option<Bytes> {
        let message = frame::split(&mut self.got, usize::MAX);
        assert!(message.is_ok(), "the output is not a frame");
        message.ok().flatten()
    }

    fn greeted(&mut self, reader: &mut Reader) {
        let response = ConnectResponse::decode(reader);
        assert!(response.is_ok(), "{response:?}");
        let Ok(response) = response else {
            return;
        };
        let has_one = response.timeout_ms > 0;
        assert_eq!(has_one, response.session_id != SessionId::NONE);
        let password = response.password.unwrap_or_default();
        assert_eq!(password.len(), 16);
        if has_one {
            self.opening = Opening::Open;
            self.session = Some((response.session_id, password));
        } else {
            // The server reads nothing more.
            self.opening = Opening::Refused;
            self.unanswered.clear();
        }
    }

    fn told(&mut self, reader: &mut Reader) {
        let header = ReplyHeader::decode(reader);
        assert!(header.is_ok(), "{header:?}");
        let Ok(ReplyHeader { xid, zxid, err }) = header else {
            return;
        };
        if zxid > Zxid::ZERO {
            assert!(zxid >= self.zxid, "{zxid} after {}", self.zxid);
            self.zxid = zxid;
        }
        if xid == Xid::NOTIFICATION {
            if self.unanswered.iter().any(|(asked, _)| *asked == xid) {
                // The client has used the xid of notifications for a request, so it cannot tell
                // reply and event apart. That is its own fault.
                return self.gives_up(reader);
            }
            let event = WatcherEvent::decode(reader);
            assert!(event.is_ok(), "{event:?}");
            return;
        }
        let at = self.position_of(xid);
        if at > 0 && self.unanswered.front().is_some_and(|own| own.0 == xid) {
            // The same with two requests of one xid.
            return self.gives_up(reader);
        }
        let Some((asked, op)) = self.unanswered.remove(at) else {
            unreachable!("a reply without a request: {xid:?}");
        };
        let expected = if op == OpCode::PING { Xid::PING } else { asked };
        assert_eq!(xid, expected, "to {op}");
        if err.is_ok() {
            let response = Response::decode(op, reader);
            assert!(response.is_ok(), "{response:?}");
        }
    }

    /// The place of the request that may have this reply: the oldest, or one that a member does not
    /// keep behind writes that wait for the leader.
    fn position_of(&self, xid: Xid) -> usize {
        let is_at_once = |op: OpCode| matches!(op, OpCode::AUTH | OpCode::SASL) || !op.is_request();
        let mut all = self.unanswered.iter();
        let ahead = all.position(|(_, op)| self.is_of_member && is_at_once(*op));
        let ahead = ahead.filter(|at| self.unanswered.get(*at).is_some_and(|own| own.0 == xid));
        ahead.unwrap_or(0)
    }

    /// The client cannot tell what it got.
    fn gives_up(&mut self, reader: &mut Reader) {
        *reader = Reader::new(Bytes::new());
        self.unanswered.clear();
        self.opening = Opening::Confused;
    }

    /// Whether every request has its reply.
    pub(super) fn is_answered(&self) -> bool {
        self.opening != Opening::Asked && self.unanswered.is_empty()
    }

    /// Whether the client has a session.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.opening, Opening::Open | Opening::Confused) && !self.closed
    }
}
