//! The client of a command that reads or changes nodes: connects, works, closes.
//!
//! Not here: the client of `run`, which starts another program (`run::acquire`).

use std::time::Duration;

use clap::Args;
use lockkeeper::{Client, CreateMode, Error, client::Builder};
use tokio::time::timeout;

use crate::{
    duration,
    exit::{self, Failure},
    servers::ServerArgs,
    signals::{ENDING, Signals},
};

/// How long closing the session may take. Without the close, the servers let the session expire later.
pub(crate) const GOODBYE: Duration = Duration::from_secs(2);

#[derive(Args, Debug)]
pub(crate) struct ClientArgs {
    #[command(flatten)]
    servers: ServerArgs,

    /// How long to wait for a server, and for each of its replies
    #[arg(long, env = "LOCKKEEPER_TIMEOUT", value_name = "DURATION", default_value = "10s", value_parser = duration::parse_positive)]
    timeout: Duration,
}

/// Opens a session.
pub(crate) async fn connect(settings: Builder) -> Result<Client, Failure> {
    let client = settings.connect().await;
    client.map_err(|error| Failure::connect(&error))
}

impl ClientArgs {
    /// Connects, runs `work`, and closes the session. A signal that asks to end cancels the connect and the work.
    pub(crate) async fn with_client(
        &self,
        work: impl AsyncFnOnce(&Client) -> Result<(), Failure>,
    ) -> Result<u8, Failure> {
        let settings = self.servers.settings()?;
        let settings = settings
            .connect_timeout(self.timeout)
            .deadline(self.timeout);
        let mut signals = Signals::catch(&ENDING)?;
        let client = signals.or_end(connect(settings)).await?;
        let done = signals.or_end(work(&client)).await;
        let _ = timeout(GOODBYE, client.close()).await;
        done.map(|()| exit::OK)
    }
}

/// Creates a persistent node and those above it, as far as they are missing.
pub(crate) async fn create_all(client: &Client, path: &str) -> Result<(), Error> {
    match client.create_all(path, "", CreateMode::Persistent).await {
        Err(error) if !error.is_node_exists() => Err(error),
        _ => Ok(()),
    }
}
