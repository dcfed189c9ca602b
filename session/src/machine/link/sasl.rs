//! SASL: the client authenticates on each new connection before it sends anything else.
//!
//! The exchange comes after the answer to the handshake, and before identities, watches and requests. The machine carries the
//! tokens and knows no mechanism. The session exists already, but the machine reports nothing before the exchange is done.
//!
//! Not here: mechanisms (`crate::digest_md5`).

use std::{fmt, sync::Arc, time::Instant};

use bytes::Bytes;
use lockkeeper_proto::{
    ErrorCode, OpCode, Request, Response, Xid,
    header::ReplyHeader,
    jute::{Decode, Reader},
    records::SaslRequest,
};

use crate::{
    AuthFailure, Cause,
    machine::{Machine, State, link::connection::Stage, requests::transmit},
};

/// A SASL mechanism together with its credentials.
///
/// It must draw the randomness that it needs when it is made: what it does for a connection must follow from its own state
/// alone. Its `Debug` must not print the credentials.
pub trait Authenticator: fmt::Debug + Send + Sync {
    /// The user's name, for error messages.
    fn user(&self) -> &str;

    /// Begins the exchange of a new connection.
    fn begin(&self) -> Box<dyn Exchange>;
}

/// The exchange of one connection.
pub trait Exchange: Send {
    /// The first token. It is empty in a mechanism in which the server speaks first.
    fn first(&mut self) -> Bytes;

    /// The answer to a token of the server.
    ///
    /// # Errors
    /// [`AuthFailure`] when the server breaks the mechanism's rules, or fails to prove its own identity.
    fn answer(&mut self, token: &[u8]) -> Result<Step, AuthFailure>;
}

/// How an exchange goes on.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Send this token to the server.
    Send(Bytes),
    /// Both sides are authenticated, and the server waits for nothing.
    Done,
}

/// Prints no token.
impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send(_) => "Send",
            Self::Done => "Done",
        })
    }
}

/// An exchange that is not done yet.
pub(crate) struct SaslExchange {
    exchange: Box<dyn Exchange>,
    /// The number of the token that the server has to answer.
    xid: Xid,
    /// The state once the exchange is done.
    then: State,
}

impl fmt::Debug for SaslExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaslExchange")
            .field("xid", &self.xid)
            .finish_non_exhaustive()
    }
}

impl<T> Machine<T> {
    /// Sends the first token. The state becomes `then` when the exchange is done.
    pub(crate) fn begin_sasl(&mut self, authenticator: &Arc<dyn Authenticator>, then: State) {
        let mut exchange = authenticator.begin();
        let xid = self.send_token(exchange.first());
        self.go_on_with(SaslExchange {
            exchange,
            xid,
            then,
        });
    }

    /// The server has answered the last token.
    pub(crate) fn authenticate(&mut self, now: Instant, mut sasl: SaslExchange, frame: Bytes) {
        let mut reader = Reader::new(frame);
        let header = match ReplyHeader::decode(&mut reader) {
            Ok(header) => header,
            Err(error) => return self.give_up(now, Cause::Decode(error)),
        };
        if header.xid != sasl.xid {
            let (expected, got) = (Some(sasl.xid), header.xid);
            return self.give_up(now, Cause::UnexpectedReply { expected, got });
        }
        if !header.err.is_ok() {
            return self.sasl_refused(header.err);
        }
        let token = match Response::decode(OpCode::SASL, &mut reader) {
            Ok(Response::Sasl(response)) => response.token,
            Ok(_) => return self.give_up(now, Cause::BadHandshake(None)),
            Err(error) => return self.give_up(now, Cause::Decode(error)),
        };
        // A server without SASL, or one that ignores a failure, answers null and accepts the client.
        let Some(token) = token else {
            return self.refuse(AuthFailure::SaslNotOffered);
        };
        match sasl.exchange.answer(&token) {
            Ok(Step::Send(token)) => {
                sasl.xid = self.send_token(token);
                self.go_on_with(sasl);
            }
            Ok(Step::Done) => self.established_as(now, sasl.then),
            Err(failure) => self.refuse(failure),
        }
    }

    /// Waits for the answer to the token that was just sent.
    fn go_on_with(&mut self, exchange: SaslExchange) {
        if let Some(connection) = &mut self.connection
            && let Stage::Handshaking { sasl, .. } = &mut connection.stage
        {
            *sasl = Some(exchange);
        }
    }

    fn sasl_refused(&mut self, code: ErrorCode) {
        let user = self.config.sasl.as_ref().map_or("", |sasl| sasl.user());
        let user = Arc::from(user);
        self.refuse(AuthFailure::Sasl { user, code });
    }

    fn send_token(&mut self, token: Bytes) -> Xid {
        let xid = self.take_xid();
        let request = Request::Sasl(SaslRequest { token: Some(token) });
        if let Some(connection) = &mut self.connection {
            // A token that does not fit a frame is never answered, and the handshake times out.
            let _ = transmit::append(&mut connection.control, xid, OpCode::SASL, &request);
        }
        xid
    }
}
