//! The session as a pure state machine.
//!
//! Time, bytes and randomness are arguments. There are four kinds of methods:
//!
//! - getters: [`state`](Machine::state), [`session_id`](Machine::session_id),
//!   [`lease_deadline`](Machine::lease_deadline), ..
//! - the world to the machine: [`handle`](Machine::handle);
//! - the user to the machine: [`submit`](Machine::submit), [`watch_nodes`](Machine::watch_nodes),
//!   [`cancel`](Machine::cancel), [`close`](Machine::close);
//! - the machine to the world. Call these after any of the above, in this order:
//!   [`poll_output`](Machine::poll_output) until it returns `None`,
//!   [`transmit`](Machine::transmit), [`next_deadline`](Machine::next_deadline).
//!
//! ```text
//!             retry time                             answer to the handshake,
//!              has come             Connected          and SASL if configured
//!   (paused) ────────────► Connecting ───────────► Handshaking ───────────► Established
//!      ▲                       │                       │                        │
//!      └───────────────────────┴─── Disconnected ──────┴────────────────────────┘
//!   any of them ── close, refused authentication, expiry with OnExpiry::End ──► ended
//! ```
//!
//! The machine is a session and, while there is one, a `Connection`. What belongs to a connection
//! is dropped with it.
//!
//! | folder or file | what |
//! |---|---|
//! | `link` | the connection: how it begins and ends, which server is next |
//! | `requests` | requests, from the caller's submit to the reply |
//! | `watches` | who listens to which node, and what the server has |
//! | `timers` | every deadline of the machine |
//! | `session` | what is known of the session |
//! | `lease`, `proof` | until when the session lives for certain |
//! | `config` | settings, and the durations that follow from the session timeout |
//! | `output` | what goes into the machine, and what comes out |
//! | `metrics`, `rng`, `spare` | counters; seeded random choices; the room that queues keep |
//!
//! Not here: sockets and tasks (`client`), records (`lockkeeper-proto`).

mod config;
mod lease;
mod link;
mod metrics;
mod output;
mod proof;
mod requests;
pub(crate) mod rng;
mod session;
mod spare;
#[cfg(test)]
mod tests;
mod timers;
mod watches;

use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

/// The buffers of [`Machine::transmit`] and [`Input::Frame`].
pub use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{OpCode, Request, Response, SessionId, WatcherType, Zxid, records::Empty};

pub use config::{Auth, Config, LeasePolicy, OnExpiry};
pub use lease::LeaseToken;
pub use link::sasl;
pub use metrics::Metrics;
pub use output::{Event, Input, Notice, Output, RequestOptions, Snapshot, State};
/// For `tests/model`, not for users.
#[doc(hidden)]
pub use proof::Proof;
#[doc(hidden)]
pub use requests::asked::{Asked, NewNode};
pub use requests::backlog::request_bytes;
pub use watches::kind::WatchId;

use crate::{Cause, Endpoint, Error, Lost, Peer};
use config::Timing;
use link::{connection::Connection, endpoints::Endpoints};
use requests::{
    backlog::Backlog,
    in_flight::ReplyTo,
    probation::{Probation, Unsupported},
};
use rng::Rng;
use session::Session;
use watches::table::WatchTable;

/// A session. The caller gives a `T` with each request, and gets it back with the reply.
pub struct Machine<T> {
    config: Config,
    timing: Timing,
    rng: Rng,
    endpoints: Endpoints,
    state: State,
    session: Session,
    /// The connection, or the attempt to make one.
    connection: Option<Connection<T>>,
    /// When the next server is tried. It counts only while there is no connection.
    retry_at: Instant,
    /// Why the machine has ended.
    ended: Option<Error>,
    /// When a clean close gives up waiting for the server.
    closing: Option<Instant>,
    /// Requests that were not handed to the transport yet.
    queue: Backlog<T>,
    /// The deadlines of callers, each with the number of its request.
    deadlines: BTreeSet<(Instant, u64)>,
    next_xid: i32,
    watches: WatchTable,
    outputs: VecDeque<Output<T>>,
    /// The machine's own clone, and one in each [`LeaseToken`].
    lease_keepers: Arc<()>,
    /// Whether somebody waits for the lease to be valid.
    awaits_lease: bool,
    /// How many connections were established so far.
    connections: u64,
    /// The lost connection that is not replaced yet, and when it was lost.
    outage: Option<(Instant, Lost)>,
    /// When the machine was made.
    began: Instant,
    unsupported: Unsupported,
    probation: Probation,
    /// The counters. A snapshot fills in what other fields know.
    metrics: Metrics,
}

impl<T> Machine<T> {
    /// A machine without a session. The first [`Input::Tick`] starts the first connection.
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
            state: State::Connecting,
            connection: None,
            retry_at: now,
            ended: None,
            closing: None,
            queue: Backlog::new(),
            deadlines: BTreeSet::new(),
            next_xid: 1,
            watches: WatchTable::default(),
            outputs: VecDeque::new(),
            lease_keepers: Arc::new(()),
            awaits_lease: false,
            connections: 0,
            outage: None,
            began: now,
            unsupported: Unsupported::default(),
            probation: Probation::default(),
            metrics: Metrics::default(),
        }
    }

    /// The state that the last [`Output::State`] reported.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// The session as the client knows it now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            state: self.state,
            session_id: self.session.id,
            session_timeout: self.session.timeout,
            connections: self.connections,
            server: self.established().map(|open| open.endpoint.clone()),
        }
    }

    /// The newest transaction that a server has named in this session.
    #[must_use]
    pub fn newest_zxid(&self) -> Zxid {
        self.session.last_zxid
    }

    /// Whether the machine has ended. It accepts no request any more.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Why the machine has ended; `None` while it has not.
    #[must_use]
    pub fn ended(&self) -> Option<&Error> {
        self.ended.as_ref()
    }

    /// Whether the machine has ended, or was told to.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing.is_some() || self.is_ended()
    }

    /// Whether a server accepts requests.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.established().is_some()
    }

    /// The id of the session; [`SessionId::NONE`] while there is none.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.session.id
    }

    /// The shortest timeout that a server has granted to the session, or the requested one while
    /// there is no session.
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.session.timeout
    }

    /// How many connections were established so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections
    }

    /// The server of the present connection.
    #[must_use]
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.established().map(|open| &*open.endpoint)
    }

    /// The server of the present connection and the session, for errors that concern them.
    pub(crate) fn peer(&self) -> Peer {
        Peer {
            server: self.established().map(|open| open.endpoint.clone()),
            session: self.session.id,
        }
    }

    /// The last failure of each server since one last worked, oldest first; at most the newest
    /// sixteen.
    #[must_use]
    pub fn failures(&self) -> Arc<[Lost]> {
        self.endpoints.failures()
    }

    /// How many servers the connection string names.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.endpoints.len()
    }

    /// How many requests wait to be sent or answered.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.queue.len() + self.in_flight()
    }

    /// How many requests wait for their replies.
    fn in_flight(&self) -> usize {
        self.connection
            .as_ref()
            .map_or(0, |connection| connection.in_flight.len())
    }

    /// How many listeners wait for watches.
    #[must_use]
    pub fn watch_count(&self) -> usize {
        self.watches.len()
    }

    /// What the client has done so far, and what it does now.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics {
            connections: self.connections,
            in_flight: self.in_flight(),
            queued: self.queue.len(),
            queued_bytes: self.queue.bytes(),
            watches: self.watches.len(),
            ..self.metrics.clone()
        }
    }

    /// The watches that the server should have: paths and types, in order. For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn wanted_watches(&self) -> Vec<(String, WatcherType)> {
        self.watches.wanted()
    }

    /// Ends the session and the machine. With a connection, the machine first sends what was
    /// submitted, then `closeSession`.
    pub fn close(&mut self, now: Instant) {
        if self.is_closing() {
            return;
        }
        let request_timeout = self.timing.request;
        match self.established_mut() {
            Some(open) => {
                open.is_moving = false;
                self.closing = Some(now + request_timeout);
                self.enqueue_own(Request::CloseSession(Empty {}), ReplyTo::Close);
            }
            None => self.end(State::Closed, Cause::ByClient),
        }
    }

    /// Ends the machine at once and sends nothing: the servers expire the session later.
    pub fn abort(&mut self) {
        if !self.is_ended() {
            self.end(State::Closed, Cause::ByClient);
        }
    }

    /// The next thing that the world must know, in order; `None` when there is nothing more.
    #[must_use]
    pub fn poll_output(&mut self) -> Option<Output<T>> {
        self.outputs.pop_front()
    }

    /// The connection, if requests can be sent on it.
    fn established(&self) -> Option<&Connection<T>> {
        self.connection
            .as_ref()
            .filter(|open| open.is_established())
    }

    fn established_mut(&mut self) -> Option<&mut Connection<T>> {
        self.connection
            .as_mut()
            .filter(|open| open.is_established())
    }

    /// Queues a request of the machine itself, and returns its number. It does not outlive the
    /// connection, so it needs no deadline.
    fn enqueue_own(&mut self, request: Request, reply_to: ReplyTo<T>) -> u64 {
        self.queue
            .push(request, 0, reply_to, RequestOptions::at(self.began))
    }

    fn set_state(&mut self, state: State) {
        if self.state != state {
            self.state = state;
            self.outputs.push_back(Output::State(self.snapshot()));
        }
    }

    /// Tells every listener that its watch has ended.
    fn end_watches(&mut self, error: &Error) {
        let ended = self.watches.drain();
        self.end_listeners(ended, error);
    }

    /// Settles a request that got no reply.
    fn fail(&mut self, op: OpCode, reply_to: ReplyTo<T>, error: Error) {
        let (token, watch) = match reply_to {
            ReplyTo::Caller { token, watch } => (Some(token), watch),
            ReplyTo::Auth { token } => (Some(token), None),
            ReplyTo::Nobody { watch } => (None, watch),
            ReplyTo::SetWatches { since, .. } => return self.session.not_watched(since),
            _ => return,
        };
        if let Some(watch) = watch {
            let requests = watch.settle(&mut self.watches, None);
            self.send_watch_requests(requests);
        }
        if let Some(token) = token {
            self.complete_failed(op, token, error);
        }
    }

    /// Gives a caller the error of its request.
    fn complete_failed(&mut self, op: OpCode, token: T, error: Error) {
        self.metrics.settled(Some(&error));
        let error = error.of(op);
        tracing::trace!(%op, %error, "request failed");
        self.outputs.push_back(Output::Completed(token, Err(error)));
    }

    /// Gives a caller the result of its request.
    fn complete(&mut self, token: T, result: Result<Response, Error>) {
        self.metrics.settled(result.as_ref().err());
        self.outputs.push_back(Output::Completed(token, result));
    }
}

/// Prints nothing that passes through the machine: no passwords, credentials or data.
impl<T> fmt::Debug for Machine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine")
            .field("state", &self.state)
            .field("session", &self.session)
            .field("connection", &self.connection)
            .field("queue", &self.queue.len())
            .field("watches", &self.watches.len())
            .finish_non_exhaustive()
    }
}
