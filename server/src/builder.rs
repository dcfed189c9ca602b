//! How a server is set up.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use crate::{Server, engine::Config};

/// Sets a server up; made by [`Server::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is started"]
pub struct Builder {
    pub(crate) address: SocketAddr,
    pub(crate) config: Config,
    pub(crate) seed: Option<u64>,
    pub(crate) max_connections: usize,
    #[cfg(feature = "sasl-digest-md5")]
    users: crate::engine::digest_md5::Users,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            config: Config::default(),
            seed: None,
            max_connections: 10_000,
            #[cfg(feature = "sasl-digest-md5")]
            users: crate::engine::digest_md5::Users::default(),
        }
    }
}

impl Builder {
    /// Where to listen. Default: a free port on 127.0.0.1. The server knows no encryption: think before you open it to others.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// ZooKeeper's `tickTime`. Default: 500 ms, where ZooKeeper has 2 s.
    ///
    /// Sessions expire in steps of it: a session ends between its timeout and one tick more after its last sign of life.
    pub fn tick_time(mut self, tick: Duration) -> Self {
        self.config.tick_time = tick;
        self
    }

    /// The shortest session timeout that is granted. Default: two ticks.
    pub fn min_session_timeout(mut self, timeout: Duration) -> Self {
        self.config.min_session_timeout = Some(timeout);
        self
    }

    /// The longest session timeout that is granted. Default: 60 s, where ZooKeeper has 20 ticks.
    pub fn max_session_timeout(mut self, timeout: Duration) -> Self {
        self.config.max_session_timeout = timeout;
        self
    }

    /// How long a connection may take for its handshake before it is closed. Default: 10 s.
    pub fn handshake_timeout(mut self, timeout: Duration) -> Self {
        self.config.handshake_timeout = timeout;
        self
    }

    /// How often empty containers, and nodes whose time to live is over, are deleted. Default: 60 s, as in ZooKeeper.
    pub fn container_check_interval(mut self, interval: Duration) -> Self {
        self.config.container_check_interval = interval;
        self
    }

    /// ZooKeeper's `maxCnxns`: so many connections are served at a time, and those beyond are closed as soon as they are
    /// accepted. Default: 10,000, where ZooKeeper has no limit.
    pub fn max_connections(mut self, most: usize) -> Self {
        self.max_connections = most;
        self
    }

    /// Lets a user log in with SASL DIGEST-MD5 and this password; more than one, if called more than once. Default: the
    /// server knows no SASL.
    ///
    /// Who has logged in is meant by entries of ACLs with the scheme `sasl` and the user's name, and by `auth`; `super`
    /// by all of the scheme, as in ZooKeeper. Whoever fails is told so and closed. The password is not kept, but a hash of
    /// it that opens other servers as well.
    #[cfg(feature = "sasl-digest-md5")]
    pub fn user(mut self, name: &str, password: &str) -> Self {
        self.users.add(name, password);
        self.config.sasl = Some(std::sync::Arc::new(self.users.clone()));
        self
    }

    /// ZooKeeper's `sessionRequireClientSASLAuth`: whoever has not logged in is answered nothing, and closed. Default: no.
    #[cfg(feature = "sasl-digest-md5")]
    pub fn require_sasl(mut self) -> Self {
        self.config.sasl_required = true;
        self
    }

    /// What passwords and the order of children are made of. Default: random.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Starts the server on the present tokio runtime, which must have its time and I/O drivers enabled.
    ///
    /// # Errors
    /// What the operating system says when the address cannot be listened on.
    ///
    /// # Cancel safety
    /// Dropped early, nothing listens.
    pub async fn start(self) -> io::Result<Server> {
        Server::start_with(self).await
    }
}
