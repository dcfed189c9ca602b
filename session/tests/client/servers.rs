//! The embedded server, and helpers of the tests.

use std::{future::Future, time::Duration};

use lockkeeper_server::Server;
use lockkeeper_session::{Builder, Client, Snapshot};
use tokio::time::{Instant, timeout};

/// The longest time that a test waits for anything.
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

/// The result of the future. A hang is a failure.
pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    timeout(PROBE_TIMEOUT, future).await.expect("a hang")
}

/// Waits until a snapshot of the client fulfils the condition.
pub(crate) async fn follow(client: &Client, wanted: impl FnMut(&Snapshot) -> bool) -> Snapshot {
    let mut snapshots = client.snapshots();
    within(snapshots.wait_for(wanted)).await.unwrap().clone()
}

/// Checks a condition again and again. For conditions that the client does not report.
pub(crate) async fn eventually(mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PROBE_TIMEOUT, "the condition never holds");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
