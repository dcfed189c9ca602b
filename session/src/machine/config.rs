//! Settings of the machine. Not here: the durations that follow from the session timeout (`timing`).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use lockkeeper_proto::{Request, frame, records::AuthPacket};

use super::{
    encoded::Encoded,
    sasl::Authenticator,
    ticket::{SHORTEST_TIMEOUT_MS, SessionTicket},
};
use crate::{ConnectString, Endpoint, Error, ErrorKind};

/// The settings of a session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The servers; they are tried in shuffled order.
    pub endpoints: Vec<Endpoint>,
    /// The session timeout to request. The server may grant another one. Default 10 s.
    pub session_timeout: Duration,
    /// How the client knows until when its session lives.
    pub lease: LeasePolicy,
    /// The `tickTime` of the servers, if it is known; `None` for what is true of every session that
    /// has a tick and a half or more. It makes the proof of a lease quicker. If the servers' tick is
    /// longer than this, the lease is not safe.
    pub tick_time: Option<Duration>,
    /// How long one server may take to accept the connection, and again to complete the handshake;
    /// `None` for a share of the session timeout.
    pub server_timeout: Option<Duration>,
    /// How long the server may answer no request, while one waits, before the client gives up the
    /// connection; `None` for the negotiated timeout.
    pub request_timeout: Option<Duration>,
    /// Whether the requests of the first connection wait until the server has accepted the
    /// identities. Otherwise they do not wait, and those under way when it refuses an identity fail
    /// with a lost connection.
    pub requests_wait_for_identities: bool,
    /// The longest request, in bytes: `jute.maxbuffer` of the servers. Default
    /// [`frame::SERVER_LIMIT`].
    pub max_request: usize,
    /// How many requests may wait to be sent or answered; twice as many for callers that cannot
    /// wait for capacity. A thousand of them are under way at once. Default 65,536.
    pub max_outstanding: usize,
    /// How many bytes of requests may wait to be sent; twice as many for callers that cannot wait
    /// for capacity. Default 16 MiB.
    pub max_queued_bytes: usize,
    /// Identities for every connection: scheme and credentials.
    pub auth: Vec<Auth>,
    /// How to authenticate with SASL, on every connection and before anything else. Default: no
    /// SASL.
    pub sasl: Option<Arc<dyn Authenticator>>,
    /// The session to go on with; `None` for a new one.
    pub session: Option<Box<SessionTicket>>,
    /// Whether a [`close`](super::Machine::close) leaves the session to the servers, and to others that
    /// may go on with it: until [`own_session`](super::Machine::own_session).
    pub leaves_session: bool,
    /// The seed of the machine's random choices: order of the servers, back-off.
    pub seed: u64,
}

/// How the client knows until when its session lives. A lock is granted, and counts as held, only
/// while that is known.
///
/// `T` is the negotiated session timeout.
///
/// | policy | no two valid holders, if | costs | a lease lasts |
/// |---|---|---|---|
/// | `Proved` | clocks run at nearly the same rate | a `sync` and a small write every `T / 4` in a session that holds a lock, or is next, and writes nothing else | at least `T / 4` after the last contact |
/// | `Assumed` | the same, and a server that answers clients is heard by its leader | nothing | `T` less the margin |
///
/// No policy is needed for fencing tokens and for transactions under a lock: they do not depend on
/// time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeasePolicy {
    /// A `sync` and a write behind it prove that the leader has heard of the session. Whatever the
    /// servers and the links between them do, the lease ends before the session.
    #[default]
    Proved,
    /// A server that answers a client is heard by its leader. That is true while servers crash and
    /// pause, but not while a link between two of them is cut.
    Assumed {
        /// How much earlier than the session the lease ends; `None` for a third of the negotiated
        /// session timeout.
        margin: Option<Duration>,
    },
}

/// One identity: scheme and credentials.
#[derive(Clone, PartialEq, Eq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "users make it from its two parts"
)]
pub struct Auth {
    /// The scheme, as in an ACL.
    pub scheme: String,
    /// The credentials, in plain text.
    pub credentials: Bytes,
}

impl Auth {
    /// The request that gives this identity to the connection.
    pub(super) fn packet(&self) -> Encoded {
        let packet = AuthPacket {
            auth_type: 0,
            scheme: self.scheme.clone(),
            auth: Some(self.credentials.clone()),
        };
        Request::Auth(packet).into()
    }
}

/// Prints no credentials.
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
            lease: LeasePolicy::default(),
            tick_time: None,
            server_timeout: None,
            request_timeout: None,
            requests_wait_for_identities: false,
            max_request: frame::SERVER_LIMIT,
            max_outstanding: 1 << 16,
            max_queued_bytes: 16 << 20,
            auth: Vec::new(),
            sasl: None,
            session: None,
            leaves_session: false,
            seed,
        }
    }

    /// The settings with durations that can be added to an instant. A caller may mean "for
    /// ever" by a very long one.
    pub(crate) fn bounded(mut self) -> Self {
        self.session_timeout = self.session_timeout.min(LONGEST_TIMEOUT);
        for timeout in [
            &mut self.server_timeout,
            &mut self.request_timeout,
            &mut self.tick_time,
        ] {
            *timeout = timeout.map(|timeout| timeout.min(LONGEST_TIMEOUT));
        }
        // No frame is longer.
        self.max_request = self.max_request.min(i32::MAX.unsigned_abs() as usize);
        self
    }

    /// The error for an identity that is longer than requests may be: with it, servers would close
    /// each connection.
    pub(super) fn too_large(&self) -> Option<Error> {
        let limit = self.max_request;
        let mut lengths = self.auth.iter().map(|identity| identity.packet().len());
        let length = lengths.find(|length| *length > limit)?;
        Some(ErrorKind::TooLarge { length, limit }.into())
    }

    /// The session timeout to request, in milliseconds.
    pub(crate) fn session_timeout_ms(&self) -> i32 {
        i32::try_from(self.session_timeout.as_millis())
            .unwrap_or(i32::MAX)
            .max(1)
    }

    /// How long one server may take to accept the connection, and again to complete the handshake.
    ///
    /// It is a share of the session timeout, so that a few dead servers do not cost the session.
    /// Source: `ClientCnxn.java` divides by the number of servers. Here each server gets at least a
    /// quarter: with a long list it would have too little time to answer. A single server gets a
    /// half: when it has just opened its port, it may accept a connection that it never serves
    /// (ZOOKEEPER-5051).
    pub(crate) fn server_timeout(&self, session_timeout: Duration) -> Duration {
        let shares = u32::try_from(self.endpoints.len().clamp(2, 4)).unwrap_or(4);
        self.server_timeout
            .unwrap_or(session_timeout.max(SHORTEST_TIMEOUT) / shares)
    }
}

/// The longest duration: the longest session timeout on the wire, about 25 days.
const LONGEST_TIMEOUT: Duration = Duration::from_millis(i32::MAX as u64);
/// The shortest session timeout that a server may grant. Timers run at most as fast as for this
/// one, whatever was asked for.
pub(crate) const SHORTEST_TIMEOUT: Duration =
    Duration::from_millis(1).saturating_mul(SHORTEST_TIMEOUT_MS.unsigned_abs());
