//! How a connection begins: the attempt, the handshake, SASL.
//!
//! Not here: how a connection ends (`ending`), which requests come first on it (`machine`).

use std::time::{Duration, Instant};

use bytes::Bytes;
use lockkeeper_proto::{
    SessionId,
    connect::ConnectResponse,
    jute::{Decode, Reader},
};

use super::{
    Change, Link, Stage, State,
    attempt::{Attempt, Progress, Trouble},
    connection::Connection,
};
use crate::{AuthFailure, Cause, machine::config::SHORTEST_TIMEOUT};

/// A longer password is refused. Source: every server sends 16 bytes.
const LONGEST_PASSWORD: usize = 64;

impl Link {
    /// Tries the next server.
    pub(super) fn try_next_server(&mut self, now: Instant) {
        let Some(endpoint) = self.servers.advance(now) else {
            return self.end(State::Closed, Cause::ByClient);
        };
        let deadline = self.server_deadline(now);
        self.stage = Stage::Trying(Attempt::new(endpoint.clone(), now, deadline));
        tracing::debug!(server = %endpoint, session = %self.session.id(), "connecting");
        self.changes.push_back(Change::Connect(endpoint));
    }

    /// When the next step of an attempt is to be done.
    fn server_deadline(&self, now: Instant) -> Instant {
        now + self.config.server_timeout(self.session.timeout())
    }

    /// The transport is connected: sends the handshake.
    pub(crate) fn connected(&mut self, now: Instant) {
        let deadline = self.server_deadline(now);
        if let Stage::Trying(attempt) = &mut self.stage {
            attempt.greet(now, deadline, &self.session.request(&self.config));
        }
    }

    /// A frame has come before the connection is established.
    pub(super) fn handshake_frame(&mut self, now: Instant, frame: Bytes) {
        let Stage::Trying(attempt) = &mut self.stage else {
            return;
        };
        match attempt.progress() {
            Progress::Connecting => {}
            Progress::Greeting => match ConnectResponse::decode(&mut Reader::new(frame)) {
                Ok(response) => self.greeted(now, response),
                Err(error) => self.give_up(now, Cause::BadHandshake(Some(error))),
            },
            Progress::Authenticating(exchange) => {
                let is_new = exchange.is_of_new_session();
                match exchange.answer(frame) {
                    Ok(Some(token)) => {
                        let xid = self.take_xid();
                        if let Stage::Trying(attempt) = &mut self.stage {
                            attempt.send_token(xid, token);
                        }
                    }
                    Ok(None) => self.established(now, is_new),
                    Err(Trouble::Broken(cause)) => self.give_up(now, cause),
                    Err(Trouble::Untrusted(failure)) => self.login_failed(now, is_new, failure),
                }
            }
        }
    }

    /// The server has answered the handshake.
    fn greeted(&mut self, now: Instant, response: ConnectResponse) {
        let Stage::Trying(attempt) = &self.stage else {
            return;
        };
        // Nobody can lock anything there. Nor does such a server know which sessions have ended.
        if response.read_only == Some(true) {
            return self.give_up(now, Cause::ReadOnlyServer);
        }
        let (endpoint, resumes) = (attempt.endpoint().clone(), self.session.is_resumable());
        if response.timeout_ms <= 0 || response.session_id == SessionId::NONE {
            if !resumes {
                return self.give_up(now, Cause::SessionRefused);
            }
            self.changes.push_back(Change::Disconnect);
            // Only an attempt is cut short. A pause that has begun goes on: a server that grants
            // sessions and closes every connection would otherwise be asked in a loop.
            self.stage = Stage::Paused { until: now };
            return self.expire(now, Some(endpoint));
        }
        let password = response.password.unwrap_or_default();
        let timeout = Duration::from_millis(u64::try_from(response.timeout_ms).unwrap_or(0));
        if password.is_empty() || password.len() > LONGEST_PASSWORD {
            return self.give_up(now, Cause::BadHandshake(None));
        }
        if resumes && response.session_id != self.session.id() {
            // Some servers create a new session in place of the one that is gone. The connection
            // goes on with it.
            self.expire(now, Some(endpoint));
        }
        let is_new = !self.session.is_resumable();
        // A longer one counts only as long as the leader lives: the next leader gives the session the
        // timeout with which it was made. Source: `SessionTrackerImpl.java`, `sessionsWithTimeout`.
        let mut granted = timeout;
        if !is_new {
            granted = granted.min(self.session.timeout());
        }
        // The client would do nothing but keep a shorter session alive.
        let shortest = SHORTEST_TIMEOUT.saturating_sub(Duration::from_millis(1));
        let margin = self.config.lease.margin(granted).max(shortest);
        if margin >= granted {
            return self.give_up(now, Cause::ShortSession { granted, margin });
        }
        let session = (response.session_id, Bytes::copy_from_slice(&password));
        self.session.grant(&self.config, session, granted);
        let (deadline, authenticator) = (self.server_deadline(now), self.config.sasl.clone());
        let Some(authenticator) = authenticator else {
            return self.established(now, is_new);
        };
        let xid = self.take_xid();
        if let Stage::Trying(attempt) = &mut self.stage {
            attempt.authenticate(deadline, &*authenticator, xid, is_new);
        }
    }

    /// The exchange has failed. A session that was connected is worth further attempts: another
    /// server may know the user, and a later ticket may be accepted.
    ///
    /// But each handshake keeps the session alive at the servers, and with it the nodes of locks
    /// that this client can no longer hold. So the attempts end after a session timeout.
    fn login_failed(&mut self, now: Instant, is_new: bool, failure: AuthFailure) {
        let since = *self.login_failed_since.get_or_insert(now);
        if self.connections > 0 && !is_new && now < since + self.session.timeout() {
            self.give_up(now, Cause::LoginFailed(failure.to_string().into()));
        } else {
            self.refuse(failure);
        }
    }

    /// The server accepts requests from now on.
    fn established(&mut self, now: Instant, is_new: bool) {
        let Stage::Trying(attempt) = &self.stage else {
            return;
        };
        let (server, greeted) = (attempt.endpoint().clone(), attempt.since());
        self.connections += 1;
        self.login_failed_since = None;
        self.session.hear(now);
        let (session, timeout) = (self.session.id(), self.session.timeout());
        // A reconnect is this one line at `info`. The attempts before it are at `debug`.
        match self.servers.end_outage(now) {
            None => tracing::info!(%session, %server, ?timeout, "connected"),
            Some((outage, lost)) => {
                tracing::info!(%session, %server, ?timeout, ?outage, %lost, "reconnected");
            }
        }
        let identities = self.config.auth.len();
        self.stage = Stage::Open(Connection::new(server, now, identities));
        let at = now;
        self.changes.push_back(Change::Opened {
            greeted,
            at,
            is_new,
        });
        self.announce();
    }

    /// Reports that the connection is established, unless the server has yet to accept an identity.
    pub(super) fn announce(&mut self) {
        if self.connection_mut().is_some_and(Connection::announce) {
            self.report(State::Connected);
        }
    }
}
