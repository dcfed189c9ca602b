//! Waiting for room, on the terms of a handle: how long, and whether for a connection too.
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
    Client, Reply,
    line::Waiting,
    shared::{Core, Shared},
};
use crate::machine::{Terms, request_bytes};

/// What a client does with a request that would have to wait for a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WhenDisconnected {
    /// It waits for one, at most for the session timeout.
    #[default]
    Wait,
    /// It fails at once, with [`Error::NotConnected`](crate::Error::NotConnected).
    Fail,
}

/// On what terms a handle makes its requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manner {
    pub(super) deadline: Option<Duration>,
    pub(super) when_disconnected: WhenDisconnected,
}

impl Manner {
    /// The terms of a request that is made now.
    pub(super) fn terms(self, now: Instant) -> Terms {
        Terms {
            since: now,
            // One that no clock can tell is none.
            deadline: self.deadline.and_then(|deadline| now.checked_add(deadline)),
            fail_fast: self.when_disconnected == WhenDisconnected::Fail,
        }
    }
}

/// Does something to the core as soon as there is room for so many bytes of requests.
struct WhenRoom<'a, F> {
    shared: &'a Shared,
    manner: Manner,
    bytes: usize,
    act: Option<F>,
    terms: Option<Terms>,
    ticket: Option<u64>,
}

impl<R, F: FnOnce(&mut Core, Instant, Terms) -> R + Unpin> Future for WhenRoom<'_, F> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        let this = &mut *self;
        let mut called = Vec::new();
        let done = this.shared.act(|core| {
            let now = core.clock.now();
            let terms = *this.terms.get_or_insert_with(|| this.manner.terms(now));
            // An answer at once, where there is one, takes nobody's turn.
            let is_answered = core.machine.is_closing()
                || terms.deadline.is_some_and(|deadline| deadline <= now)
                || (terms.fail_fast && !core.machine.is_connected());
            let is_next = is_answered || core.line.is_first(this.ticket);
            if !(is_next && core.machine.has_room(now, this.bytes, &terms)) {
                let waiting = Waiting {
                    waker: cx.waker().clone(),
                    bytes: this.bytes,
                    terms,
                };
                this.ticket = Some(core.line.wait(this.ticket, waiting));
                return None;
            }
            if let Some(ticket) = this.ticket.take() {
                core.line.leave(ticket);
            }
            let done = this.act.take().map(|act| act(core, now, terms));
            called = core.called(now);
            done
        });
        for waker in called {
            waker.wake();
        }
        done.map_or(Poll::Pending, Poll::Ready)
    }
}

impl<F> Drop for WhenRoom<'_, F> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else {
            return;
        };
        let called = self.shared.act(|core| {
            core.line.leave(ticket);
            let now = core.clock.now();
            core.called(now)
        });
        for waker in called {
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
        self.with_manner(Manner {
            deadline: Some(deadline),
            ..self.manner
        })
    }

    /// A handle on the same session without a deadline, whose requests wait for a connection; for what must be brought to an
    /// end however long it takes. Locks make their requests in this way, whatever handle they are made from.
    #[must_use]
    pub fn patient(&self) -> Self {
        self.with_manner(Manner::default())
    }

    /// A handle on the same session whose requests wait for a connection, or do not.
    #[must_use]
    pub fn when_disconnected(&self, when_disconnected: WhenDisconnected) -> Self {
        self.with_manner(Manner {
            when_disconnected,
            ..self.manner
        })
    }

    fn with_manner(&self, manner: Manner) -> Self {
        Self {
            manner,
            ..self.clone()
        }
    }

    /// Waits until there is room for another request, and reserves nothing; for those who then [`submit`](Self::submit).
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place among those who wait.
    pub async fn room(&self) {
        self.when_room(0, |_, _, _| ()).await;
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
    pub async fn submit_when_room<const N: usize>(&self, requests: [Request; N]) -> [Reply; N] {
        let bytes = requests.iter().map(request_bytes).sum();
        let submit =
            |core: &mut Core, now, terms| requests.map(|request| core.reply(now, request, terms));
        self.when_room(bytes, submit).await
    }

    /// Does something to the core as soon as there is room for so many bytes of requests.
    pub(super) fn when_room<R>(
        &self,
        bytes: usize,
        act: impl FnOnce(&mut Core, Instant, Terms) -> R + Unpin,
    ) -> impl Future<Output = R> {
        WhenRoom {
            shared: &self.shared,
            manner: self.manner,
            bytes,
            act: Some(act),
            terms: None,
            ticket: None,
        }
    }
}
