//! The steps of SASL on a new connection, between the answer to the handshake and everything else.
//!
//! Not here: the interface of a mechanism (`sasl`), identities (`auth`).

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use lockkeeper_proto::{
    ErrorCode, OpCode, Request, Response, Xid,
    header::ReplyHeader,
    jute::{Decode, Reader},
    records::SaslRequest,
};

use super::{
    connection::Stage,
    sasl::{Authenticator, SaslExchange, Step},
};
use crate::{
    AuthFailure, Cause,
    machine::{Machine, State, requests::transmit},
};

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
        // A server without SASL, or one that ignores a failure, answers null and accepts the
        // client.
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
