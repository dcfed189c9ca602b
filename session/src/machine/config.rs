//! What the machine is told once, and the durations that follow from the session timeout.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use lockkeeper_proto::frame;

use super::link::sasl::Authenticator;
use crate::{ConnectString, Endpoint};

/// What becomes of the client when its session expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnExpiry {
    /// It lives on with a new session; what belonged to the old one is told so.
    #[default]
    NewSession,
    /// It ends.
    End,
}

/// The settings of a session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The servers; they are tried in shuffled order.
    pub endpoints: Vec<Endpoint>,
    /// The session timeout that is asked for; the server has the last word. Default 10 s.
    pub session_timeout: Duration,
    /// How long before the server could expire the session a lease ends; `None` for a third of the negotiated timeout.
    ///
    /// It covers what a follower tells its leader late (half a tick), and clock drift.
    pub lease_margin: Option<Duration>,
    /// How long one server may take to accept and to complete the handshake; `None` for a share of the session timeout.
    pub server_timeout: Option<Duration>,
    /// How long a request may stay unanswered before the connection is given up; `None` for the negotiated timeout.
    pub request_timeout: Option<Duration>,
    /// Whether a read-only server will do.
    pub read_only: bool,
    /// What becomes of the client when its session expires.
    pub on_expiry: OnExpiry,
    /// The longest request, in bytes: `jute.maxbuffer` of the servers. Default [`frame::SERVER_LIMIT`].
    pub max_request: usize,
    /// How many requests may wait to be sent or answered; twice as many for those that cannot wait for room. Default
    /// 65,536.
    pub max_outstanding: usize,
    /// How many bytes of requests may wait to be sent; twice as many for those that cannot wait for room. Default 16 MiB.
    pub max_queued_bytes: usize,
    /// Identities for every connection: scheme and credentials.
    pub auth: Vec<Auth>,
    /// How to prove who this is with SASL, on every connection and before anything else. Default: not at all.
    pub sasl: Option<Arc<dyn Authenticator>>,
    /// Where the machine's random choices start: order of the servers, back-off.
    pub seed: u64,
}

/// One identity: scheme and credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Auth {
    /// The scheme, as in an ACL.
    pub scheme: String,
    /// The credentials, in clear.
    pub credentials: Bytes,
}

/// Without the credentials.
impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth")
            .field("scheme", &self.scheme)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// The default settings for these servers. `seed` should differ from client to client.
    #[must_use]
    pub fn new(servers: &ConnectString, seed: u64) -> Self {
        Self {
            endpoints: servers.endpoints().to_vec(),
            session_timeout: Duration::from_secs(10),
            lease_margin: None,
            server_timeout: None,
            request_timeout: None,
            read_only: false,
            on_expiry: OnExpiry::NewSession,
            max_request: frame::SERVER_LIMIT,
            max_outstanding: 1 << 16,
            max_queued_bytes: 16 << 20,
            auth: Vec::new(),
            sasl: None,
            seed,
        }
    }

    /// The same settings, with durations that an instant can be moved by: a caller may mean "for ever" by a very long one.
    pub(crate) fn bounded(mut self) -> Self {
        self.session_timeout = self.session_timeout.min(LONGEST_TIMEOUT);
        for timeout in [&mut self.server_timeout, &mut self.request_timeout] {
            *timeout = timeout.map(|timeout| timeout.min(LONGEST_TIMEOUT));
        }
        self
    }

    /// The session timeout as it is asked for, in milliseconds.
    pub(crate) fn session_timeout_ms(&self) -> i32 {
        i32::try_from(self.session_timeout.as_millis())
            .unwrap_or(i32::MAX)
            .max(1)
    }

    /// How long one server may take to accept, and again to complete the handshake.
    ///
    /// A share of the session timeout, so that a few dead servers do not cost the session. Source: `ClientCnxn.java`
    /// divides by the number of servers; here no server gets less than a quarter, so that a long list does not leave
    /// each server too little time to answer.
    pub(crate) fn server_timeout(&self, session_timeout: Duration) -> Duration {
        let shares = u32::try_from(self.endpoints.len().clamp(1, 4)).unwrap_or(4);
        self.server_timeout
            .unwrap_or(session_timeout.max(SHORTEST_TIMEOUT) / shares)
    }
}

/// No duration is longer: what the wire can say of a session timeout, some 25 days.
const LONGEST_TIMEOUT: Duration = Duration::from_millis(i32::MAX as u64);
/// Timers run no faster than for a session timeout of this length, whatever a server negotiates.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(60);

/// Timers run no slower than for a session timeout of this length, or of the one that was asked for, whatever a server
/// negotiates: one that grants 25 days would otherwise be believed for days after it fell silent.
const LONGEST_TIMERS: Duration = Duration::from_secs(60);
/// A quiet connection is pinged at least so often: what lies between may forget it.
///
/// Source: `ClientCnxn.java`, `MAX_SEND_PING_INTERVAL`.
const LONGEST_PING: Duration = Duration::from_secs(10);

/// The durations that follow from the negotiated session timeout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// Silence on our side after which a ping is sent: a quarter; at most [`LONGEST_PING`].
    ///
    /// A server that answers a ping and fails before its leader knows takes the ping with it: the leader counts from the
    /// request before. So two requests must not be further apart than the margin of the lease, a third, with something left
    /// for late pings and slow clocks. (Java's client pings after a third.)
    pub(crate) ping: Duration,
    /// Silence on the server's side after which the connection is given up: two thirds, so that a third is left to
    /// find another server. Source: `ClientCnxn.java`, `readTimeout`.
    pub(crate) read: Duration,
    /// How long a request may stay unanswered.
    pub(crate) request: Duration,
    /// How long a request waits for a connection.
    pub(crate) queue_wait: Duration,
    /// Silence of all servers after which the session counts as expired without one having said so.
    ///
    /// Source: `ClientCnxn.java` from 3.9.3, 4/3 of the timeout. It frees a client whose servers came back without
    /// their data: they close every connection of a client that has seen more than they have.
    pub(crate) session_end: Duration,
    /// From the sending of an answered request to the end of the lease.
    pub(crate) lease: Duration,
}

impl Timing {
    pub(crate) fn new(config: &Config, negotiated: Duration) -> Self {
        let timer = negotiated
            .min(config.session_timeout.max(LONGEST_TIMERS))
            .max(SHORTEST_TIMEOUT);
        let margin = config.lease_margin.unwrap_or(negotiated / 3);
        Self {
            ping: (timer / 4).min(LONGEST_PING),
            read: timer * 2 / 3,
            request: config.request_timeout.unwrap_or(timer),
            queue_wait: timer,
            session_end: negotiated.max(SHORTEST_TIMEOUT) * 4 / 3,
            lease: negotiated.saturating_sub(margin),
        }
    }
}
