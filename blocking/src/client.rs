//! The client, its settings, and the operations on nodes.
//!
//! Not here: its background thread (`host`), watchers (`watch`), several operations in one request (`transaction`).

use std::{
    sync::Arc,
    task::{Context, Waker},
    time::{Duration, Instant},
};

use bytes::Bytes;
use lockkeeper_proto::{
    Acls, AddWatchMode, CreateMode, Stat, Version, WatcherType,
    records::{ClientInfo, Create2Response, GetAclResponse, GetChildren2Response, GetDataResponse},
};
use lockkeeper_session::{
    self as session, Clock, ConnectString, ConnectStringError, Connector, Error, Lease,
    LeasePolicy, Metrics, OnExpiry, Snapshot, WhenDisconnected, sasl,
};

use crate::{
    PersistentWatcher, ReadTransaction, Transaction, Watcher,
    host::{self, Host},
    methods::{Session, builds, gets, waits},
    wait,
};

/// A ZooKeeper client for code without async: the async [`Client`](lockkeeper_session::Client) with blocking methods.
///
/// A clone is cheap, and any thread may use it. All clones share one session, and one background thread.
///
/// # Drop
/// Dropping the last handle closes the session. The handles are the client's clones, its locks, guards, watchers, and
/// whatever else was made from it. The drop waits until the servers have closed the session and the background thread has
/// ended, for at most a second. On a thread of a tokio runtime it does not wait.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) inner: session::Client,
    /// Dropped behind `inner`, which may close the session. `None` if the client's task runs elsewhere.
    host: Option<Arc<Host>>,
}

impl Session for Client {
    fn session(&self) -> &Client {
        self
    }
}

/// The same session for code without async. The client's task stays in the runtime where it runs; that runtime must not wait
/// for the blocking code.
impl From<session::Client> for Client {
    fn from(inner: session::Client) -> Self {
        Self { inner, host: None }
    }
}

impl Client {
    /// Connects with the default settings: `host:port,host:port/chroot`.
    ///
    /// See the async [`connect`](lockkeeper_session::Client::connect).
    ///
    /// # Errors
    /// As [`Builder::connect`], and [`Error::BadConnectString`].
    pub fn connect(servers: &str) -> Result<Self, Error> {
        Self::builder(servers)?.connect()
    }

    /// Starts the settings of a client for these servers: `host:port,host:port/chroot`.
    ///
    /// # Errors
    /// [`ConnectStringError`] says which part of the list is wrong.
    pub fn builder(servers: &str) -> Result<Builder, ConnectStringError> {
        Ok(Builder::new(&servers.parse()?))
    }

    fn on(inner: session::Client, host: Host) -> Self {
        Self {
            inner,
            host: Some(Arc::new(host)),
        }
    }

    /// The async client of the same session, for a program on an executor other than tokio. The client's task stays on the
    /// background thread, so the program needs no tokio runtime. The session also lives as long as clones of it do.
    #[must_use]
    pub fn as_async(&self) -> &session::Client {
        &self.inner
    }

    /// Closes the session, and waits until the servers have confirmed this or the connection is lost. On a thread of a tokio
    /// runtime it does not wait.
    ///
    /// All clones of the client end with it. See the async [`close`](lockkeeper_session::Client::close).
    pub fn close(self) {
        let mut closing = Box::pin(self.inner.clone().close());
        // The first poll closes, also on a thread that must not wait.
        let is_closed = (closing.as_mut()).poll(&mut Context::from_waker(Waker::noop()));
        if is_closed.is_pending() {
            let _ = wait::block_on(closing);
        }
    }

    /// Moves to the next server of the list.
    ///
    /// See the async [`move_to_next_server`](lockkeeper_session::Client::move_to_next_server).
    pub fn move_to_next_server(&self) {
        self.inner.move_to_next_server();
    }

    gets! { "lockkeeper_session::Client":
        /// What the client knows about the session now.
        fn snapshot() -> Snapshot;
        /// The time on the client's clock.
        fn now() -> Instant;
        /// Whether the client is closing or has ended.
        fn is_closed() -> bool;
        /// What the client has done so far, and what is pending.
        fn metrics() -> Metrics;
        /// The lease of the session.
        fn lease() -> Lease;
    }

    /// A handle on the same session whose requests have a deadline.
    ///
    /// See the async [`with_deadline`](lockkeeper_session::Client::with_deadline).
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        self.with(self.inner.with_deadline(deadline))
    }

    /// A handle on the same session without a deadline, whose requests wait for a connection.
    ///
    /// See the async [`without_deadline`](lockkeeper_session::Client::without_deadline).
    #[must_use]
    pub fn without_deadline(&self) -> Self {
        self.with(self.inner.without_deadline())
    }

    /// A handle on the same session whose requests wait for a connection, or fail without one.
    ///
    /// See the async [`when_disconnected`](lockkeeper_session::Client::when_disconnected).
    #[must_use]
    pub fn when_disconnected(&self, when_disconnected: WhenDisconnected) -> Self {
        self.with(self.inner.when_disconnected(when_disconnected))
    }

    fn with(&self, inner: session::Client) -> Self {
        Self {
            inner,
            host: self.host.clone(),
        }
    }

    /// Starts a transaction: all its operations are applied, or none.
    ///
    /// See the async [`transaction`](lockkeeper_session::Client::transaction).
    #[must_use]
    pub fn transaction(&self) -> Transaction {
        Transaction::new(self.inner.transaction(), self)
    }

    /// Starts a list of reads that are sent as one request.
    ///
    /// See the async [`read_transaction`](lockkeeper_session::Client::read_transaction).
    #[must_use]
    pub fn read_transaction(&self) -> ReadTransaction {
        ReadTransaction::new(self.inner.read_transaction(), self)
    }

    /// Removes the watches on a node, and returns how many there were.
    ///
    /// See the async [`remove_watches`](lockkeeper_session::Client::remove_watches).
    ///
    /// # Errors
    /// As the async method.
    pub fn remove_watches(&self, path: &str, watcher_type: WatcherType) -> Result<usize, Error> {
        self.inner.remove_watches(path, watcher_type)
    }
}

/// Operations on nodes.
impl Client {
    waits! { "lockkeeper_session::Client":
        /// Creates a node that every client may change.
        fn create(path: &str, data: impl Into<Bytes>, mode: CreateMode) -> Result<Create2Response, Error>;
        /// Creates a node with an access control list.
        fn create_with_acl(path: &str, data: impl Into<Bytes>, mode: CreateMode, acl: impl Into<Acls>)
            -> Result<Create2Response, Error>;
        /// Creates a node, also on servers before 3.5, and returns only its path.
        fn create_without_stat(path: &str, data: impl Into<Bytes>, mode: CreateMode) -> Result<String, Error>;
        /// Creates a node, and the nodes above it that are missing.
        fn create_all(path: &str, data: impl Into<Bytes>, mode: CreateMode) -> Result<Create2Response, Error>;
        /// Deletes a node that has no children.
        fn delete(path: &str, version: Version) -> Result<(), Error>;
        /// Reads a node's metadata; `None` when the node does not exist.
        fn exists(path: &str) -> Result<Option<Stat>, Error>;
        /// Reads a node's data and metadata.
        fn get_data(path: &str) -> Result<GetDataResponse, Error>;
        /// Sets a node's data.
        fn set_data(path: &str, data: impl Into<Bytes>, version: Version) -> Result<Stat, Error>;
        /// Lists the names of a node's children.
        fn get_children(path: &str) -> Result<Vec<String>, Error>;
        /// Lists the names of a node's children, with the node's metadata.
        fn get_children_with_stat(path: &str) -> Result<GetChildren2Response, Error>;
        /// Counts all nodes below a node.
        fn get_all_children_number(path: &str) -> Result<u32, Error>;
        /// Lists the session's ephemeral nodes whose paths begin with a prefix.
        fn get_ephemerals(prefix: &str) -> Result<Vec<String>, Error>;
        /// Waits until the server has seen all earlier writes.
        fn sync(path: &str) -> Result<(), Error>;
        /// Reads a node's access control list.
        fn get_acl(path: &str) -> Result<GetAclResponse, Error>;
        /// Sets a node's access control list.
        fn set_acl(path: &str, acl: impl Into<Acls>, version: Version) -> Result<Stat, Error>;
        /// Adds an identity to this session.
        fn add_auth(scheme: impl Into<String>, credentials: impl Into<Bytes>) -> Result<(), Error>;
        /// Lists the identities that the server knows of this connection.
        fn who_am_i() -> Result<Vec<ClientInfo>, Error>;
        /// Reads the configuration of the ensemble.
        fn get_config() -> Result<GetDataResponse, Error>;
        /// Changes the members of the ensemble.
        fn reconfig(joining: &str, leaving: &str, from_config: Option<i64>) -> Result<GetDataResponse, Error>;
        /// Replaces the members of the ensemble.
        fn reconfig_to_members(members: &str, from_config: Option<i64>) -> Result<GetDataResponse, Error>;
    }
}

/// Reads that leave a watch, and persistent watches.
impl Client {
    waits! { "lockkeeper_session::Client":
        /// Reads a node's metadata, and watches the node.
        fn exists_and_watch(path: &str) -> Result<(Option<Stat>, Watcher), Error>;
        /// Reads a node's data and metadata, and watches the node.
        fn get_data_and_watch(path: &str) -> Result<(GetDataResponse, Watcher), Error>;
        /// Lists the names of a node's children, and watches the list.
        fn get_children_and_watch(path: &str) -> Result<(Vec<String>, Watcher), Error>;
        /// Reads the configuration of the ensemble, and watches it.
        fn get_config_and_watch() -> Result<(GetDataResponse, Watcher), Error>;
        /// Adds a persistent watch.
        fn add_watch(path: &str, mode: AddWatchMode) -> Result<PersistentWatcher, Error>;
        /// Adds a persistent watch whose queue holds this many events.
        fn add_watch_with_queue(path: &str, mode: AddWatchMode, events: usize) -> Result<PersistentWatcher, Error>;
        /// Whether the server has this client's watch on a node.
        fn check_watches(path: &str, watcher_type: WatcherType) -> Result<bool, Error>;
    }
}

/// Settings of a client. Made by [`Client::builder`].
#[derive(Clone, Debug)]
pub struct Builder {
    inner: session::Builder,
}

impl Builder {
    /// The default settings for these servers.
    #[must_use]
    pub fn new(servers: &ConnectString) -> Self {
        Self {
            inner: session::Builder::new(servers),
        }
    }

    builds! { "lockkeeper_session::Builder":
        /// Sets the session timeout that the client asks for.
        fn session_timeout(timeout: Duration);
        /// Sets how the client knows until when its session lives.
        fn lease_policy(policy: LeasePolicy);
        /// Sets how long one server may take to accept the connection.
        fn server_timeout(timeout: Duration);
        /// Sets how long [`connect`](Self::connect) tries.
        fn connect_timeout(connect_timeout: Duration);
        /// Sets how long the server may answer no request, while one waits, before the client reconnects.
        fn request_timeout(timeout: Duration);
        /// Sets what the client does when its session expires.
        fn on_expiry(on_expiry: OnExpiry);
        /// Sets whether the client accepts a read-only server.
        fn read_only(read_only: bool);
        /// Adds an identity that the client presents on every connection.
        fn auth(scheme: impl Into<String>, credentials: impl Into<Bytes>);
        /// Sets how the client authenticates with SASL.
        fn sasl(authenticator: impl sasl::Authenticator + 'static);
        /// Sets the longest frame that the client accepts, in bytes.
        fn frame_limit(limit: usize);
        /// Sets the longest request, in bytes.
        fn max_request(limit: usize);
        /// Sets how many requests may be pending before callers wait.
        fn max_outstanding(requests: usize);
        /// Sets how many bytes of requests may wait before callers wait.
        fn max_queued_bytes(bytes: usize);
        /// Sets how long a caller waits for the reply to a request.
        fn deadline(deadline: Duration);
        /// Sets whether requests wait for a connection when there is none.
        fn when_disconnected(when_disconnected: WhenDisconnected);
        /// Sets how the client opens byte streams to servers.
        fn connector(connector: Connector);
        /// Sets the seed of all random choices.
        fn seed(seed: u64);
        /// Sets the clock of the client.
        fn clock(clock: Clock);
    }

    /// Starts the client's background thread, and connects to the first server that accepts the client.
    ///
    /// See the async [`connect`](lockkeeper_session::Builder::connect).
    ///
    /// # Errors
    /// As the async method. [`Error::InsideRuntime`] on a thread of a tokio runtime; [`Error::NoThread`] when the system
    /// cannot start the thread.
    pub fn connect(self) -> Result<Client, Error> {
        let (inner, host) = host::start(self.inner, session::Builder::connect)?;
        Ok(Client::on(inner, host))
    }

    /// Starts the client's background thread, and returns a client at once, which connects in the background.
    ///
    /// See the async [`connect_lazy`](lockkeeper_session::Builder::connect_lazy).
    ///
    /// # Errors
    /// [`Error::InsideRuntime`] and [`Error::NoThread`], as [`connect`](Self::connect).
    pub fn connect_lazy(self) -> Result<Client, Error> {
        let (inner, host) = host::start(self.inner, async |builder| Ok(builder.connect_lazy()))?;
        Ok(Client::on(inner, host))
    }
}
