//! The client of a command that reads or changes nodes: connects, works, closes.
//!
//! Not here: the client of `run`, which starts another program (`run::acquire`).

use std::{io, time::Duration};

use clap::Args;
use lockkeeper::{
    Client, Error,
    client::{Builder, Snapshot},
    error::{Cause, ErrorKind, Lost},
    raw::AsRaw,
};
use tokio::time::{Instant, timeout};

use crate::{
    duration,
    exit::{self, Failure},
    servers::ServerArgs,
    signals::{ENDING, Signals},
};

/// How long closing the session may take. Without the close, the servers let the session expire later.
pub(crate) const GOODBYE: Duration = Duration::from_secs(2);

/// How often the client is asked whether all servers have refused the connection.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Args, Debug)]
pub(crate) struct ClientArgs {
    #[command(flatten)]
    servers: ServerArgs,

    /// How long to wait for a server, and for each of its replies
    #[arg(long, env = "LOCKKEEPER_TIMEOUT", value_name = "DURATION", allow_hyphen_values = true, default_value = "10s", value_parser = duration::parse_positive)]
    timeout: Duration,
}

/// Opens a session as [`open`] does.
pub(crate) async fn connect(settings: Builder, limit: Duration) -> Result<Client, Failure> {
    let client = open(settings, limit).await;
    client.map_err(|error| Failure::connect(&error))
}

/// Opens a session, within `limit`. Fails at once when every server refuses the connection: nothing listens there.
pub(crate) async fn open(settings: Builder, limit: Duration) -> Result<Client, Error> {
    let client = settings.connect_lazy();
    let end = Instant::now() + limit;
    loop {
        if let Ok(connected) = timeout(LOOK, connected(&client)).await {
            return connected.map(|()| client);
        }
        let is_over = Instant::now() > end;
        match client.raw().outage() {
            Some(why) if is_over || is_refused(&why) => return Err(why),
            // A server has the client, and does not answer its identities. A request says so.
            None if is_over => drop(client.with_deadline(LOOK).exists("/").await?),
            _ => {}
        }
    }
}

/// Waits for a server. Fails if the client has ended: all servers fail for a reason that lasts.
pub(crate) async fn connected(client: &Client) -> Result<(), Error> {
    let settled = |now: &Snapshot| now.state.is_connected() || now.state.is_final();
    let _ = client.snapshots().wait_for(settled).await;
    if client.is_closed() {
        // Any request says why.
        client.exists("/").await?;
    }
    Ok(())
}

/// Whether every server has refused the connection. Never true with more servers than a client remembers (`Client::failures`).
fn is_refused(why: &Error) -> bool {
    let ErrorKind::Unreachable { tried, servers, .. } = why.kind() else {
        return false;
    };
    let is_refused = |lost: &Lost| matches!(lost.cause, Cause::Io { kind, .. } if kind == io::ErrorKind::ConnectionRefused);
    tried.len() == *servers && tried.iter().all(is_refused)
}

impl ClientArgs {
    /// Connects, runs `work`, and closes the session. A signal that asks to end cancels the connect and the work.
    pub(crate) async fn with_client(
        &self,
        work: impl AsyncFnOnce(&Client) -> Result<(), Failure>,
    ) -> Result<u8, Failure> {
        let settings = self.servers.settings()?.deadline(self.timeout);
        let mut signals = Signals::catch(&ENDING)?;
        let client = signals.or_end(connect(settings, self.timeout)).await?;
        let work = async {
            let done = work(&client).await;
            // Every path is below the chroot. `create --parents` makes it.
            if done.as_ref().is_err_and(|it| it.status == exit::REFUSED)
                && let Some(chroot) = self.servers.servers()?.chroot()
                && matches!(client.exists("/").await, Ok(None))
            {
                return Err(failure!(REFUSED, "the chroot {chroot} does not exist"));
            }
            done
        };
        let done = signals.or_end(work).await;
        let _ = timeout(GOODBYE, client.close()).await;
        done.map(|()| exit::OK)
    }
}
