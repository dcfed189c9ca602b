//! The client of a command that reads or changes nodes: connects, works, closes.
//!
//! Not here: the client of `run`, which starts another program (`run::acquire`).

use std::time::Duration;

use clap::Args;
use lockkeeper::Client;
use tokio::time::timeout;

use crate::{
    duration,
    exit::{self, Failure},
    servers::ServerArgs,
    signals::{ENDING, Signals},
};

/// How long closing the session may take. Without the close, the servers let the session expire later.
const GOODBYE: Duration = Duration::from_secs(2);

#[derive(Args, Debug)]
pub(crate) struct ClientArgs {
    #[command(flatten)]
    servers: ServerArgs,

    /// How long to wait for a server, and for each of its replies
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse_positive)]
    timeout: Duration,
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
        let client = tokio::select! {
            biased;
            signal = signals.ending() => return Ok(exit::of_signal(signal.as_raw())),
            client = settings.connect() => client.map_err(|error| Failure::connect(&error))?,
        };
        let status = tokio::select! {
            biased;
            signal = signals.ending() => Ok(exit::of_signal(signal.as_raw())),
            done = work(&client) => done.map(|()| exit::OK),
        };
        let _ = timeout(GOODBYE, client.close()).await;
        status
    }
}
