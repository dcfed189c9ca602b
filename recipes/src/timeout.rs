//! Waiting for a lock no longer than the caller wants.

use std::{future::Future, pin::Pin, time::Duration};

use futures::future::{Either, select};
use lockkeeper_session::Client;

use crate::error::{LockError, Loss};

/// Gives up after `wait`. Then `place` says which lock it waited for, and how many contenders are ahead, if that is known.
///
/// It takes the future pinned: each move into another future would add its size once more.
pub(crate) async fn timeout<'a, T>(
    client: &Client,
    wait: Duration,
    lock: Pin<&mut impl Future<Output = Result<T, LockError>>>,
    place: impl FnOnce() -> (&'a str, Option<usize>),
) -> Result<T, LockError> {
    match select(lock, client.raw().sleep(wait)).await {
        Either::Left((result, _)) => result,
        // The timers of a client end with it.
        Either::Right(_) if client.is_closed() => Err(LockError::lost(Loss::Closed).at(place().0)),
        Either::Right(_) => {
            let (path, ahead) = place();
            Err(LockError::TimedOut {
                path: path.to_owned(),
                waited: wait,
                ahead,
            })
        }
    }
}
