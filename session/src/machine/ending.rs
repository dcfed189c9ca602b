//! How a connection, a session and the machine end, and what becomes of the requests.
//!
//! Not here: how a connection begins (`connecting`).

use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use lockkeeper_proto::{OpCode, SessionId, Zxid};

use super::{
    Machine, OnExpiry, Open, Output, Phase, State,
    requests::{Own, Queued, ReplyTo},
    session::Session,
    watches::Kinds,
};
use crate::{AuthFailure, Cause, Effect, Endpoint, Error, Lost, Peer};

impl<T> Machine<T> {
    /// The transport says that the connection is gone.
    pub(crate) fn disconnected(&mut self, now: Instant, cause: Cause) {
        let cause = match (&self.phase, cause) {
            (Phase::Trying(attempt), Cause::ClosedByServer) if attempt.is_greeted() => {
                Cause::ClosedInHandshake
            }
            (_, cause) => cause,
        };
        self.lose(now, cause);
    }

    /// The machine gives the connection up.
    pub(crate) fn give_up(&mut self, now: Instant, cause: Cause) {
        self.out.push(Output::Disconnect);
        self.lose(now, cause);
    }

    /// The connection is gone. The machine pauses, and then tries the next server.
    ///
    /// A client that was never connected ends when every server has failed permanently. A client
    /// that was connected goes on: somebody may replace a certificate.
    fn lose(&mut self, now: Instant, cause: Cause) {
        if self.phase.closing().is_some() {
            return self.end(State::Closed, cause);
        }
        let (endpoint, lasted) = match &self.phase {
            Phase::Trying(attempt) => (attempt.endpoint().clone(), Duration::ZERO),
            Phase::Open(open) => (open.link.endpoint().clone(), open.link.lasted(now)),
            Phase::Paused(_) | Phase::Ended(_) => return,
        };
        let lost = self.lost(endpoint, cause);
        if let Phase::Open(_) = self.phase {
            tracing::debug!(%lost, "connection lost");
            self.alone_since = now;
            self.servers.outage(now, lost.clone());
        } else if lost.cause.is_permanent() && !self.failures().contains(&lost) {
            tracing::warn!(%lost, "no connection");
        } else {
            tracing::debug!(%lost, "no connection");
        }
        self.servers.ended(lost.clone(), lasted);
        let is_hopeless = || lost.cause.is_permanent() && self.servers.all_failed_permanently();
        if self.connections == 0 && is_hopeless() {
            let error = self.unreachable(now, now.duration_since(self.alone_since));
            return self.end_with(State::Closed, &error, lost.cause);
        }
        let pause = now + self.servers.pause();
        let left = mem::replace(&mut self.phase, Phase::Paused(pause));
        self.set_state(if self.session.id() == SessionId::NONE {
            State::Connecting
        } else {
            State::Suspended
        });
        let Phase::Open(open) = left else {
            return;
        };
        if let Cause::ClosedByServer | Cause::Io { .. } = lost.cause
            && let Some((op, Own::SetWatches { since, .. })) = open.in_flight.oldest_own()
        {
            self.watches_not_set(op, since, &lost);
        }
        self.settle_connection(*open, &Error::ConnectionLost(lost, Effect::Unknown));
    }

    /// The failure of this server, now.
    pub(crate) fn lost(&self, endpoint: Arc<Endpoint>, cause: Cause) -> Lost {
        Lost {
            endpoint,
            session: self.session.id(),
            cause,
        }
    }

    /// Settles the requests of a connection that is gone. Requests that were not sent stay in the
    /// queue, except for those of the machine itself, whose errors nobody sees.
    fn settle_connection(&mut self, open: Open<T>, error: &Error) {
        self.watches.disconnected(open.arrivals, &mut self.out);
        for request in open.in_flight.into_lost() {
            self.queue.settled(&request.options, request.number);
            self.fail(request.op, request.reply_to, error.clone());
        }
        for queued in self.queue.take_own() {
            self.give_back(queued, error.clone());
        }
    }

    /// Settles a request that was not sent.
    pub(crate) fn give_back(&mut self, queued: Queued<T>, error: Error) {
        self.queue.settled(&queued.options, queued.number);
        self.fail(queued.request.op(), queued.reply_to, error);
    }

    /// Settles a request that got no reply.
    pub(crate) fn fail(&mut self, op: OpCode, reply_to: ReplyTo<T>, error: Error) {
        let token = match reply_to {
            ReplyTo::Caller(token, watch) => {
                self.settle_watch(watch, None);
                token
            }
            ReplyTo::Identity(token, _) => token,
            ReplyTo::Own(Own::SetWatches { since, .. }) => {
                return self.watches.not_confirmed(since);
            }
            ReplyTo::Own(_) => None,
        };
        if let Some(token) = token {
            self.out.complete(op, token, Err(error));
        }
    }

    /// A server says that it does not know the operation of this request.
    pub(crate) fn unsupported(&mut self, op: OpCode, reply_to: ReplyTo<T>, peer: Peer) {
        self.support.is_unknown(op, self.connections, &peer);
        if let ReplyTo::Own(Own::SetWatches { since, .. }) = reply_to {
            self.watches.not_confirmed(since);
            self.end_unsupported(op, peer);
        } else {
            self.fail(op, reply_to, Error::Unsupported { op, peer });
        }
    }

    /// A connection ends on this operation, which sets watches. The next one sends it again, but not
    /// without end: the watches could be what the server cannot do.
    pub(crate) fn watches_not_set(&mut self, op: OpCode, since: Zxid, lost: &Lost) {
        self.watches.not_confirmed(since);
        if self.support.watches_not_set() {
            tracing::warn!(%op, %lost, "watches have ended: no server sets them");
            let peer = Peer::from(lost);
            self.support.is_unknown(op, self.connections, &peer);
            self.end_unsupported(op, peer);
        }
    }

    /// Ends the watches that servers without this operation cannot restore.
    fn end_unsupported(&mut self, mut op: OpCode, peer: Peer) {
        let mut kinds = Kinds::ONE_SHOT;
        if op == OpCode::SET_WATCHES2 {
            (op, kinds) = (OpCode::ADD_WATCH, Kinds::LASTING);
            self.support.is_unknown(op, self.connections, &peer);
        }
        let error = Error::Unsupported { op, peer };
        self.watches.end(kinds, &error, &mut self.out);
    }

    /// The session is over. `server` has said so, or the client's clock if there is no server. The
    /// machine goes on with a new session, or ends.
    pub(crate) fn expire(&mut self, now: Instant, server: Option<Arc<Endpoint>>) {
        let session = self.session.id();
        match self.servers.end_outage(now) {
            None => tracing::warn!(%session, "session expired"),
            Some((outage, lost)) => {
                tracing::warn!(%session, ?outage, %lost, "session expired");
            }
        }
        self.out.metrics_mut().expired_sessions += 1;
        let error = Error::SessionExpired {
            peer: Peer { server, session },
            effect: Effect::NotApplied,
        };
        self.session = Session::none(&self.config);
        self.lease.end();
        self.set_state(State::Expired);
        self.settle_session(&error);
        match self.config.on_expiry {
            OnExpiry::NewSession => self.set_state(State::Connecting),
            OnExpiry::End => {
                self.phase = Phase::Ended(error);
                self.set_state(State::Closed);
            }
        }
    }

    /// Everything that belongs to the session ends with this error.
    fn settle_session(&mut self, error: &Error) {
        for queued in self.queue.take() {
            self.give_back(queued, error.clone());
        }
        self.watches.end(Kinds::ALL, error, &mut self.out);
    }

    /// Ends the machine: the client and the server do not trust each other.
    pub(crate) fn refuse(&mut self, reason: AuthFailure) {
        let server = match &self.phase {
            Phase::Trying(attempt) if attempt.is_greeted() => attempt.endpoint().clone(),
            Phase::Open(open) => open.link.endpoint().clone(),
            _ => return,
        };
        let session = self.session.id();
        tracing::error!(%session, %server, %reason, "authentication failed");
        let server = Some(server);
        let peer = Peer { server, session };
        let error = Error::AuthFailed { peer, reason };
        self.end_with(State::AuthFailed, &error, Cause::ClosedByServer);
    }

    /// Ends the machine: the client was closed.
    pub(crate) fn end(&mut self, state: State, cause: Cause) {
        self.end_with(state, &Error::Closed(Effect::NotApplied), cause);
    }

    /// Ends the machine. Every request from now on gets the error `ended`.
    fn end_with(&mut self, state: State, ended: &Error, cause: Cause) {
        let left = mem::replace(&mut self.phase, Phase::Ended(ended.clone()));
        self.lease.end();
        self.set_state(state);
        if matches!(left, Phase::Trying(_) | Phase::Open(_)) {
            self.out.push(Output::Disconnect);
        }
        if let Phase::Open(open) = left {
            let error = match cause {
                Cause::ByClient => Error::Closed(Effect::Unknown),
                cause => {
                    let lost = self.lost(open.link.endpoint().clone(), cause);
                    Error::ConnectionLost(lost, Effect::Unknown)
                }
            };
            self.settle_connection(*open, &error);
        }
        self.settle_session(ended);
    }
}
