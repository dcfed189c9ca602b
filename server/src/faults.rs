//! Faults on demand: what a test can do to the clients of a running server.
//!
//! Not here: how the faults work (`engine::hooks`, `engine::rules`), servers that fail or lag
//! behind (`cluster`).

use std::{io, sync::Arc, time::Duration};

use crate::{
    engine::{Effect, When},
    net::Port,
    shared::Shared,
};
use futures::future::join_all;
use lockkeeper_proto::{ErrorCode, SessionId};

/// Makes a server misbehave while clients run. A cheap clone. Each call takes effect before it
/// returns.
///
/// In a [`Cluster`](crate::Cluster), each method is about all servers. A server that lags behind is a
/// member of a cluster: see [`Cluster::lag`](crate::Cluster::lag).
///
/// ```
/// use lockkeeper_server::{Server, When};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let server = Server::start().await?;
/// let faults = server.faults();
/// faults.lose_reply(When::create().within("/locks"));
/// // .. a client creates a node: the node exists, but the client cannot know.
/// assert_eq!(faults.pending(), 1);
/// faults.clear();
/// # server.shutdown().await;
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Faults {
    pub(crate) shared: Arc<Shared>,
    pub(crate) ports: Arc<[Port]>,
}

#[allow(clippy::must_use_candidate, reason = "the effect is the point")]
impl Faults {
    /// Cuts the connection of a session now. The session lives on. Returns whether it had a
    /// connection.
    pub fn cut(&self, session: SessionId) -> bool {
        self.shared.with(|engine, _| engine.cut_session(session))
    }

    /// Cuts all connections now.
    pub fn cut_all(&self) {
        self.shared.with(|engine, _| engine.cut_all(None));
    }

    /// Expires a session without waiting. The server closes the connection, refuses the session when
    /// the client comes back, and deletes its ephemeral nodes when the client has heard of that. So
    /// the client knows before anybody else can have its locks, as in a real expiry. A client that
    /// does not come back has the rest of its timeout. Returns whether the session was alive.
    pub fn expire(&self, session: SessionId) -> bool {
        self.shared.with(|engine, _| engine.expire(session))
    }

    /// Deletes the ephemeral nodes of a session at once, and closes its connection. Returns whether
    /// the session was alive.
    ///
    /// This breaks what a server promises: the client relies on its locks until it hears of the end,
    /// and another client may have them already. No real server does this, except by a fault of its
    /// clock.
    pub fn expire_early(&self, session: SessionId) -> bool {
        self.shared
            .with(|engine, now| engine.expire_early(session, now))
    }

    /// The server will execute a matching request and then close its connection without a reply.
    /// The client cannot know whether the request was applied.
    ///
    /// Earlier replies still arrive. Requests that the client sent after it are not executed.
    pub fn lose_reply(&self, when: When) {
        self.rule(when, Effect::LoseReply);
    }

    /// The server will close the connection of a matching request, and not execute the request.
    pub fn cut_before(&self, when: When) {
        self.rule(when, Effect::CutBefore);
    }

    /// The server will execute a matching request at once and send its reply later by `delay`.
    /// Other connections are not delayed.
    pub fn delay_reply(&self, when: When, delay: Duration) {
        self.rule(when, Effect::Delay(delay));
    }

    /// The server will answer a matching request with an error, and not execute the request. An
    /// answer to a handshake has no place for an error: the server closes the connection.
    pub fn refuse(&self, when: When, error: ErrorCode) {
        self.rule(when, Effect::Refuse(error));
    }

    /// The server will lose the next event about this path or one below it, on its way to one client.
    /// Others that watch are told: call this once for each of them. A client that may not read the
    /// node gets no event that could be lost.
    pub fn lose_event(&self, within: &str) {
        let within = within.to_owned();
        self.shared.with(|engine, _| engine.lose_event(within));
    }

    /// How many faults of [`lose_reply`](Self::lose_reply), [`cut_before`](Self::cut_before),
    /// [`delay_reply`](Self::delay_reply) and [`refuse`](Self::refuse) still wait for their request.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.shared.with(|engine, _| engine.rules().pending())
    }

    /// Delays every reply from now on, and everything that follows it on its connection: a slow
    /// network. A delay of zero ends that; what is delayed already still comes late.
    pub fn delay_all(&self, delay: Duration) {
        self.shared
            .with(|engine, _| engine.rules().delay = Some(delay));
    }

    /// Sets whether the server closes each connection that asks for a session. Connections that
    /// have a session stay.
    pub fn refuse_handshakes(&self, refuse: bool) {
        self.shared
            .with(|engine, _| engine.rules().refuse_handshakes = refuse);
    }

    /// The server keeps all connections, but reads and sends nothing: a network that loses
    /// everything. Sessions expire meanwhile.
    pub fn stall(&self) {
        self.set_stalled(None, true);
    }

    /// Ends [`stall`](Self::stall): the server now reads what clients sent meanwhile.
    pub fn resume(&self) {
        self.set_stalled(None, false);
    }

    /// Like [`stall`](Self::stall), for one session only, on each connection that it uses.
    pub fn stall_session(&self, session: SessionId) {
        self.set_stalled(Some(session), true);
    }

    /// Ends [`stall_session`](Self::stall_session).
    pub fn resume_session(&self, session: SessionId) {
        self.set_stalled(Some(session), false);
    }

    /// Sets the number of the next sequential child of a node. Returns whether the node exists.
    pub fn set_sequence(&self, path: &str, next: i32) -> bool {
        self.shared
            .with(|engine, now| engine.set_sequence(path, next, now))
    }

    /// Ends all faults that were set with this type. Only a closed port stays closed. In a cluster,
    /// links stay cut, stopped members stay stopped, and members that lag go on lagging.
    pub fn clear(&self) {
        self.shared.with(|engine, _| engine.clear_faults());
    }

    /// Stops listening: the operating system refuses new connections. Open connections stay.
    ///
    /// Together with [`cut_all`](Self::cut_all) and [`open_port`](Self::open_port) this is a
    /// restart that loses no data.
    ///
    /// # Cancel safety
    /// Once the future was polled, the port is closed even if the future is dropped.
    pub async fn close_port(&self) {
        join_all(self.ports.iter().map(Port::close)).await;
    }

    /// Listens on the same port again.
    ///
    /// # Errors
    /// The error of the operating system: another process may have taken the port meanwhile. Also
    /// if the server has stopped.
    ///
    /// # Cancel safety
    /// Once the future was polled, the server opens the port, if possible, even if the future is
    /// dropped.
    pub async fn open_port(&self) -> io::Result<()> {
        let opened = join_all(self.ports.iter().map(Port::open)).await;
        opened.into_iter().collect()
    }

    fn rule(&self, when: When, effect: Effect) {
        self.shared
            .with(|engine, _| engine.rules().add(when, effect));
    }

    fn set_stalled(&self, session: Option<SessionId>, is_stalled: bool) {
        self.shared
            .with(|engine, _| engine.set_stalled(session, is_stalled));
    }
}
