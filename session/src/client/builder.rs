//! Settings of a client, and its first connection.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;

use super::{
    Client, Connector,
    capacity::{RequestPolicy, WhenDisconnected},
    clock::Clock,
    driver::{self, Driver},
    random::{Random, random_u64},
    shared::Shared,
};
use crate::{
    ConnectString, Effect, Error, OnExpiry,
    machine::{Auth, Config, Machine, sasl::Authenticator},
};

/// The longest frame that is accepted unless told otherwise: 8 MiB, the listing of some 100,000 children.
///
/// Servers have no limit on what they send, and Java clients one of 1 MiB.
const FRAME_LIMIT: usize = 8 << 20;

/// Settings of a client. Made by [`Client::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `connect`"]
pub struct Builder {
    config: Config,
    chroot: Option<String>,
    connector: Connector,
    frame_limit: usize,
    connect_timeout: Option<Duration>,
    policy: RequestPolicy,
    clock: Clock,
    random: Random,
}

impl Builder {
    /// The default settings for these servers.
    pub fn new(servers: &ConnectString) -> Self {
        Self {
            config: Config::new(servers, random_u64()),
            chroot: servers.chroot().map(str::to_owned),
            connector: Connector::tcp(),
            frame_limit: FRAME_LIMIT,
            connect_timeout: None,
            policy: RequestPolicy::default(),
            clock: Clock::system(),
            random: Random::system(),
        }
    }

    /// The session timeout to ask for; the server may answer with another one. Default: 10 seconds.
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.config.session_timeout = timeout;
        self
    }

    /// How long before a server could expire the session its lease ends. Default: a third of the negotiated timeout.
    pub fn lease_margin(mut self, margin: Duration) -> Self {
        self.config.lease_margin = Some(margin);
        self
    }

    /// How long one server may take to accept, and again to complete the handshake. Default: the session timeout
    /// divided by the number of servers, at least a quarter of it.
    pub fn server_timeout(mut self, timeout: Duration) -> Self {
        self.config.server_timeout = Some(timeout);
        self
    }

    /// How long [`connect`](Self::connect) tries. Default: the session timeout.
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = Some(connect_timeout);
        self
    }

    /// How long a request may stay unanswered before the connection is given up. Default: the negotiated session timeout.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.config.request_timeout = Some(timeout);
        self
    }

    /// What becomes of the client when its session expires. Default: it lives on with a new one.
    pub fn on_expiry(mut self, on_expiry: OnExpiry) -> Self {
        self.config.on_expiry = on_expiry;
        self
    }

    /// Whether a server that takes no writes will do. Default: no.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.config.read_only = read_only;
        self
    }

    /// An identity for every connection, for instance `digest` with `user:password`. May be called several times.
    pub fn auth(mut self, scheme: impl Into<String>, credentials: impl Into<Bytes>) -> Self {
        let auth = Auth {
            scheme: scheme.into(),
            credentials: credentials.into(),
        };
        self.config.auth.push(auth);
        self
    }

    /// How to prove who this is with SASL, on every connection and before anything else. Default: not at all.
    pub fn sasl(mut self, authenticator: impl Authenticator + 'static) -> Self {
        self.config.sasl = Some(Arc::new(authenticator));
        self
    }

    /// The longest frame that is accepted, in bytes; a longer one ends the connection. Default: 8 MiB.
    pub fn frame_limit(mut self, limit: usize) -> Self {
        self.frame_limit = limit;
        self
    }

    /// The longest request, in bytes: what `jute.maxbuffer` is on the servers. Default: 1 MiB less one byte, as theirs.
    pub fn max_request(mut self, limit: usize) -> Self {
        self.config.max_request = limit;
        self
    }

    /// How many requests may wait to be sent or answered before callers wait for room. Default: 65,536.
    ///
    /// The bound is felt as waiting, first come first served; only [`Client::submit`] does not wait, and takes from a reserve
    /// of the same size.
    pub fn max_outstanding(mut self, requests: usize) -> Self {
        self.config.max_outstanding = requests.max(1);
        self
    }

    /// How many bytes of requests may wait to be sent before callers wait for room. Default: 16 MiB.
    pub fn max_queued_bytes(mut self, bytes: usize) -> Self {
        self.config.max_queued_bytes = bytes;
        self
    }

    /// How long a caller waits for the answer to a request, over everything. Default: no limit of its own, which leaves
    /// twice the session timeout: a request waits so long for a connection, and so long for its reply.
    ///
    /// See [`Client::with_deadline`], which sets it for single requests.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.policy.deadline = Some(deadline);
        self
    }

    /// Whether requests wait for a connection where there is none. Default: they do.
    pub fn when_disconnected(mut self, when_disconnected: WhenDisconnected) -> Self {
        self.policy.when_disconnected = when_disconnected;
        self
    }

    /// How byte streams to servers come about. Default: [`Connector::tcp`].
    pub fn connector(mut self, connector: Connector) -> Self {
        self.connector = connector;
        self
    }

    /// Where all random choices start: order of the servers, back-off, names of lock nodes. Default: the system's
    /// randomness. Clients that live at the same time should differ in their seeds, or they knock in step.
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = seed;
        self.random = Random::seeded(seed);
        self
    }

    /// Where the client's time comes from. Default: [`Clock::system`].
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Connects to the first server that takes the client and believes its identities.
    ///
    /// It takes at most the [`connect_timeout`](Self::connect_timeout), whatever the servers do. One that refuses connections costs no time, a
    /// name that does not resolve as long as the resolver takes, and one that says nothing as long as
    /// [`server_timeout`](Self::server_timeout) allows: with the default settings a good server is reached behind three silent
    /// ones, however many others there are.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when none did in time, with what each of them said (of very many, the last sixteen), and at once when each of them said what it
    /// will say again: that its certificate is wrong, or ours. [`Error::AuthFailed`].
    ///
    /// # Cancel safety
    /// Dropping the future gives up the client.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub async fn connect(self) -> Result<Client, Error> {
        self.connect_on(driver::spawn).await
    }

    /// As [`connect`](Self::connect), and `spawn` starts the client's task: for simulations, which stop and start it.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    #[doc(hidden)]
    pub async fn connect_on(
        self,
        spawn: impl FnOnce(BoxFuture<'static, ()>),
    ) -> Result<Client, Error> {
        let connect_timeout = self.connect_timeout.unwrap_or(self.config.session_timeout);
        let machine = Machine::new(self.config, self.clock.now());
        let shared = Arc::new(Shared::new(machine, self.clock, self.chroot, self.random));
        let driver = Driver::new(shared.clone(), self.connector, self.frame_limit);
        spawn(Box::pin(driver));
        let client = Client::start(shared, self.policy);

        let mut snapshots = client.snapshots();
        let settled = snapshots.wait_for(|now| now.state.is_connected() || now.state.is_final());
        match tokio::time::timeout(connect_timeout, settled).await {
            Ok(Ok(snapshot)) if snapshot.state.is_connected() => {}
            Ok(_) => {
                let ended = client.shared.lock().machine.ended().cloned();
                return Err(ended.unwrap_or(Error::Closed(Effect::NotApplied)));
            }
            Err(_) => {
                let core = client.shared.lock();
                return Err(Error::Unreachable {
                    waited: connect_timeout,
                    tried: core.machine.failures_until(core.clock.now()),
                    servers: core.machine.servers(),
                });
            }
        }
        Ok(client)
    }
}
