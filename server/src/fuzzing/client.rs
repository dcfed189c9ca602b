//! One hostile client's end of a connection: what it has sent, what it must get for that, and what it got.
//!
//! It reads what was sent as the protocol says and knows nothing of the server's inside.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    ErrorCode, OpCode, Response, SessionId, WatcherEvent, Xid, Zxid,
    connect::{ConnectRequest, ConnectResponse},
    frame,
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, Reader},
};

/// One end.
#[derive(Debug, Default)]
pub(super) struct Client {
    /// Sent, and no whole frame yet.
    sent: BytesMut,
    opening: Opening,
    /// Requests that were sent whole and not answered yet.
    unanswered: VecDeque<(Xid, OpCode)>,
    got: BytesMut,
    pub(super) session: Option<(SessionId, Bytes)>,
    /// The server has ended it.
    pub(super) closed: bool,
    /// The zxid of the last reply.
    zxid: Zxid,
    /// Everything that it was sent, in a few bytes.
    pub(super) sum: u64,
}

/// How far the first message has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Opening {
    /// Nothing whole was sent.
    #[default]
    Silent,
    /// A four-letter word: whatever comes is text.
    Word,
    /// A handshake was sent.
    Asked,
    /// It was answered with a session.
    Open,
    /// It was answered with none.
    Refused,
    /// It is not known any more which reply is whose.
    Confused,
}

impl Client {
    /// Notes what is sent.
    pub(super) fn sends(&mut self, bytes: &[u8]) {
        self.sent.extend_from_slice(bytes);
        if self.opening == Opening::Silent
            && let Some(word) = self.sent.first_chunk::<4>()
            && word.iter().all(u8::is_ascii_lowercase)
        {
            self.opening = Opening::Word;
        }
        if matches!(self.opening, Opening::Word | Opening::Confused) {
            return self.sent.clear();
        }
        // What is behind a frame of impossible length is read by nobody.
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

    /// Reads what it is sent.
    pub(super) fn gets(&mut self, bytes: &[u8]) {
        assert!(!self.closed, "sent after the end");
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
                assert_eq!(self.opening, Opening::Open, "sent without a session");
                self.told(&mut reader);
            }
            assert_eq!(reader.left(), 0);
            if self.opening == Opening::Confused {
                return self.got.clear();
            }
        }
        assert!(self.got.is_empty(), "half a frame");
    }

    fn next_message(&mut self) -> Option<Bytes> {
        let message = frame::split(&mut self.got, usize::MAX);
        assert!(message.is_ok(), "no frame");
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
            self.opening = Opening::Refused;
        }
    }

    fn told(&mut self, reader: &mut Reader) {
        let header = ReplyHeader::decode(reader);
        assert!(header.is_ok(), "{header:?}");
        let Ok(ReplyHeader { xid, zxid, err }) = header else {
            return;
        };
        if xid == Xid::NOTIFICATION {
            if self.unanswered.iter().any(|(asked, _)| *asked == xid) {
                // A request may have this number, too. That the two cannot be told apart is the client's fault.
                let _ = reader.take_rest();
                self.unanswered.clear();
                self.opening = Opening::Confused;
                return;
            }
            let event = WatcherEvent::decode(reader);
            assert!(event.is_ok(), "{event:?}");
            return;
        }
        let Some((asked, op)) = self.unanswered.pop_front() else {
            unreachable!("a reply to nothing: {xid:?}");
        };
        // Who is nobody is refused by number, whatever was asked.
        let is_refused = err == ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH;
        let is_ping = op == OpCode::PING && !is_refused;
        let expected = if is_ping { Xid::PING } else { asked };
        assert_eq!(xid, expected, "to {op}");
        if zxid > Zxid::ZERO {
            assert!(zxid >= self.zxid, "{zxid} after {}", self.zxid);
            self.zxid = zxid;
        }
        // A token that is refused is answered with one as well.
        if err.is_ok() || op == OpCode::SASL {
            let response = Response::decode(op, reader);
            assert!(response.is_ok(), "{response:?}");
        }
    }

    /// Whether everything that was asked was answered.
    pub(super) fn is_answered(&self) -> bool {
        self.opening != Opening::Asked && self.unanswered.is_empty()
    }

    /// Whether it has a session.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.opening, Opening::Open | Opening::Confused) && !self.closed
    }
}
