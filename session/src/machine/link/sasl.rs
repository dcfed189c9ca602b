//! SASL: who the client is, proved on each new connection before anything else is asked.
//!
//! The exchange stands between the answer to the handshake and everything that waits: identities, watches, requests. The
//! machine carries its tokens and knows no mechanism; the session is there already, but nobody is told before the
//! exchange is done.
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

use crate::machine::{Machine, Phase, State, requests::transmit};
use crate::{AuthFailure, Cause};

/// A SASL mechanism together with the credentials for it.
///
/// It must take the randomness that it needs when it is made: what it does for a connection follows from its own state
/// alone. Its `Debug` must not show the credentials.
pub trait Authenticator: fmt::Debug + Send + Sync {
    /// Who the client says it is; for error messages.
    fn user(&self) -> &str;

    /// Begins the exchange of a new connection.
    fn begin(&self) -> Box<dyn Exchange>;
}

/// The exchange of one connection.
pub trait Exchange: Send {
    /// The first token; empty in a mechanism where the server speaks first.
    fn first(&mut self) -> Bytes;

    /// The answer to a token of the server.
    ///
    /// # Errors
    /// [`AuthFailure`] when the server breaks the mechanism's rules, or did not prove who it is.
    fn answer(&mut self, token: &[u8]) -> Result<Step, AuthFailure>;
}

/// How an exchange goes on.
#[derive(Clone, PartialEq, Eq)]
pub enum Step {
    /// This token goes to the server.
    Send(Bytes),
    /// Both sides are content, and the server waits for nothing.
    Done,
}

/// Tokens are nobody's business.
impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send(_) => "Send",
            Self::Done => "Done",
        })
    }
}

/// An exchange under way.
pub(crate) struct SaslExchange {
    exchange: Box<dyn Exchange>,
    /// The number of the token that is to be answered.
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
    /// Sends the first token. The state becomes `then` when all is done.
    pub(crate) fn begin_sasl(&mut self, authenticator: &Arc<dyn Authenticator>, then: State) {
        let mut exchange = authenticator.begin();
        let xid = self.send_token(exchange.first());
        if let Phase::Handshaking { sasl, .. } = &mut self.phase {
            *sasl = Some(SaslExchange {
                exchange,
                xid,
                then,
            });
        }
    }

    /// The server's answer to the last token.
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
        // A server that knows no SASL, or goes on in spite of a failure, says null and lets the client in.
        let Some(token) = token else {
            return self.refuse(AuthFailure::SaslNotOffered);
        };
        match sasl.exchange.answer(&token) {
            Ok(Step::Send(token)) => {
                sasl.xid = self.send_token(token);
                if let Phase::Handshaking { sasl: place, .. } = &mut self.phase {
                    *place = Some(sasl);
                }
            }
            Ok(Step::Done) => self.established(now, sasl.then),
            Err(failure) => self.refuse(failure),
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
        // A token that does not fit a frame is never answered, and the handshake runs out of time.
        let _ = transmit::append(&mut self.control, xid, OpCode::SASL, &request);
        xid
    }
}
