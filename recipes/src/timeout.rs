//! Waiting for a lock no longer than the caller wants.

use std::time::Duration;

use futures::future::{BoxFuture, Either, select};
use lockkeeper_session::Client;

use crate::error::{LockError, Loss};

/// What the future returns, or `None` if it takes longer than `wait`. The future is gone then, so
/// that the caller may look at what it has noted of its place in the queue.
pub(crate) async fn timeout<T>(
    client: &Client,
    wait: Duration,
    lock: BoxFuture<'_, T>,
) -> Option<T> {
    match select(lock, client.raw().sleep(wait)).await {
        Either::Left((result, _)) => Some(result),
        Either::Right(_) => None,
    }
}

/// The error of a caller that has waited for the lock at `path` for as long as it wanted.
pub(crate) fn timed_out(
    client: &Client,
    path: &str,
    waited: Duration,
    ahead: Option<usize>,
) -> LockError {
    // The timers of a client end with it.
    if client.is_closed() {
        return LockError::lost(Loss::Closed).at(path);
    }
    LockError::TimedOut {
        path: path.to_owned(),
        waited,
        ahead,
    }
}
