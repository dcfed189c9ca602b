//! Waiting for a lock no longer than the caller wants, and saying what was in the way.
//!
//! Not here: the pauses before a request is repeated (`backoff`).

use std::time::Duration;

use lockkeeper_session::{
    AsRaw, Client,
    sync::{
        BoxFuture,
        select::{Either, select},
    },
};

use super::stall::obstacle;
use crate::{
    backoff::throttling,
    error::{LockError, Loss, Obstacle},
};

/// What the future returns, or an error about the lock at this path if it takes longer than `wait`.
/// The future is gone then, so that the caller may look at what it has noted of its place.
pub(crate) async fn timeout<T>(
    client: &Client,
    path: &str,
    wait: Duration,
    lock: BoxFuture<'_, Result<T, LockError>>,
) -> Result<T, LockError> {
    let done = timeout_at(client, wait, lock, || in_the_way(client, path)).await;
    done.map_err(|error| error.at(path))
}

/// As [`timeout`], for a future whose lock is known at the end: it says what is in the way. The error
/// names no path.
pub(crate) async fn timeout_at<T>(
    client: &Client,
    wait: Duration,
    mut lock: BoxFuture<'_, Result<T, LockError>>,
    in_the_way: impl FnOnce() -> Option<Obstacle>,
) -> Result<T, LockError> {
    match select(&mut lock, client.raw().sleep(wait)).await {
        Either::Left(result) => result,
        // The timers of a client end with it.
        Either::Right(()) if client.is_closed() => Err(LockError::lost(Loss::Closed)),
        Either::Right(()) => Err(LockError::TimedOut {
            path: String::new(),
            waited: wait,
            ahead: None,
            // The attempt is there until here: what it has noted goes with it.
            obstacle: in_the_way().map(Box::new),
        }),
    }
}

/// What is in the way of the contenders of this client for the lock at this path.
pub(crate) fn in_the_way(client: &Client, path: &str) -> Option<Obstacle> {
    let server_path = client.raw().server_path(path);
    (client.raw().outage().map(Obstacle::Servers))
        .or_else(|| client.raw().slow().map(Obstacle::Slow))
        .or_else(|| throttling(client, &server_path))
        .or_else(|| obstacle(client, &server_path))
}

#[cfg(test)]
mod tests {
    use lockkeeper_server::Server;
    use lockkeeper_test_support::waiting::soon;

    use super::*;

    /// kazoo waits for the whole timeout again after each wake-up, so a wait has no end while
    /// others leave the queue.
    #[tokio::test]
    async fn wake_ups_do_not_prolong_a_wait() {
        let server = Server::start().await.unwrap();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let wait = Duration::from_millis(100);
        let busy = async {
            loop {
                tokio::time::sleep(wait / 10).await;
            }
        };
        let late: Result<(), _> = soon(timeout(&client, "/m", wait, Box::pin(busy))).await;
        assert!(matches!(late, Err(LockError::TimedOut { waited, .. }) if waited == wait));
    }
}
