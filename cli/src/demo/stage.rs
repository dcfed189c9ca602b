//! The set-up of the demo: the servers, the nodes, and a client that creates and deletes these nodes.
//!
//! Everything is below `/lockkeeper-demo/RANDOM`. The parents are containers, and the counter is ephemeral, so the
//! servers clean up even if the demo is killed.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

use lockkeeper::{Builder, Client, ConnectString, CreateMode, Error, Version, proto::path};
use lockkeeper_server::Server;
use tokio::time::timeout;

use crate::{args::DemoArgs, exit::Failure};

/// The parent of everything.
const BASE: &str = "/lockkeeper-demo";
/// The session timeout that the demo asks for. It is short, because nothing happens on the screen until the session of
/// the paused client expires. A real server grants at least two of its ticks.
const SESSION_TIMEOUT: Duration = Duration::from_secs(1);
/// The connect timeout of each client.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The embedded server's tick. It is short, so sessions expire soon after their timeout.
const TICK: Duration = Duration::from_millis(100);
/// How long the clean-up may take.
const CLEAN_UP: Duration = Duration::from_secs(5);

/// The servers and the nodes of one demo.
#[derive(Debug)]
pub(super) struct Stage {
    server: Option<Server>,
    servers: ConnectString,
    settings: Builder,
    referee: Client,
    directory: String,
    /// The zxid of the demo's last node. All tokens are higher.
    pub(super) first_zxid: u64,
}

impl Stage {
    /// Starts the embedded server if the command line names no servers, and creates the nodes.
    pub(super) async fn set(args: &DemoArgs) -> Result<Self, Failure> {
        let named = args.servers.settings_if_named()?;
        let (server, servers, settings) = if let Some((servers, settings)) = named {
            (None, servers.clone(), settings)
        } else {
            let server = Server::builder().tick_time(TICK).start();
            let server = server.await.map_err(Failure::System)?;
            let servers = server.local_addr().into();
            let settings = Builder::new(&servers);
            (Some(server), servers, settings)
        };
        let settings = settings
            .session_timeout(SESSION_TIMEOUT)
            .server_timeout(CONNECT_TIMEOUT / 4)
            .connect_timeout(CONNECT_TIMEOUT);
        let referee = settings.clone().connect().await.map_err(Failure::Connect)?;
        let random = RandomState::new().hash_one(0);
        let mut stage = Self {
            server,
            servers,
            settings,
            referee,
            directory: format!("{BASE}/{random:016x}"),
            first_zxid: 0,
        };
        stage.first_zxid = stage
            .create()
            .await
            .map_err(|error| match stage.servers.chroot() {
                Some(chroot) if error.is_no_node() => Failure::NoChroot(chroot.to_owned()),
                _ => Failure::Connect(error),
            })?;
        Ok(stage)
    }

    /// Creates the nodes, and returns the zxid of the last one.
    async fn create(&self) -> Result<u64, Error> {
        create_container(&self.referee, BASE).await?;
        create_container(&self.referee, &self.directory).await?;
        let created = self
            .referee
            .create(&self.counter(), "0", CreateMode::Ephemeral)
            .await?;
        Ok(u64::try_from(created.stat.czxid.0).unwrap_or(0))
    }

    /// The settings of a contender's client.
    pub(super) fn builder(&self) -> Builder {
        self.settings.clone()
    }

    /// The path of the lock.
    pub(super) fn lock(&self) -> String {
        path::join(&self.directory, "lock")
    }

    /// The path of the counter.
    pub(super) fn counter(&self) -> String {
        path::join(&self.directory, "counter")
    }

    /// The session timeout that the servers have granted.
    pub(super) fn session_timeout(&self) -> Duration {
        self.referee.snapshot().session_timeout
    }

    /// The servers, as the heading shows them.
    pub(super) fn name(&self) -> String {
        match &self.server {
            Some(server) => format!("an embedded server at {}", server.local_addr()),
            None => self.servers.to_string(),
        }
    }

    /// The final value of the counter.
    pub(super) async fn count(&self) -> Option<u64> {
        let counter = self.counter();
        self.referee.sync(&counter).await.ok()?;
        let node = self.referee.get_data(&counter).await.ok()?;
        number_in(node.data.as_deref())
    }

    /// Deletes the nodes, and stops the embedded server.
    pub(super) async fn clear(mut self) {
        let server = self.server.take();
        let clear = async move {
            for path in [
                self.counter(),
                self.lock(),
                self.directory.clone(),
                BASE.to_owned(),
            ] {
                // Errors do not matter. A node that stays is an empty container, which the servers delete later, or it
                // is the base while another demo uses it.
                let _ = self.referee.delete(&path, Version::ANY).await;
            }
            self.referee.close().await;
        };
        let _ = timeout(CLEAN_UP, clear).await;
        if let Some(server) = server {
            server.shutdown().await;
        }
    }
}

async fn create_container(client: &Client, path: &str) -> Result<(), Error> {
    match client.create(path, "", CreateMode::Container).await {
        Err(error) if !error.is_node_exists() => Err(error),
        _ => Ok(()),
    }
}

/// The number in a node's data.
pub(super) fn number_in(data: Option<&[u8]>) -> Option<u64> {
    std::str::from_utf8(data?).ok()?.parse().ok()
}
