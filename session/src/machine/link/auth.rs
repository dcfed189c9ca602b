//! The identities of a client: given at the start or added on the way, and proved anew on every connection, since they
//! belong to it and not to the session.
//!
//! A server answers them in the order in which they were sent, but ahead of requests that it has not come to.
//! Not here: SASL, which comes before them (`sasl`).

use std::{collections::VecDeque, time::Instant};

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    OpCode, Request, Response, Xid,
    header::ReplyHeader,
    records::{AuthPacket, Empty},
};

use crate::machine::{Auth, Machine, ReplyTo, RequestOptions, requests::transmit::append};
use crate::{AuthFailure, Error};

/// Identities that the server has been told of on this connection and not answered, oldest first.
pub(crate) type PendingAuth<T> = VecDeque<Identity<T>>;

/// One of them.
#[derive(Debug)]
pub(crate) struct Identity<T> {
    scheme: String,
    sent: Instant,
    /// Who waits for the answer; nobody for those that are sent again.
    token: Option<T>,
}

impl<T> Machine<T> {
    /// Adds an identity, on this connection and on every later one.
    ///
    /// It is kept whatever becomes of the request, unless that says that the request is too long or the machine has ended.
    pub fn add_auth(&mut self, now: Instant, token: T, auth: Auth) {
        let request = packet(&auth);
        if let Some(error) = self.refusal(now, &request, &RequestOptions::at(now)) {
            return self.complete(token, Err(error));
        }
        let limit = self.config.max_request;
        let length = append(&mut BytesMut::new(), Xid::AUTH, OpCode::AUTH, &request);
        let length = length.unwrap_or_else(|error| error.length);
        if length > limit {
            return self.complete(token, Err(Error::TooLarge { length, limit }));
        }
        if !self.config.auth.contains(&auth) {
            self.config.auth.push(auth);
        }
        self.enqueue(now, request, ReplyTo::Auth { token });
    }

    /// Tells a new connection of all identities, ahead of everything else.
    pub(crate) fn send_auth(&mut self, now: Instant) {
        for auth in &self.config.auth {
            // Each was looked at when it was added; the first ones come from the caller's settings.
            let _ = append(&mut self.control, Xid::AUTH, OpCode::AUTH, &packet(auth));
            self.pending_auth.push_back(Identity {
                scheme: auth.scheme.clone(),
                sent: now,
                token: None,
            });
        }
    }

    /// Tells the server of an identity that was added.
    pub(crate) fn send_added(
        &mut self,
        now: Instant,
        request: &Request,
        token: T,
        out: &mut BytesMut,
    ) {
        let Request::Auth(AuthPacket { scheme, .. }) = request else {
            return;
        };
        let _ = append(out, Xid::AUTH, OpCode::AUTH, request);
        self.pending_auth.push_back(Identity {
            scheme: scheme.clone(),
            sent: now,
            token: Some(token),
        });
    }

    /// The server has answered the oldest identity.
    pub(crate) fn auth_answered(&mut self, header: &ReplyHeader) {
        let identity = self.pending_auth.pop_front();
        let (scheme, token) = match identity {
            Some(Identity { scheme, token, .. }) => (scheme, token),
            None => Default::default(),
        };
        let result = if header.err.is_ok() {
            self.announce_state();
            Ok(Response::Auth(Empty {}))
        } else {
            let code = header.err;
            self.refuse(AuthFailure::Refused { scheme, code });
            let ended = self.ended().cloned();
            Err(ended.unwrap_or(Error::Closed(crate::Effect::Unknown)))
        };
        if let Some(token) = token {
            self.complete(token, result);
        }
    }

    /// The connection is gone: whoever waits for an answer gets none.
    pub(crate) fn fail_pending_auth(&mut self, error: &Error) {
        for identity in std::mem::take(&mut self.pending_auth) {
            if let Some(token) = identity.token {
                self.complete(token, Err(error.clone()));
            }
        }
    }

    /// Whether the server has yet to answer one of the identities that it was told of at the start of the connection.
    pub(crate) fn is_authenticating(&self) -> bool {
        self.pending_auth
            .iter()
            .any(|identity| identity.token.is_none())
    }

    /// When the oldest identity was sent that is not answered.
    pub(crate) fn pending_auth_since(&self) -> Option<Instant> {
        self.pending_auth.front().map(|identity| identity.sent)
    }
}

fn packet(auth: &Auth) -> Request {
    Request::Auth(AuthPacket {
        auth_type: 0,
        scheme: auth.scheme.clone(),
        auth: Some(Bytes::clone(&auth.credentials)),
    })
}
