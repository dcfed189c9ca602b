//! How a connection, the session and the link end, and how the client leaves a server.
//!
//! Not here: how a connection begins (`beginning`), what becomes of requests and watches
//! (`machine`).

use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use lockkeeper_proto::SessionId;

use super::{Change, Link, Session, Stage, State};
use crate::{AuthFailure, Cause, Effect, Endpoint, Error, ErrorKind, Lost, Peer};

impl Link {
    /// The transport says that the connection is gone.
    pub(crate) fn disconnected(&mut self, now: Instant, cause: Cause) {
        let cause = match (&self.stage, cause) {
            (Stage::Trying(attempt), Cause::ClosedByServer) if attempt.is_greeted() => {
                Cause::ClosedInHandshake
            }
            (_, cause) => cause,
        };
        self.lose(now, cause);
    }

    /// The client gives the connection up.
    pub(crate) fn give_up(&mut self, now: Instant, cause: Cause) {
        self.changes.push_back(Change::Disconnect);
        self.lose(now, cause);
    }

    /// The connection is gone. The link pauses, and then tries the next server.
    ///
    /// A client that was never connected ends when every server has failed permanently. A client
    /// that was connected goes on: somebody may replace a certificate.
    fn lose(&mut self, now: Instant, cause: Cause) {
        if self.is_closing() {
            return self.end(State::Closed, cause);
        }
        let (endpoint, lasted) = match &self.stage {
            Stage::Trying(attempt) => (attempt.endpoint().clone(), Duration::ZERO),
            Stage::Open(open) => {
                if open.has_writes() {
                    self.servers.owes(now, open.endpoint());
                }
                (open.endpoint().clone(), open.lasted(now))
            }
            Stage::Paused { .. } | Stage::Ended(_) => return,
        };
        let (lost, was_open) = (self.lost(endpoint, cause), self.is_connected());
        if was_open {
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
            return self.end_with(State::Closed, error, lost.cause);
        }
        let until = now + self.servers.pause();
        self.stage = Stage::Paused { until };
        self.report(if self.session.id() == SessionId::NONE {
            State::Connecting
        } else {
            State::Suspended
        });
        if was_open {
            self.changes.push_back(Change::Closed(Error::lost(lost)));
        }
    }

    /// The failure of this server, now.
    pub(super) fn lost(&self, endpoint: Arc<Endpoint>, cause: Cause) -> Lost {
        Lost {
            endpoint,
            session: self.session.id(),
            cause,
        }
    }

    /// The session is over. `server` has said so, or the client's clock if there is no server. The
    /// link goes on with a new session.
    pub(super) fn expire(&mut self, now: Instant, server: Option<Arc<Endpoint>>) {
        let session = self.session.id();
        match self.servers.end_outage(now) {
            None => tracing::warn!(%session, "session expired"),
            Some((outage, lost)) => {
                tracing::warn!(%session, ?outage, %lost, "session expired");
            }
        }
        let error = Error::expired(Peer { server, session });
        self.session = Session::none(&self.config);
        self.servers.session_over();
        self.report(State::Expired);
        self.changes.push_back(Change::SessionOver(error));
        self.report(State::Connecting);
    }

    /// Begins a clean close. Returns whether the end of the session is to be requested; otherwise
    /// the link has ended.
    pub(crate) fn close(&mut self, now: Instant) -> bool {
        let deadline = now + self.timing().request;
        let Some(open) = self.connection_mut() else {
            self.end(State::Closed, Cause::ByClient);
            return false;
        };
        open.close(deadline);
        true
    }

    /// Ends the link: the client and the server do not trust each other.
    pub(crate) fn refuse(&mut self, reason: AuthFailure) {
        let server = match &self.stage {
            Stage::Trying(attempt) if attempt.is_greeted() => attempt.endpoint().clone(),
            Stage::Open(open) => open.endpoint().clone(),
            _ => return,
        };
        let session = self.session.id();
        tracing::error!(%session, %server, %reason, "authentication failed");
        let server = Some(server);
        let peer = Peer { server, session };
        let error = Error::new(ErrorKind::AuthFailed(reason), peer, Effect::NotApplied);
        self.end_with(State::AuthFailed, error, Cause::ClosedByServer);
    }

    /// Ends the link: the client was closed.
    pub(crate) fn end(&mut self, state: State, cause: Cause) {
        self.end_with(state, ErrorKind::Closed.into(), cause);
    }

    /// Ends the link. Every request from now on gets the error `ended`.
    pub(crate) fn end_with(&mut self, state: State, ended: Error, cause: Cause) {
        if self.ended().is_some() {
            return;
        }
        let left = mem::replace(&mut self.stage, Stage::Ended(ended.clone()));
        self.report(state);
        if matches!(left, Stage::Trying(_) | Stage::Open(_)) {
            self.changes.push_back(Change::Disconnect);
        }
        if let Stage::Open(open) = left {
            let error = match cause {
                Cause::ByClient => Error::closed(Effect::Unknown),
                cause => Error::lost(self.lost(open.endpoint().clone(), cause)),
            };
            self.changes.push_back(Change::Closed(error));
        }
        self.changes.push_back(Change::SessionOver(ended));
    }

    /// Goes on with another server, if there is one that owes nothing, and does not come back to this
    /// one for a minute, unless all others fail. Returns whether the connection is closed.
    pub(crate) fn leave(&mut self, now: Instant) -> bool {
        match &self.stage {
            Stage::Open(open) if self.servers.has_other(open.endpoint()) && !self.is_closing() => {
                self.servers.avoid(now, open.endpoint().clone());
                self.give_up(now, Cause::ByClient);
                true
            }
            _ => false,
        }
    }
}
