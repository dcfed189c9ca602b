//! The settings of a server, before it starts. Not here: starting it (`server`, `cluster`).

use std::{
    hash::{BuildHasher, RandomState},
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use lockkeeper_proto::Zxid;

use crate::{
    clock,
    engine::{self, Config},
};

/// The settings of a server. [`Server::builder`](crate::Server::builder) makes one.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is started"]
pub struct Builder {
    pub(crate) address: SocketAddr,
    config: Config,
    no_ephemerals_for: Option<Duration>,
    pub(crate) max_connections: usize,
    pub(crate) sync_limit_ticks: u32,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            config: Config::default(),
            no_ephemerals_for: None,
            max_connections: 10_000,
            sync_limit_ticks: 5,
        }
    }
}

impl Builder {
    /// The address to listen on. Default: a free port on 127.0.0.1. The server has no encryption,
    /// so think twice before you open it to other machines. The members of a cluster take this port
    /// and the next ones, or free ports.
    ///
    /// At a port that you choose, the server makes no locks for a minute, unless it is
    /// [`fresh`](Self::fresh): see [`no_ephemerals_for`](Self::no_ephemerals_for).
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// ZooKeeper's `tickTime`. Default: 500 ms, where ZooKeeper has 2 s.
    ///
    /// Sessions expire in steps of one tick. A session ends when its client has been silent for its
    /// timeout, or up to one tick later. A tick has at least a millisecond.
    pub fn tick_time(mut self, tick: Duration) -> Self {
        self.config.tick_time = tick.max(SHORTEST);
        self
    }

    /// For this long after its start, the server creates no ephemeral node: it answers with
    /// [`THROTTLED_OP`](lockkeeper_proto::ErrorCode::THROTTLED_OP). So it grants no lock.
    ///
    /// A server that takes the place of a former one does not know its sessions. Clients that are
    /// cut off may rely on their locks until the longest of these sessions has ended. Therefore the
    /// default at an address that you chose is the longest session timeout that the server grants.
    /// If the former server granted a longer one, set that. At a port that the system chose (port
    /// 0), there was no former server, and the default is not to wait.
    pub fn no_ephemerals_for(mut self, time: Duration) -> Self {
        self.no_ephemerals_for = Some(time);
        self
    }

    /// No client relies on a former server at this address, so the server creates ephemeral nodes
    /// at once. Default: only at a port that the system chose, see
    /// [`no_ephemerals_for`](Self::no_ephemerals_for).
    pub fn fresh(self) -> Self {
        self.no_ephemerals_for(Duration::ZERO)
    }

    /// The shortest session timeout that the server grants. Default: two ticks.
    pub fn min_session_timeout(mut self, timeout: Duration) -> Self {
        self.config.min_session_timeout = Some(timeout);
        self
    }

    /// The longest session timeout that the server grants. Default: 60 s, where ZooKeeper has 20
    /// ticks.
    pub fn max_session_timeout(mut self, timeout: Duration) -> Self {
        self.config.max_session_timeout = timeout;
        self
    }

    /// How long a new connection may take for its handshake before the server closes it. Default:
    /// 10 s.
    pub fn handshake_timeout(mut self, timeout: Duration) -> Self {
        self.config.handshake_timeout = timeout;
        self
    }

    /// How often the server deletes empty containers, and nodes whose time to live is over.
    /// Default: 60 s, as in ZooKeeper. At least a millisecond.
    pub fn container_check_interval(mut self, interval: Duration) -> Self {
        self.config.container_check_interval = interval.max(SHORTEST);
        self
    }

    /// ZooKeeper's `maxCnxns`: the number of connections that the server serves at a time. It
    /// closes further ones as soon as it has accepted them. Default: 10,000, where ZooKeeper has no
    /// limit.
    pub fn max_connections(mut self, most: usize) -> Self {
        self.max_connections = most;
        self
    }

    /// ZooKeeper's `syncLimit`, in ticks: for how long a member of a [`Cluster`](crate::Cluster)
    /// that is cut off from the others goes on before it gives up. Default: 5.
    pub fn sync_limit(mut self, ticks: u32) -> Self {
        self.sync_limit_ticks = ticks;
        self
    }

    /// The password of the user `super`, as ZooKeeper's `superDigest`. For a client that
    /// authenticates as `super:<password>` with the scheme `digest`, the server checks no ACL.
    /// Default: there is no such user.
    pub fn super_user(mut self, password: &str) -> Self {
        self.config.super_digest = Some(engine::digest(&format!("super:{password}")));
        self
    }

    /// The settings of a server that starts now.
    pub(crate) fn config(&self) -> Config {
        let mut config = self.config.clone();
        config.seed = RandomState::new().hash_one(self.address);
        // A server that takes the place of a former one needs higher numbers. Otherwise fencing
        // tokens go backwards, and the server refuses clients that have seen a higher number. No
        // server applies a write in each microsecond. The numbers are below 2^53 until the year
        // 2255, so that readers of JSON that take numbers for doubles read tokens exactly.
        let micros = clock::since_1970().as_micros();
        config.first_zxid = Zxid(i64::try_from(micros).unwrap_or(0));
        config.no_ephemerals_for = self.no_ephemerals_for.unwrap_or_else(|| {
            let is_fresh = self.address.port() == 0;
            if is_fresh {
                Duration::ZERO
            } else {
                config.longest_timeout()
            }
        });
        config
    }
}

/// The shortest interval for work: with shorter ones, the server would do nothing else.
const SHORTEST: Duration = Duration::from_millis(1);
