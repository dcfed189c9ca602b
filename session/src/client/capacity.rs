//! Waiting for room, on the options of a handle: how long, and whether for a connection too.
//!
//! Not here: who comes first (`line`), and how much room there is (`machine::submit`).

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use lockkeeper_proto::Request;

use super::{
    Client, PendingReply,
    capacity_queue::Waiting,
    shared::{Core, Shared},
};
use crate::machine::{RequestOptions, request_bytes};

/// What a client does with a request that would have to wait for a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WhenDisconnected {
    /// It waits for one, at most for the session timeout.
    #[default]
    Wait,
    /// It fails at once, with [`Error::NotConnected`](crate::Error::NotConnected).
    Fail,
}

/// On what options a handle makes its requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestPolicy {
    pub(crate) deadline: Option<Duration>,
    pub(crate) when_disconnected: WhenDisconnected,
}

impl RequestPolicy {
    /// The options of a request that is made now.
    pub(crate) fn options(self, now: Instant) -> RequestOptions {
        RequestOptions {
            since: now,
            // One that no clock can tell is none.
            deadline: self.deadline.and_then(|deadline| now.checked_add(deadline)),
            fail_fast: self.when_disconnected == WhenDisconnected::Fail,
        }
    }
}

/// Does something to the core as soon as there is room for so many bytes of requests.
struct WhenCapacity<'a, F> {
    shared: &'a Shared,
    policy: RequestPolicy,
    bytes: usize,
    act: Option<F>,
    options: Option<RequestOptions>,
    ticket: Option<u64>,
}

impl<R, F: FnOnce(&mut Core, Instant, RequestOptions) -> R + Unpin> Future for WhenCapacity<'_, F> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        let this = &mut *self;
        let mut woken = Vec::new();
        let done = this.shared.act(|core| {
            let now = core.clock.now();
            let options = *this.options.get_or_insert_with(|| this.policy.options(now));
            // An answer at once, where there is one, takes nobody's turn.
            let is_answered = core.machine.is_closing()
                || options.deadline.is_some_and(|deadline| deadline <= now)
                || (options.fail_fast && !core.machine.is_connected());
            let is_next = is_answered || core.capacity_queue.is_first(this.ticket);
            if !(is_next && core.machine.has_capacity(now, this.bytes, &options)) {
                let waiting = Waiting {
                    waker: cx.waker().clone(),
                    bytes: this.bytes,
                    options,
                };
                this.ticket = Some(core.capacity_queue.wait(this.ticket, waiting));
                return None;
            }
            if let Some(ticket) = this.ticket.take() {
                core.capacity_queue.leave(ticket);
            }
            let done = this.act.take().map(|act| act(core, now, options));
            woken = core.woken(now);
            done
        });
        for waker in woken {
            waker.wake();
        }
        done.map_or(Poll::Pending, Poll::Ready)
    }
}

impl<F> Drop for WhenCapacity<'_, F> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else {
            return;
        };
        let woken = self.shared.act(|core| {
            core.capacity_queue.leave(ticket);
            let now = core.clock.now();
            core.woken(now)
        });
        for waker in woken {
            waker.wake();
        }
    }
}

impl Client {
    /// A handle on the same session whose requests must be answered within this time, or fail with
    /// [`Error::DeadlineExceeded`](crate::Error::DeadlineExceeded).
    ///
    /// Counted from the first poll of a method (from the call for [`submit`](Self::submit)), and over everything: waiting
    /// for room, for a connection, for the reply. A request that was not sent by then never is; one that was sent goes on,
    /// and whether it is applied is unknown. The connection is kept: a server that does not answer at all is left
    /// after [`Builder::request_timeout`](super::Builder::request_timeout).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// use std::time::Duration;
    /// use lockkeeper_session::Error;
    ///
    /// let hasty = client.with_deadline(Duration::from_millis(50));
    /// hasty.sync("/").await?;
    /// server.faults().stall();
    /// let late = hasty.sync("/").await.unwrap_err();
    /// assert!(matches!(late, Error::DeadlineExceeded { .. }));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        self.with_policy(RequestPolicy {
            deadline: Some(deadline),
            ..self.policy
        })
    }

    /// A handle on the same session without a deadline, whose requests wait for a connection; for what must be brought to an
    /// end however long it takes. Locks make their requests in this way, whatever handle they are made from.
    #[must_use]
    pub fn without_deadline(&self) -> Self {
        self.with_policy(RequestPolicy::default())
    }

    /// A handle on the same session whose requests wait for a connection, or do not.
    #[must_use]
    pub fn when_disconnected(&self, when_disconnected: WhenDisconnected) -> Self {
        self.with_policy(RequestPolicy {
            when_disconnected,
            ..self.policy
        })
    }

    fn with_policy(&self, policy: RequestPolicy) -> Self {
        Self {
            policy,
            ..self.clone()
        }
    }

    /// Waits until there is room for another request, and reserves nothing; for those who then [`submit`](Self::submit).
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place among those who wait.
    pub async fn wait_for_capacity(&self) {
        self.when_capacity(0, |_, _, _| ()).await;
    }

    /// As [`submit`](Self::submit), as soon as there is room: the methods do it this way.
    ///
    /// Room is bounded by [`Builder::max_outstanding`](super::Builder::max_outstanding) and
    /// [`Builder::max_queued_bytes`](super::Builder::max_queued_bytes).
    ///
    /// # Cancel safety
    /// Dropped before there was room, nothing is sent; the place among those who wait is given up.
    ///
    /// # Ordering
    /// Those who wait are let in in the order in which they began to. `submit` goes ahead of all of them.
    pub async fn submit_with_backpressure<const N: usize>(
        &self,
        requests: [Request; N],
    ) -> [PendingReply; N] {
        let bytes = requests.iter().map(request_bytes).sum();
        let submit = |core: &mut Core, now, options| {
            requests.map(|request| core.reply(now, request, options))
        };
        self.when_capacity(bytes, submit).await
    }

    /// Does something to the core as soon as there is room for so many bytes of requests.
    pub(crate) fn when_capacity<R>(
        &self,
        bytes: usize,
        act: impl FnOnce(&mut Core, Instant, RequestOptions) -> R + Unpin,
    ) -> impl Future<Output = R> {
        WhenCapacity {
            shared: &self.shared,
            policy: self.policy,
            bytes,
            act: Some(act),
            options: None,
            ticket: None,
        }
    }
}
