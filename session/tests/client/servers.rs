//! The embedded server, and what the tests ask of it.

use std::{future::Future, time::Duration};

use lockkeeper_server::Server;
use lockkeeper_session::{Builder, Client, Snapshot};
use tokio::time::{Instant, timeout};

/// No test waits longer for anything.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) async fn server() -> Server {
    let tick = Duration::from_millis(50);
    Server::builder().tick_time(tick).start().await.unwrap()
}

pub(crate) fn builder(server: &Server) -> Builder {
    Client::builder(&server.connect_string()).unwrap()
}

pub(crate) async fn client(server: &Server) -> Client {
    within(builder(server).connect()).await.unwrap()
}

/// The future's result: a hang is a failure.
pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    timeout(PROBE_TIMEOUT, future).await.expect("it hangs")
}

/// Waits until the session of a client is as it should be.
pub(crate) async fn follow(client: &Client, wanted: impl FnMut(&Snapshot) -> bool) -> Snapshot {
    let mut snapshots = client.snapshots();
    within(snapshots.wait_for(wanted)).await.unwrap().clone()
}

/// Looks again and again, for what no client can be told.
pub(crate) async fn eventually(mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PROBE_TIMEOUT, "it never happens");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
