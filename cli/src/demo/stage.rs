//! What the demo is played on: servers, paths, the counter, and somebody who watches over them.
//!
//! Everything is below `/lockkeeper-demo/RANDOM`, in containers, and the counter is ephemeral: even if the demo is
//! killed, the servers clean up.

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
/// The session timeout that is asked for. Short, since the show stops for as long; real servers grant two of their ticks
/// at least.
const SESSION_TIMEOUT: Duration = Duration::from_secs(1);
/// How long servers may take to let us in.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The embedded server's tick: sessions expire soon after their timeout.
const TICK: Duration = Duration::from_millis(100);
/// How long cleaning up may take.
const CLEAN_UP: Duration = Duration::from_secs(5);

/// Where it all happens.
#[derive(Debug)]
pub(super) struct Stage {
    server: Option<Server>,
    servers: ConnectString,
    settings: Builder,
    referee: Client,
    directory: String,
    /// The first transaction of the demo: tokens are higher.
    pub(super) first_zxid: u64,
}

impl Stage {
    /// Starts a server unless there is one, and creates what is needed.
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

    /// Returns the zxid of the last node.
    async fn create(&self) -> Result<u64, Error> {
        create_container(&self.referee, BASE).await?;
        create_container(&self.referee, &self.directory).await?;
        let created = self
            .referee
            .create(&self.counter(), "0", CreateMode::Ephemeral)
            .await?;
        Ok(u64::try_from(created.stat.czxid.0).unwrap_or(0))
    }

    /// Settings of another client.
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

    /// The session timeout that servers grant.
    pub(super) fn session_timeout(&self) -> Duration {
        self.referee.snapshot().session_timeout
    }

    /// Where the servers are, for people.
    pub(super) fn name(&self) -> String {
        match &self.server {
            Some(server) => format!("an embedded server at {}", server.local_addr()),
            None => self.servers.to_string(),
        }
    }

    /// What the counter says in the end.
    pub(super) async fn count(&self) -> Option<u64> {
        let counter = self.counter();
        self.referee.sync(&counter).await.ok()?;
        let node = self.referee.get_data(&counter).await.ok()?;
        number_in(node.data.as_deref())
    }

    /// Leaves nothing behind.
    pub(super) async fn clear(mut self) {
        let server = self.server.take();
        let clear = async move {
            for path in [
                self.counter(),
                self.lock(),
                self.directory.clone(),
                BASE.to_owned(),
            ] {
                // What is left is empty, and a container: the servers remove it. Others may be at work in the base.
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

/// The number that a node's data say.
pub(super) fn number_in(data: Option<&[u8]>) -> Option<u64> {
    std::str::from_utf8(data?).ok()?.parse().ok()
}
