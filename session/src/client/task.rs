//! The client as a task of tokio, which runs the driver.
//!
//! Not here: what the driver does (`driver`), a runtime for this task alone (`own_thread`).

use std::{
    future::{Future, poll_fn},
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    thread,
    time::{Duration, Instant},
};

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    time::{self, Sleep},
};

use super::{
    driver::{Driver, Run},
    net::transport::Connector,
    shared::Shared,
    sync::BoxFuture,
};
use crate::{Cause, Error, ErrorKind};

/// A driver whose sockets and timer are tokio's.
pub(crate) struct Task {
    driver: Driver,
    /// The span of its log lines: a child of the span in which the client was made.
    span: tracing::Span,
    /// `None` until it is needed: the task is made outside the runtime in which it runs.
    timer: Option<Pin<Box<Sleep>>>,
    /// When the timer fires. It may fire too early: it is reset only for an earlier deadline,
    /// because nearly every request moves the next deadline a little later.
    armed: Option<Instant>,
}

impl Task {
    /// The task of this client. In a box, and behind a pointer to code: what it takes to drop one is
    /// not repeated where it is started.
    pub(crate) fn boxed(
        shared: Arc<Shared>,
        connector: Connector,
        frame_limit: usize,
    ) -> BoxFuture<'static, ()> {
        Box::pin(Self {
            driver: Driver::new(shared, connector, frame_limit),
            span: tracing::info_span!("zookeeper"),
            timer: None,
            armed: None,
        })
    }

    /// Arms the timer for the deadline. Whether it has fired.
    fn sleep(&mut self, cx: &mut Context<'_>, now: Instant, until: Instant) -> bool {
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(time::sleep(Duration::ZERO)));
        if self.armed.is_none_or(|armed| until < armed) {
            let left = until.saturating_duration_since(now);
            timer.as_mut().reset(time::Instant::now() + left);
            self.armed = Some(until);
        } else if !timer.is_elapsed() {
            // It was polled when it was set, and wakes this task.
            return false;
        }
        let has_fired = timer.as_mut().poll(cx).is_ready();
        if has_fired {
            self.armed = None;
        }
        has_fired
    }
}

/// Whether this thread belongs to a tokio runtime.
pub(crate) fn is_in_runtime() -> bool {
    Handle::try_current().is_ok()
}

/// After so many polls in a row, the runtime should have run its other tasks.
const POLLS: u32 = 1000;
/// How often it is looked at after that, and the time in between.
const LOOKS: u32 = 1000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// Waits until the task of a new client has run. Fails if it cannot: it is on a runtime with one
/// thread, and that thread waits here, in the `block_on` of another executor.
///
/// Such a `block_on` polls again at once when it is woken. A runtime first has its other tasks run.
pub(crate) async fn has_run(begun: impl Fn() -> bool) -> Result<(), Error> {
    let mut polls = 0;
    poll_fn(|cx| {
        let has_one_thread =
            |handle: Handle| handle.runtime_flavor() == RuntimeFlavor::CurrentThread;
        if begun() || !Handle::try_current().is_ok_and(has_one_thread) {
            return Poll::Ready(Ok(()));
        }
        polls += 1;
        if polls > POLLS + LOOKS {
            let blocked = io::Error::new(
                io::ErrorKind::WouldBlock,
                "the runtime of this thread waits in a block_on and cannot run it: \
                 use `.await`, or Builder::own_thread",
            );
            return Poll::Ready(Err(ErrorKind::NoThread(Cause::from(&blocked)).into()));
        }
        if polls > POLLS {
            thread::sleep(BETWEEN_LOOKS);
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        match this.span.in_scope(|| this.driver.run(cx)) {
            Run::Ended => Poll::Ready(()),
            Run::Wait { until: None, .. } => Poll::Pending,
            Run::Wait {
                now,
                until: Some(until),
            } if !this.sleep(cx, now, until) => Poll::Pending,
            Run::Wait { .. } | Run::Again => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}
