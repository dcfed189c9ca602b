//! Everything that exists only as long as one connection, so that it is dropped with the
//! connection.
//!
//! Not here: what outlives a connection (`session`, `requests::backlog`, `watches::table`).

use std::{collections::VecDeque, fmt, sync::Arc, time::Instant};

use bytes::BytesMut;

use crate::{
    Cause, Endpoint,
    machine::{
        State,
        link::{sasl::SaslExchange, search::WritableSearch},
        proof::Proof,
        requests::in_flight::InFlight,
        watches::early::{EarlyEvents, Restore},
    },
};

/// A connection to a server, or an attempt to make one.
pub(crate) struct Connection<T> {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) stage: Stage,
    /// Bytes that go out before any request: handshake, authentication, pings.
    pub(crate) control: BytesMut,
    /// Requests that were handed to the transport and are not answered yet, oldest first.
    pub(crate) in_flight: VecDeque<InFlight<T>>,
    /// Identities that the server has not answered yet.
    pub(crate) pending_auth: PendingAuth<T>,
    /// The watches of the former connection, while the server takes them over.
    pub(crate) restore: Restore,
    /// Events that came before the requests for their watches were answered.
    pub(crate) early: EarlyEvents,
    /// The ping that is not answered yet.
    pub(crate) ping: Option<Ping>,
    /// When the last ping was sent, or else the handshake.
    pub(crate) last_ping: Instant,
    pub(crate) last_received: Instant,
    /// When the last request was answered, or else when the attempt began.
    last_answered: Instant,
    /// What the answers on this connection prove of the session; `None` before the handshake, and
    /// on a read-only server.
    pub(crate) proof: Option<Proof>,
    /// Whether a write of the machine's own is queued or under way, which is to prove something.
    pub(crate) is_proving: bool,
    /// The state to report as soon as the server has accepted the identities.
    pub(crate) announced_state: Option<State>,
    /// Whether to leave this connection as soon as all requests are answered.
    pub(crate) is_moving: bool,
    /// The search for a server that accepts writes.
    pub(crate) search: Option<WritableSearch>,
}

/// Identities that were sent on this connection and are not answered, oldest first.
pub(crate) type PendingAuth<T> = VecDeque<PendingIdentity<T>>;

/// An identity that waits for its answer.
#[derive(Debug)]
pub(crate) struct PendingIdentity<T> {
    pub(crate) scheme: String,
    pub(crate) sent: Instant,
    /// The caller that added it; `None` for an identity that a new connection sends again.
    pub(crate) token: Option<T>,
}

/// A ping that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ping {
    pub(crate) sent: Instant,
    /// When the last request ahead of it was answered, or else `sent`: since when it could have
    /// been answered.
    pub(crate) since: Instant,
}

/// How far a connection is.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The transport is being connected.
    Connecting { since: Instant, deadline: Instant },
    /// The handshake was sent.
    Handshaking {
        sent: Instant,
        deadline: Instant,
        /// The SASL exchange, once the handshake itself is answered.
        sasl: Option<SaslExchange>,
    },
    /// The server accepts requests.
    Established { since: Instant },
}

impl<T> Connection<T> {
    /// An attempt that begins now.
    pub(crate) fn new(endpoint: Arc<Endpoint>, now: Instant, deadline: Instant) -> Self {
        Self {
            endpoint,
            stage: Stage::Connecting {
                since: now,
                deadline,
            },
            control: BytesMut::new(),
            in_flight: VecDeque::new(),
            pending_auth: VecDeque::new(),
            restore: Restore::default(),
            early: EarlyEvents::default(),
            ping: None,
            last_ping: now,
            last_received: now,
            last_answered: now,
            proof: None,
            is_proving: false,
            announced_state: None,
            is_moving: false,
            search: None,
        }
    }

    pub(crate) fn is_established(&self) -> bool {
        matches!(self.stage, Stage::Established { .. })
    }

    /// Whether the server has yet to answer an identity that was sent at the start of the
    /// connection.
    pub(crate) fn is_authenticating(&self) -> bool {
        self.pending_auth
            .iter()
            .any(|identity| identity.token.is_none())
    }

    /// Whether everything that was sent is answered, except for pings.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.pending_auth.is_empty()
    }

    /// Takes out the oldest request, which is answered. The time of those behind it, and of a ping,
    /// counts from here: replies come in order, so the server could not have answered them earlier.
    pub(crate) fn pop_answered(&mut self, now: Instant) -> Option<InFlight<T>> {
        let request = self.in_flight.pop_front()?;
        self.last_answered = now;
        if let Some(ping) = self.ping.as_mut().filter(|ping| request.sent <= ping.sent) {
            ping.since = now;
        }
        Some(request)
    }

    /// Since when the server could have answered the oldest request, or the oldest identity, which
    /// waits for no request.
    pub(crate) fn waits_since(&self) -> Option<Instant> {
        let request = self.in_flight.front();
        let request = request.map(|request| request.sent.max(self.last_answered));
        let identity = self.pending_auth.front().map(|identity| identity.sent);
        [request, identity].into_iter().flatten().min()
    }

    /// When the attempt to connect is given up.
    pub(crate) fn handshake_deadline(&self) -> Instant {
        match self.stage {
            Stage::Connecting { deadline, .. } | Stage::Handshaking { deadline, .. } => deadline,
            Stage::Established { since } => since,
        }
    }

    /// Why the attempt would fail if it ended now; `None` once the connection is established.
    pub(crate) fn pending_failure(&self, now: Instant) -> Option<Cause> {
        match self.stage {
            Stage::Connecting { since, .. } => {
                Some(Cause::ConnectTimeout(now.duration_since(since)))
            }
            Stage::Handshaking { sent, .. } => {
                Some(Cause::HandshakeTimeout(now.duration_since(sent)))
            }
            Stage::Established { .. } => None,
        }
    }
}

impl<T> fmt::Debug for Connection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("endpoint", &self.endpoint)
            .field("stage", &self.stage)
            .field("in_flight", &self.in_flight.len())
            .finish_non_exhaustive()
    }
}
