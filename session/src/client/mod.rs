//! The client: a handle on a session machine, and the task that drives the machine over TCP.
//!
//! | file or folder | what |
//! |---|---|
//! | `builder` | settings, and the first connection |
//! | `operations/` | one method for each operation of ZooKeeper |
//! | `watches/` | reads that leave a watch, persistent watches, and the watchers that receive their events |
//! | `raw` | what recipes need beyond these methods |
//! | `chroot` | the node below which the paths of a handle lie |
//! | `capacity` | waiting for request capacity; the deadline of a request |
//! | `capacity_queue` | the queue of callers that wait for request capacity |
//! | `shared` | the machine behind a lock; handles, watchers and the driver share it |
//! | `hand_over` | leaving a session to another process |
//! | `driver` | what moves bytes and time between the machine and the socket |
//! | `task`, `own_thread` | the driver as a task of tokio; a thread and runtime for it alone |
//! | `sync` | waiting for another task: a value, a change, the first of two futures |
//! | `net/` | byte streams to servers: TCP, frames |
//! | `clock` | the only place that reads a clock |
//! | `timers`, `sleep` | timers that fire in the client's task; the future that waits for one |
//! | `random` | the only place that draws random numbers |
//!
//! Not here: decisions about the session (`machine`), errors (`error`), the list of servers
//! (`connect_string`).

mod builder;
mod capacity;
mod capacity_queue;
mod chroot;
mod clock;
mod driver;
mod hand_over;
mod net;
mod operations;
mod own_thread;
mod random;
mod raw;
mod shared;
mod sleep;
pub mod sync;
mod task;
#[cfg(all(test, shuttle))]
mod tests {
    mod schedules;
}
mod timers;
mod watches;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use lockkeeper_proto::{OpCode, Response, SessionId, path};

pub use builder::Builder;
pub use clock::Clock;
pub use net::transport::{Connector, Transport};
pub use operations::{
    multi_read::{Read, ReadResult},
    reply::{Children, Created, Identity, NodeAcl, NodeData},
    transaction::{OpResult, Transaction},
};
pub use raw::{AsRaw, LeaseKeeper, Raw};
pub use shared::PendingReply;
pub use sleep::Sleep;
pub use watches::{
    event_queue::{Missed, WatchNotice},
    group::{GroupEvent, WatchGroup},
    one_shot::Watcher,
    persistent::PersistentWatcher,
};

use crate::{ConnectStringError, Error, Lost, Metrics, Peer, Snapshot, State, machine::Encoded};
use chroot::Chroot;
use own_thread::OwnThread;
use shared::Shared;

/// A ZooKeeper client: sends requests and watches nodes in one session.
///
/// A clone is cheap. All clones share one session, and the client sends their requests in the order
/// in which they were made. When the last clone is dropped, the client closes the session, and the
/// servers delete the session's ephemeral nodes.
///
/// # Connection loss
/// The client reconnects by itself, to another server if there are several. It keeps its session
/// and its watches. Requests that were sent and not answered fail with
/// [`ConnectionLost`](crate::ErrorKind::ConnectionLost); [`Error::effect`] says whether such a
/// request may have been applied. The client never repeats a request on its own. Requests made
/// while there is no connection wait for one, at most for the session timeout.
///
/// # The runtime
/// The client is one task. It runs on the present tokio runtime, and on a thread of its own where
/// there is none, or where [`Builder::own_thread`] asks for it: a runtime that is blocked for
/// longer than the session timeout then costs no lock. All futures, those of locks included, may be
/// polled anywhere: on another executor, or by a thread that has no runtime
/// (`futures::executor::block_on`). Their timers run in the client's task.
///
/// When the last handle of a client on a thread is dropped, the drop waits until the session is
/// closed, at most a second, so that `main` may return. When a runtime ends, its client sends what
/// waits and closes its session, without waiting: as far as the socket takes it. So the locks of a
/// program that returns or panics are free at once. After a `SIGKILL`, or `std::process::exit`, the
/// servers keep them for the session timeout.
///
/// # Limits
/// A method waits for request capacity while too many requests are pending, see
/// [`Builder::max_outstanding`] and [`Builder::max_queued_bytes`]. Callers get capacity in the
/// order of their calls. [`with_deadline`](Self::with_deadline) limits the whole time that a
/// request waits.
///
/// # Errors
/// Every request may fail with these errors, besides those that its method lists:
/// - [`ConnectionLost`](crate::ErrorKind::ConnectionLost),
///   [`Unreachable`](crate::ErrorKind::Unreachable): the connection was lost, or there was none;
/// - [`DeadlineExceeded`](crate::ErrorKind::DeadlineExceeded): the caller's deadline has passed;
/// - [`SessionExpired`](crate::ErrorKind::SessionExpired),
///   [`AuthFailed`](crate::ErrorKind::AuthFailed), [`Closed`](crate::ErrorKind::Closed): the
///   session or the client has ended;
/// - [`BadPath`](crate::ErrorKind::BadPath), [`TooLarge`](crate::ErrorKind::TooLarge): the client
///   refused the request before it was sent;
/// - [`ReplyTooLarge`](crate::ErrorKind::ReplyTooLarge),
///   [`Malformed`](crate::ErrorKind::Malformed): the client could not read the reply;
/// - [`Unsupported`](crate::ErrorKind::Unsupported): the server does not support the operation.
///
/// # Cancel safety
/// The client sends nothing before the future of a method is first polled. Dropping the future
/// after that gives up the reply, not the request.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    /// `None` in clones that do not keep the session open.
    _handle: Option<Arc<Handle>>,
    /// `None` if there is nothing to say, as for most handles.
    manner: Option<Arc<Manner>>,
}

/// How a handle makes its requests.
#[derive(Clone, Default)]
struct Manner {
    deadline: Option<Duration>,
    /// Told of each request: see [`Raw::observed`].
    observer: Option<Arc<dyn Fn(OpCode) + Send + Sync>>,
    /// The node below which all its paths lie.
    chroot: Chroot,
}

/// Closes the session when the last clone of the client is dropped.
struct Handle {
    shared: Arc<Shared>,
    thread: Option<OwnThread>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close();
        if let Some(thread) = self.thread.take() {
            thread.block_until_end();
        }
    }
}

/// Until when the session cannot have ended. Returned by [`Client::lease`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// The session.
    pub session_id: SessionId,
    /// The session's state.
    pub state: State,
    /// The end of the lease: before this instant no server can have ended the session.
    ///
    /// `None` without a session, and once the client is being closed. The instant is on the clock
    /// of [`Instant::now`], or on the clock that [`Builder::clock`] set, see
    /// [`Client::now`].
    ///
    /// [`LeasePolicy`](crate::LeasePolicy) has the assumptions.
    pub valid_until: Option<Instant>,
    /// Whether `valid_until` is in the future.
    ///
    /// The comparison uses a clock that also counts the time for which the computer slept, or may
    /// have slept since the lease was proved, see [`Clock::system`].
    pub is_valid: bool,
}

impl Client {
    /// Connects to a ZooKeeper ensemble with the default settings.
    ///
    /// `servers` lists the servers as `host:port,host:port/chroot`. [`builder`](Self::builder) sets
    /// anything else.
    ///
    /// # Errors
    /// See [`Builder::connect`]. [`BadConnectString`](crate::ErrorKind::BadConnectString) when the
    /// list of servers cannot be parsed.
    pub async fn connect(servers: &str) -> Result<Self, Error> {
        Self::builder(servers)?.connect().await
    }

    /// Starts the settings of a client for these servers: `host:port,host:port/chroot`.
    ///
    /// # Errors
    /// [`ConnectStringError`] says which part of the list is wrong.
    pub fn builder(servers: &str) -> Result<Builder, ConnectStringError> {
        Ok(Builder::new(&servers.parse()?))
    }

    fn start(shared: Arc<Shared>, thread: Option<OwnThread>) -> Self {
        let handle = Handle {
            shared: shared.clone(),
            thread,
        };
        Self {
            shared,
            _handle: Some(Arc::new(handle)),
            manner: None,
        }
    }

    /// Returns what the client knows about the session now: its state, its id, its server.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.shared.snapshot.look(Snapshot::clone)
    }

    /// Why there is no connection: the last failure of each server since one last worked, oldest
    /// first; at most the newest sixteen.
    #[must_use]
    pub fn failures(&self) -> Arc<[Lost]> {
        self.shared.lock().machine.link().failures()
    }

    /// Follows the state of the session.
    ///
    /// A slow receiver sees the newest snapshot, not every one. Compare `session_id` to notice an
    /// expiry, and `connections` to notice a reconnect.
    #[must_use]
    pub fn snapshots(&self) -> sync::changes::Changes<Snapshot> {
        self.shared.snapshot.changes()
    }

    /// Returns the current time on the clock of [`Lease::valid_until`].
    ///
    /// It is [`Instant::now`], unless [`Builder::clock`] set another clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.shared.lock().clock.source.running()
    }

    /// Whether the client is closing or has ended.
    ///
    /// It closes by [`close`](Self::close), or when its last handle is dropped.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.lock().is_closing()
    }

    /// Returns what the client has done so far and what is pending now. It copies some numbers and
    /// asks no server.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let core = self.shared.lock();
        let (machine, waiting) = (core.machine.metrics(), core.capacity_queue.len());
        drop(core);
        Metrics { waiting, ..machine }
    }

    /// Closes the session. All clones of the client end with it.
    ///
    /// Holders of locks are told first: before anything is sent, the [`lease`](Self::lease) is not
    /// valid any more.
    ///
    /// The client first sends the requests that are pending, then asks the server to close the
    /// session. The future waits until the server has confirmed this or the connection is lost. The
    /// server deletes the session's ephemeral nodes immediately.
    ///
    /// # Cancel safety
    /// Once the future was polled, the session ends even if the future is dropped.
    pub async fn close(self) {
        let mut snapshots = self.snapshots();
        self.shared.close();
        let ended = |snapshot: &Snapshot| snapshot.state.is_final();
        let _ = snapshots.wait_for(ended).await;
    }

    /// Returns the lease of the session: until when no server can have ended it.
    ///
    /// It is a local computation and asks no server. Under
    /// [`LeasePolicy::Proved`](crate::LeasePolicy::Proved) the lease ends when the client has
    /// written nothing for a while, unless it holds a lock or is the next to get one.
    #[must_use]
    pub fn lease(&self) -> Lease {
        let mut core = self.shared.lock();
        let time = core.clock.look();
        // Other contenders may get the locks of this session as soon as it is given up.
        let deadline = (!core.is_closing()).then(|| core.machine.lease_deadline());
        let doubt = core.lease_doubt();
        let deadline = deadline.flatten().and_then(|it| it.checked_sub(doubt));
        Lease {
            session_id: core.machine.link().session_id(),
            state: core.machine.link().state(),
            valid_until: deadline.map(|deadline| time.running(deadline)),
            is_valid: deadline.is_some_and(|deadline| time.now < deadline),
        }
    }

    /// A handle of the session, with requests in another manner.
    fn in_manner(&self, set: impl FnOnce(&mut Manner)) -> Self {
        let mut client = self.clone();
        set(Arc::make_mut(client.manner.get_or_insert_default()));
        client
    }

    fn deadline(&self) -> Option<Duration> {
        self.manner.as_ref()?.deadline
    }

    /// This handle makes a request with this operation.
    fn makes(&self, op: OpCode) {
        let observer = self.manner.as_ref().and_then(|it| it.observer.as_ref());
        if let Some(observer) = observer {
            observer(op);
        }
    }

    /// This handle makes these requests. Returns how many bytes they have.
    fn makes_all<'a>(&self, requests: impl IntoIterator<Item = &'a Encoded>) -> usize {
        let made = requests.into_iter().inspect(|it| self.makes(it.op()));
        made.map(Encoded::len).sum()
    }

    /// The server and the session of a reply, if no other connection was made since then.
    fn peer_if_connected_since(&self, connections: u64) -> Peer {
        let core = self.shared.lock();
        if core.machine.link().connections() == connections {
            core.machine.link().peer()
        } else {
            Peer::default()
        }
    }

    /// Checks a path and converts it to the server's path.
    fn resolve(&self, path: &str) -> Result<String, Error> {
        path::check(path)?;
        Ok(self.chroot().server_path(path))
    }

    /// Checks a path and converts it, for a request that needs no copy of the path.
    fn resolve_in_pieces<'a>(&'a self, path: &'a str) -> Result<[&'a str; 2], Error> {
        path::check(path)?;
        Ok(self.chroot().in_pieces(path))
    }

    /// Sends one request and waits for its reply. The error names the node.
    fn ask(
        &self,
        node: &str,
        request: impl Into<Encoded>,
    ) -> impl Future<Output = Result<Response, Error>> + Send {
        let submitted = self.raw().submit_one(request.into());
        async move {
            let reply = submitted.await;
            reply.await.map_err(|error| error.on(node))
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshot = self.snapshot();
        f.debug_struct("Client")
            .field("session_id", &snapshot.session_id)
            .field("state", &snapshot.state)
            .finish_non_exhaustive()
    }
}
