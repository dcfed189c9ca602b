//! The servers and the nodes of the demo.
//!
//! Everything is below `/lockkeeper-demo/RANDOM`. The parents are containers, and the counter is ephemeral, so the
//! servers clean up even if the demo is killed.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

use lockkeeper::{Client, CreateMode, Error, Version, client::Builder};
use lockkeeper_server::Server;
use tokio::time::timeout;

use crate::{
    args::DemoArgs,
    exit::{self, Failure},
};

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

/// The servers and the nodes of one demo, and a client that creates and deletes these nodes.
#[derive(Debug)]
pub(super) struct Setup {
    /// The embedded server, unless the command line names others.
    server: Option<Server>,
    client: Client,
    directory: String,
    /// The servers, as the heading shows them.
    pub(super) place: String,
    /// The settings of a client.
    pub(super) settings: Builder,
    /// The session timeout that the servers grant to such a client.
    pub(super) session_timeout: Duration,
    pub(super) lock: String,
    pub(super) counter: String,
    /// The zxid of the demo's last node. All tokens are higher.
    pub(super) first_zxid: u64,
}

impl Setup {
    /// Starts an embedded server if the command line names none, and creates the nodes.
    pub(super) async fn new(args: &DemoArgs) -> Result<Self, Failure> {
        let mut server = None::<Server>;
        let named = args.servers.settings_if_named()?;
        let (place, settings) = if let Some((servers, settings)) = named {
            (servers.to_string(), settings)
        } else {
            let started = Server::builder().tick_time(TICK).start().await?;
            let address = server.insert(started).local_addr();
            let settings = Builder::new(&address.into());
            (format!("an embedded server at {address}"), settings)
        };
        let connect = |error| Failure::connect(&error);
        // The counter belongs to a session that outlives a pause of this process.
        let lasting = settings.clone().connect_timeout(CONNECT_TIMEOUT);
        let client = lasting.connect().await.map_err(connect)?;
        let settings = settings
            .session_timeout(SESSION_TIMEOUT)
            .server_timeout(CONNECT_TIMEOUT / 4)
            .connect_timeout(CONNECT_TIMEOUT);
        let probe = settings.clone().connect().await.map_err(connect)?;
        let session_timeout = probe.snapshot().session_timeout;
        probe.close().await;
        let directory = format!("{BASE}/{:016x}", RandomState::new().hash_one(0));
        let counter = format!("{directory}/counter");
        let created = create_nodes(&client, &directory, &counter).await;
        let first_zxid = created.map_err(|error| {
            if error.is_no_node() {
                let why = "does not exist; create it, or leave it out";
                let text = format_args!("the chroot in {place} {why}");
                Failure::new(exit::UNAVAILABLE, text)
            } else {
                connect(error)
            }
        })?;
        Ok(Self {
            server,
            client,
            place,
            settings,
            session_timeout,
            lock: format!("{directory}/lock"),
            counter,
            directory,
            first_zxid,
        })
    }

    /// The final value of the counter.
    pub(super) async fn count(&self) -> Option<u64> {
        self.client.sync(&self.counter).await.ok()?;
        let node = self.client.get_data(&self.counter).await.ok()?;
        number_in(node.data.as_deref())
    }

    /// Deletes the nodes, and stops the embedded server.
    pub(super) async fn clear(self) {
        let clear = async {
            for path in [&self.counter, &self.lock, &self.directory, BASE] {
                // Errors do not matter. A node that stays is an empty container, which the servers delete later, or it
                // is the base while another demo uses it.
                let _ = self.client.delete(path, Version::ANY).await;
            }
            self.client.close().await;
        };
        let _ = timeout(CLEAN_UP, clear).await;
        if let Some(server) = self.server {
            server.shutdown().await;
        }
    }
}

/// Creates the nodes, and returns the zxid of the last one.
async fn create_nodes(client: &Client, directory: &str, counter: &str) -> Result<u64, Error> {
    for path in [BASE, directory] {
        match client.create(path, "", CreateMode::Container).await {
            Err(error) if !error.is_node_exists() => return Err(error),
            _ => {}
        }
    }
    let created = client.create(counter, "0", CreateMode::Ephemeral).await?;
    Ok(u64::try_from(created.stat.czxid.0).unwrap_or(0))
}

/// The number in a node's data.
pub(super) fn number_in(data: Option<&[u8]>) -> Option<u64> {
    std::str::from_utf8(data?).ok()?.parse().ok()
}
