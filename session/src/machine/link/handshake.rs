//! How a connection begins: the attempt, the handshake, the restored watches.
//!
//! Not here: how it ends (`end`), SASL (`sasl`).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use lockkeeper_proto::{
    SessionId,
    connect::{ConnectRequest, ConnectResponse, PASSWORD_LEN},
    frame,
    jute::{Decode, Encode, Reader},
};

use crate::{
    Cause,
    machine::{
        Machine, Output, State, Timing,
        config::SHORTEST_TIMEOUT,
        link::{
            connection::{Connection, Stage},
            search::WritableSearch,
        },
    },
};

/// A longer password is refused. Source: every server sends 16 bytes.
const LONGEST_PASSWORD: usize = 64;

impl<T> Machine<T> {
    /// Tries the next server.
    pub(crate) fn try_next_server(&mut self, now: Instant) {
        let Some(endpoint) = self.endpoints.advance() else {
            return self.end(State::Closed, Cause::ByClient);
        };
        let deadline = now + self.config.server_timeout(self.session.timeout);
        self.connection = Some(Connection::new(endpoint.clone(), now, deadline));
        self.metrics.attempts += 1;
        tracing::debug!(server = %endpoint, session = %self.session.id, "connecting");
        self.outputs.push_back(Output::Connect(endpoint));
    }

    /// The transport is connected: sends the handshake.
    pub(crate) fn connected(&mut self, now: Instant) {
        let deadline = now + self.config.server_timeout(self.session.timeout);
        let is_new = self.session.is_local;
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.session.last_zxid,
            timeout_ms: self.config.session_timeout_ms(),
            session_id: if is_new {
                SessionId::NONE
            } else {
                self.session.id
            },
            password: Some(if is_new {
                Bytes::from_static(&[0; PASSWORD_LEN])
            } else {
                self.session.password.clone()
            }),
            read_only: Some(self.config.read_only),
        };
        if let Some(connection) = &mut self.connection
            && let Stage::Connecting { .. } = connection.stage
        {
            connection.stage = Stage::Handshaking {
                sent: now,
                deadline,
                sasl: None,
            };
            // The password fits a frame: it came in one.
            let _ = frame::append(&mut connection.control, |writer| request.encode(writer));
        }
    }

    /// A frame has come before the connection is established.
    pub(crate) fn handshake_frame(&mut self, now: Instant, frame: Bytes) {
        let Some(Connection {
            stage: Stage::Handshaking { sent, sasl, .. },
            ..
        }) = &mut self.connection
        else {
            return;
        };
        if let Some(exchange) = sasl.take() {
            return self.authenticate(now, exchange, frame);
        }
        let sent = *sent;
        match ConnectResponse::decode(&mut Reader::new(frame)) {
            Ok(response) => self.handshake_answered(now, sent, response),
            Err(error) => self.give_up(now, Cause::BadHandshake(Some(error))),
        }
    }

    /// The server has answered the handshake, which was sent at `sent`.
    fn handshake_answered(&mut self, now: Instant, sent: Instant, response: ConnectResponse) {
        let Some(endpoint) = self.connection.as_ref().map(|it| it.endpoint.clone()) else {
            return;
        };
        let resumed = self.session.id != SessionId::NONE && !self.session.is_local;
        let is_new = !resumed || response.session_id != self.session.id;
        if response.timeout_ms <= 0 || response.session_id == SessionId::NONE {
            return if resumed {
                self.outputs.push_back(Output::Disconnect);
                self.expire(now, Some(endpoint));
            } else {
                self.give_up(now, Cause::SessionRefused);
            };
        }
        let password = response.password.unwrap_or_default();
        let timeout = Duration::from_millis(u64::try_from(response.timeout_ms).unwrap_or(0));
        // No server grants so short a session: its ticks are longer. The client would do nothing
        // but keep it alive.
        let is_absurd = timeout < SHORTEST_TIMEOUT;
        if is_absurd || password.is_empty() || password.len() > LONGEST_PASSWORD {
            return self.give_up(now, Cause::BadHandshake(None));
        }
        if resumed && is_new {
            // Some servers create a new session in place of the one that is gone. The connection
            // goes on with it.
            let connection = self.connection.take();
            self.expire(now, Some(endpoint));
            if self.is_ended() {
                return self.outputs.push_back(Output::Disconnect);
            }
            self.connection = connection;
        }
        let margin = self.config.lease.margin(timeout);
        if margin >= timeout {
            let granted = timeout;
            return self.give_up(now, Cause::ShortSession { granted, margin });
        }
        if is_new {
            self.session.is_local = response.read_only == Some(true);
        }
        self.session.id = response.session_id;
        self.session.password = Bytes::copy_from_slice(&password);
        // A longer one counts only as long as the leader lives: the next leader gives the session
        // the timeout with which it was made. Source: `SessionTrackerImpl.java`,
        // `sessionsWithTimeout`.
        let timeout = if is_new {
            timeout
        } else {
            timeout.min(self.session.timeout)
        };
        self.session.timeout = timeout;
        self.session.heard = Some(now);
        self.timing = Timing::new(&self.config, timeout);
        let state = match response.read_only {
            Some(true) => State::ReadOnly,
            _ => State::Connected,
        };
        self.begin_lease(now, sent, state, is_new);
        let Some(authenticator) = self.config.sasl.clone() else {
            return self.established_as(now, state);
        };
        let server_timeout = self.config.server_timeout(timeout);
        if let Some(connection) = &mut self.connection
            && let Stage::Handshaking { deadline, .. } = &mut connection.stage
        {
            *deadline = now + server_timeout;
        }
        self.begin_sasl(&authenticator, state);
    }

    /// The server accepts requests from now on.
    pub(crate) fn established_as(&mut self, now: Instant, state: State) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        connection.stage = Stage::Established { since: now };
        connection.last_received = now;
        connection.last_ping = now;
        connection.search = WritableSearch::after(now, state);
        connection.announced_state = Some(state);
        let server = connection.endpoint.clone();
        self.session.heard = Some(now);
        self.connections += 1;
        self.unsupported.connected(self.connections);
        let (session, timeout) = (self.session.id, self.session.timeout);
        // A reconnect is this one line at `info`. The attempts before it are at `debug`.
        match self.outage.take() {
            None => tracing::info!(%session, %server, ?timeout, "connected"),
            Some((since, lost)) => {
                let outage = now.duration_since(since);
                tracing::info!(%session, %server, ?timeout, ?outage, %lost, "reconnected");
            }
        }
        self.send_auth(now);
        self.restore_watches();
        self.announce_state();
    }

    /// Reports that the connection is established, unless the server has yet to accept an identity.
    pub(crate) fn announce_state(&mut self) {
        let state = self
            .connection
            .as_mut()
            .filter(|connection| !connection.is_authenticating())
            .and_then(|connection| connection.announced_state.take());
        if let Some(state) = state {
            self.set_state(state);
        }
    }

    /// The failures of all servers, and that of the attempt that still lasts, if it is the first
    /// one at its server.
    pub(crate) fn failures_until(&self, now: Instant) -> Arc<[crate::Lost]> {
        let failures = self.failures();
        let Some(connection) = &self.connection else {
            return failures;
        };
        let Some(cause) = connection.pending_failure(now) else {
            return failures;
        };
        if failures
            .iter()
            .any(|lost| lost.endpoint == connection.endpoint)
        {
            return failures;
        }
        let pending = self.lost(connection.endpoint.clone(), cause);
        let one_too_many = usize::from(failures.len() >= super::endpoints::REMEMBERED);
        let newest = failures.iter().skip(one_too_many).cloned();
        newest.chain([pending]).collect()
    }
}
