//! The embedded server, and helpers of the tests.

use std::time::Duration;

use lockkeeper_server::Server;
use lockkeeper_session::{Builder, Client, Snapshot};

use super::waiting::soon;

pub(crate) async fn server() -> Server {
    let tick = Duration::from_millis(50);
    Server::builder().tick_time(tick).start().await.unwrap()
}

pub(crate) fn builder(server: &Server) -> Builder {
    Client::builder(&server.connect_string()).unwrap()
}

pub(crate) async fn client(server: &Server) -> Client {
    soon(builder(server).connect()).await.unwrap()
}

/// Waits until a snapshot of the client fulfils the condition.
pub(crate) async fn follow(client: &Client, wanted: impl FnMut(&Snapshot) -> bool) -> Snapshot {
    let mut snapshots = client.snapshots();
    soon(snapshots.wait_for(wanted)).await.unwrap().clone()
}
