//! The identities of a client: given at the start, or added later. Each connection sends them
//! first, because they belong to the connection and not to the session.
//!
//! A server answers identities in the order in which they were sent, but ahead of requests that it
//! has not processed yet.
//!
//! Not here: SASL, which comes before them (`sasl`).

use std::time::Instant;

use bytes::Bytes;
use lockkeeper_proto::{
    OpCode, Request, Response, Xid,
    header::ReplyHeader,
    records::{AuthPacket, Empty},
};

use crate::{
    AuthFailure, Effect, Error,
    machine::{
        Auth, Machine, ReplyTo, RequestOptions, link::connection::PendingIdentity, request_bytes,
        requests::transmit::append,
    },
};

impl<T> Machine<T> {
    /// Adds an identity, on this connection and on every later one.
    ///
    /// The machine keeps the identity at once, without waiting for the server's answer. It does not
    /// keep it if the request is too long or the machine has ended.
    pub fn add_auth(&mut self, now: Instant, token: T, auth: Auth) {
        let (request, options) = (packet(&auth), RequestOptions::at(now));
        let bytes = request_bytes(&request);
        if let Some(error) = self.refusal(now, OpCode::AUTH, bytes, &options) {
            return self.complete(token, Err(error));
        }
        if !self.config.auth.contains(&auth) {
            self.config.auth.push(auth);
        }
        let reply_to = ReplyTo::Auth { token };
        self.queue.push(request, bytes, reply_to, options);
    }

    /// Sends all identities on a new connection, ahead of everything else.
    pub(crate) fn send_auth(&mut self, now: Instant) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        for auth in &self.config.auth {
            // The length of an added identity was checked; the first ones come from the caller's
            // settings.
            let _ = append(
                &mut connection.control,
                Xid::AUTH,
                OpCode::AUTH,
                &packet(auth),
            );
            connection.pending_auth.push_back(PendingIdentity {
                scheme: auth.scheme.clone(),
                sent: now,
                token: None,
            });
        }
    }

    /// The server has answered the oldest identity.
    pub(crate) fn auth_answered(&mut self, now: Instant, header: &ReplyHeader) {
        let oldest = self
            .connection
            .as_mut()
            .and_then(|open| open.pending_auth.pop_front());
        let Some(PendingIdentity { scheme, token, .. }) = oldest else {
            return self.unasked(now, Xid::AUTH);
        };
        let result = if header.err.is_ok() {
            self.announce_state();
            Ok(Response::Auth(Empty {}))
        } else {
            let code = header.err;
            self.refuse(AuthFailure::Refused { scheme, code });
            let ended = self.ended().cloned();
            Err(ended.unwrap_or(Error::Closed(Effect::Unknown)))
        };
        if let Some(token) = token {
            self.complete(token, result);
        }
    }
}

fn packet(auth: &Auth) -> Request {
    Request::Auth(AuthPacket {
        auth_type: 0,
        scheme: auth.scheme.clone(),
        auth: Some(Bytes::clone(&auth.credentials)),
    })
}
