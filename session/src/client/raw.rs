//! What recipes need beyond the methods of a client: single requests, watches in order, work in the client's task.
//!
//! Not here: capacity (`capacity`), the machine behind its lock (`shared`).

use std::{
    future::Future,
    pin::{Pin, pin},
    time::{Duration, Instant},
};

use futures::future::{Either, select};
use lockkeeper_proto::{Request, SessionId};

use super::{Client, Clock, PendingReply, shared::Core, timers::Sleep, watches::group::WatchGroup};
use crate::machine::{RequestOptions, request_bytes};

/// The layer below the methods of a [`Client`]. Made by [`Client::raw`].
///
/// The caller keeps these rules:
///
/// - The paths are those of the server, see [`server_path`](Self::server_path).
/// - A request must not leave a watch: its event would reach no watcher.
/// - Requests that only the client itself may send (pings, authentication, session control) break the session.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    client: &'a Client,
    within: Option<SessionId>,
}

impl Client {
    /// The layer below the methods of this client, for recipes.
    #[must_use]
    pub fn raw(&self) -> Raw<'_> {
        Raw {
            client: self,
            within: None,
        }
    }
}

impl Raw<'_> {
    pub(crate) fn client(&self) -> &Client {
        self.client
    }

    /// The same layer, with requests that are sent within this session only.
    ///
    /// Once that session has ended, the client never sends them: the replies are
    /// [`Error::SessionExpired`](crate::Error::SessionExpired) with
    /// [`Effect::NotApplied`](crate::Effect::NotApplied). Use it for requests that do harm in another session, for instance
    /// to delete an ephemeral node whose name another client may use.
    #[must_use]
    pub fn within(self, session: SessionId) -> Self {
        Self {
            within: Some(session),
            ..self
        }
    }

    /// Submits several requests together, immediately and in this order. The replies come in the same order.
    ///
    /// It does not wait for request capacity, so that it works in a `Drop`. When the capacity is used up, it takes from a
    /// reserve of the same size. When the reserve is used up too, the request fails with
    /// [`Error::TooManyRequests`](crate::Error::TooManyRequests). If you can wait, call
    /// [`submit_with_backpressure`](Self::submit_with_backpressure).
    pub fn submit<const N: usize>(self, requests: [Request; N]) -> [PendingReply; N] {
        self.client.shared.act(|core| {
            let now = core.clock.now();
            let options = self.client.policy.options(now);
            requests.map(|request| core.submit(self.within, now, request, options))
        })
    }

    /// Waits for request capacity, then submits the requests like [`submit`](Self::submit). All methods of the client work
    /// in this way.
    ///
    /// [`Builder::max_outstanding`](super::Builder::max_outstanding) and
    /// [`Builder::max_queued_bytes`](super::Builder::max_queued_bytes) set the capacity.
    ///
    /// # Cancel safety
    /// If the future is dropped before there was capacity, nothing is sent, and the caller loses its place in the queue.
    ///
    /// # Ordering
    /// Callers get capacity in the order in which they started to wait. Requests of `submit` go ahead of all waiting
    /// callers.
    pub async fn submit_with_backpressure<const N: usize>(
        self,
        requests: [Request; N],
    ) -> [PendingReply; N] {
        let bytes = requests.iter().map(request_bytes).sum();
        let submit = |core: &mut Core, now: Instant, options: RequestOptions| {
            requests.map(|request| core.submit(self.within, now, request, options))
        };
        self.client.when_capacity(bytes, submit).await
    }

    /// As [`submit_with_backpressure`](Self::submit_with_backpressure), for a list of requests.
    ///
    /// # Cancel safety
    /// As [`submit_with_backpressure`](Self::submit_with_backpressure).
    #[must_use = "the replies say whether the requests succeeded"]
    pub async fn submit_all_with_backpressure(self, requests: Vec<Request>) -> Vec<PendingReply> {
        let bytes = requests.iter().map(request_bytes).sum();
        let submit = |core: &mut Core, now: Instant, options: RequestOptions| {
            let submit = |request| core.submit(self.within, now, request, options);
            requests.into_iter().map(submit).collect()
        };
        self.client.when_capacity(bytes, submit).await
    }

    /// An empty group of watches, whose events come in the order in which the server sent them.
    #[must_use]
    pub fn watch_group(self) -> WatchGroup {
        WatchGroup::new(self.client.shared.clone())
    }

    /// Runs a future in the client's own task, until the future or the client ends.
    ///
    /// It is for short clean-up work that must continue after its caller is gone. It also works outside a runtime, for
    /// instance in `Drop`. The future should hold a client made by [`Client::downgrade`]; otherwise the session never ends
    /// by itself.
    pub fn run_in_background(self, future: impl Future<Output = ()> + Send + 'static) {
        let mut future: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = Some(Box::pin(future));
        self.client.shared.act(|core| {
            if !core.machine.is_ended() {
                core.background.extend(future.take());
            }
        });
        // The machine has ended: the future is dropped here, after the lock was released.
    }

    /// Waits in the client's own task, by the client's clock. So the future needs no runtime where it is polled.
    ///
    /// It ends at once when the client has ended.
    pub fn sleep(self, duration: Duration) -> Sleep {
        Sleep::new(&self.client.shared, duration)
    }

    /// Waits for the future, but no longer than `limit`: then the result is `None`. See [`sleep`](Self::sleep).
    pub async fn timeout<F: Future>(self, limit: Duration, future: F) -> Option<F::Output> {
        let future = pin!(future);
        match select(future, self.sleep(limit)).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(((), _)) => None,
        }
    }

    /// The client's clock.
    #[must_use]
    pub fn clock(self) -> Clock {
        self.client.shared.lock().clock.clone()
    }

    /// Draws a random number.
    ///
    /// [`Builder::seed`](super::Builder::seed) makes the numbers repeatable; otherwise they differ from process to process.
    #[must_use]
    pub fn random_u64(self) -> u64 {
        self.client.shared.random.next()
    }

    /// Converts a path of this client to the server's path: adds the chroot.
    #[must_use]
    pub fn server_path(self, path: &str) -> String {
        self.client.shared.server_path(path)
    }

    /// Converts a server's path to a path of this client: removes the chroot.
    #[must_use]
    pub fn client_path(self, path: String) -> String {
        self.client.shared.client_path(path)
    }
}
