//! Settings of a client, and its first connection.

use std::{future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use lockkeeper_proto::{Acl, Acls};

use super::{
    Client, Connector,
    chroot::Chroot,
    clock::Clock,
    own_thread::OwnThread,
    random::{Random, random_u64},
    shared::Shared,
    sync::{
        BoxFuture,
        select::{Either, select},
    },
    task::{Task, has_run, is_in_runtime},
};
use crate::{
    ConnectString, Error, LeasePolicy, Peer, Snapshot,
    client::raw::AsRaw,
    machine::{Auth, Config, SessionTicket, sasl::Authenticator},
};

/// The default frame limit: 8 MiB, enough for a listing of about 100,000 children.
///
/// Servers do not limit the replies that they send. Java's client accepts 1 MiB.
const FRAME_LIMIT: usize = 8 << 20;

/// Settings of a client. Made by [`Client::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `connect` or `connect_lazy`"]
pub struct Builder {
    config: Config,
    chroot: Option<String>,
    default_acl: Acls,
    connector: Connector,
    frame_limit: usize,
    connect_timeout: Option<Duration>,
    deadline: Option<Duration>,
    clock: Clock,
    /// Of the random numbers, if they are to be repeatable.
    seed: Option<u64>,
    own_thread: bool,
}

impl Builder {
    /// The default settings for these servers.
    pub fn new(servers: &ConnectString) -> Self {
        Self {
            config: Config::new(servers, random_u64()),
            chroot: servers.chroot().map(str::to_owned),
            default_acl: Acls::Borrowed(Acl::OPEN_UNSAFE),
            connector: Connector::tcp(),
            frame_limit: FRAME_LIMIT,
            connect_timeout: None,
            deadline: None,
            clock: Clock::system(),
            seed: None,
            own_thread: false,
        }
    }

    /// Sets the session timeout that the client asks for; the server may grant another one.
    /// Default: 10 seconds.
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.config.session_timeout = timeout;
        self
    }

    /// Sets how the client knows until when its session lives. Default: [`LeasePolicy::Proved`].
    ///
    /// A server that grants a session timeout which leaves no time for the lease is not used:
    /// [`Cause::ShortSession`](crate::Cause::ShortSession).
    pub fn lease_policy(mut self, policy: LeasePolicy) -> Self {
        self.config.lease = policy;
        self
    }

    /// Sets the `tickTime` of the servers, for [`LeasePolicy::Proved`]: the longest one, if they
    /// differ. Then the proof of a lease waits for two thirds of a tick, in place of a third of the
    /// session timeout, so the lease stands slower servers and longer silence.
    ///
    /// With a shorter time than the servers' ticks the lease is not safe. Default: none.
    pub fn tick_time(mut self, tick_time: Duration) -> Self {
        self.config.tick_time = Some(tick_time);
        self
    }

    /// Sets how long one server may take to accept the connection, and again to complete the
    /// handshake.
    ///
    /// Default: the session timeout divided by the number of servers, but at least a quarter and at
    /// most a half of it.
    pub fn server_timeout(mut self, timeout: Duration) -> Self {
        self.config.server_timeout = Some(timeout);
        self
    }

    /// Sets how long [`connect`](Self::connect) tries. Default: the session timeout.
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = Some(connect_timeout);
        self
    }

    /// Sets how long the server may answer no request, while one waits, before the client closes
    /// the connection and reconnects. A request behind others has its whole time from when the one
    /// ahead of it was answered.
    ///
    /// Default: the negotiated session timeout.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.config.request_timeout = Some(timeout);
        self
    }

    /// Adds an identity that the client presents on every connection.
    ///
    /// For instance scheme `digest` with credentials `user:password`. Call the method again for
    /// more identities.
    pub fn auth(mut self, scheme: impl Into<String>, credentials: impl Into<Bytes>) -> Self {
        let auth = Auth {
            scheme: scheme.into(),
            credentials: credentials.into(),
        };
        self.config.auth.push(auth);
        self
    }

    /// Sets the access control list of every node that the client creates without one of its own:
    /// with [`create`](Client::create), [`create_all`](Client::create_all), in transactions, as the
    /// node of a lock or above it. Default: [`Acl::OPEN_UNSAFE`].
    ///
    /// Servers refuse a create with a list that is empty, has an unknown scheme, or names the
    /// creator ([`Acl::CREATOR_ALL`]) of a client without an identity: "invalid ACL". What
    /// contenders for a lock need stands at the locks' `with_acl`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let servers = server.connect_string();
    /// # mod lockkeeper {
    /// #     pub use {lockkeeper_proto::CreateMode, lockkeeper_session::Client};
    /// #     pub mod node { pub use lockkeeper_proto::Acl; }
    /// # }
    /// use lockkeeper::{Client, CreateMode, node::Acl};
    ///
    /// let builder = Client::builder(&servers)?.auth("digest", "ann:secret");
    /// let client = builder.default_acl(Acl::CREATOR_ALL).connect().await?;
    /// client.create("/hers", "", CreateMode::Persistent).await?;
    /// let stranger = Client::connect(&servers).await?;
    /// assert!(stranger.get_data("/hers").await.is_err());
    /// # Ok(()) }
    /// ```
    pub fn default_acl(mut self, acl: impl Into<Acls>) -> Self {
        self.default_acl = acl.into();
        self
    }

    /// Sets how the client authenticates with SASL, on every connection and before any request.
    /// Default: no SASL.
    ///
    /// The mechanism is an object: `DigestMd5` of `lockkeeper-sasl`, or one of the program's own.
    /// [`AuthFailure`](crate::AuthFailure) says what becomes of the client when a login fails.
    pub fn sasl(mut self, authenticator: impl Authenticator + 'static) -> Self {
        self.config.sasl = Some(Arc::new(authenticator));
        self
    }

    /// Sets the longest frame that the client accepts, in bytes. Default: 8 MiB.
    ///
    /// A longer reply fails its request with [`ReplyTooLarge`](crate::ErrorKind::ReplyTooLarge). A
    /// frame more than eight times as long, or an event of a watch that is too long, also ends the
    /// connection.
    pub fn frame_limit(mut self, limit: usize) -> Self {
        self.frame_limit = limit;
        self
    }

    /// Sets the longest request, in bytes: the servers' `jute.maxbuffer`.
    ///
    /// Default: 1 MiB less one byte, like the servers' default.
    pub fn max_request(mut self, limit: usize) -> Self {
        self.config.max_request = limit;
        self
    }

    /// Sets how many requests may be pending before callers wait for request capacity. Default:
    /// 65,536.
    ///
    /// Callers wait in the order of their calls. Only [`Raw::submit`](crate::Raw::submit) does not
    /// wait: it takes from a reserve of the same size. Where a small reserve is used up, a lock whose
    /// guard is dropped is released as soon as there is capacity.
    pub fn max_outstanding(mut self, requests: usize) -> Self {
        self.config.max_outstanding = requests.max(1);
        self
    }

    /// Sets how many bytes of requests may wait to be sent before callers wait for request
    /// capacity. Default: 16 MiB.
    pub fn max_queued_bytes(mut self, bytes: usize) -> Self {
        self.config.max_queued_bytes = bytes;
        self
    }

    /// Sets how long a caller waits for the reply to a request, in total. Default: no deadline.
    ///
    /// Without a deadline a request waits at most twice the session timeout: once for a connection
    /// and once for its reply. [`Client::with_deadline`] sets a deadline for single requests.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets how the client opens byte streams to servers. Default: [`Connector::tcp`].
    pub fn connector(mut self, connector: Connector) -> Self {
        self.connector = connector;
        self
    }

    /// Sets the seed of all random choices: order of the servers, back-off, names of lock nodes.
    ///
    /// Default: the system's randomness.
    ///
    /// Clients that run at the same time should have different seeds. Otherwise they connect and
    /// retry at the same moments.
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = seed;
        self.seed = Some(seed);
        self
    }

    /// Sets the clock of the client. Default: [`Clock::system`].
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Runs the client on a thread of its own. Default: on the present tokio runtime, and on a
    /// thread of its own where there is none.
    ///
    /// A runtime whose tasks block, or that has one thread and much to do, polls the client too
    /// late, and its session expires. Take this for locks that must not be lost in this way. It
    /// costs a thread, and wakes it for each operation.
    pub fn own_thread(mut self) -> Self {
        self.own_thread = true;
        self
    }

    /// Goes on with the session that another client has handed over, and with the chroot of that
    /// client. The servers and all other settings are those of this builder.
    ///
    /// [`connect`](Self::connect) fails with
    /// [`SessionExpired`](crate::ErrorKind::SessionExpired) if the session is over. Two clients with
    /// one session take it from each other, with each connection. So use a ticket once.
    pub fn session(mut self, ticket: SessionTicket) -> Self {
        self.chroot = Some(ticket.chroot.clone()).filter(|chroot| !chroot.is_empty());
        self.config.session = Some(Box::new(ticket));
        self
    }

    /// The end of the client leaves the session to others, until [`Raw::own_session`].
    #[doc(hidden)]
    pub fn leaves_session(mut self) -> Self {
        self.config.leaves_session = true;
        self
    }

    /// Connects to the first server that accepts the client and its identities.
    ///
    /// The client tries one server after the other, in a random order, and gives up after the
    /// [`connect_timeout`](Self::connect_timeout):
    /// - a server that refuses the connection costs almost no time;
    /// - a name that does not resolve costs the time of the resolver;
    /// - a silent server costs up to [`server_timeout`](Self::server_timeout).
    ///
    /// With the default settings the client still reaches a good server after three silent ones,
    /// however long the list is.
    ///
    /// # Errors
    /// [`Unreachable`](crate::ErrorKind::Unreachable) when no server accepted the client in time.
    /// It says why each server failed; for a long list it has the newest sixteen failures. The
    /// error comes before the timeout when every server failed for a reason that lasts
    /// ([`Cause::is_permanent`](crate::Cause::is_permanent)): its certificate or the client's is
    /// wrong, or it is not ZooKeeper. A refused connection is tried again until the timeout.
    ///
    /// [`AuthFailed`](crate::ErrorKind::AuthFailed) when a server refused the identities.
    /// [`TooLarge`](crate::ErrorKind::TooLarge) when one is longer than [`max_request`](Self::max_request).
    /// [`Closed`](crate::ErrorKind::Closed) when the runtime has no I/O, which TCP needs, or no
    /// time; [`NoThread`](crate::ErrorKind::NoThread) when the system cannot start the client's
    /// thread, or when the only thread of the present runtime, which is to run the client, waits
    /// for this future in the `block_on` of another executor.
    ///
    /// # Cancel safety
    /// Dropping the future closes the client.
    pub fn connect(self) -> impl Future<Output = Result<Client, Error>> + Send {
        // In a box: what a client is made of stands once, and not in each program.
        let connected: BoxFuture<'static, _> = Box::pin(async move {
            let own_thread = self.own_thread;
            self.connected(|task| spawn(task, own_thread)).await
        });
        connected
    }

    /// Returns a client at once, and connects in the background: for a program that starts although
    /// no server is up.
    ///
    /// Requests wait for the connection, as they do after a lost connection: at most for the
    /// session timeout, or for their [deadline](Self::deadline), then they fail with
    /// [`Unreachable`](crate::ErrorKind::Unreachable). The client goes on trying.
    /// [`Client::snapshots`] tells when it is connected.
    ///
    /// What [`connect`](Self::connect) would report is reported by the requests:
    /// [`AuthFailed`](crate::ErrorKind::AuthFailed) when a server refuses the identities,
    /// [`Unreachable`](crate::ErrorKind::Unreachable) at once when every server fails for a reason
    /// that lasts. The client has ended then ([`Client::is_closed`]).
    /// [`connect_timeout`](Self::connect_timeout) is not used.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let servers = server.connect_string();
    /// # use lockkeeper_session as lockkeeper;
    /// let client = lockkeeper::Client::builder(&servers)?.connect_lazy();
    /// assert!(!client.snapshot().state.is_connected());
    /// client.sync("/").await?; // waits for the connection
    /// assert!(client.snapshot().state.is_connected());
    /// # Ok(()) }
    /// ```
    #[must_use = "dropping the client closes it"]
    pub fn connect_lazy(mut self) -> Client {
        // `connect` returns when the identities are accepted, so its requests come later anyway.
        self.config.requests_wait_for_identities = true;
        let own_thread = self.own_thread;
        self.start(|task| spawn(task, own_thread)).0
    }

    /// Starts the client. It has ended if that fails.
    pub(super) fn start(
        self,
        spawn: impl FnOnce(BoxFuture<'static, ()>) -> Started,
    ) -> (Client, Option<Error>) {
        let (random, acl) = (Random::new(self.seed), self.default_acl);
        let shared = Shared::new(self.config, self.clock, acl, random);
        let task = Task::boxed(shared.clone(), self.connector, self.frame_limit);
        let (thread, error) = match spawn(task) {
            Ok(thread) => (thread, None),
            Err(error) => (None, Some(error)),
        };
        let mut client = Client::start(shared, thread).below(Chroot::new(self.chroot));
        if let Some(deadline) = self.deadline {
            client = client.with_deadline(deadline);
        }
        (client, error)
    }

    /// Like [`connect`](Self::connect), but `spawn` starts the client's task. For simulations,
    /// which stop and start the task.
    ///
    /// # Errors
    /// Same as [`connect`](Self::connect).
    #[doc(hidden)]
    pub async fn connect_on(
        self,
        spawn: impl FnOnce(BoxFuture<'static, ()>),
    ) -> Result<Client, Error> {
        let spawn = |task| {
            spawn(task);
            Ok(None)
        };
        self.connected(spawn).await
    }

    async fn connected(
        self,
        spawn: impl FnOnce(BoxFuture<'static, ()>) -> Started,
    ) -> Result<Client, Error> {
        let connect_timeout = self.connect_timeout.unwrap_or(self.config.session_timeout);
        let wanted = self.config.session.as_ref().map(|it| it.session_id());
        let (client, error) = self.start(spawn);
        if let Some(error) = error {
            return Err(error);
        }
        has_run(|| {
            let core = client.shared.lock();
            core.driver.is_some() || core.machine.link().is_ended()
        })
        .await?;
        let mut snapshots = client.snapshots();
        let settled = async {
            let settled = |now: &Snapshot| now.state.is_connected() || now.state.is_final();
            let now = snapshots.wait_for(settled).await;
            now.is_ok_and(|now| now.state.is_connected())
        };
        let timer = client.raw().sleep(connect_timeout);
        if let Either::Left(true) = select(settled, timer).await {
            let got = client.raw().look(|now| now.session_id);
            return match wanted {
                Some(session) if session != got => {
                    let server = None;
                    Err(Error::expired(Peer { server, session }))
                }
                _ => Ok(client),
            };
        }
        let mut core = client.shared.lock();
        let (now, link) = (core.clock.now(), core.machine.link());
        let ended = link.ended().cloned();
        Err(ended.unwrap_or_else(|| link.unreachable(now, connect_timeout)))
    }
}

/// The thread of a client, if it has one of its own.
pub(super) type Started = Result<Option<OwnThread>, Error>;

/// Starts a client: as a task of the present runtime, or on a thread if that is wanted or if there
/// is no runtime.
fn spawn(task: BoxFuture<'static, ()>, own_thread: bool) -> Started {
    if !own_thread && is_in_runtime() {
        tokio::spawn(task);
        return Ok(None);
    }
    OwnThread::spawn(task).map(Some)
}
