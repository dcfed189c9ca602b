//! What recipes need beyond the methods of a client: single requests, watches in order, a lease that
//! is kept, work in the client's task.
//!
//! Not here: capacity (`capacity`), the machine behind its lock (`shared`).

use std::{
    any::Any,
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use lockkeeper_proto::{Acls, OpCode, SessionId, WatcherType, Zxid};

use super::{
    Client, Clock, PendingReply,
    shared::{Core, Shared},
    sleep::Sleep,
    sync::{BoxFuture, select::select},
    watches::group::WatchGroup,
};
use crate::{
    Error, Slow, Snapshot,
    machine::{Encoded, LeaseToken, RequestOptions},
};

/// The layer below the methods of a [`Client`]. Made by [`AsRaw::raw`].
///
/// The caller keeps these rules:
///
/// - The paths are those of the server, see [`server_path`](Self::server_path).
/// - A request must not leave a watch: its event would reach no watcher.
/// - Requests that only the client itself may send (pings, authentication, session control) break
///   the session.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    pub(super) client: &'a Client,
    pub(super) within: Option<SessionId>,
}

/// Gives the layer below the methods of a client.
pub trait AsRaw {
    /// The layer below the methods of this client, for recipes.
    #[must_use]
    fn raw(&self) -> Raw<'_>;
}

impl AsRaw for Client {
    fn raw(&self) -> Raw<'_> {
        Raw {
            client: self,
            within: None,
        }
    }
}

impl Raw<'_> {
    /// The layer with requests that are sent within this session only.
    ///
    /// Once that session has ended, the client never sends them: the replies are
    /// [`SessionExpired`](crate::ErrorKind::SessionExpired) with
    /// [`Effect::NotApplied`](crate::Effect::NotApplied). Use it for requests that do harm in
    /// another session, for instance to delete an ephemeral node whose name another client may use.
    #[must_use]
    pub fn within(self, session: SessionId) -> Self {
        Self {
            within: Some(session),
            ..self
        }
    }

    /// Submits several requests together, immediately and in this order. The replies come in the
    /// same order.
    ///
    /// It does not wait for request capacity, so that it works in a `Drop`. When the capacity is
    /// used up, it takes from a reserve of the same size. When the reserve is used up too, the
    /// request fails with [`TooManyRequests`](crate::ErrorKind::TooManyRequests). If you can wait,
    /// call [`submit_with_backpressure`](Self::submit_with_backpressure).
    pub fn submit<const N: usize>(self, requests: [Encoded; N]) -> [PendingReply; N] {
        self.client.makes_all(&requests);
        self.client.shared.act(|core| {
            let (now, options) = core.options(self.client.deadline());
            requests.map(|request| core.submit(self.within, now, request, options))
        })
    }

    /// Waits for request capacity, then submits the requests like [`submit`](Self::submit). All
    /// methods of the client work in this way.
    ///
    /// [`Builder::max_outstanding`](super::Builder::max_outstanding) and
    /// [`Builder::max_queued_bytes`](super::Builder::max_queued_bytes) set the capacity.
    ///
    /// The method submits the requests if there is capacity; the future waits for it otherwise.
    ///
    /// # Cancel safety
    /// If the future is dropped before there was capacity, nothing is sent, and the caller loses
    /// its place in the queue.
    ///
    /// # Ordering
    /// Callers get capacity in the order in which they started to wait. Requests of `submit` go
    /// ahead of all waiting callers. No other request comes between the requests of one call.
    pub fn submit_with_backpressure<const N: usize>(
        self,
        requests: [Encoded; N],
    ) -> impl Future<Output = [PendingReply; N]> + Send {
        let bytes = self.client.makes_all(&requests);
        self.client.when_capacity(bytes, move |core, now, options| {
            requests.map(|request| core.submit(self.within, now, request, options))
        })
    }

    /// Submits one request as [`submit_with_backpressure`](Self::submit_with_backpressure) does:
    /// the method is compiled once, and not for each program.
    #[doc(hidden)]
    pub fn submit_one(self, request: Encoded) -> impl Future<Output = PendingReply> + Send {
        let bytes = self.client.makes_all([&request]);
        self.client.when_capacity(bytes, move |core, now, options| {
            core.submit(self.within, now, request, options)
        })
    }

    /// Submits as [`submit_with_backpressure`](Self::submit_with_backpressure) does, if
    /// `is_allowed` says so when there is capacity.
    ///
    /// It is asked right before the requests are queued, under the lock of the client, so it must
    /// not use the client. A request that another thread queues after it has changed the answer is
    /// behind these requests, or these are not sent.
    #[doc(hidden)]
    pub async fn submit_if<const N: usize>(
        self,
        requests: [Encoded; N],
        is_allowed: impl FnOnce() -> bool + Send + Unpin,
    ) -> Option<[PendingReply; N]> {
        let bytes = self.client.makes_all(&requests);
        let submit = move |core: &mut Core, now: Instant, options: RequestOptions| {
            let queued = || requests.map(|it| core.submit(self.within, now, it, options));
            is_allowed().then(queued)
        };
        self.client.when_capacity(bytes, submit).await
    }

    /// Submits a list of requests as [`submit_with_backpressure`](Self::submit_with_backpressure)
    /// does: each is submitted as soon as there is capacity for it. A deadline of the handle counts
    /// for each.
    ///
    /// # Cancel safety
    /// If the future is dropped, the requests for which there was no capacity yet are not sent.
    ///
    /// # Ordering
    /// The servers handle the requests in the order of the list. Between two of them there may be
    /// requests of other callers.
    #[must_use = "the replies say whether the requests succeeded"]
    pub fn submit_all_with_backpressure<'a>(
        self,
        requests: Vec<Encoded>,
    ) -> BoxFuture<'a, Vec<PendingReply>>
    where
        Self: 'a,
    {
        Box::pin(async move {
            let mut replies = Vec::with_capacity(requests.len());
            for request in requests {
                replies.push(self.submit_one(request).await);
            }
            replies
        })
    }

    /// What the caller keeps for this client: the value of this type. It is made at the first call,
    /// and lives as long as the client. All handles of the client share it.
    #[must_use]
    pub fn extension<T: Any + Default + Send + Sync>(self) -> Arc<T> {
        self.client.shared.extension()
    }

    /// The number of the connection on which a request goes out that is submitted now: the present
    /// one or, without a connection, the next one. A request of the caller that was lost with its
    /// connection went out on an earlier one.
    #[must_use]
    pub fn next_connection(self) -> u64 {
        let core = self.client.shared.lock();
        let is_next = !core.machine.link().is_connected();
        core.machine.link().snapshot().connections + u64::from(is_next)
    }

    /// Whether servers answer too slowly to prove a lease with this session timeout.
    #[must_use]
    pub fn slow(self) -> Option<Slow> {
        self.client.shared.lock().machine.slow()
    }

    /// For how long servers have throttled each write that they have answered, those that prove a
    /// lease among them. `None` if they have taken the last one.
    #[must_use]
    pub fn throttled(self) -> Option<Duration> {
        let mut core = self.client.shared.lock();
        let now = core.clock.now();
        core.machine.link().throttled(now)
    }

    /// Why there is no connection, as the error of a request that has waited since it was lost;
    /// `None` while there is one.
    #[must_use]
    pub fn outage(self) -> Option<Error> {
        let mut core = self.client.shared.lock();
        let now = core.clock.now();
        core.machine.link().outage(now)
    }

    /// Looks at what [`Client::snapshot`] would copy.
    pub fn look<R>(self, look: impl FnOnce(&Snapshot) -> R) -> R {
        self.client.shared.snapshot.look(look)
    }

    /// Keeps the lease of the session valid for as long as the returned value exists and servers
    /// answer, for the holder of this node of a directory, as the server names them.
    ///
    /// Under [`LeasePolicy::Proved`](crate::LeasePolicy::Proved) the client sends a `sync` and a
    /// transaction four times in a session timeout. The transaction changes nothing; it checks that
    /// the nodes are there.
    #[must_use]
    pub fn keep_lease(self, directory: Arc<str>, name: Arc<str>) -> LeaseKeeper {
        let shared = &self.client.shared;
        let mut core = shared.lock();
        // The client's task is awake before its next ping. Only a scarce lease needs it earlier.
        let (token, is_scarce) = core.machine.keep_lease(directory, name);
        if is_scarce {
            shared.acted(core);
        }
        LeaseKeeper {
            shared: shared.clone(),
            token,
        }
    }

    /// Whether the lease of this session is good for a grant: a quarter of the session timeout is
    /// left.
    #[must_use]
    pub fn is_lease_good(self, session_id: SessionId) -> bool {
        (self.client.shared.lock()).is_lease_good(session_id, None)
    }

    /// The newest transaction that the servers have named in this session.
    #[must_use]
    pub fn newest_zxid(self) -> Zxid {
        self.client.shared.lock().machine.link().newest_zxid()
    }

    /// Moves to another server, if there is one, and does not come back for a minute, unless all
    /// others fail. Requests under way fail as with a lost connection. For a layer that has seen the
    /// present server show what its leader does not have.
    pub fn leave_server(self) {
        self.client
            .shared
            .act(|core| core.machine.leave_server(core.clock.now()));
    }

    /// Returns a future that ends at the next change of the session's
    /// [`Snapshot`](crate::Snapshot), counted from this call.
    ///
    /// These futures end in the order in which they were first polled.
    #[must_use = "futures do nothing unless polled"]
    pub fn snapshot_changed(&self) -> impl Future<Output = ()> + Send {
        self.client.shared.snapshot.changed().notified()
    }

    /// Returns a clone of the client that does not keep the session open. Use it for work that must
    /// not outlive the other handles.
    #[must_use]
    pub fn downgrade(self) -> Client {
        Client {
            shared: self.client.shared.clone(),
            _handle: None,
            ..self.client.clone()
        }
    }

    /// Returns a clone of the client that tells `observer` the operation of each of its requests,
    /// when the request is made; of those that the client makes by itself only `setWatches`, for
    /// each [`WatchGroup::watch`].
    #[must_use]
    pub fn observed(self, observer: impl Fn(OpCode) + Send + Sync + 'static) -> Client {
        let observer = Arc::new(observer);
        self.client.in_manner(|it| it.observer = Some(observer))
    }

    /// Whether both handles are clones of one client and so always share a session.
    #[must_use]
    pub fn is_same(self, other: &Client) -> bool {
        Arc::ptr_eq(&self.client.shared, &other.shared)
    }

    /// An empty group of watches, whose events come in the order in which the server sent them.
    #[must_use]
    pub fn watch_group(self) -> WatchGroup {
        WatchGroup::new(self.downgrade())
    }

    /// The watches that the server should have: paths and types, in order. For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn wanted_watches(self) -> Vec<(String, WatcherType)> {
        self.client.shared.lock().machine.wanted_watches()
    }

    /// Runs a future in the client's own task, until the future or the client ends.
    ///
    /// It is for short clean-up work that must continue after its caller is gone. It also works
    /// outside a runtime, for instance in `Drop`. The future should hold a client made by
    /// [`downgrade`](Self::downgrade); otherwise the session never ends by itself.
    pub fn run_in_background(self, future: impl Future<Output = ()> + Send + 'static) {
        let mut future: Option<BoxFuture<'static, ()>> = Some(Box::pin(future));
        self.client.shared.act(|core| {
            if !core.machine.link().is_ended() {
                core.background.extend(future.take());
            }
        });
        // The machine has ended: the future is dropped here, after the lock was released.
    }

    /// Waits in the client's own task, by the client's clock. So the future needs no runtime where
    /// it is polled.
    ///
    /// It ends at once when the client has ended.
    pub fn sleep(self, duration: Duration) -> Sleep {
        Sleep::new(&self.client.shared, duration)
    }

    /// The client's clock.
    #[must_use]
    pub fn clock(self) -> Clock {
        self.client.shared.lock().clock.source.clone()
    }

    /// Draws a random number.
    ///
    /// [`Builder::seed`](super::Builder::seed) makes the numbers repeatable; otherwise they differ
    /// from process to process.
    #[must_use]
    pub fn random_u64(self) -> u64 {
        self.client.shared.random.next()
    }

    /// The ACL of nodes that are created without one of their own.
    #[must_use]
    pub fn default_acl(self) -> Acls {
        self.client.shared.default_acl.clone()
    }

    /// Converts a path of this client to the server's path: adds the chroot.
    #[must_use]
    pub fn server_path(self, path: &str) -> String {
        self.client.chroot().server_path(path)
    }

    /// Converts a server's path to a path of this client: removes the chroot.
    #[must_use]
    pub fn client_path(self, path: String) -> String {
        self.client.chroot().client_path(path)
    }
}

impl Core {
    /// Whether the lease of this session is good for a grant to a contender that waits for it since
    /// `since`, or from now on.
    fn is_lease_good(&mut self, session_id: SessionId, since: Option<Instant>) -> bool {
        let is_own = self.machine.link().session_id() == session_id && !self.is_closing();
        let now = self.clock.now();
        // The lease ends earlier by the doubt: all else is later.
        let doubt = self.lease_doubt();
        let since = since.unwrap_or(now);
        is_own && (self.machine).is_lease_good(now + doubt, since + doubt)
    }

    /// By how much the lease ends earlier than the machine says, which knows of no suspected sleep.
    /// As of the last reading of the clock.
    pub(crate) fn lease_doubt(&mut self) -> Duration {
        if !self.clock.suspects() {
            return Duration::ZERO;
        }
        let until = self.machine.lease_deadline();
        let length = self.machine.link().timing().lease;
        let proved = until.and_then(|until| until.checked_sub(length));
        proved.map_or(Duration::ZERO, |proved| self.clock.suspected(proved))
    }
}

/// Keeps the lease valid while it exists. Made by [`Raw::keep_lease`].
#[derive(Debug)]
pub struct LeaseKeeper {
    shared: Arc<Shared>,
    token: LeaseToken,
}

impl LeaseKeeper {
    /// Whether a proof of the lease has found that the node is gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.token.is_gone()
    }

    /// Whether the node [is gone](Self::is_gone), for somebody who does not keep the lease.
    #[doc(hidden)]
    pub fn gone_sign(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        self.token.gone_sign()
    }

    /// Waits until the lease of this session is good for a grant, or the session is over. Returns
    /// whether the lease is good.
    ///
    /// Slow servers may not leave a quarter of the session timeout. After a quarter of waiting, a
    /// lease is good that reaches to half a session timeout after the call.
    ///
    /// # Cancel safety
    /// The future may be dropped, and the method called again.
    pub async fn renewed(&self, session_id: SessionId) -> bool {
        let since = self.shared.lock().clock.now();
        loop {
            let changed = self.shared.snapshot.changed().notified();
            let renewed = self.shared.lease_renewed.notified();
            let is_over = !(self.shared.snapshot).look(|now| now.is_session(session_id));
            let (is_closing, is_good) = self.shared.act(|core| {
                let is_good = core.is_lease_good(session_id, Some(since));
                if !is_good {
                    core.machine.await_lease(since);
                }
                (core.is_closing(), is_good)
            });
            if is_over || is_closing || is_good {
                return is_good;
            }
            let _either = select(renewed, changed).await;
        }
    }
}
