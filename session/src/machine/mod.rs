//! The session as a pure state machine.
//!
//! Time, bytes and randomness are arguments. Methods come in four kinds:
//!
//! - questions: [`state`](Machine::state), [`session_id`](Machine::session_id), [`lease_deadline`](Machine::lease_deadline), ..
//! - the world to the machine: [`handle`](Machine::handle);
//! - the user to the machine: [`submit`](Machine::submit), [`watch_nodes`](Machine::watch_nodes),
//!   [`cancel`](Machine::cancel), [`close`](Machine::close);
//! - the machine to the world, to be called after any of the above, in this order:
//!   [`poll_output`](Machine::poll_output) until it has nothing, [`transmit`](Machine::transmit),
//!   [`next_deadline`](Machine::next_deadline).
//!
//! ```text
//!                                                   answer to the handshake,
//!              Connect                Connected            and SASL where it is used
//!   Pausing ────────────► Connecting ───────────► Handshaking ────────────► Connected
//!      ▲                       │                       │                        │
//!      └───────────────────────┴─── Disconnected ──────┴────────────────────────┘
//!   any of them ── close, refused authentication, expiry when the client ends with it ──► Ended
//! ```
//!
//! Not here: sockets and tasks (`client`), records (`lockkeeper-proto`).

mod config;
mod link;
mod metrics;
mod output;
mod requests;
mod rng;
mod session;
#[cfg(test)]
mod tests;
mod watches;

use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use lockkeeper_proto::{OpCode, Request, Response, SessionId, records::Empty};

pub use config::{Auth, Config, OnExpiry};
pub use link::sasl;
pub use metrics::Metrics;
pub use output::{Event, Input, Notice, Output, Snapshot, State};
pub use requests::{
    backlog::{RequestOptions, request_bytes},
    unsupported::UnsupportedReason,
};
pub use watches::kind::WatchId;

use crate::{Cause, Endpoint, Error, Lost, Peer};
use config::Timing;
use link::{auth::PendingAuth, endpoints::Endpoints, moving::WritableSearch, sasl::SaslExchange};
use requests::{
    backlog::{Backlog, Queued},
    in_flight::{InFlight, ReplyTo},
    probation::Probation,
    unsupported::Unsupported,
};
use rng::Rng;
use session::Session;
use watches::{batches::Batches, kind::WatchKind, table::WatchTable};

/// A session. `T` is what a caller gives with a request, and gets back with its reply.
pub struct Machine<T> {
    config: Config,
    timing: Timing,
    rng: Rng,
    endpoints: Endpoints,
    phase: Phase,
    state: State,
    session: Session,
    /// Requests not yet handed to the transport.
    queue: Backlog<T>,
    /// Requests handed to the transport whose replies have not come, oldest first.
    in_flight: VecDeque<InFlight<T>>,
    /// Until when callers wait, and the number of the request.
    deadlines: BTreeSet<(Instant, u64)>,
    next_xid: i32,
    pending_auth: PendingAuth<T>,
    watches: WatchTable,
    /// `setWatches` that restore the watches of a former connection and are not answered yet. Until they are, events
    /// are kept back, so that nobody acts on one of several changes of the outage.
    restoring: u32,
    /// How many watches there were when this connection began.
    restored_watches: usize,
    held_back: Vec<Event>,
    /// Bytes that go out before any request: handshake, authentication, pings.
    control: BytesMut,
    outputs: VecDeque<Output<T>>,
    /// When the ping on its way was sent.
    ping_sent: Option<Instant>,
    last_sent: Instant,
    last_received: Instant,
    /// When the newest request that was answered had been sent: from then the server counts at the earliest.
    confirmed: Option<Instant>,
    connections: u64,
    /// What was counted; what the machine knows otherwise is filled in by a snapshot.
    metrics: Metrics,
    /// The connection that was lost and is not replaced yet, and when that was.
    outage: Option<(Instant, Lost)>,
    /// When the machine was made.
    began: Instant,
    /// The state that is told when the server has answered the identities that it was told of at first.
    announced_state: Option<State>,
    /// Whether the connection is to be left for another one as soon as all is answered.
    is_moving: bool,
    search: Option<WritableSearch>,
    /// Until when a clean close may take.
    closing: Option<Instant>,
    unsupported: Unsupported,
    probation: Probation,
}

/// Where the connection is.
#[derive(Debug)]
enum Phase {
    Pausing {
        until: Instant,
    },
    Connecting {
        endpoint: Arc<Endpoint>,
        since: Instant,
        deadline: Instant,
    },
    Handshaking {
        endpoint: Arc<Endpoint>,
        sent: Instant,
        deadline: Instant,
        /// What goes on when the handshake itself is answered.
        sasl: Option<SaslExchange>,
    },
    Connected {
        endpoint: Arc<Endpoint>,
        since: Instant,
    },
    Ended(Error),
}

impl<T> Machine<T> {
    /// A session that is to be: the first [`Input::Tick`] sets out to connect.
    #[must_use]
    pub fn new(config: Config, now: Instant) -> Self {
        let config = config.bounded();
        let mut rng = Rng::new(config.seed);
        Self {
            endpoints: Endpoints::new(&config.endpoints, &mut rng),
            timing: Timing::new(&config, config.session_timeout),
            session: Session::none(config.session_timeout),
            config,
            rng,
            phase: Phase::Pausing { until: now },
            state: State::Connecting,
            queue: Backlog::new(),
            deadlines: BTreeSet::new(),
            in_flight: VecDeque::new(),
            next_xid: 1,
            pending_auth: PendingAuth::new(),
            watches: WatchTable::default(),
            restoring: 0,
            restored_watches: 0,
            held_back: Vec::new(),
            control: BytesMut::new(),
            outputs: VecDeque::new(),
            ping_sent: None,
            last_sent: now,
            last_received: now,
            confirmed: None,
            connections: 0,
            metrics: Metrics::default(),
            outage: None,
            announced_state: None,
            is_moving: false,
            search: None,
            began: now,
            closing: None,
            unsupported: Unsupported::default(),
            probation: Probation::default(),
        }
    }

    /// The state that the last [`Output::State`] told.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// What is known of the session now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            state: self.state,
            session_id: self.session.id,
            session_timeout: self.session.timeout,
            connections: self.connections,
            server: self.connected_to(),
        }
    }

    /// Whether the machine has ended and takes nothing any more.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }

    /// Why the machine has ended; `None` while it has not.
    #[must_use]
    pub fn ended(&self) -> Option<&Error> {
        match &self.phase {
            Phase::Ended(error) => Some(error),
            _ => None,
        }
    }

    /// Whether the machine has ended, or was told to.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing.is_some() || self.is_ended()
    }

    /// The session; [`SessionId::NONE`] while there is none.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.session.id
    }

    /// The session timeout: negotiated, or asked for while nothing is negotiated.
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.session.timeout
    }

    /// How often a server took the session on so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections
    }

    /// The server of the present connection.
    #[must_use]
    pub fn endpoint(&self) -> Option<&Endpoint> {
        match &self.phase {
            Phase::Connected { endpoint, .. } => Some(endpoint),
            _ => None,
        }
    }

    pub(crate) fn connected_to(&self) -> Option<Arc<Endpoint>> {
        match &self.phase {
            Phase::Connected { endpoint, .. } => Some(endpoint.clone()),
            _ => None,
        }
    }

    /// The server of the present connection and the session, for errors that concern them.
    pub(crate) fn peer(&self) -> Peer {
        Peer {
            server: self.connected_to(),
            session: self.session.id,
        }
    }

    /// Until when no server can have expired the session: the newest answered request was *sent* at some instant, so
    /// the server heard of the client no earlier, and counts the session timeout from there. Less the margin of
    /// [`Config::lease_margin`]. `None` without a session, or with one that only a read-only server knows.
    ///
    /// It holds while the clocks of client and servers run at the same rate.
    #[must_use]
    pub fn lease_deadline(&self) -> Option<Instant> {
        let confirmed = self.confirmed.filter(|_| !self.session.is_local);
        confirmed.map(|sent| sent + self.timing.lease)
    }

    /// What each server said last, oldest first, since one was last good; the newest sixteen of very many.
    #[must_use]
    pub fn failures(&self) -> Arc<[Lost]> {
        self.endpoints.failures()
    }

    /// How many servers there are.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.endpoints.len()
    }

    /// How many requests wait to be sent or answered.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.queue.len() + self.in_flight.len()
    }

    /// How many listeners wait for watches.
    #[must_use]
    pub fn watch_count(&self) -> usize {
        self.watches.len()
    }

    /// Watches nodes that exist, all with one request unless they are very many; each id gets one event.
    ///
    /// The event is that of the first of these which the server finds when it comes to the request: the node is not there
    /// (deleted); its data were set in a transaction behind the newest one that a reply of this session has told of so far
    /// (changed). Else it is the next change of the data or the deletion. While there is no connection, the watches are
    /// left on the next one, by the same rule.
    pub fn watch_nodes(
        &mut self,
        now: Instant,
        paths: impl IntoIterator<Item = impl Into<String>>,
    ) -> Vec<WatchId> {
        // A lasting watch on the same node is set again in the same request, which doubles it.
        let shares = if self.watches.has_persistent() { 3 } else { 1 };
        let longest = self.config.max_request / shares;
        let mut batches = Batches::new(self.session.last_zxid, longest);
        let watch = |path: String| {
            let id = self.watches.register_data(&path);
            batches.add(WatchKind::Data, path);
            id
        };
        let ids = paths.into_iter().map(Into::into).map(watch).collect();
        match &self.phase {
            Phase::Connected { .. } if self.unsupported.includes(OpCode::SET_WATCHES) => {
                self.end_one_shot();
            }
            Phase::Connected { .. } => {
                for batch in batches.finish() {
                    let reply_to = ReplyTo::SetWatches { restore: false };
                    self.enqueue(now, batch, reply_to);
                }
            }
            Phase::Ended(error) => {
                let error = error.clone();
                self.end_watches(&error);
            }
            _ => {}
        }
        ids
    }

    /// Nobody waits for this watch any more. The last one of its kind on a path is taken off the server, too.
    pub fn cancel(&mut self, now: Instant, id: WatchId) {
        let requests = self.watches.cancel(id);
        self.send_watch_requests(now, requests);
    }

    /// Ends the session and the machine: sends what was submitted, then says goodbye, if there is a connection.
    pub fn close(&mut self, now: Instant) {
        match self.phase {
            Phase::Ended(_) => {}
            _ if self.closing.is_some() => {}
            Phase::Connected { .. } => {
                self.closing = Some(now + self.timing.request);
                self.is_moving = false;
                self.enqueue(now, Request::CloseSession(Empty {}), ReplyTo::Close);
            }
            _ => self.end(State::Closed, Cause::ByClient),
        }
    }

    /// Ends the machine at once, without a word to the server: the session is left to expire.
    pub fn abort(&mut self) {
        if !self.is_ended() {
            self.end(State::Closed, Cause::ByClient);
        }
    }

    /// What happened, in order; `None` when all is told.
    #[must_use]
    pub fn poll_output(&mut self) -> Option<Output<T>> {
        self.outputs.pop_front()
    }

    pub(crate) fn enqueue(&mut self, now: Instant, request: Request, reply_to: ReplyTo<T>) {
        self.queue.push(request, reply_to, RequestOptions::at(now));
    }

    pub(crate) fn set_state(&mut self, state: State) {
        if self.state != state {
            self.state = state;
            self.outputs.push_back(Output::State(self.snapshot()));
        }
    }

    pub(crate) fn end_watches(&mut self, error: &Error) {
        for id in self.watches.drain() {
            self.outputs
                .push_back(Output::Watch(id, Err(error.clone())));
        }
    }

    /// Settles a request that got no reply.
    pub(crate) fn fail(&mut self, op: OpCode, reply_to: ReplyTo<T>, error: Error) {
        let (token, watch) = match reply_to {
            ReplyTo::Caller { token, watch } => (Some(token), watch),
            ReplyTo::Auth { token } => (Some(token), None),
            ReplyTo::Nobody { watch } => (None, watch),
            _ => return,
        };
        if let Some(watch) = watch {
            let requests = watch.settle(&mut self.watches, None);
            self.send_watch_requests(self.last_received, requests);
        }
        if let Some(token) = token {
            tracing::trace!(%op, %error, "request failed");
            self.complete(token, Err(error));
        }
    }

    /// Tells a caller.
    pub(crate) fn complete(&mut self, token: T, result: Result<Response, Error>) {
        self.metrics.settled(result.as_ref().err());
        self.outputs.push_back(Output::Completed(token, result));
    }
}

/// Without what passes through it: passwords, credentials, data.
impl<T> fmt::Debug for Machine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine")
            .field("phase", &self.phase)
            .field("state", &self.state)
            .field("session", &self.session)
            .field("queue", &self.queue.len())
            .field("in_flight", &self.in_flight.len())
            .field("watches", &self.watches.len())
            .finish_non_exhaustive()
    }
}
