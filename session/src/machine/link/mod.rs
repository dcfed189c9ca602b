//! The link to the servers, and the session that goes on from connection to connection.
//!
//! ```text
//!            retry time                           answer to the handshake,
//!            has come             Connected       and SASL if configured
//!   Paused ────────────► Trying ─────────────────────────────► Open
//!     ▲                     │                                    │
//!     └─────────────────────┴─────────── connection lost ────────┘
//!   any of them ── close, refused authentication ──► Ended
//! ```
//!
//! The link knows no request and no watch. What others must do or hear is a [`Change`]; they take
//! the changes in order.
//!
//! | file | what |
//! |---|---|
//! | `beginning` | from a pause to a server that accepts requests |
//! | `ending` | how a connection, the session and the link end; leaving a server |
//! | `attempt` | the data of a connection until the server accepts requests |
//! | `connection` | a connection that accepts requests |
//! | `session` | what is known of the session |
//! | `silent` | a server that owes an answer is left for another one |
//! | `servers` | which server to try next, after which pause, and why the last ones failed |
//! | `sasl` | the interface of a SASL mechanism |

mod attempt;
mod beginning;
mod connection;
mod ending;
pub mod sasl;
pub(super) mod servers;
mod session;
mod silent;

use std::{
    collections::VecDeque,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    ErrorCode, OpCode, SessionId, Xid, Zxid, frame, header::RequestHeader, jute::Encode,
};

use super::{
    config::{Auth, Config},
    output::{Snapshot, State},
    pace::Pace,
    rng::Rng,
    timing::Timing,
};
use crate::{Cause, Effect, Endpoint, Error, ErrorKind, Lost, Peer};
use attempt::Attempt;
use connection::Connection;
use servers::Servers;
use session::Session;

/// What has happened to the link.
#[derive(Debug)]
pub(crate) enum Change {
    /// The transport is to connect to this server.
    Connect(Arc<Endpoint>),
    /// The transport is to drop the connection, or the attempt.
    Disconnect,
    /// The transport is to reach for this server beside the connection, or for none.
    Reach(Option<Arc<Endpoint>>),
    /// The state of the session is another one.
    State(Snapshot),
    /// A server accepts requests on a new connection.
    Opened {
        /// When the handshake was sent, and when the server accepted the client.
        greeted: Instant,
        at: Instant,
        /// Whether the session is new, too.
        is_new: bool,
    },
    /// That connection is gone. What is under way on it gets this error.
    Closed(Error),
    /// The session is over. What belongs to it gets this error.
    SessionOver(Error),
}

/// Where the link is. What belongs to a stage is in its variant, and is dropped with it.
enum Stage {
    /// The next server is tried at this time.
    Paused { until: Instant },
    /// A server has yet to accept the client.
    Trying(Attempt),
    /// A server accepts requests.
    Open(Connection),
    /// The machine accepts no request any more, for this reason.
    Ended(Error),
}

/// The connection of a session, or the way to the next one; and what is known of the session.
pub struct Link {
    config: Config,
    stage: Stage,
    session: Session,
    servers: Servers,
    /// The state that was reported last.
    state: State,
    /// How many connections were established so far.
    connections: u64,
    /// When the last connection was lost; before the first one, when the link was made.
    alone_since: Instant,
    /// Since when no login has succeeded, if one has failed.
    login_failed_since: Option<Instant>,
    next_xid: i32,
    pace: Pace,
    /// Since when servers have throttled each write that they have answered.
    throttled: Option<Instant>,
    /// From when it may.
    reach_from: Option<Instant>,
    changes: VecDeque<Change>,
}

impl Link {
    /// A link without a connection. Its first attempt is due at once.
    pub(crate) fn new(mut config: Config, now: Instant) -> Self {
        let session = Session::first(&mut config);
        Self {
            next_xid: first_xid(&session, &config),
            stage: Stage::Paused { until: now },
            session,
            servers: Servers::new(&config.endpoints, config.seed),
            state: State::Connecting,
            connections: 0,
            alone_since: now,
            login_failed_since: None,
            pace: Pace::default(),
            throttled: None,
            reach_from: None,
            changes: VecDeque::new(),
            config,
        }
    }

    /// The oldest change that was not taken yet.
    pub(crate) fn poll_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    // What is known.

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// The state that the last [`Output::State`](super::Output::State) reported.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// The session as the client knows it now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            state: self.state,
            session_id: self.session.id(),
            session_timeout: self.session.timeout(),
            connections: self.connections,
            server: self.peer().server,
        }
    }

    /// The server of the present connection, and the session.
    pub(crate) fn peer(&self) -> Peer {
        let open = self.connection();
        Peer {
            server: open.map(|open| open.endpoint().clone()),
            session: self.session.id(),
        }
    }

    /// The server of the present connection.
    #[must_use]
    pub fn endpoint(&self) -> Option<&Endpoint> {
        Some(self.connection()?.endpoint())
    }

    /// How many connections were established so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections
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

    /// The durations that follow from the session timeout.
    pub(crate) fn timing(&self) -> &Timing {
        self.session.timing()
    }

    /// The newest transaction that a server has named in this session.
    #[must_use]
    pub fn newest_zxid(&self) -> Zxid {
        self.session.last_zxid()
    }

    /// What another client needs to go on with the session.
    #[cfg(feature = "tokio")]
    pub(crate) fn ticket(&self) -> super::ticket::SessionTicket {
        self.session.ticket()
    }

    /// Until when a server may have a write of the session from an earlier connection.
    pub(crate) fn owed_until(&self, now: Instant) -> Option<Instant> {
        self.servers.owed_until(now)
    }

    fn connection(&self) -> Option<&Connection> {
        match &self.stage {
            Stage::Open(open) => Some(open),
            _ => None,
        }
    }

    fn connection_mut(&mut self) -> Option<&mut Connection> {
        match &mut self.stage {
            Stage::Open(open) => Some(open),
            _ => None,
        }
    }

    /// Whether a server accepts requests.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.connection().is_some()
    }

    /// Whether the machine has ended, or was told to.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        match &self.stage {
            Stage::Open(open) => open.closing().is_some(),
            Stage::Ended(_) => true,
            Stage::Paused { .. } | Stage::Trying(_) => false,
        }
    }

    /// Whether the machine has ended. It accepts no request any more.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.ended().is_some()
    }

    /// Why the machine has ended; `None` while it has not.
    #[must_use]
    pub fn ended(&self) -> Option<&Error> {
        match &self.stage {
            Stage::Ended(error) => Some(error),
            _ => None,
        }
    }

    /// The last failure of each server since one last worked, oldest first; at most the newest
    /// sixteen.
    #[must_use]
    pub fn failures(&self) -> Arc<[Lost]> {
        self.servers.failures(None)
    }

    /// No server was reached for so long. The error has the failures of all servers, and that of the
    /// attempt that still lasts, if it is the first one at its server.
    pub(crate) fn unreachable(&self, now: Instant, waited: Duration) -> Error {
        let pending = match &self.stage {
            Stage::Trying(attempt) => {
                Some(self.lost(attempt.endpoint().clone(), attempt.failure(now)))
            }
            _ => None,
        };
        let (tried, servers) = (self.servers.failures(pending), self.servers.len());
        let peer = tried.last().map(Peer::from).unwrap_or_default();
        let kind = ErrorKind::Unreachable {
            waited,
            tried,
            servers,
        };
        Error::new(kind, peer, Effect::NotApplied)
    }

    /// Why there is no connection, as the error of a request that has waited since it was lost;
    /// `None` while there is one.
    #[must_use]
    pub fn outage(&self, now: Instant) -> Option<Error> {
        let is_out = matches!(self.stage, Stage::Paused { .. } | Stage::Trying(_));
        is_out.then(|| self.unreachable(now, now.duration_since(self.alone_since)))
    }

    // Requests and replies, as far as they concern the link.

    /// The number of the next request on the wire. It is unique in a session, over all its
    /// connections. Otherwise a follower that still waits for a write of the former connection would
    /// answer the new request with the result of the old one.
    pub(crate) fn take_xid(&mut self) -> Xid {
        let xid = self.next_xid;
        self.next_xid = xid.checked_add(1).unwrap_or(1);
        Xid(xid)
    }

    /// Whether a request with this operation may be sent now.
    pub(crate) fn may_send(&self, op: OpCode) -> bool {
        let Stage::Open(open) = &self.stage else {
            return false;
        };
        let waits = self.config.requests_wait_for_identities && self.connections <= 1;
        let is_held_up = waits && open.is_authenticating() && op != OpCode::AUTH;
        !is_held_up
    }

    /// Appends what the link itself has to send: the handshake, or a ping. Inline, as mostly there is
    /// nothing.
    #[inline]
    pub(crate) fn transmit(&mut self, out: &mut BytesMut) {
        match &mut self.stage {
            Stage::Trying(attempt) => out.extend_from_slice(&attempt.take_unsent()),
            Stage::Open(open) => {
                if open.take_unsent_ping() {
                    let (xid, op) = (Xid::PING, OpCode::PING);
                    let _ = frame::append(out, |writer| RequestHeader { xid, op }.encode(writer));
                }
            }
            Stage::Paused { .. } | Stage::Ended(_) => {}
        }
    }

    /// A whole message has come. Returns it if it is for the requests.
    pub(crate) fn frame(&mut self, now: Instant, frame: Bytes) -> Option<Bytes> {
        match self.stage {
            // A process that slept finds frames that came meanwhile, on a connection whose server
            // may not know yet that the session is over. They prove nothing. Source:
            // `ClientCnxn.SendThread.run`, which looks at the clock first.
            Stage::Open(_) if self.silence().is_some_and(|until| until <= now) => {
                self.give_up(now, Cause::Silent(self.timing().read));
                return None;
            }
            Stage::Open(_) => {
                self.session.hear(now);
                return Some(frame);
            }
            Stage::Trying(_) => self.handshake_frame(now, frame),
            // Of a connection that was given up already.
            Stage::Paused { .. } | Stage::Ended(_) => {}
        }
        None
    }

    /// A request that was sent at `sent` is answered, after `took`. The reply names this transaction.
    pub(crate) fn answered(&mut self, now: Instant, sent: Instant, took: Duration, zxid: Zxid) {
        self.session.see(zxid);
        self.took(now, took);
        if let Some(open) = self.connection_mut() {
            open.answered(now, sent);
        }
    }

    /// A write is sent.
    pub(crate) fn write_sent(&mut self) {
        if let Some(open) = self.connection_mut() {
            open.write_sent();
        }
    }

    /// A write is answered. `is_handled` says that the leader has handled it; otherwise the answer may
    /// come from the server itself, past the writes that it has yet to forward.
    pub(crate) fn write_answered(&mut self, is_handled: bool) {
        let Stage::Open(open) = &mut self.stage else {
            return;
        };
        open.write_answered();
        if is_handled {
            self.servers.owes_nothing(open.endpoint());
        }
    }

    /// The answer to a write has this code.
    pub(crate) fn note_throttling(&mut self, now: Instant, code: ErrorCode) {
        let is_throttled = code == ErrorCode::THROTTLED_OP;
        self.throttled = is_throttled.then(|| self.throttled.unwrap_or(now));
    }

    /// For how long servers have throttled each write that they have answered.
    #[cfg(feature = "tokio")]
    pub(crate) fn throttled(&self, now: Instant) -> Option<Duration> {
        Some(now.saturating_duration_since(self.throttled?))
    }

    /// How long the slowest answer of late has taken.
    pub(crate) fn slowest(&self) -> Duration {
        self.pace.slowest()
    }

    fn took(&mut self, now: Instant, took: Duration) {
        // A lock is not to wait for long because of a pause that is over.
        self.pace
            .took(now, took, self.session.timing().queue_wait / 4);
    }

    /// The ping is answered. Returns when it was sent; `None` if there was none.
    pub(crate) fn pong(&mut self, now: Instant) -> Option<Instant> {
        let sent = self.connection_mut()?.pong()?;
        self.took(now, now.saturating_duration_since(sent));
        Some(sent)
    }

    /// Another identity for every later connection.
    pub(crate) fn add_identity(&mut self, identity: Auth) {
        if !self.config.auth.contains(&identity) {
            self.config.auth.push(identity);
        }
    }

    /// The server has accepted one of the identities with which a connection begins.
    pub(crate) fn identity_accepted(&mut self) {
        if let Some(open) = self.connection_mut() {
            open.accepted();
        }
        self.announce();
    }

    /// The server has said something.
    pub(crate) fn hear(&mut self, now: Instant) {
        self.session.hear(now);
    }

    // Deadlines. Those of a stage are stored in it at most, so none can be stale.

    /// When [`end_overdue_session`](Self::end_overdue_session) is due: when no server was heard for
    /// too long, or the server does not confirm a close.
    pub(crate) fn session_deadline(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Ended(_) => None,
            Stage::Paused { .. } | Stage::Trying(_) => {
                Some(self.session.heard()? + self.timing().session_end)
            }
            Stage::Open(open) => open.closing(),
        }
    }

    /// When [`tick`](Self::tick) is due, with this interval between pings.
    pub(crate) fn deadline(&self, interval: Duration) -> Option<Instant> {
        match &self.stage {
            Stage::Ended(_) => None,
            Stage::Paused { until } => Some(*until),
            Stage::Trying(attempt) => Some(attempt.deadline()),
            Stage::Open(open) => Some(match open.pinged() {
                Some(since) => earlier(since + self.timing().read, self.silence()),
                // The server was heard behind the last ping, so its silence ends later.
                None => open.ping_due(interval),
            }),
        }
    }

    /// When the server will have been silent for too long.
    pub(super) fn silence(&self) -> Option<Instant> {
        Some(self.session.heard()? + self.timing().read)
    }

    /// When a request that waits since this instant will have waited for a connection for too long;
    /// `None` while there is one. While there was one, it waited for the requests ahead of it.
    pub(crate) fn unsent_deadline(&self, since: Instant) -> Option<Instant> {
        let since = self.session.heard().max(Some(since))?;
        (!self.is_connected()).then(|| since + self.timing().queue_wait)
    }

    /// When the next ping is due; `None` without a connection.
    pub(crate) fn next_ping(&self, interval: Duration) -> Option<Instant> {
        Some(self.connection()?.ping_due(interval))
    }

    pub(crate) fn end_overdue_session(&mut self, now: Instant) {
        match &self.stage {
            Stage::Open(_) => {
                let cause = Cause::RequestTimeout(self.timing().request);
                return self.end(State::Closed, cause);
            }
            Stage::Trying(_) => {
                self.stage = Stage::Paused { until: now };
                self.changes.push_back(Change::Disconnect);
            }
            Stage::Paused { .. } | Stage::Ended(_) => {}
        }
        self.expire(now, None);
    }

    /// Does what is due otherwise: gives up a server that does not answer, pings, tries the next
    /// server. Returns whether a ping is to be sent.
    pub(crate) fn tick(&mut self, now: Instant) -> bool {
        let (silence, read) = (self.silence(), self.timing().read);
        match &mut self.stage {
            Stage::Trying(attempt) => {
                let cause = attempt.failure(now);
                self.give_up(now, cause);
            }
            Stage::Open(_) if silence.is_some_and(|until| until <= now) => {
                self.give_up(now, Cause::Silent(read));
            }
            // No other ping is sent meanwhile, so the session is in danger, even if the server sends
            // other frames.
            Stage::Open(open) if open.pinged().is_some() => {
                self.give_up(now, Cause::RequestTimeout(read));
            }
            Stage::Open(open) => {
                open.ping(now);
                return true;
            }
            Stage::Paused { .. } | Stage::Ended(_) => {}
        }
        // Also when the pause behind what was given up is none.
        if let Stage::Paused { until } = self.stage {
            if until <= now {
                self.try_next_server(now);
            }
        }
        false
    }

    fn report(&mut self, state: State) {
        if self.state != state {
            self.state = state;
            let snapshot = self.snapshot();
            self.changes.push_back(Change::State(snapshot));
        }
    }
}

/// The first number on the wire. Two clients that go on with one session must not use the same
/// numbers. A follower finds the request that a commit answers by session and number. So one of them
/// could get the answer to a write of the other.
fn first_xid(session: &Session, config: &Config) -> i32 {
    if !session.is_resumable() {
        return 1;
    }
    // Not the numbers that shuffle the servers.
    i32::try_from(Rng::new(!config.seed).below(1 << 30)).unwrap_or(1)
}

/// The earlier of two deadlines. The second one may be unset.
pub(crate) fn earlier(deadline: Instant, other: Option<Instant>) -> Instant {
    other.map_or(deadline, |other| deadline.min(other))
}

/// Prints no passwords and no credentials.
impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("snapshot", &self.snapshot())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
impl Link {
    /// Lets the numbers on the wire begin here.
    pub(crate) fn set_next_xid(&mut self, xid: i32) {
        self.next_xid = xid;
    }
}
