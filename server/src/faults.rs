//! Faults on demand: what a test does to the clients of a running server.

use std::{io, sync::Arc, time::Duration};

use lockkeeper_proto::{ErrorCode, SessionId};
use tokio::sync::{mpsc, oneshot};

use crate::{
    engine::{Effect, RuleId, When},
    net::PortOrder,
    shared::Shared,
};

/// Makes a server misbehave, while clients run. A cheap clone; everything takes effect before the call returns.
///
/// ```
/// use lockkeeper_server::{Server, When};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let server = Server::start().await?;
/// let faults = server.faults();
/// faults.lose_reply(When::create().within("/locks"));
/// // .. a client creates a node: it is there, but the client cannot know.
/// assert_eq!(faults.pending(), 1);
/// faults.clear();
/// # server.shutdown().await;
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Faults {
    shared: Arc<Shared>,
    orders: mpsc::Sender<PortOrder>,
}

impl Faults {
    pub(crate) fn new(shared: Arc<Shared>, orders: mpsc::Sender<PortOrder>) -> Self {
        Self { shared, orders }
    }

    /// Cuts the connection of a session now; whether it had one. The session lives on.
    #[allow(clippy::must_use_candidate, reason = "the cut is the point")]
    pub fn cut(&self, session: SessionId) -> bool {
        self.shared.with(|engine, _| engine.cut_session(session))
    }

    /// Cuts all connections now.
    pub fn cut_all(&self) {
        self.shared.with(|engine, _| engine.cut_all());
    }

    /// Expires a session now; whether it lived. Its ephemeral nodes go and its connection is closed, as in a real expiry.
    #[allow(clippy::must_use_candidate, reason = "the expiry is the point")]
    pub fn expire(&self, session: SessionId) -> bool {
        self.shared.with(|engine, now| engine.expire(session, now))
    }

    /// Executes a request to come, and cuts its connection instead of answering: the client cannot know what happened.
    ///
    /// Earlier replies still arrive; requests that were sent behind it are not executed.
    #[allow(
        clippy::must_use_candidate,
        reason = "the id is needed to take it back"
    )]
    pub fn lose_reply(&self, when: When) -> RuleId {
        self.rule(when, Effect::LoseReply)
    }

    /// Cuts the connection of a request to come, instead of executing it.
    #[allow(
        clippy::must_use_candidate,
        reason = "the id is needed to take it back"
    )]
    pub fn cut_before(&self, when: When) -> RuleId {
        self.rule(when, Effect::CutBefore)
    }

    /// Answers a request to come later by this much; it is executed at once. Other connections are not delayed.
    #[allow(
        clippy::must_use_candidate,
        reason = "the id is needed to take it back"
    )]
    pub fn delay_reply(&self, when: When, delay: Duration) -> RuleId {
        self.rule(when, Effect::Delay(delay))
    }

    /// Answers a request to come with an error, instead of executing it.
    #[allow(
        clippy::must_use_candidate,
        reason = "the id is needed to take it back"
    )]
    pub fn refuse(&self, when: When, error: ErrorCode) -> RuleId {
        self.rule(when, Effect::Refuse(error))
    }

    /// Takes one of the four back; whether it was still waiting for its request.
    #[allow(clippy::must_use_candidate, reason = "taking it back is the point")]
    pub fn take_back(&self, rule: RuleId) -> bool {
        self.shared.with(|engine, _| engine.remove_rule(rule))
    }

    /// How many of the four still wait for their request.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.shared.look(crate::engine::Engine::pending_rules)
    }

    /// Every reply from now on comes later by this much, with whatever follows it on its connection: a slow network.
    pub fn delay_all(&self, delay: Duration) {
        self.shared.with(|engine, _| engine.set_delay(Some(delay)));
    }

    /// Ends [`delay_all`](Self::delay_all); what is already delayed still comes late.
    pub fn delay_none(&self) {
        self.shared.with(|engine, _| engine.set_delay(None));
    }

    /// Whether connections are accepted, but closed as soon as they ask for a session. Those that have one stay.
    pub fn refuse_handshakes(&self, refuse: bool) {
        self.shared
            .with(|engine, _| engine.set_refuse_handshakes(refuse));
    }

    /// Hears and answers nobody, but keeps all connections: a network that loses everything. Sessions expire meanwhile.
    pub fn stall(&self) {
        self.shared
            .with(|engine, now| engine.set_stalled(true, now));
    }

    /// Ends [`stall`](Self::stall): what was sent meanwhile is heard now.
    pub fn resume(&self) {
        self.shared
            .resume(|engine, now| engine.set_stalled(false, now));
    }

    /// As [`stall`](Self::stall), for one session alone, by whatever connection it comes.
    pub fn stall_session(&self, session: SessionId) {
        self.shared
            .with(|engine, now| engine.set_session_stalled(session, true, now));
    }

    /// Ends [`stall_session`](Self::stall_session).
    pub fn resume_session(&self, session: SessionId) {
        self.shared
            .resume(|engine, now| engine.set_session_stalled(session, false, now));
    }

    /// Answers reads from the present state from now on, and tells of no change: a follower that lags behind.
    ///
    /// Holds for connections that are there and for those that resume a session; each of them until its session
    /// writes or syncs, since a follower is up to date with what it answers, or until [`thaw`](Self::thaw).
    pub fn freeze_reads(&self) {
        self.shared.with(|engine, _| engine.freeze_reads());
    }

    /// Ends [`freeze_reads`](Self::freeze_reads): notifications that were held back come now.
    pub fn thaw(&self) {
        self.shared.with(|engine, _| engine.thaw());
    }

    /// Sets the number of the next sequential child of a node; whether the node exists.
    #[allow(clippy::must_use_candidate, reason = "setting it is the point")]
    pub fn set_sequence(&self, path: &str, next: i32) -> bool {
        self.shared
            .with(|engine, _| engine.set_sequence(path, next))
    }

    /// Takes back everything that was set here, but for a closed port.
    pub fn clear(&self) {
        self.shared.resume(super::engine::Engine::clear_faults);
    }

    /// Stops listening: new connections are refused by the operating system. Those that are there stay.
    ///
    /// With [`cut_all`](Self::cut_all) and [`open_port`](Self::open_port) this is a restart that loses nothing.
    ///
    /// # Cancel safety
    /// Once polled, the port is closed in any case.
    pub async fn close_port(&self) {
        let (done, closed) = oneshot::channel();
        if self.orders.send(PortOrder::Close(done)).await.is_ok() {
            let _ = closed.await;
        }
    }

    /// Listens again on the same port.
    ///
    /// # Errors
    /// What the operating system says: somebody else may have taken the port meanwhile.
    ///
    /// # Cancel safety
    /// Once polled, the port is opened in any case, if it can be.
    pub async fn open_port(&self) -> io::Result<()> {
        let (done, opened) = oneshot::channel();
        let gone = || io::Error::other("the server has stopped");
        self.orders
            .send(PortOrder::Open(done))
            .await
            .map_err(|_| gone())?;
        opened.await.map_err(|_| gone())?
    }

    fn rule(&self, when: When, effect: Effect) -> RuleId {
        self.shared.with(|engine, _| engine.add_rule(when, effect))
    }
}
