//! Waiting for a lock no longer than the caller wants.

use std::{future::Future, pin::Pin, time::Duration};

use futures::future::{Either, select};
use lockkeeper_session::Client;

use crate::error::{LockError, Loss};

/// Gives up after `wait`. Then `ahead` says how many contenders are ahead, if that is known.
///
/// It takes the future pinned: each move into another future would add its size once more.
pub(crate) async fn timeout<T>(
    client: &Client,
    wait: Duration,
    lock: Pin<&mut impl Future<Output = Result<T, LockError>>>,
    ahead: impl FnOnce() -> Option<usize>,
) -> Result<T, LockError> {
    match select(lock, client.raw().sleep(wait)).await {
        Either::Left((result, _)) => result,
        // The timers of a client end with it.
        Either::Right(_) if client.is_closed() => Err(LockError::Lost(Loss::Closed)),
        Either::Right(_) => Err(LockError::TimedOut {
            waited: wait,
            ahead: ahead(),
        }),
    }
}
