//! A connection until the server accepts requests: the transport, the handshake, SASL.
//!
//! SASL comes after the answer to the handshake, and before identities, watches and requests. The
//! session exists already, but the machine reports nothing before the exchange is done.

use std::{sync::Arc, time::Instant};

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    OpCode, Response, Xid,
    connect::ConnectRequest,
    frame,
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, DecodeError, Encode, Reader},
    records::SaslRequest,
};

use super::sasl::{Authenticator, Exchange, Step};
use crate::{AuthFailure, Cause, Endpoint};

/// An attempt to connect to a server.
pub(super) struct Attempt {
    endpoint: Arc<Endpoint>,
    progress: Progress,
    /// When the transport began to connect, or the handshake was sent.
    since: Instant,
    deadline: Instant,
    unsent: BytesMut,
}

/// How far an attempt is.
pub(super) enum Progress {
    /// The transport is being connected.
    Connecting,
    /// The handshake was sent.
    Greeting,
    /// The handshake is answered, and the exchange of SASL goes on.
    Authenticating(SaslExchange),
}

/// An exchange that is not done yet.
pub(super) struct SaslExchange {
    exchange: Box<dyn Exchange>,
    user: Arc<str>,
    /// The number of the token that the server has to answer.
    xid: Xid,
    /// Whether the mechanism has sent its last token.
    is_last: bool,
    is_of_new_session: bool,
}

/// Why an exchange fails.
pub(super) enum Trouble {
    /// The server does not speak the protocol: it costs the connection.
    Broken(Cause),
    /// The client and the server do not trust each other.
    Untrusted(AuthFailure),
}

impl From<DecodeError> for Trouble {
    fn from(error: DecodeError) -> Self {
        Self::Broken(Cause::Decode(error))
    }
}

impl Attempt {
    /// An attempt that begins now.
    pub(super) fn new(endpoint: Arc<Endpoint>, now: Instant, deadline: Instant) -> Self {
        Self {
            endpoint,
            progress: Progress::Connecting,
            since: now,
            deadline,
            unsent: BytesMut::new(),
        }
    }

    pub(super) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    pub(super) fn progress(&mut self) -> &mut Progress {
        &mut self.progress
    }

    pub(super) fn is_greeted(&self) -> bool {
        !matches!(self.progress, Progress::Connecting)
    }

    /// When the handshake was sent.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// When the attempt is given up.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Why the attempt would fail if it ended now.
    pub(super) fn failure(&self, now: Instant) -> Cause {
        let lasted = now.duration_since(self.since);
        if self.is_greeted() {
            Cause::HandshakeTimeout(lasted)
        } else {
            Cause::ConnectTimeout(lasted)
        }
    }

    /// The bytes for the transport, which takes them.
    pub(super) fn take_unsent(&mut self) -> BytesMut {
        self.unsent.split()
    }

    /// The transport is connected: the handshake goes out.
    pub(super) fn greet(&mut self, now: Instant, deadline: Instant, request: &ConnectRequest) {
        if !self.is_greeted() {
            (self.progress, self.since, self.deadline) = (Progress::Greeting, now, deadline);
            // The password fits a frame: it came in one.
            let _ = frame::append(&mut self.unsent, |writer| request.encode(writer));
        }
    }

    /// The handshake is answered, and SASL begins.
    pub(super) fn authenticate(
        &mut self,
        deadline: Instant,
        authenticator: &dyn Authenticator,
        xid: Xid,
        is_of_new_session: bool,
    ) {
        let mut exchange = authenticator.begin(&self.endpoint);
        let first = exchange.first();
        self.deadline = deadline;
        self.progress = Progress::Authenticating(SaslExchange {
            exchange,
            user: authenticator.user().into(),
            xid,
            is_last: false,
            is_of_new_session,
        });
        self.send_token(xid, first);
    }

    /// Sends a token under this number.
    pub(super) fn send_token(&mut self, xid: Xid, token: Bytes) {
        if let Progress::Authenticating(exchange) = &mut self.progress {
            exchange.xid = xid;
            let (op, token) = (OpCode::SASL, Some(token));
            // A token that does not fit a frame is never answered, and the handshake times out.
            let _ = frame::append(&mut self.unsent, |writer| {
                RequestHeader { xid, op }.encode(writer);
                SaslRequest { token }.encode(writer);
            });
        }
    }
}

impl SaslExchange {
    /// The server has answered the last token. Returns the next one; `None` when the exchange is
    /// done.
    pub(super) fn answer(&mut self, frame: Bytes) -> Result<Option<Bytes>, Trouble> {
        let mut reader = Reader::new(frame);
        let header = ReplyHeader::decode(&mut reader)?;
        if header.xid != self.xid {
            let (expected, got) = (Some(self.xid), header.xid);
            return Err(Trouble::Broken(Cause::UnexpectedReply { expected, got }));
        }
        if !header.err.is_ok() {
            let (user, code) = (self.user.clone(), header.err);
            return Err(Trouble::Untrusted(AuthFailure::Sasl { user, code }));
        }
        let Response::Sasl(response) = Response::decode(OpCode::SASL, &mut reader)? else {
            return Err(Trouble::Broken(Cause::BadHandshake(None)));
        };
        let token = match response.token {
            Some(token) => token,
            None if self.is_last => return Ok(None),
            // A server without SASL, or one that ignores a failure, answers null and accepts the
            // client.
            None => return Err(Trouble::Untrusted(AuthFailure::SaslNotOffered)),
        };
        match self.exchange.answer(&token) {
            Ok(Step::Send(token)) => Ok(Some(token)),
            Ok(Step::SendLast(token)) => {
                self.is_last = true;
                Ok(Some(token))
            }
            Ok(Step::Done) => Ok(None),
            Err(failure) => Err(Trouble::Untrusted(failure)),
        }
    }

    pub(super) fn is_of_new_session(&self) -> bool {
        self.is_of_new_session
    }
}
