//! Waiting for a future on the caller's thread: the thread parks, and the future's waker unparks it.
//!
//! The futures of locks and requests need no runtime where they are polled. Only the client's task does (`host`).

use std::{
    fmt,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use lockkeeper_recipes::LockError;
use lockkeeper_session::Error;
use tokio::runtime::Handle;

/// Whether this thread belongs to a tokio runtime. Then it must not block.
pub(crate) fn is_in_runtime() -> bool {
    Handle::try_current().is_ok()
}

/// Waits for a future.
pub(crate) fn block_on<F: Future>(future: F) -> Result<F::Output, Error> {
    match block_until(None, future)? {
        Some(output) => Ok(output),
        None => unreachable!("without a deadline, the wait ends with the future"),
    }
}

/// Waits for a future, for at most `limit`. `None` when the time is over first.
pub(crate) fn block_for<F: Future>(limit: Duration, future: F) -> Result<Option<F::Output>, Error> {
    // A deadline beyond the range of `Instant` counts as no deadline.
    block_until(Instant::now().checked_add(limit), future)
}

fn block_until<F: Future>(
    deadline: Option<Instant>,
    future: F,
) -> Result<Option<F::Output>, Error> {
    if is_in_runtime() {
        return Err(Error::InsideRuntime);
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
            let left = deadline.saturating_duration_since(Instant::now());
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
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Something to wait for that does not borrow what it came from: the loss of a lock, or the request to release it.
///
/// Dropping it ends the wait. It may be sent to another thread.
#[must_use = "it does nothing until `wait`"]
pub struct Pending<T> {
    state: State<T>,
}

enum State<T> {
    Waits(Pin<Box<dyn Future<Output = T> + Send>>),
    Done(T),
}

impl<T: Copy> Pending<T> {
    pub(crate) fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self {
            state: State::Waits(Box::pin(future)),
        }
    }

    /// Waits until it happens.
    ///
    /// # Errors
    /// [`Error::InsideRuntime`] on a thread of a tokio runtime.
    pub fn wait(self) -> Result<T, LockError> {
        match self.state {
            State::Waits(future) => Ok(block_on(future)?),
            State::Done(output) => Ok(output),
        }
    }

    /// Waits until it happens, for at most `limit`. `None` when it has not happened: the method may be called again.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(&mut self, limit: Duration) -> Result<Option<T>, LockError> {
        if let State::Waits(future) = &mut self.state {
            let Some(output) = block_for(limit, future)? else {
                return Ok(None);
            };
            self.state = State::Done(output);
        }
        match self.state {
            State::Done(output) => Ok(Some(output)),
            State::Waits(_) => Ok(None),
        }
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("is_done", &matches!(self.state, State::Done(_)))
            .finish_non_exhaustive()
    }
}
