//! How a connection begins: the attempt, the handshake, SASL, and what each part sends first. And
//! how the client moves from a healthy connection to another server.
//!
//! Not here: how a connection ends (`ending`).

use std::time::{Duration, Instant};

use bytes::Bytes;
use lockkeeper_proto::{
    OpCode, Request, SessionId,
    connect::ConnectResponse,
    jute::{Decode, Reader},
};

use super::{
    Machine, Output, Phase, State,
    config::SHORTEST_TIMEOUT,
    link::{Attempt, Link, Stage, Trouble},
    requests::{Own, ReplyTo},
    sending::packet,
    session::Granted,
    watches::Kinds,
};
use crate::{Cause, Error};

/// A longer password is refused. Source: every server sends 16 bytes.
const LONGEST_PASSWORD: usize = 64;

impl<T> Machine<T> {
    /// Tries the next server.
    pub(crate) fn try_next_server(&mut self, now: Instant) {
        let Some(endpoint) = self.servers.advance(now) else {
            return self.end(State::Closed, Cause::ByClient);
        };
        let deadline = now + self.config.server_timeout(self.session.timeout());
        self.phase = Phase::Trying(Attempt::new(endpoint.clone(), now, deadline));
        self.out.metrics_mut().attempts += 1;
        tracing::debug!(server = %endpoint, session = %self.session.id(), "connecting");
        self.out.push(Output::Connect(endpoint));
    }

    /// The transport is connected: sends the handshake.
    pub(crate) fn connected(&mut self, now: Instant) {
        if let Phase::Trying(attempt) = &mut self.phase {
            let deadline = now + self.config.server_timeout(self.session.timeout());
            attempt.greet(now, deadline, &self.session.request(&self.config));
        }
    }

    /// A frame has come before the connection is established.
    pub(crate) fn handshake_frame(&mut self, now: Instant, frame: Bytes) {
        let Phase::Trying(attempt) = &mut self.phase else {
            return;
        };
        match attempt.stage() {
            Stage::Connecting => {}
            Stage::Greeting => match ConnectResponse::decode(&mut Reader::new(frame)) {
                Ok(response) => self.greeted(now, response),
                Err(error) => self.give_up(now, Cause::BadHandshake(Some(error))),
            },
            Stage::Authenticating(exchange) => {
                let is_new = exchange.is_of_new_session();
                match exchange.answer(frame) {
                    Ok(Some(token)) => attempt.send_token(self.queue.take_xid(), token),
                    Ok(None) => self.established(now, is_new),
                    Err(Trouble::Broken(cause)) => self.give_up(now, cause),
                    Err(Trouble::Untrusted(failure)) => self.refuse(failure),
                }
            }
        }
    }

    /// The server has answered the handshake.
    fn greeted(&mut self, now: Instant, response: ConnectResponse) {
        let Phase::Trying(attempt) = &self.phase else {
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
            self.out.push(Output::Disconnect);
            // Only an attempt is cut short. A pause that has begun goes on: a server that grants
            // sessions and closes every connection would otherwise be asked in a loop.
            self.phase = Phase::Paused(now);
            return self.expire(now, Some(endpoint));
        }
        let password = response.password.unwrap_or_default();
        let timeout = Duration::from_millis(u64::try_from(response.timeout_ms).unwrap_or(0));
        // No server grants so short a session: its ticks are longer. The client would do nothing
        // but keep it alive.
        let is_absurd = timeout < SHORTEST_TIMEOUT;
        if is_absurd || password.is_empty() || password.len() > LONGEST_PASSWORD {
            return self.give_up(now, Cause::BadHandshake(None));
        }
        if resumes && response.session_id != self.session.id() {
            // Some servers create a new session in place of the one that is gone. The connection
            // goes on with it.
            self.expire(now, Some(endpoint));
            if self.is_ended() {
                return self.out.push(Output::Disconnect);
            }
        }
        let (granted, margin) = (timeout, self.config.lease.margin(timeout));
        if margin >= granted {
            return self.give_up(now, Cause::ShortSession { granted, margin });
        }
        let granted = Granted {
            id: response.session_id,
            password: Bytes::copy_from_slice(&password),
            timeout,
        };
        let is_new = self.session.grant(now, &self.config, granted);
        match (&self.config.sasl, &mut self.phase) {
            (Some(authenticator), Phase::Trying(attempt)) => {
                let deadline = now + self.config.server_timeout(self.session.timeout());
                let xid = self.queue.take_xid();
                attempt.authenticate(deadline, &**authenticator, xid, is_new);
            }
            _ => self.established(now, is_new),
        }
    }

    /// The server accepts requests from now on.
    fn established(&mut self, now: Instant, is_new: bool) {
        let Phase::Trying(attempt) = &self.phase else {
            return;
        };
        let (server, sent) = (attempt.endpoint().clone(), attempt.since());
        let timeout = self.session.timeout();
        let proving = self.lease.begin(now, sent, timeout, is_new);
        let link = Link::new(server.clone(), now, self.config.auth.len());
        self.phase = Phase::open(now, link, proving);
        self.lease_renewed(now);
        self.session.hear(now);
        self.connections += 1;
        self.support.connected(self.connections);
        let session = self.session.id();
        // A reconnect is this one line at `info`. The attempts before it are at `debug`.
        match self.servers.end_outage(now) {
            None => tracing::info!(%session, %server, ?timeout, "connected"),
            Some((outage, lost)) => {
                tracing::info!(%session, %server, ?timeout, ?outage, %lost, "reconnected");
            }
        }
        self.send_first(now);
        self.announce_state();
    }

    /// Queues what each connection begins with: all identities, because they belong to the
    /// connection and not to the session, and the watches of the former connection.
    fn send_first(&mut self, now: Instant) {
        if let Some(error) = self.support.refusal(OpCode::SET_WATCHES) {
            self.watches.end(Kinds::ONE_SHOT, &error, &mut self.out);
        }
        let Phase::Open(open) = &mut self.phase else {
            return;
        };
        let identities = self.config.auth.iter();
        let identities =
            identities.map(|auth| (packet(auth), ReplyTo::Identity(None, auth.scheme.clone())));
        let newest = self.session.last_zxid();
        let (since, watches) =
            (self.watches).restore(&mut open.arrivals, newest, self.config.max_request);
        let restore = true;
        let own = |request: Request| {
            (
                request.into(),
                ReplyTo::Own(Own::SetWatches { since, restore }),
            )
        };
        let first = identities.chain(watches.into_iter().map(own)).collect();
        self.queue.put_first(first, now);
    }

    /// Reports that the connection is established, unless the server has yet to accept an identity.
    pub(crate) fn announce_state(&mut self) {
        let open = self.phase.connection_mut();
        if open.is_some_and(|open| open.link.announce()) {
            self.set_state(State::Connected);
        }
    }

    /// No server was reached for so long. The error has the failures of all servers, and that of the
    /// attempt that still lasts, if it is the first one at its server.
    pub(crate) fn unreachable(&self, now: Instant, waited: Duration) -> Error {
        let pending = match &self.phase {
            Phase::Trying(attempt) => {
                Some(self.lost(attempt.endpoint().clone(), attempt.failure(now)))
            }
            _ => None,
        };
        Error::Unreachable {
            waited,
            tried: self.servers.failures(pending),
            servers: self.servers.len(),
        }
    }

    // Moving to another server.

    /// Goes on with the next server of the list, in the same session. Without a connection it does
    /// nothing: the machine looks for the next server already.
    pub fn move_to_next_server(&mut self, now: Instant) {
        if let Some(open) = self.phase.connection_mut() {
            open.link.move_on();
            self.move_if_idle(now);
        }
    }

    /// Does the same, and does not come back to the server for a minute, if there is another one: it
    /// shows what its leader does not have.
    pub fn leave_server(&mut self, now: Instant) {
        if let Phase::Open(open) = &self.phase
            && self.servers.len() > 1
        {
            self.servers.avoid(now, open.link.endpoint().clone());
            self.out.metrics_mut().servers_left += 1;
            self.move_to_next_server(now);
        }
    }

    /// Leaves the connection for another one, if that was requested and every request is answered.
    pub(crate) fn move_if_idle(&mut self, now: Instant) {
        if let Phase::Open(open) = &self.phase
            && open.link.is_moving()
            && open.in_flight.is_idle()
        {
            tracing::debug!(session = %self.session.id(), "moving to another server");
            self.give_up(now, Cause::ByClient);
            // No server has failed, so there is nothing to wait for.
            self.phase = Phase::Paused(now);
        }
    }
}
