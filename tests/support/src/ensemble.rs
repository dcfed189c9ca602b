//! The servers of the end-to-end tests. Each test runs on the embedded server, on an embedded
//! cluster, and on a real ZooKeeper.
//!
//! Invariants:
//! - A test that uses only its [`Ensemble`] cannot see which arm it runs on.
//! - A test that uses only nodes below [`Ensemble::unique_path`] does not disturb other tests on a
//!   shared server.
//!
//! Not here: bytes on the wire (`conformance`), clients that are not ours (`foreign_clients`).

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use lockkeeper::{Client, CreateMode};
use lockkeeper_server::{Cluster, Server};

/// The kind of server that a test runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// A new embedded server, for this test alone.
    Embedded,
    /// A new cluster of three embedded servers, for this test alone. Each client connects to any of
    /// them.
    Cluster,
    /// The ZooKeeper that `tests/run.sh` names in `LOCKKEEPER_TEST_ZOOKEEPER`. Other tests use it
    /// at the same time.
    Real,
}

impl Arm {
    pub async fn start(self) -> Ensemble {
        let own = match self {
            Self::Embedded => {
                let server = builder().start().await;
                Some(Own::Server(server.expect("a free port on loopback")))
            }
            Self::Cluster => {
                let cluster = builder().start_cluster(3).await;
                Some(Own::Cluster(cluster.expect("free ports on loopback")))
            }
            Self::Real => None,
        };
        let servers = match &own {
            Some(own) => own.server().connect_string(),
            None => from_environment("LOCKKEEPER_TEST_ZOOKEEPER"),
        };
        let ensemble = Ensemble {
            servers,
            own,
            parts: AtomicU64::new(0),
        };
        let client = ensemble.client().await;
        match client.create(ROOT, "", CreateMode::Persistent).await {
            Err(error) if !error.is_node_exists() => panic!("{ROOT} cannot be created: {error}"),
            _ => client.close().await,
        }
        ensemble
    }
}

/// Embedded servers.
#[derive(Debug)]
enum Own {
    Server(Server),
    Cluster(Cluster),
}

impl Own {
    fn server(&self) -> &Server {
        match self {
            Self::Server(server) => server,
            Self::Cluster(cluster) => cluster,
        }
    }
}

/// The settings of an embedded server: the same as those of the real server in
/// `tests/lib/zookeeper.sh`.
///
/// Only the reaper looks far more often: tests wait for it, and a test that relies on an empty
/// container fails each time, not once in many.
pub fn builder() -> lockkeeper_server::Builder {
    Server::builder()
        .tick_time(Duration::from_millis(500))
        .min_session_timeout(Duration::from_millis(500))
        .max_session_timeout(Duration::from_secs(60))
        .container_check_interval(Duration::from_millis(1))
}

/// A server to run a test on.
#[derive(Debug)]
pub struct Ensemble {
    servers: String,
    own: Option<Own>,
    /// How many parts of the test are done. See [`part_done`](Self::part_done).
    parts: AtomicU64,
}

impl Ensemble {
    /// The servers, as a client's connect string: `host:port`.
    pub fn servers(&self) -> String {
        self.servers.clone()
    }

    /// The address of one server.
    pub fn one_server(&self) -> String {
        let first = self.servers.split(',').next();
        first.unwrap_or_default().to_owned()
    }

    /// Says that one of several parts of a test is done. The time limit of the test then starts
    /// again.
    pub fn part_done(&self) {
        self.parts.fetch_add(1, Ordering::Relaxed);
    }

    /// The embedded server or cluster, with its faults and counters; `None` on the real arm.
    pub fn server(&self) -> Option<&Server> {
        self.own.as_ref().map(Own::server)
    }

    /// A new client with its own session and [`SESSION_TIMEOUT`].
    pub async fn client(&self) -> Client {
        Client::builder(&self.servers)
            .expect("a list of servers")
            .session_timeout(SESSION_TIMEOUT)
            .connect()
            .await
            .unwrap_or_else(|error| panic!("no session at {}: {error}", self.servers))
    }

    /// A path that nobody else uses, now or in another run.
    ///
    /// Its parent exists, the node does not. A real server goes away with the tests, and with it
    /// what they leave.
    #[allow(clippy::unused_self, reason = "a path of these servers")]
    pub fn unique_path(&self, name: &str) -> String {
        let random = RandomState::new().hash_one(name);
        format!("{ROOT}/{name}-{random:016x}")
    }
}

/// A variable that `tests/run.sh` sets for the tests.
pub fn from_environment(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: run this test with tests/run.sh"))
}

/// Runs a test on an arm. See [`on_both_arms`].
pub async fn run(arm: Arm, test: impl AsyncFnOnce(&Ensemble)) {
    let ensemble = arm.start().await;
    let mut test = std::pin::pin!(test(&ensemble));
    let mut parts = 0;
    while tokio::time::timeout(PATIENCE, &mut test).await.is_err() {
        let done = ensemble.parts.load(Ordering::Relaxed);
        assert!(
            done > parts,
            "no end after {PATIENCE:?} on {arm:?}: the test hangs"
        );
        parts = done;
    }
}

/// Makes three tests of each function: on the embedded arm `name::embedded` and `name::cluster`, on
/// the other `name::real`.
///
/// ```ignore
/// on_both_arms! {
///     /// Why this matters.
///     async fn a_node_is_where_it_was_created(ensemble: &Ensemble) { .. }
/// }
/// ```
#[macro_export]
macro_rules! on_both_arms {
    ($($(#[$attribute:meta])* async fn $name:ident($ensemble:ident: &$type:ty) $body:block)*) => {$(
        $(#[$attribute])*
        mod $name {
            #[allow(unused_imports, reason = "not every test uses names of the outer module")]
            use super::*;

            async fn test($ensemble: &$type) $body

            #[tokio::test]
            async fn embedded() {
                $crate::run($crate::Arm::Embedded, test).await;
            }

            #[tokio::test]
            async fn cluster() {
                $crate::run($crate::Arm::Cluster, test).await;
            }

            #[tokio::test]
            #[ignore = "needs a real ZooKeeper: tests/run.sh"]
            async fn real() {
                $crate::run($crate::Arm::Real, test).await;
            }
        }
    )*};
}

/// The session timeout of [`Ensemble::client`]: short enough to wait for an expiry, long enough for
/// a busy machine.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit of a test, or of each part of it. It is far longer than any test takes, so only a
/// hang reaches it.
const PATIENCE: Duration = Duration::from_secs(120);

/// The parent of all nodes that tests create.
const ROOT: &str = "/lockkeeper-tests";
