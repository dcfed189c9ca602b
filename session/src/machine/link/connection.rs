//! How connections begin and end, and how the session does.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use lockkeeper_proto::{
    OpCode, SessionId,
    connect::ConnectResponse,
    frame::PREFIX_LEN,
    jute::{Decode, Reader},
};

use crate::machine::{
    Input, Machine, OnExpiry, Output, Phase, ReplyTo, Session, State, Timing, link::endpoints,
    link::moving::WritableSearch, metrics, watches::batches::Batches,
};
use crate::{AuthFailure, Cause, Effect, Endpoint, Error, Lost, Peer};

/// A password longer than this is no password. Source: every server sends 16 bytes.
const LONGEST_PASSWORD: usize = 64;

impl<T> Machine<T> {
    /// Takes in what happened.
    pub fn handle(&mut self, now: Instant, input: Input) {
        match input {
            Input::Connected => self.connected(now),
            Input::Frame(frame) => self.frame(now, frame),
            Input::Disconnected(cause) => self.disconnected(now, cause),
            Input::Oversized { length, limit } => self.oversized(now, length, limit),
            Input::Probed {
                endpoint,
                takes_writes,
            } => self.probed(now, &endpoint, takes_writes),
            Input::Tick => self.tick(now),
        }
    }

    /// The transport stands: the handshake goes out.
    fn connected(&mut self, now: Instant) {
        if let Phase::Connecting { endpoint, .. } = &self.phase {
            let deadline = now + self.config.server_timeout(self.session.timeout);
            self.phase = Phase::Handshaking {
                endpoint: endpoint.clone(),
                sent: now,
                deadline,
                sasl: None,
            };
            self.send_handshake();
        }
    }

    fn frame(&mut self, now: Instant, frame: Bytes) {
        self.metrics.bytes_received += metrics::bytes(PREFIX_LEN + frame.len());
        let was_silent = self.silence_deadline() <= now;
        match &mut self.phase {
            // Whoever has slept finds what had come meanwhile, on a connection whose server may not know yet that the session
            // is over: its answers would prove nothing. Source: `ClientCnxn.SendThread.run`, which looks at the clock first.
            Phase::Connected { .. } if was_silent => {
                self.give_up(now, Cause::Silent(self.timing.read));
            }
            Phase::Connected { .. } => {
                self.last_received = now;
                self.session.heard = Some(now);
                self.reply(now, frame);
                self.move_if_idle(now);
            }
            Phase::Handshaking {
                endpoint,
                sent,
                sasl,
                ..
            } => {
                if let Some(sasl) = sasl.take() {
                    return self.authenticate(now, sasl, frame);
                }
                let (endpoint, sent) = (endpoint.clone(), *sent);
                match ConnectResponse::decode(&mut Reader::new(frame)) {
                    Ok(response) => self.handshake_answered(now, endpoint, sent, response),
                    Err(error) => self.give_up(now, Cause::BadHandshake(Some(error))),
                }
            }
            // A frame of a connection that was given up already.
            _ => {}
        }
    }

    /// The server's answer to the handshake.
    fn handshake_answered(
        &mut self,
        now: Instant,
        endpoint: Arc<Endpoint>,
        sent: Instant,
        response: ConnectResponse,
    ) {
        let resumed = self.session.id != SessionId::NONE && !self.session.is_local;
        if response.timeout_ms <= 0 || response.session_id == SessionId::NONE {
            return if resumed {
                self.outputs.push_back(Output::Disconnect);
                self.expire(now, Some(endpoint));
            } else {
                self.give_up(now, Cause::SessionRefused);
            };
        }
        let password = response.password.unwrap_or_default();
        if password.is_empty() || password.len() > LONGEST_PASSWORD {
            return self.give_up(now, Cause::BadHandshake(None));
        }
        if resumed && response.session_id != self.session.id {
            // Some servers hand out a new session where the old one is gone.
            self.expire(now, Some(endpoint.clone()));
            if self.is_ended() {
                self.outputs.push_back(Output::Disconnect);
                return;
            }
        }
        let timeout = Duration::from_millis(u64::try_from(response.timeout_ms).unwrap_or(0));
        if !resumed {
            self.session.is_local = response.read_only == Some(true);
        }
        self.session.id = response.session_id;
        self.session.password = Bytes::copy_from_slice(&password);
        self.session.timeout = timeout;
        self.session.heard = Some(now);
        self.timing = Timing::new(&self.config, timeout);
        self.confirmed = Some(sent);
        self.phase = Phase::Handshaking {
            endpoint,
            sent,
            deadline: now + self.config.server_timeout(timeout),
            sasl: None,
        };
        let then = match response.read_only {
            Some(true) => State::ReadOnly,
            _ => State::Connected,
        };
        match self.config.sasl.clone() {
            Some(authenticator) => self.begin_sasl(&authenticator, then),
            None => self.established(now, then),
        }
    }

    /// The server takes requests.
    pub(crate) fn established(&mut self, now: Instant, state: State) {
        let Phase::Handshaking { endpoint, .. } = &self.phase else {
            return;
        };
        let (endpoint, timeout) = (endpoint.clone(), self.session.timeout);
        self.session.heard = Some(now);
        self.last_received = now;
        self.last_sent = now;
        self.ping_sent = None;
        self.connections += 1;
        self.unsupported.connected(self.connections);
        let session = self.session.id;
        // What an operator reads of a reconnect is this one line; what was tried meanwhile is for those who look closer.
        match self.outage.take() {
            None => tracing::info!(%session, server = %endpoint, ?timeout, "connected"),
            Some((since, lost)) => {
                let outage = now.duration_since(since);
                tracing::info!(%session, server = %endpoint, ?timeout, ?outage, %lost, "reconnected");
            }
        }
        self.phase = Phase::Connected {
            endpoint,
            since: now,
        };
        self.search = WritableSearch::after(now, state);
        self.announced_state = Some(state);
        self.send_auth(now);
        self.restore_watches(now);
        self.announce_state();
    }

    /// Tells that the connection stands, once the server has accepted who this client is.
    pub(crate) fn announce_state(&mut self) {
        if !self.is_authenticating()
            && let Some(state) = self.announced_state.take()
        {
            self.set_state(state);
        }
    }

    /// The watches of a former connection go before everything that waits.
    fn restore_watches(&mut self, now: Instant) {
        if self.unsupported.includes(OpCode::SET_WATCHES) {
            self.end_one_shot();
        }
        let mut batches = Batches::new(self.session.last_zxid, self.config.max_request);
        self.watches.restore(&mut batches);
        self.restored_watches = self.watches.len();
        let restore = |batch| (batch, ReplyTo::SetWatches { restore: true });
        let requests: Vec<_> = batches.finish().map(restore).collect();
        self.restoring = u32::try_from(requests.len()).unwrap_or(u32::MAX);
        self.queue.put_first(requests, now);
    }

    /// The world says that the connection is gone.
    fn disconnected(&mut self, now: Instant, cause: Cause) {
        let cause = match (&self.phase, cause) {
            (Phase::Handshaking { .. }, Cause::ClosedByServer) => Cause::ClosedInHandshake,
            (_, cause) => cause,
        };
        self.lose(now, cause);
    }

    /// The machine says that the connection is no good.
    pub(crate) fn give_up(&mut self, now: Instant, cause: Cause) {
        self.outputs.push_back(Output::Disconnect);
        self.lose(now, cause);
    }

    /// The connection is gone. A client that never had one ends when all servers say what they will say again; one that
    /// had goes on, since a certificate may be replaced.
    fn lose(&mut self, now: Instant, cause: Cause) {
        let (endpoint, lasted) = match &self.phase {
            Phase::Connected { endpoint, since } => (endpoint.clone(), now.duration_since(*since)),
            Phase::Connecting { endpoint, .. } | Phase::Handshaking { endpoint, .. } => {
                (endpoint.clone(), Duration::ZERO)
            }
            Phase::Pausing { .. } | Phase::Ended(_) => return,
        };
        if self.closing.is_some() {
            return self.end(State::Closed, cause);
        }
        let mut lost = self.lost(endpoint, cause);
        let mut guilty = None;
        if matches!(self.phase, Phase::Connected { .. }) {
            let suspect;
            (guilty, suspect) = self.connection_ended(&lost.cause);
            if let Some(op) = suspect {
                lost.cause = Cause::ClosedOn(op);
            }
            tracing::debug!(%lost, "connection lost");
            self.outage = Some((now, lost.clone()));
        } else {
            tracing::debug!(%lost, "no connection");
        }
        let persistent = lost.cause.is_permanent();
        self.endpoints.ended(lost.clone(), lasted);
        if self.connections == 0 && persistent && self.endpoints.all_failed_permanently() {
            let error = Error::Unreachable {
                waited: now.duration_since(self.began),
                tried: self.failures(),
                servers: self.endpoints.len(),
            };
            return self.end_with(State::Closed, &error, lost.cause);
        }
        self.phase = Phase::Pausing {
            until: now + self.endpoints.pause(&mut self.rng),
        };
        let known = self.session.id != SessionId::NONE;
        self.set_state(if known {
            State::Suspended
        } else {
            State::Connecting
        });
        if guilty.is_some() {
            self.settle_unanswered(&lost);
        }
        self.drop_connection(&Error::ConnectionLost(lost));
    }

    fn lost(&self, endpoint: Arc<Endpoint>, cause: Cause) -> Lost {
        let session = self.session.id;
        Lost {
            endpoint,
            session,
            cause,
        }
    }

    /// Settles what belonged to the connection. What was not sent yet stays, but for the machine's own requests.
    fn drop_connection(&mut self, error: &Error) {
        self.control.clear();
        self.announced_state = None;
        self.is_moving = false;
        self.search = None;
        self.watches.disconnected();
        self.ping_sent = None;
        self.restoring = 0;
        self.held_back.clear();
        self.fail_pending_auth(error);
        for request in std::mem::take(&mut self.in_flight) {
            self.lose_request(request, error.clone());
        }
        for queued in self.queue.disconnect() {
            let newest = self.endpoints.newest();
            self.give_back(queued, Error::NotConnected(newest));
        }
    }

    /// The session is over: so says this server, or else the clock. The machine goes on with a new one, or ends.
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
        self.confirmed = None;
        self.session = Session::none(self.config.session_timeout);
        self.timing = Timing::new(&self.config, self.config.session_timeout);
        self.set_state(State::Expired);
        self.drop_connection(&expired(Effect::Unknown));
        for queued in self.queue.take() {
            self.give_back(queued, error.clone());
        }
        self.end_watches(&error);
        match self.config.on_expiry {
            OnExpiry::NewSession => {
                // A pause that has begun is not cut short: a server that grants a session for a moment only, and closes
                // every connection, would be asked in a loop.
                if !matches!(self.phase, Phase::Pausing { .. }) {
                    self.phase = Phase::Pausing { until: now };
                }
                self.set_state(State::Connecting);
            }
            OnExpiry::End => {
                self.phase = Phase::Ended(error);
                self.set_state(State::Closed);
            }
        }
    }

    /// The machine is over: this client and the server do not trust each other.
    pub(crate) fn refuse(&mut self, reason: AuthFailure) {
        let (Phase::Connected { endpoint, .. } | Phase::Handshaking { endpoint, .. }) = &self.phase
        else {
            return;
        };
        tracing::error!(session = %self.session.id, server = %endpoint, %reason, "authentication failed");
        let peer = Peer {
            server: Some(endpoint.clone()),
            session: self.session.id,
        };
        let error = Error::AuthFailed { peer, reason };
        self.end_with(State::AuthFailed, &error, Cause::ClosedByServer);
    }

    /// The machine is over: closed.
    pub(crate) fn end(&mut self, state: State, cause: Cause) {
        self.end_with(state, &Error::Closed(Effect::NotApplied), cause);
    }

    /// The machine is over, and says this to whoever asks something of it.
    fn end_with(&mut self, state: State, ended: &Error, cause: Cause) {
        let before = std::mem::replace(&mut self.phase, Phase::Ended(ended.clone()));
        let lost = match before {
            Phase::Pausing { .. } | Phase::Ended(_) => None,
            Phase::Connecting { endpoint, .. }
            | Phase::Handshaking { endpoint, .. }
            | Phase::Connected { endpoint, .. } => Some(self.lost(endpoint, cause)),
        };
        self.confirmed = None;
        self.closing = None;
        self.set_state(state);
        if let Some(lost) = lost {
            self.outputs.push_back(Output::Disconnect);
            self.drop_connection(&match lost.cause {
                Cause::ByClient => Error::Closed(Effect::Unknown),
                _ => Error::ConnectionLost(lost),
            });
        }
        for queued in self.queue.take() {
            self.give_back(queued, ended.clone());
        }
        self.end_watches(ended);
    }

    fn tick(&mut self, now: Instant) {
        let due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        if due(self.closing) {
            return self.end(State::Closed, Cause::RequestTimeout(self.timing.request));
        }
        if due(self.session_deadline()) {
            if !matches!(self.phase, Phase::Pausing { .. }) {
                self.outputs.push_back(Output::Disconnect);
            }
            self.expire(now, None);
        }
        self.fail_overdue(now);
        while due(self.queue_deadline()) {
            self.fail_oldest_queued(now);
        }
        match &self.phase {
            Phase::Pausing { until } if *until <= now => self.try_next_server(now),
            Phase::Connecting {
                deadline, since, ..
            } if *deadline <= now => {
                let waited = now.duration_since(*since);
                self.give_up(now, Cause::ConnectTimeout(waited));
            }
            Phase::Handshaking { deadline, sent, .. } if *deadline <= now => {
                let waited = now.duration_since(*sent);
                self.give_up(now, Cause::HandshakeTimeout(waited));
            }
            Phase::Connected { .. } if self.silence_deadline() <= now => {
                self.give_up(now, Cause::Silent(self.timing.read));
            }
            Phase::Connected { .. } if due(self.request_deadline()) => {
                self.give_up(now, Cause::RequestTimeout(self.timing.request));
            }
            Phase::Connected { .. } if due(self.pong_deadline()) => {
                self.give_up(now, Cause::RequestTimeout(self.timing.read));
            }
            Phase::Connected { .. } if due(self.search_due()) => self.probe_next_server(now),
            Phase::Connected { .. } if due(self.ping_due()) => self.send_ping(now),
            _ => {}
        }
    }

    /// Tries the next server.
    fn try_next_server(&mut self, now: Instant) {
        if let Some(endpoint) = self.endpoints.advance() {
            let deadline = now + self.config.server_timeout(self.session.timeout);
            self.phase = Phase::Connecting {
                endpoint: endpoint.clone(),
                since: now,
                deadline,
            };
            self.metrics.attempts += 1;
            tracing::debug!(server = %endpoint, session = %self.session.id, "connecting");
            self.outputs.push_back(Output::Connect(endpoint));
        } else {
            self.end(State::Closed, Cause::ByClient);
        }
    }

    /// As `tried`, and what became so far of an attempt that still lasts, at a server of which nothing else is known.
    pub(crate) fn failures_until(&self, now: Instant) -> Arc<[Lost]> {
        let (endpoint, cause) = match &self.phase {
            Phase::Connecting {
                endpoint, since, ..
            } => {
                let waited = now.duration_since(*since);
                (endpoint, Cause::ConnectTimeout(waited))
            }
            Phase::Handshaking { endpoint, sent, .. } => {
                let waited = now.duration_since(*sent);
                (endpoint, Cause::HandshakeTimeout(waited))
            }
            _ => return self.failures(),
        };
        let tried = self.failures();
        if tried.iter().any(|lost| lost.endpoint == *endpoint) {
            return tried;
        }
        let pending = self.lost(endpoint.clone(), cause);
        let one_too_many = usize::from(tried.len() >= endpoints::REMEMBERED);
        let newest = tried.iter().skip(one_too_many).cloned();
        newest.chain([pending]).collect()
    }
}
