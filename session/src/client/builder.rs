//! Settings of a client, and its first connection.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;

use super::{Client, Connector, clock, driver::Driver, shared::Shared};
use crate::{
    ConnectString, Effect, Error, OnExpiry, State,
    machine::{Auth, Config, Machine},
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
    patience: Option<Duration>,
}

impl Builder {
    /// The default settings for these servers.
    pub fn new(servers: &ConnectString) -> Self {
        Self {
            config: Config::new(servers, random_u64()),
            chroot: servers.chroot().map(str::to_owned),
            connector: Connector::tcp(),
            frame_limit: FRAME_LIMIT,
            patience: None,
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
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.config.connect_timeout = Some(timeout);
        self
    }

    /// How long [`connect`](Self::connect) tries. Default: the session timeout.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
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

    /// How byte streams to servers come about. Default: [`Connector::tcp`].
    pub fn connector(mut self, connector: Connector) -> Self {
        self.connector = connector;
        self
    }

    /// Where random choices start (order of the servers, back-off). Default: a random number.
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = seed;
        self
    }

    /// Connects to the first server that takes the client.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when none did in time, with what each of them said; [`Error::AuthFailed`].
    ///
    /// # Cancel safety
    /// Dropping the future gives up the client.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub async fn connect(self) -> Result<Client, Error> {
        let patience = self.patience.unwrap_or(self.config.session_timeout);
        let machine = Machine::new(self.config, clock::now());
        let shared = Arc::new(Shared::new(machine, self.chroot));
        Driver::new(shared.clone(), self.connector, self.frame_limit).spawn();
        let client = Client::start(shared);

        let mut snapshots = client.snapshots();
        let settled = snapshots.wait_for(|now| now.state.is_connected() || now.state.is_final());
        match tokio::time::timeout(patience, settled).await {
            Ok(Ok(snapshot)) if snapshot.state.is_connected() => {}
            Ok(Ok(snapshot)) if snapshot.state == State::AuthFailed => {
                return Err(Error::AuthFailed);
            }
            Ok(_) => return Err(Error::Closed(Effect::NotApplied)),
            Err(_) => {
                let tried = client.shared.lock().machine.tried_by(clock::now());
                return Err(Error::Unreachable {
                    waited: patience,
                    tried,
                });
            }
        }
        Ok(client)
    }
}

/// A number that differs from process to process and from call to call.
///
/// The standard library keys its hash maps from the system's randomness, and nothing else of it gives any.
#[must_use]
pub fn random_u64() -> u64 {
    RandomState::new().build_hasher().finish()
}
