//! How a connection, a session and the machine end, and what becomes of the requests.
//!
//! Not here: how a connection begins (`handshake`).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use lockkeeper_proto::SessionId;

use crate::{
    AuthFailure, Cause, Effect, Endpoint, Error, Lost, Peer,
    machine::{
        Machine, OnExpiry, Output, State, Timing,
        link::connection::{Connection, Stage},
        session::Session,
    },
};

impl<T> Machine<T> {
    /// The transport says that the connection is gone.
    pub(crate) fn disconnected(&mut self, now: Instant, cause: Cause) {
        let stage = self.connection.as_ref().map(|connection| &connection.stage);
        let cause = match (stage, cause) {
            (Some(Stage::Handshaking { .. }), Cause::ClosedByServer) => Cause::ClosedInHandshake,
            (_, cause) => cause,
        };
        self.lose(now, cause);
    }

    /// The machine gives the connection up.
    pub(crate) fn give_up(&mut self, now: Instant, cause: Cause) {
        self.outputs.push_back(Output::Disconnect);
        self.lose(now, cause);
    }

    /// The connection is gone. The machine pauses, and then tries the next server.
    ///
    /// A client that was never connected ends when every server has failed permanently. A client
    /// that was connected goes on: somebody may replace a certificate.
    fn lose(&mut self, now: Instant, cause: Cause) {
        if self.connection.is_some() && self.closing.is_some() {
            return self.end(State::Closed, cause);
        }
        let Some(mut connection) = self.connection.take() else {
            return;
        };
        let mut lost = self.lost(connection.endpoint.clone(), cause);
        let mut unknown = None;
        let lasted = if let Stage::Established { since } = connection.stage {
            let suspect;
            let unanswered = connection.in_flight.iter().map(|request| request.op);
            (unknown, suspect) = self.probation.lost(unanswered, &lost.cause);
            if let Some(op) = suspect {
                lost.cause = Cause::ClosedOn(op);
            }
            tracing::debug!(%lost, "connection lost");
            self.outage = Some((now, lost.clone()));
            now.duration_since(since)
        } else {
            tracing::debug!(%lost, "no connection");
            Duration::ZERO
        };
        self.endpoints.ended(lost.clone(), lasted);
        if self.connections == 0
            && lost.cause.is_permanent()
            && self.endpoints.all_failed_permanently()
        {
            let error = Error::Unreachable {
                waited: now.duration_since(self.began),
                tried: self.failures(),
                servers: self.endpoints.len(),
            };
            return self.end_with(State::Closed, &error, Some(connection), lost.cause);
        }
        self.retry_at = now + self.endpoints.pause(&mut self.rng);
        self.set_state(if self.session.id == SessionId::NONE {
            State::Connecting
        } else {
            State::Suspended
        });
        if unknown.is_some() {
            self.settle_unanswered(&mut connection, &lost);
        }
        self.settle_connection(connection, &Error::ConnectionLost(lost, Effect::Unknown));
    }

    /// The failure of this server, now.
    pub(crate) fn lost(&self, endpoint: Arc<Endpoint>, cause: Cause) -> Lost {
        Lost {
            endpoint,
            session: self.session.id,
            cause,
        }
    }

    /// Settles the requests of a connection that is gone. Requests that were not sent stay in the
    /// queue, except for those of the machine itself, whose errors nobody sees.
    fn settle_connection(&mut self, mut connection: Connection<T>, error: &Error) {
        self.watches.disconnected();
        for (id, event) in connection.early.take() {
            self.outputs.push_back(Output::Watch(id, Ok(event)));
        }
        for identity in connection.pending_auth {
            if let Some(token) = identity.token {
                self.complete(token, Err(error.clone()));
            }
        }
        for request in connection.in_flight {
            self.lose_request(request, error.clone());
        }
        for queued in self.queue.disconnect() {
            self.give_back(queued, error.clone());
        }
    }

    /// The session is over. `server` has said so, or the client's clock if there is no server. The
    /// machine goes on with a new session, or ends.
    pub(crate) fn expire(&mut self, now: Instant, server: Option<Arc<Endpoint>>) {
        let session = self.session.id;
        match self.outage.take() {
            None => tracing::warn!(%session, "session expired"),
            Some((since, lost)) => {
                let outage = now.duration_since(since);
                tracing::warn!(%session, ?outage, %lost, "session expired");
            }
        }
        self.metrics.expired_sessions += 1;
        let peer = Peer { server, session };
        let expired = |effect| Error::SessionExpired {
            peer: peer.clone(),
            effect,
        };
        let error = expired(Effect::NotApplied);
        self.session = Session::none(self.config.session_timeout);
        self.timing = Timing::new(&self.config, self.config.session_timeout);
        let connection = self.connection.take();
        self.set_state(State::Expired);
        if let Some(connection) = connection {
            // Only an attempt is cut short. A pause that has begun goes on: a server that grants
            // sessions and closes every connection would otherwise be asked in a loop.
            self.retry_at = now;
            self.settle_connection(connection, &expired(Effect::Unknown));
        }
        for queued in self.queue.take() {
            self.give_back(queued, error.clone());
        }
        self.end_watches(&error);
        match self.config.on_expiry {
            OnExpiry::NewSession => self.set_state(State::Connecting),
            OnExpiry::End => {
                self.ended = Some(error);
                self.set_state(State::Closed);
            }
        }
    }

    /// Ends the machine: the client and the server do not trust each other.
    pub(crate) fn refuse(&mut self, reason: AuthFailure) {
        let server = match &self.connection {
            Some(connection) if !matches!(connection.stage, Stage::Connecting { .. }) => {
                connection.endpoint.clone()
            }
            _ => return,
        };
        tracing::error!(session = %self.session.id, %server, %reason, "authentication failed");
        let peer = Peer {
            server: Some(server),
            session: self.session.id,
        };
        let error = Error::AuthFailed { peer, reason };
        let connection = self.connection.take();
        self.end_with(State::AuthFailed, &error, connection, Cause::ClosedByServer);
    }

    /// Ends the machine: the client was closed.
    pub(crate) fn end(&mut self, state: State, cause: Cause) {
        let connection = self.connection.take();
        self.end_with(state, &Error::Closed(Effect::NotApplied), connection, cause);
    }

    /// Ends the machine. Every request from now on gets the error `ended`.
    fn end_with(
        &mut self,
        state: State,
        ended: &Error,
        connection: Option<Connection<T>>,
        cause: Cause,
    ) {
        self.ended = Some(ended.clone());
        self.session.confirmed = None;
        self.session.proved = None;
        self.closing = None;
        self.set_state(state);
        if let Some(connection) = connection {
            self.outputs.push_back(Output::Disconnect);
            let error = match cause {
                Cause::ByClient => Error::Closed(Effect::Unknown),
                cause => {
                    let lost = self.lost(connection.endpoint.clone(), cause);
                    Error::ConnectionLost(lost, Effect::Unknown)
                }
            };
            self.settle_connection(connection, &error);
        }
        for queued in self.queue.take() {
            self.give_back(queued, ended.clone());
        }
        self.end_watches(ended);
    }
}
