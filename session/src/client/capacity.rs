//! Waiting for request capacity, and the deadline of a handle.
//!
//! Not here: the order of the waiting callers (`capacity_queue`), and how much capacity there is
//! (`Machine::has_capacity`).

use std::{
    future::{Future, Ready, ready},
    pin::Pin,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use super::{
    Client,
    capacity_queue::Waiting,
    shared::{Core, Shared},
    sleep::Sleep,
    sync::{BoxFuture, os::MutexGuard, select::Either},
};
use crate::machine::RequestOptions;

/// What `act` has returned; or it waits for capacity. Waiting is in a box and behind a pointer to
/// code, so the futures of callers stay small and know nothing of requests: how to drop one is not
/// repeated in each program that uses them.
type WhenCapacity<'a, R> = Either<Ready<R>, BoxFuture<'a, R>>;

/// A caller, until there is capacity for this many bytes of requests. It knows nothing of what the
/// caller does then, so it is compiled once and not for each caller.
struct Caller<'a> {
    shared: &'a Shared,
    deadline: Option<Duration>,
    bytes: usize,
    options: Option<RequestOptions>,
    ticket: Option<u64>,
    /// What stood in the queue. Dropped with the caller, and so without the lock.
    left: Option<Waiting>,
    until: Option<Sleep>,
}

/// There is capacity: the core, the time, and the options of the requests.
struct Begun<'a>(&'a Shared, MutexGuard<'a, Core>, Instant, RequestOptions);

impl Core {
    /// The time, and the options of a request that a handle with this deadline makes now. Without a
    /// deadline nobody needs the time: it is that of the last reading of the clock.
    pub(crate) fn options(&mut self, deadline: Option<Duration>) -> (Instant, RequestOptions) {
        let since = deadline.map(|_| self.clock.now());
        // A deadline beyond the range of `Instant` counts as no deadline.
        let deadline = since
            .zip(deadline)
            .and_then(|(now, it)| now.checked_add(it));
        (self.clock.latest, RequestOptions { since, deadline })
    }
}

impl<'a> Caller<'a> {
    /// What there is if there is capacity now. Otherwise the waker waits for it, if there is one.
    fn begin(&mut self, waker: Option<&Waker>) -> Option<Begun<'a>> {
        let mut core = self.shared.lock();
        let (now, options) = match self.options {
            None => core.options(self.deadline),
            Some(options) => (core.clock.now(), options),
        };
        // A request that fails immediately need not wait for its turn.
        let is_answered = || core.machine.link().is_closing() || options.is_over(now);
        let is_next = core.capacity_queue.is_first(self.ticket) || is_answered();
        if !(is_next && core.machine.has_capacity(now, self.bytes, &options)) {
            let options = self.options.get_or_insert(options);
            options.since.get_or_insert_with(|| core.clock.now());
            let mut former = None;
            if let Some(waker) = waker.cloned() {
                let waiting = Waiting {
                    waker,
                    bytes: self.bytes,
                    options: *options,
                };
                let (ticket, replaced) = core.capacity_queue.wait(self.ticket, waiting);
                (self.ticket, former) = (Some(ticket), replaced);
            }
            self.shared.acted(core);
            drop(former);
            return None;
        }
        if let Some(ticket) = self.ticket.take() {
            self.left = core.capacity_queue.leave(ticket);
        }
        Some(Begun(self.shared, core, now, options))
    }
}

impl<'a> Future for Caller<'a> {
    type Output = Begun<'a>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Begun<'a>> {
        // At its deadline the caller need not wait any longer.
        if let Some(deadline) = &mut self.until {
            let _ = Pin::new(deadline).poll(cx);
        }
        self.begin(Some(cx.waker()))
            .map_or(Poll::Pending, Poll::Ready)
    }
}

impl Begun<'_> {
    fn act<R>(self, act: impl FnOnce(&mut Core, Instant, RequestOptions) -> R) -> R {
        let Self(shared, mut core, now, options) = self;
        core.machine.admit(true);
        let done = act(&mut core, now, options);
        core.machine.admit(false);
        shared.acted_at(core, now);
        done
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let mut core = self.shared.lock();
            self.left = core.capacity_queue.leave(ticket);
            let now = core.clock.now();
            self.shared.acted_at(core, now);
        }
    }
}

impl Client {
    /// Returns a handle on the same session whose requests have a deadline.
    ///
    /// A request that takes longer fails with
    /// [`DeadlineExceeded`](crate::ErrorKind::DeadlineExceeded).
    ///
    /// The time starts with the first poll of a method, or with the call of
    /// [`Raw::submit`](crate::Raw::submit). It includes all waiting: for request capacity, for a
    /// connection and for the reply. A request that was not sent by its deadline is never sent. For
    /// a request that was sent, it is unknown whether the server applies it. The connection stays
    /// open: the client leaves a server that does not answer at all after
    /// [`Builder::request_timeout`](super::Builder::request_timeout). Locks do not use it: they have
    /// limits of their own.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// use std::time::Duration;
    /// # mod lockkeeper { pub mod error { pub use lockkeeper_session::ErrorKind; } }
    /// use lockkeeper::error::ErrorKind;
    ///
    /// let hasty = client.with_deadline(Duration::from_millis(50));
    /// hasty.sync("/").await?;
    /// server.faults().stall();
    /// let late = hasty.sync("/").await.unwrap_err();
    /// assert!(matches!(late.kind(), ErrorKind::DeadlineExceeded { .. }));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        self.in_manner(|it| it.deadline = Some(deadline))
    }

    /// Returns a handle on the same session without a deadline.
    ///
    /// Use it for work that must be completed however long it takes. Locks always make their
    /// requests in this way, whatever handle they were made from.
    #[must_use]
    pub fn without_deadline(&self) -> Self {
        match self.deadline() {
            Some(_) => self.in_manner(|it| it.deadline = None),
            None => self.clone(),
        }
    }

    /// Runs `act` on the core: at once, or when there is capacity for this many bytes of requests.
    pub(crate) fn when_capacity<'a, R, F>(&'a self, bytes: usize, act: F) -> WhenCapacity<'a, R>
    where
        F: FnOnce(&mut Core, Instant, RequestOptions) -> R + Send + 'a,
    {
        let mut caller = Caller {
            shared: &self.shared,
            deadline: self.deadline(),
            bytes,
            options: None,
            ticket: None,
            left: None,
            until: None,
        };
        if let Some(begun) = caller.begin(None) {
            return Either::Left(ready(begun.act(act)));
        }
        let deadline = caller.options.and_then(|options| options.deadline);
        caller.until = deadline.map(|deadline| Sleep::until(&self.shared, deadline));
        // The caller lasts until `act` has returned: its timer takes the lock when it is dropped.
        Either::Right(Box::pin(async move { (&mut caller).await.act(act) }))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, mpsc},
        task::Wake,
        thread,
    };

    use lockkeeper_proto::{Request, records::SyncRequest};

    use super::*;
    use crate::client::raw::AsRaw;

    /// A client whose capacity is used up.
    fn full() -> Client {
        let builder = Client::builder("127.0.0.1:1").unwrap();
        let client = builder.max_outstanding(1).connect_lazy();
        let path = "/".to_owned();
        let request = Request::Sync(SyncRequest { path }).into();
        drop(client.raw().submit([request]));
        client
    }

    /// The last handle of a task whose futures take the lock of the client when they are dropped.
    struct LastHandle(Client);

    impl Wake for LastHandle {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for LastHandle {
        fn drop(&mut self) {
            let _ = self.0.metrics();
        }
    }

    /// The drop of the waker waited for the lock that its own thread held, and so did all others.
    #[test]
    fn a_waker_is_dropped_after_the_lock_was_released() {
        for way in 0..3 {
            let client = full();
            let (done, is_done) = mpsc::channel();
            thread::spawn(move || {
                let mut waiting = client.when_capacity(1, |_, _, _| ());
                let waker = Waker::from(Arc::new(LastHandle(client.clone())));
                let polled = Pin::new(&mut waiting).poll(&mut Context::from_waker(&waker));
                assert!(polled.is_pending());
                drop(waker);
                let poll_elsewhere = |waiting: &mut WhenCapacity<'_, ()>| {
                    let cx = &mut Context::from_waker(Waker::noop());
                    Pin::new(waiting).poll(cx).is_ready()
                };
                match way {
                    0 => assert!(!poll_elsewhere(&mut waiting)),
                    1 => {
                        client.shared.lock().machine.abort();
                        assert!(poll_elsewhere(&mut waiting));
                    }
                    _ => {}
                }
                drop(waiting);
                done.send(()).unwrap();
            });
            let ended = is_done.recv_timeout(Duration::from_secs(10));
            assert!(ended.is_ok(), "{way}: it waits for its own lock");
        }
    }

    /// Once, its task hung without a word.
    #[tokio::test]
    #[should_panic = "resumed after completion"]
    async fn a_future_that_is_polled_after_its_end_panics() {
        let client = full();
        let mut waiting = client.when_capacity(1, |_, _, _| ());
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut waiting).poll(cx).is_pending());
        client.shared.close();
        assert!(Pin::new(&mut waiting).poll(cx).is_ready());
        let _again = Pin::new(&mut waiting).poll(cx);
    }
}
