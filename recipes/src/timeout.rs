//! Waiting for a lock no longer than the caller wants.

use std::{future::Future, time::Duration};

use lockkeeper_session::Client;

use crate::error::{LockError, Loss};

/// Gives up after `wait`. Then `ahead` says how many contenders are ahead, if that is known.
pub(crate) async fn timeout<T>(
    client: &Client,
    wait: Duration,
    lock: impl Future<Output = Result<T, LockError>>,
    ahead: impl FnOnce() -> Option<usize>,
) -> Result<T, LockError> {
    match client.raw().timeout(wait, lock).await {
        Some(result) => result,
        // The timers of a client end with it.
        None if client.is_closed() => Err(LockError::Lost(Loss::Closed)),
        None => Err(LockError::TimedOut {
            waited: wait,
            ahead: ahead(),
        }),
    }
}
