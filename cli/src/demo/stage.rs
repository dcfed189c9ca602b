//! What the clients of the demo share: the servers, the nodes, and the story.
//!
//! The directory is a container, and the counter is ephemeral, so the servers clean up even if the demo is killed.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

use lockkeeper::{Client, CreateMode, Error, Version, client::Builder};
use lockkeeper_server::Server;
use tokio::{sync::watch, time::timeout};

use super::story::{Phase, Story};
use crate::{args::DemoArgs, client::connect, exit::Failure};

/// The session timeout that the demo asks for. It is short, because nothing happens on the screen until the session of
/// the paused client expires. A real server grants at least two of its ticks.
const SESSION_TIMEOUT: Duration = Duration::from_secs(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The embedded server's tick. It is short, so sessions expire soon after their timeout.
const TICK: Duration = Duration::from_millis(100);
/// How long the clean-up may take.
const CLEAN_UP: Duration = Duration::from_secs(5);

pub(super) struct Stage {
    /// The embedded server, unless the command line names others.
    _server: Option<Server>,
    /// The client that creates and deletes the nodes.
    pub(super) client: Client,
    /// The settings of a client that contends.
    pub(super) settings: Builder,
    directory: String,
    pub(super) lock: String,
    pub(super) counter: String,
    pub(super) story: watch::Sender<Story>,
}

impl Stage {
    /// Starts an embedded server if the command line names none, and creates the nodes.
    pub(super) async fn new(args: &DemoArgs) -> Result<Self, Failure> {
        let mut server = None;
        let (place, settings) = if let Some(servers) = &args.servers.connect {
            (servers.to_string(), args.servers.settings_for(servers)?)
        } else {
            let own = server.insert(Server::builder().tick_time(TICK).start().await?);
            let place = format!("an embedded server at {}", own.local_addr());
            (place, Builder::new(&own.local_addr().into()))
        };
        let settings = settings.connect_timeout(CONNECT_TIMEOUT);
        // The counter belongs to a session that outlives a pause of this process.
        let client = connect(settings.clone()).await?;
        let directory = format!("/lockkeeper-demo-{:016x}", RandomState::new().hash_one(0));
        let counter = format!("{directory}/counter");
        let created = match client.create(&directory, "", CreateMode::Container).await {
            Ok(_) => client.create(&counter, "0", CreateMode::Ephemeral).await,
            error => error,
        };
        created.map_err(|error| {
            if error.is_no_node() {
                let what = "does not exist; create it, or leave it out";
                failure!(UNAVAILABLE, "the chroot in {place} {what}")
            } else {
                Failure::connect(&error)
            }
        })?;
        let settings = settings.session_timeout(SESSION_TIMEOUT);
        Ok(Self {
            _server: server,
            client,
            settings: settings.server_timeout(CONNECT_TIMEOUT / 4),
            lock: format!("{directory}/lock"),
            counter,
            directory,
            story: watch::Sender::new(Story::begin(args, &place)),
        })
    }

    /// The counter, as this client reads it behind all earlier writes.
    pub(super) async fn count(&self, client: &Client) -> Result<u64, Error> {
        client.sync(&self.counter).await?;
        let data = client.get_data(&self.counter).await?.data;
        let text = data.as_deref().map(String::from_utf8_lossy);
        Ok(text.and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    /// Waits until the story has come to this phase, or to a later one, and returns its phase.
    pub(super) async fn until(&self, phase: Phase) -> Phase {
        let mut story = self.story.subscribe();
        let reached = story.wait_for(|story| story.phase >= phase).await;
        reached.map_or(Phase::Finished, |story| story.phase)
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
