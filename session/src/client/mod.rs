//! The client: a handle on a session machine that a task drives over TCP.
//!
//! | file | what |
//! |---|---|
//! | `builder` | settings, and the first connection |
//! | `nodes` | one method for each operation on a node's data |
//! | `lists` | children, descendants, the session's ephemeral nodes |
//! | `rights` | access control lists, identities |
//! | `ensemble` | `sync`, the configuration of the ensemble |
//! | `transaction`, `read_transaction` | several operations at once, all or none; several reads |
//! | `watching`, `lasting` | reads that leave a watch; persistent watches, and taking any back |
//! | `persistent`, `queue` | what listens to a persistent watch, and what waits for it |
//! | `watcher` | what waits for a watch |
//! | `shared` | the machine behind a lock, and who waits for what |
//! | `room`, `line` | waiting for room, and the options of requests; who comes first |
//! | `driver` | the task between the machine and the socket; the only `spawn` |
//! | `dial` | TCP connections: names and their addresses |
//! | `tls` | encryption of them (feature `tls`) |
//! | `probe` | asking a server whether it takes writes |
//! | `transport` | byte streams and frames |
//! | `clock` | the only place that reads a clock |
//! | `random` | the only place that draws random numbers |

mod builder;
mod capacity;
mod capacity_queue;
mod clock;
mod driver;
mod net;
mod operations;
mod random;
mod shared;
mod watches;

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};

use lockkeeper_proto::{OpCode, Request, Response, SessionId, path};
use tokio::sync::watch;

pub use builder::Builder;
pub use capacity::WhenDisconnected;
pub use clock::Clock;
#[cfg(feature = "tls")]
pub use net::tls;
pub use net::transport::{Connector, Transport};
pub use operations::{
    read_transaction::{ReadResult, ReadTransaction},
    transaction::{OpResult, Transaction},
};
pub use watches::{
    event_queue::{Missed, WatchNotice},
    persistent_watcher::PersistentWatcher,
    watcher::{WatchedEvent, Watcher},
};

use crate::{ConnectStringError, Error, Metrics, Peer, Snapshot, State};
use capacity::RequestPolicy;
use shared::Shared;

/// A ZooKeeper client: one session, over whichever server takes it.
///
/// Cheap to clone; all clones are one session, and requests of all of them are sent in the order in which they were
/// made. When the last clone is dropped the session is closed, and its ephemeral nodes go with it.
///
/// # Connection loss
/// A client reconnects by itself, to another server where there are several, and keeps its session and its watches.
/// Requests that were under way fail with [`Error::ConnectionLost`]; ask [`Error::effect`] whether they may have been
/// applied. Nothing is repeated silently. Requests made meanwhile wait, at most for the session timeout, or fail at once
/// where [`when_disconnected`](Self::when_disconnected) says so.
///
/// # Limits
/// A method waits while too much waits already ([`Builder::max_outstanding`], [`Builder::max_queued_bytes`]), in the order of the
/// calls. [`with_deadline`](Self::with_deadline) bounds all waiting together.
///
/// # Cancel safety
/// Nothing is sent before a future is first polled. A future dropped after that gives up the reply, not the request.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    /// `None` in clones that do not keep the session open.
    handle: Option<Arc<Handle>>,
    /// How this handle makes its requests.
    policy: RequestPolicy,
}

/// Closes the session when the last clone of the client goes.
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.act(shared::Core::close);
    }
}

/// How long a session is sure to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session_id: SessionId,
    /// The session's state.
    pub state: State,
    /// Until when no server can have expired the session, on the clock of [`Instant::now`] (or the one of
    /// [`Client::now`], should the client have been given another); `None` without a session.
    ///
    /// See [`Machine::lease_deadline`](crate::machine::Machine::lease_deadline) for what it rests on.
    pub valid_until: Option<Instant>,
    /// Whether `valid_until` is still ahead, on a clock that counts the time the machine slept.
    pub is_valid: bool,
}

impl Client {
    /// Connects with the default settings: `host:port,host:port/chroot`.
    ///
    /// # Errors
    /// See [`Builder::connect`]; a list of servers that cannot be read is [`ConnectError::Servers`].
    pub async fn connect(servers: &str) -> Result<Self, ConnectError> {
        Ok(Self::builder(servers)?.connect().await?)
    }

    /// Settings for a client of these servers: `host:port,host:port/chroot`.
    ///
    /// # Errors
    /// [`ConnectStringError`], naming what is wrong.
    pub fn builder(servers: &str) -> Result<Builder, ConnectStringError> {
        Ok(Builder::new(&servers.parse()?))
    }

    fn start(shared: Arc<Shared>, policy: RequestPolicy) -> Self {
        let handle = Some(Arc::new(Handle(shared.clone())));
        Self {
            shared,
            handle,
            policy,
        }
    }

    /// What is known of the session now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.shared.snapshot.borrow().clone()
    }

    /// Follows the state of the session. A receiver that is slow sees the newest state, not every one: compare
    /// `session_id` to notice an expiry, and `connections` to notice a reconnect.
    #[must_use]
    pub fn snapshots(&self) -> watch::Receiver<Snapshot> {
        self.shared.snapshot.subscribe()
    }

    /// How long the session is sure to live. Local and cheap: asks no server.
    #[must_use]
    pub fn lease(&self) -> Lease {
        let core = self.shared.lock();
        let deadline = core.machine.lease_deadline();
        let (session_id, state) = (core.machine.session_id(), core.machine.state());
        let clock = core.clock.clone();
        drop(core);
        let time = clock.look();
        Lease {
            session_id,
            state,
            valid_until: deadline.map(|deadline| time.running(deadline)),
            is_valid: deadline.is_some_and(|deadline| time.now < deadline),
        }
    }

    /// The time on the clock of [`Lease::valid_until`]: [`Instant::now`], unless [`Builder::clock`] said otherwise.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.shared.lock().clock.running()
    }

    /// A random number: one that [`Builder::seed`] repeats, or one that differs from process to process.
    #[must_use]
    pub fn random_u64(&self) -> u64 {
        self.shared.random.next()
    }

    /// Whether the client has ended, or was told to: by [`close`](Self::close) or the drop of its last handle.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.lock().machine.is_closing()
    }

    /// What the client has done so far, and what it is doing now. Local and cheap: a copy of some numbers.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let core = self.shared.lock();
        let (machine, waiting) = (core.machine.metrics(), core.capacity_queue.len());
        drop(core);
        Metrics { waiting, ..machine }
    }

    /// How many requests wait to be sent or answered.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.shared.lock().machine.outstanding()
    }

    /// How many watchers of this client listen: one-shot ones that have not fired, and persistent ones.
    #[must_use]
    pub fn watch_count(&self) -> usize {
        self.shared.lock().machine.watch_count()
    }

    /// Ends the session: sends what was asked for, says goodbye and waits until the server has confirmed it or the
    /// connection is gone. The session's ephemeral nodes go at once. Other clones of the client have ended with it.
    ///
    /// # Cancel safety
    /// Once polled, the session ends whether it is awaited or not.
    pub async fn close(self) {
        let mut snapshots = self.snapshots();
        self.shared.act(shared::Core::close);
        let ended = |snapshot: &Snapshot| snapshot.state.is_final();
        let _ = snapshots.wait_for(ended).await;
    }

    /// Goes on with the next server of the list, in the same session and with all watches: before the present one is taken
    /// down for maintenance, or to spread clients again after it was.
    ///
    /// No request fails by it, but of those that are told not to wait for a connection
    /// ([`when_disconnected`](Self::when_disconnected)): those that were sent are answered first, and later ones wait. It
    /// returns at once; the move is done when [`Snapshot::connections`] has grown. With one server in the list it is a
    /// reconnect, which begins with the next one of its addresses. Without a connection it does nothing: the next server is
    /// being sought anyhow.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// let before = client.snapshot();
    /// client.move_to_next_server();
    /// let moved = |now: &lockkeeper_session::Snapshot| now.connections > before.connections;
    /// client.snapshots().wait_for(moved).await?;
    /// assert_eq!(client.snapshot().session_id, before.session_id);
    /// # Ok(()) }
    /// ```
    pub fn move_to_next_server(&self) {
        self.shared.act(|core| {
            let now = core.clock.now();
            core.machine.move_to_next_server(now);
        });
    }

    /// A clone that does not keep the session open, for work that must not outlive the others.
    #[must_use]
    pub fn downgrade(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            handle: None,
            policy: self.policy,
        }
    }

    /// Whether this clone keeps the session open; see [`downgrade`](Self::downgrade).
    #[must_use]
    pub fn keeps_session(&self) -> bool {
        self.handle.is_some()
    }

    /// Whether both are clones of one client, and so always of one session.
    #[must_use]
    pub fn is_same(one: &Self, other: &Self) -> bool {
        Arc::ptr_eq(&one.shared, &other.shared)
    }

    /// Runs a future beside the connection, in the client's own task, until it ends or the client does.
    ///
    /// For short clean-up work that must go on when its caller is gone; it works outside a runtime, for instance in
    /// `Drop`. The future should hold a [`downgrade`](Self::downgrade)d client, or the session never ends by itself.
    pub fn run_in_background(&self, future: impl Future<Output = ()> + Send + 'static) {
        let mut future: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = Some(Box::pin(future));
        self.shared.act(|core| {
            if !core.machine.is_ended() {
                core.background.extend(future.take());
            }
        });
        // What came too late is dropped here, and not under the lock.
    }

    /// Sends several requests in one piece, in this order, at once: without waiting for a first poll. The replies come
    /// in the same order.
    ///
    /// This is the layer under the methods: the paths are the server's ([`server_path`](Self::server_path)), a request
    /// must not leave a watch (its event would reach nobody), and requests that are not meant for users (pings,
    /// authentication, session control) break the session.
    /// It waits for nothing, not for room either: half of what may wait in all is kept for those who cannot wait, for
    /// instance in a `Drop`. Where that is used up, too, the request fails with [`Error::TooManyRequests`]. Whoever can
    /// wait calls [`submit_with_backpressure`](Self::submit_with_backpressure), or [`room`](Self::room) before.
    pub fn submit<const N: usize>(&self, requests: [Request; N]) -> [PendingReply; N] {
        self.shared.act(|core| {
            let now = core.clock.now();
            let options = self.policy.options(now);
            requests.map(|request| core.reply(now, request, options))
        })
    }

    /// As [`submit`](Self::submit), but within this session only: when it is not the client's any more, nothing is sent,
    /// now or later, and the replies are [`Error::SessionExpired`], not applied. For what would do harm in another session,
    /// as the delete of an ephemeral node by a name that others use.
    pub fn submit_within<const N: usize>(
        &self,
        session: SessionId,
        requests: [Request; N],
    ) -> [PendingReply; N] {
        self.shared.act(|core| {
            let now = core.clock.now();
            let options = self.policy.options(now);
            requests.map(|request| core.reply_within(session, now, request, options))
        })
    }

    /// As [`submit`](Self::submit), for any number of requests.
    #[must_use = "the replies say whether the requests succeeded"]
    pub fn submit_all(&self, requests: Vec<Request>) -> Vec<PendingReply> {
        self.shared.act(|core| {
            let now = core.clock.now();
            let options = self.policy.options(now);
            let submit = |request| core.reply(now, request, options);
            requests.into_iter().map(submit).collect()
        })
    }

    /// Watches nodes that are known to exist, all with one request, sent at once; each watcher gets one event.
    ///
    /// What is guaranteed, for each node by itself. Let the *mark* be the newest zxid that a reply of this session has told
    /// of when this method is called. The watcher's event is the first of these to come true from the moment at which the
    /// server comes to the request:
    ///
    /// - the node is not there, whether it went just now or was never there: "node deleted";
    /// - its data were set, or it was created, in a transaction behind the mark, and was not told of: "node data changed";
    /// - its data are set, or it is deleted, later on.
    ///
    /// So nothing is missed of a node as a reply of this session has shown it, if that reply came before the call: whatever
    /// has happened since is behind the mark. Of a node known from elsewhere, or from a reply that came later, a change before
    /// the mark is not told: read it then. Changes between the mark and the request may be told although the caller has seen
    /// them in the meantime.
    ///
    /// The server's part is the request with which clients restore their watches (`setWatches`); no reply is waited for, and
    /// none is needed: what is asked of the server later is ordered behind it. Without a connection the watches are left on
    /// the next one, by the same rule; they outlive reconnects, and end with the session.
    ///
    /// # Errors
    /// [`Error::BadPath`] for the first path that breaks a rule; nothing is watched then. A client that has ended answers with
    /// watchers that say so.
    ///
    /// # Cancel safety
    /// It does not wait. Dropping a watcher gives up its watch.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// use lockkeeper_proto::{CreateMode, EventType, Version};
    ///
    /// for path in ["/a", "/b"] {
    ///     client.create(path, "", CreateMode::Persistent).await?;
    /// }
    /// let watchers = client.watch_nodes(&["/a", "/b"])?;
    /// client.delete("/b", Version::ANY).await?;
    /// let [a, b] = <[_; 2]>::try_from(watchers).unwrap();
    /// assert_eq!(b.await?.event_type, EventType::NODE_DELETED);
    /// drop(a); // takes the watch on /a off the server
    /// # Ok(()) }
    /// ```
    pub fn watch_nodes(&self, paths: &[&str]) -> Result<Vec<Watcher>, Error> {
        let server_paths = paths
            .iter()
            .map(|path| self.resolve(path))
            .collect::<Result<Vec<_>, _>>()?;
        let watches = self.shared.act(|core| core.watch_nodes(server_paths));
        Ok(watches
            .into_iter()
            .map(|(id, events)| Watcher::new(self.shared.clone(), id, events))
            .collect())
    }

    /// The server's name for a path of this client: with the chroot.
    #[must_use]
    pub fn server_path(&self, path: &str) -> String {
        self.shared.server_path(path)
    }

    /// This client's name for a path of the server: without the chroot.
    #[must_use]
    pub fn client_path(&self, path: String) -> String {
        self.shared.client_path(path)
    }

    /// Of whom an answer has come, if there was no other connection since this one.
    fn peer_if_connected_since(&self, connections: u64) -> Peer {
        let core = self.shared.lock();
        if core.machine.connections() == connections {
            core.machine.peer()
        } else {
            Peer::default()
        }
    }

    /// Checks a path and gives it the server's name.
    fn resolve(&self, path: &str) -> Result<String, Error> {
        path::check(path).map_err(|problem| path::PathError::new(path, problem))?;
        Ok(self.shared.server_path(path))
    }

    /// Sends one request and waits for its reply; errors name the node.
    async fn ask(&self, node: &str, request: Request) -> Result<Response, Error> {
        let [reply] = self.submit_with_backpressure([request]).await;
        reply.await.map_err(|error| error.on(node))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshot = self.shared.snapshot.borrow();
        f.debug_struct("Client")
            .field("session_id", &snapshot.session_id)
            .field("state", &snapshot.state)
            .finish_non_exhaustive()
    }
}

/// The reply to come of a request that was sent with [`Client::submit`].
///
/// # Cancel safety
/// Dropping it gives up the reply, not the request.
#[derive(Debug)]
#[must_use = "the reply says whether the request succeeded"]
pub struct PendingReply {
    op: OpCode,
    receiver: shared::ReplyReceiver,
}

impl PendingReply {
    /// What was asked.
    #[must_use]
    pub fn op(&self) -> OpCode {
        self.op
    }
}

impl Future for PendingReply {
    type Output = Result<Response, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.receiver).poll(cx));
        Poll::Ready(answer.unwrap_or_else(|_| Err(shared::driver_gone())))
    }
}

/// Why a client did not come about.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The list of servers cannot be read.
    Servers(ConnectStringError),
    /// No server took the client.
    Session(Error),
}

impl From<ConnectStringError> for ConnectError {
    fn from(error: ConnectStringError) -> Self {
        Self::Servers(error)
    }
}

impl From<Error> for ConnectError {
    fn from(error: Error) -> Self {
        Self::Session(error)
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Servers(error) => error.fmt(f),
            Self::Session(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Servers(error) => error.source(),
            Self::Session(error) => error.source(),
        }
    }
}
