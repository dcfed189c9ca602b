//! The servers and the nodes of the demo.
//!
//! The directory is a container, and the counter is ephemeral, so the servers clean up even if the demo is killed.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

use lockkeeper::{Client, CreateMode, Error, Version, client::Builder};
use lockkeeper_server::Server;
use tokio::time::timeout;

use crate::{args::DemoArgs, client::connect, exit::Failure};

/// The session timeout that the demo asks for. It is short, because nothing happens on the screen until the session of
/// the paused client expires. A real server grants at least two of its ticks.
const SESSION_TIMEOUT: Duration = Duration::from_secs(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The embedded server's tick. It is short, so sessions expire soon after their timeout.
const TICK: Duration = Duration::from_millis(100);
/// How long the clean-up may take.
const CLEAN_UP: Duration = Duration::from_secs(5);

/// The servers and the nodes of one demo, and a client that creates and deletes these nodes.
pub(super) struct Setup {
    /// The embedded server, unless the command line names others.
    _server: Option<Server>,
    client: Client,
    directory: String,
    /// The servers, as the heading shows them.
    pub(super) place: String,
    /// The settings of a client.
    pub(super) settings: Builder,
    pub(super) lock: String,
    pub(super) counter: String,
}

impl Setup {
    /// Starts an embedded server if the command line names none, and creates the nodes.
    pub(super) async fn new(args: &DemoArgs) -> Result<Self, Failure> {
        let (place, settings, server) = if let Some(servers) = &args.servers.connect {
            let settings = args.servers.settings_for(servers)?;
            (servers.to_string(), settings, None)
        } else {
            let server = Server::builder().tick_time(TICK).start().await?;
            let address = server.local_addr();
            let place = format!("an embedded server at {address}");
            (place, Builder::new(&address.into()), Some(server))
        };
        let settings = settings.connect_timeout(CONNECT_TIMEOUT);
        // The counter belongs to a session that outlives a pause of this process.
        let client = connect(settings.clone()).await?;
        let directory = format!("/lockkeeper-demo-{:016x}", RandomState::new().hash_one(0));
        let counter = format!("{directory}/counter");
        let created = async {
            client.create(&directory, "", CreateMode::Container).await?;
            client.create(&counter, "0", CreateMode::Ephemeral).await
        };
        created.await.map_err(|error| {
            if error.is_no_node() {
                failure!(
                    UNAVAILABLE,
                    "the chroot in {place} does not exist; create it, or leave it out"
                )
            } else {
                Failure::connect(&error)
            }
        })?;
        Ok(Self {
            _server: server,
            client,
            place,
            settings: settings
                .session_timeout(SESSION_TIMEOUT)
                .server_timeout(CONNECT_TIMEOUT / 4),
            lock: format!("{directory}/lock"),
            counter,
            directory,
        })
    }

    /// The counter, as this client reads it.
    pub(super) async fn count(&self, client: &Client) -> Result<u64, Error> {
        let node = client.get_data(&self.counter).await?;
        let text = node.data.as_deref().map(String::from_utf8_lossy);
        Ok(text.and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    /// The final value of the counter.
    pub(super) async fn final_count(&self) -> Result<u64, Error> {
        self.client.sync(&self.counter).await?;
        self.count(&self.client).await
    }

    /// Deletes the nodes.
    pub(super) async fn clear(&self) {
        let clear = async {
            for path in [&self.counter, &self.lock, &self.directory] {
                // Errors do not matter: the servers delete an empty container later.
                let _ = self.client.delete(path, Version::ANY).await;
            }
            self.client.clone().close().await;
        };
        let _ = timeout(CLEAN_UP, clear).await;
    }
}
