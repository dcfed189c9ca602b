//! Waiting for a future on the caller's thread, for code without async: the thread parks, and the
//! future's waker unparks it.
//!
//! The futures of clients and locks need no runtime where they are polled. Not here: where the
//! client's task runs (`own_thread`).

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use super::sync::os::{
    atomic::{AtomicBool, Ordering},
    thread::{self, Thread},
};

use super::{clock::Clock, task::is_in_runtime};
use crate::{Error, ErrorKind};

/// Waits for a future of this library on the calling thread: for code without async.
///
/// ```
/// # let server = lockkeeper_server::Server::builder().start_on_thread()?;
/// # let servers = server.connect_string();
/// # use lockkeeper_session as lockkeeper;
/// use std::time::Duration;
/// use lockkeeper::{Client, Wait};
///
/// let client = Client::connect(&servers).wait()?;
/// let (_, watcher) = client.exists_and_watch("/job").wait()?;
/// let event = watcher.wait_for(Duration::from_millis(10))?;
/// assert!(event.is_none(), "nobody has made the node");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// The wait ends with the future: to limit it, take [`wait_for`](Self::wait_for), or a method with
/// a timeout. Give a `&mut` of a future to wait for it again later.
pub trait Wait: Future<Output: Outcome> + Sized {
    /// Waits for the future.
    ///
    /// # Errors
    /// Those of the future. [`InsideRuntime`](crate::ErrorKind::InsideRuntime) on a thread of a
    /// tokio runtime, which must not block, and on a thread of `spawn_blocking`: nothing is sent
    /// then. On the latter, tokio's `Handle::block_on` waits.
    fn wait(self) -> Result<Value<Self>, Failure<Self>> {
        match wait_until(None, self)? {
            Some(output) => output.into_result(),
            None => unreachable!("without a deadline, the wait ends with the future"),
        }
    }

    /// Waits for the future for at most `limit`; `None` when that time is over first. A future that
    /// was given away is dropped then, as if an async caller had dropped it.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    fn wait_for(self, limit: Duration) -> Result<Option<Value<Self>>, Failure<Self>> {
        // A deadline beyond the range of `Instant` counts as no deadline.
        let output = wait_until(Clock::system().running().checked_add(limit), self)?;
        output.map(Outcome::into_result).transpose()
    }
}

impl<F: Future<Output: Outcome>> Wait for F {}

type Value<F> = <<F as Future>::Output as Outcome>::Value;
type Failure<F> = <<F as Future>::Output as Outcome>::Error;

/// What a future of this library returns: a value, or an error that a wait may also have.
pub trait Outcome {
    /// The value of a wait that succeeds.
    type Value;
    /// The error of the future, or of the wait.
    type Error: From<Error>;

    /// The output as the result of a wait.
    ///
    /// # Errors
    /// Those of the future.
    fn into_result(self) -> Result<Self::Value, Self::Error>;
}

impl<T, E: From<Error>> Outcome for Result<T, E> {
    type Value = T;
    type Error = E;

    fn into_result(self) -> Self {
        self
    }
}

/// The next event of a persistent watch.
impl<T, E: From<Error>> Outcome for Option<Result<T, E>> {
    type Value = Option<T>;
    type Error = E;

    fn into_result(self) -> Result<Option<T>, E> {
        self.transpose()
    }
}

impl Outcome for () {
    type Value = ();
    type Error = Error;

    fn into_result(self) -> Result<(), Error> {
        Ok(())
    }
}

fn wait_until<F: Future>(deadline: Option<Instant>, future: F) -> Result<Option<F::Output>, Error> {
    if is_in_runtime() {
        return Err(ErrorKind::InsideRuntime.into());
    }
    let parked = Arc::new(Parked {
        thread: thread::current(),
        is_woken: AtomicBool::new(false),
    });
    let waker = Waker::from(parked.clone());
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Ok(Some(output));
        }
        // Other code of this thread may use up an unpark, and cause one. So the flag decides.
        while !parked.is_woken.swap(false, Ordering::Acquire) {
            let Some(deadline) = deadline else {
                thread::park();
                continue;
            };
            let left = deadline.saturating_duration_since(Clock::system().running());
            if left.is_zero() {
                return Ok(None);
            }
            thread::park_timeout(left);
        }
    }
}

/// A thread that waits for a future.
struct Parked {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}
