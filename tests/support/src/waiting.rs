//! Waiting for conditions, and for a client to become idle, without fixed times.
//!
//! The tests of `recipes` and of the facade use this file, too.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use lockkeeper_proto::SessionId;
use lockkeeper_session::{Client, Clock, Snapshot};
use tokio::time::{Instant, sleep, timeout};

/// The limit of each wait: long enough for any step on a busy machine.
pub const LONG: Duration = Duration::from_secs(30);

/// The output of a future that must end within [`LONG`]; otherwise the test fails.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(LONG, future).await.expect("a hang")
}

/// Waits for a condition, at most [`LONG`].
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !condition().await {
        assert!(Instant::now() < deadline, "timed out: {what}");
        sleep(Duration::from_millis(1)).await;
    }
}

/// Waits for a condition, which is an expression, as [`until`] does.
#[macro_export]
macro_rules! until {
    ($condition:expr) => {
        $crate::waiting::until(stringify!($condition), async || $condition).await
    };
}

pub use crate::until;

/// Waits until a client has had no request under way for a while. A future that is still pending
/// then waits for another client.
pub async fn idle(client: &Client) {
    const LOOKS: u32 = 10;
    let mut quiet = 0;
    while quiet < LOOKS {
        sleep(Duration::from_millis(1)).await;
        quiet = if client.metrics().outstanding() == 0 {
            quiet + 1
        } else {
            0
        };
    }
}

/// Drives a future until it ends or its client is idle. Returns the output, or `None` if it waits
/// for another client.
pub async fn driven<F: Future + ?Sized>(
    client: &Client,
    mut future: Pin<&mut F>,
) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = poll_fn(|cx| future.as_mut().poll(cx)) => Some(output),
        () = idle(client) => None,
    }
}

/// A clock, and how many seconds it is ahead of that of the runtime.
pub fn clock_ahead() -> (Clock, Arc<AtomicU32>) {
    let ahead = Arc::new(AtomicU32::new(0));
    let told = ahead.clone();
    let clock = Clock::new(move || {
        let seconds = told.load(Ordering::SeqCst).into();
        Instant::now().into_std() + Duration::from_secs(seconds)
    });
    (clock, ahead)
}

/// Waits until a snapshot of the client fulfils the condition.
pub async fn follow(client: &Client, wanted: impl FnMut(&Snapshot) -> bool) -> Snapshot {
    let mut snapshots = client.snapshots();
    soon(snapshots.wait_for(wanted)).await.unwrap().clone()
}

/// Waits until a client is connected with another session.
pub async fn until_another_session(client: &Client, former: SessionId) {
    until("there is another session", async || {
        let now = client.snapshot();
        now.state.is_connected() && now.session_id != former
    })
    .await;
}

/// Polls a future once, without letting other tasks run. Returns the output if the future ends.
pub fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
