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
//!            retry time                           answer to the handshake,
//!            has come             Connected       and SASL if configured
//!   Paused ────────────► Trying ─────────────────────────────► Open
//!     ▲                     │                                    │
//!     └─────────────────────┴─────────── Disconnected ───────────┘
//!   any of them ── close, refused authentication, expiry with OnExpiry::End ──► Ended
//! ```
//!
//! The machine has parts, which know nothing of each other, and passes facts between them:
//!
//! | part | what it owns |
//! |---|---|
//! | `phase` | a connection, or when to try the next server, or why the machine has ended |
//! | `session` | what is known of the session |
//! | `link` | the servers; an attempt to connect; whether a connection is alive |
//! | `requests` | requests that wait, and those under way; what operations servers know |
//! | `watches` | who listens to which node, and what the server has |
//! | `lease` | until when the session lives for certain, and what proves it |
//! | `outbox` | what the world has not heard yet, and the counters |
//!
//! | wiring | what |
//! |---|---|
//! | `connecting`, `ending` | the beginning and the end of a connection, of a session, of the machine |
//! | `sending`, `replies` | from queued requests to bytes, and from frames to the parts |
//! | `watching` | requests about watches |
//! | `timers` | every deadline of the machine |
//!
//! `config` has the settings, and the durations that follow from the session timeout; `output` what
//! goes in and comes out; `metrics`, `rng`, `spare` are counters, seeded random choices, and the room
//! that queues keep.
//!
//! Not here: sockets and tasks (`client`), records (`lockkeeper-proto`).

mod config;
mod connecting;
mod ending;
mod lease;
mod link;
mod metrics;
mod outbox;
mod output;
mod phase;
mod replies;
mod requests;
pub(crate) mod rng;
mod sending;
mod session;
mod spare;
mod timers;
mod watches;
mod watching;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

/// The buffers of [`Machine::transmit`] and [`Input::Frame`].
pub use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{Request, SessionId, WatcherType, Zxid, records::Empty};

pub use config::{Auth, Config, LeasePolicy, OnExpiry};
pub use lease::LeaseToken;
/// For `tests/model`, not for users.
#[doc(hidden)]
pub use lease::Proof;
pub use link::sasl;
pub use metrics::Metrics;
pub use output::{Event, Input, Notice, Output, RequestOptions, Snapshot, State};
pub use requests::Encoded;
#[doc(hidden)]
pub use requests::asked::Asked;
pub use watches::WatchId;

use crate::{Cause, Endpoint, Error, Lost, Peer};
use lease::Lease;
use link::Servers;
use outbox::Outbox;
use phase::{Open, Phase};
use requests::{Own, Queue, ReplyTo, Support};
use session::Session;
use watches::Watches;

/// A session. The caller gives a `T` with each request, and gets it back with the reply.
pub struct Machine<T> {
    config: Config,
    phase: Phase<T>,
    session: Session,
    servers: Servers,
    queue: Queue<T>,
    support: Support,
    watches: Watches,
    lease: Lease,
    out: Outbox<T>,
    /// How many connections were established so far.
    connections: u64,
    /// When the machine was made.
    began: Instant,
    /// When the last connection was lost; before the first one, when the machine was made.
    alone_since: Instant,
}

impl<T> Machine<T> {
    /// A machine without a session. The first [`Input::Tick`] starts the first connection.
    #[must_use]
    pub fn new(config: Config, now: Instant) -> Self {
        let config = config.bounded();
        Self {
            phase: Phase::Paused(now),
            session: Session::none(&config),
            servers: Servers::new(&config.endpoints, config.seed),
            queue: Queue::new(),
            support: Support::default(),
            watches: Watches::default(),
            lease: Lease::new(config.lease),
            out: Outbox::new(),
            connections: 0,
            began: now,
            alone_since: now,
            config,
        }
    }

    /// Takes in what happened.
    pub fn handle(&mut self, now: Instant, input: Input) {
        match input {
            Input::Connected => self.connected(now),
            Input::Frame(frame) => self.frame(now, frame),
            Input::Disconnected(cause) => self.disconnected(now, cause),
            Input::Oversized { length, limit } => self.oversized(now, length, limit),
            Input::Tick => self.tick(now),
        }
    }

    /// The next thing that the world must know, in order; `None` when there is nothing more.
    #[must_use]
    pub fn poll_output(&mut self) -> Option<Output<T>> {
        self.out.pop()
    }

    // What is known.

    /// The state that the last [`Output::State`] reported.
    #[must_use]
    pub fn state(&self) -> State {
        self.out.state()
    }

    /// The session as the client knows it now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_in(self.state())
    }

    fn snapshot_in(&self, state: State) -> Snapshot {
        Snapshot {
            state,
            session_id: self.session.id(),
            session_timeout: self.session.timeout(),
            connections: self.connections,
            server: self.peer().server,
        }
    }

    /// The newest transaction that a server has named in this session.
    #[must_use]
    pub fn newest_zxid(&self) -> Zxid {
        self.session.last_zxid()
    }

    /// Whether the machine has ended. It accepts no request any more.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.ended().is_some()
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
        self.phase.closing().is_some() || self.is_ended()
    }

    /// Whether a server accepts requests.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.phase.connection().is_some()
    }

    /// The id of the session; [`SessionId::NONE`] while there is none.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.session.id()
    }

    /// The shortest timeout that a server has granted to the session, or the requested one while
    /// there is no session.
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.session.timeout()
    }

    /// How many connections were established so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections
    }

    /// The server of the present connection.
    #[must_use]
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.phase.connection().map(|open| &**open.link.endpoint())
    }

    /// The server of the present connection and the session, for errors that concern them.
    pub(crate) fn peer(&self) -> Peer {
        let open = self.phase.connection();
        Peer {
            server: open.map(|open| open.link.endpoint().clone()),
            session: self.session.id(),
        }
    }

    /// The last failure of each server since one last worked, oldest first; at most the newest
    /// sixteen.
    #[must_use]
    pub fn failures(&self) -> Arc<[Lost]> {
        self.servers.failures(None)
    }

    /// Why there is no connection, as the error of a request that has waited since it was lost;
    /// `None` while there is one.
    #[must_use]
    pub fn outage(&self, now: Instant) -> Option<Error> {
        let is_out = self.phase.connection().is_none() && !self.is_ended();
        is_out.then(|| self.unreachable(now, now.duration_since(self.alone_since)))
    }

    /// How many requests wait to be sent or answered.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.queue.len() + self.in_flight()
    }

    fn in_flight(&self) -> usize {
        self.phase
            .connection()
            .map_or(0, |open| open.in_flight.len())
    }

    /// How many listeners wait for watches.
    #[must_use]
    pub fn watch_count(&self) -> usize {
        self.watches.len()
    }

    /// The watches that the server should have: paths and types, in order. For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn wanted_watches(&self) -> Vec<(String, WatcherType)> {
        self.watches.wanted()
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
            ..self.out.metrics().clone()
        }
    }

    // The lease.

    /// The instant until which no server can have ended the session: see [`LeasePolicy`]. `None`
    /// without a session.
    #[must_use]
    pub fn lease_deadline(&self) -> Option<Instant> {
        self.lease.deadline(self.session.timing())
    }

    /// Returns a token; while any token lives, the client writes often enough to keep the lease
    /// proved.
    #[must_use]
    pub fn keep_lease(&self) -> LeaseToken {
        self.lease.keep()
    }

    /// Whether the lease is good for a grant to a contender that waits for it since `since`: a
    /// quarter of the session timeout is left. After a quarter of waiting, less is enough: the
    /// lease must reach to half a session timeout after `since`.
    #[must_use]
    pub fn is_lease_good(&self, now: Instant, since: Instant) -> bool {
        self.lease.is_good(now, since, self.session.timing())
    }

    /// Whether the lease is not good for a grant any more before the next ping is due. Who keeps it
    /// from now on must look at [`next_deadline`](Self::next_deadline).
    #[must_use]
    pub fn is_lease_scarce(&self) -> bool {
        let Phase::Open(open) = &self.phase else {
            return false;
        };
        let timing = self.session.timing();
        let ping = self.lease.ping_due(open.link.last_ping(), timing);
        self.lease.good_until(timing) < Some(ping)
    }

    /// Asks for [`Output::LeaseRenewed`] once the lease is good for a grant to a contender that waits
    /// since `since`. Needs a [`LeaseToken`].
    pub fn await_lease(&mut self, since: Instant) {
        self.lease.await_good(since);
    }

    // The end.

    /// Ends the session and the machine. With a connection, the machine first sends what was
    /// submitted, then `closeSession`.
    pub fn close(&mut self, now: Instant) {
        if self.is_closing() {
            return;
        }
        match &mut self.phase {
            Phase::Open(open) => {
                open.link.close(now + self.session.timing().request);
                self.ask(Request::CloseSession(Empty {}), Own::Close);
            }
            _ => self.end(State::Closed, Cause::ByClient),
        }
    }

    /// Ends the machine at once and sends nothing: the servers expire the session later.
    pub fn abort(&mut self) {
        if !self.is_ended() {
            self.end(State::Closed, Cause::ByClient);
        }
    }

    // What the parts say through the machine.

    /// Queues a request of the machine itself, and returns its number. It does not outlive the
    /// connection, so it needs no deadline.
    fn ask(&mut self, request: Request, own: Own) -> u64 {
        let options = RequestOptions::at(self.began);
        self.queue.push(request.into(), ReplyTo::Own(own), options)
    }

    fn set_state(&mut self, state: State) {
        if self.state() != state {
            self.out.report(self.snapshot_in(state));
        }
    }
}

/// Prints nothing that passes through the machine: no passwords, credentials or data.
impl<T> fmt::Debug for Machine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine")
            .field("state", &self.state())
            .field("session", &self.session)
            .field("phase", &self.phase)
            .field("queue", &self.queue.len())
            .field("watches", &self.watches.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
