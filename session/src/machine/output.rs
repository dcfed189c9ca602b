//! What goes into the machine, and what comes out: the inputs and the outputs; the session and its
//! state as outputs show them; the events of watches; how long a request may wait.
//!
//! Not here: requests (`encoded`), replies (`reply`).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use lockkeeper_proto::{EventType, OpCode, SessionId};

use super::{Reply, WatchId};
use crate::{Cause, Effect, Endpoint, Error, ErrorKind, Peer};

/// What the machine must know of the world.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Input {
    /// The transport is connected.
    Connected,
    /// A whole message has arrived.
    Frame(Bytes),
    /// A message is arriving that is longer than this client accepts. The transport skips it.
    Oversized {
        /// Its length.
        length: usize,
        /// The longest that is accepted.
        limit: usize,
    },
    /// The server that the client reaches for has accepted a connection: see [`Output::Reach`].
    Reached(Arc<Endpoint>),
    /// The connection has ended, or could not be made.
    Disconnected(Cause),
    /// Time has passed: [`next_deadline`](super::Machine::next_deadline) has come.
    Tick,
}

/// What the world must know or do, in the order in which it happened: the event of a watch comes
/// before the reply that shows the new data.
#[derive(Debug)]
#[non_exhaustive]
pub enum Output<T> {
    /// Connect to this server, then report [`Input::Connected`] or [`Input::Disconnected`].
    Connect(Arc<Endpoint>),
    /// Drop the connection, or the attempt to make one. Report nothing.
    Disconnect,
    /// Connect to this server beside the present connection, and report [`Input::Reached`]. A
    /// [`Connect`](Self::Connect) to the same server then takes this connection. `None`: drop it.
    Reach(Option<Arc<Endpoint>>),
    /// A request is settled.
    Completed(T, Result<Reply, Error>),
    /// A one-shot watch has fired, or a watch has ended.
    Watch(WatchId, Result<Event, Error>),
    /// A persistent watch has something to report, and goes on.
    Notice(WatchId, Notice),
    /// The state of the session has changed.
    State(Snapshot),
    /// The lease is good for a grant: see [`await_lease`](super::Machine::await_lease).
    LeaseRenewed,
}

/// A session as the client knows it at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The state of the session.
    pub state: State,
    /// The id of the session; [`SessionId::NONE`] before the first one and between two.
    pub session_id: SessionId,
    /// The shortest timeout that a server has granted to the session, or the requested one while
    /// there is no session.
    pub session_timeout: Duration,
    /// How many connections were established so far: another number means another connection.
    pub connections: u64,
    /// The server of the present connection.
    pub server: Option<Arc<Endpoint>>,
}

impl Snapshot {
    /// Whether this is the session with that id, and the client has not seen it end.
    #[must_use]
    pub fn is_session(&self, id: SessionId) -> bool {
        id != SessionId::NONE && self.session_id == id && !self.state.is_final()
    }
}

/// What a persistent watch reports.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Something happened.
    Event(Event),
    /// The watch was set again on another connection. Events in between are not reported.
    Reconnected,
}

/// What happened to a watched node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// What happened.
    pub event_type: EventType,
    /// The path of the node: the server's in the machine, the client's name for it in a client.
    pub path: String,
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// There is no session: before the first one, or after an expiry.
    Connecting,
    /// The client is connected to a server.
    Connected,
    /// The connection is lost. The session lives until the servers expire it. Watches report
    /// nothing, and locks are in doubt.
    Suspended,
    /// The session has expired, and its ephemeral nodes are gone. `Connecting` follows.
    Expired,
    /// Authentication failed. The client has ended.
    AuthFailed,
    /// The client has ended: it was closed, or it ended with its session.
    Closed,
}

impl State {
    /// Whether a server answers requests.
    #[must_use]
    pub fn is_connected(self) -> bool {
        matches!(self, Self::Connected)
    }

    /// Whether the client has ended for good.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::AuthFailed | Self::Closed)
    }
}

/// How long a request may wait, and for what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestOptions {
    /// When the caller began to wait, not before the machine was made. `None` stands for the next
    /// [`transmit`](super::Machine::transmit).
    pub since: Option<Instant>,
    /// When the request fails; `None` for the limits of the session alone.
    pub deadline: Option<Instant>,
}

impl RequestOptions {
    /// No deadline, and the request waits for a connection.
    #[must_use]
    pub fn at(since: Instant) -> Self {
        Self {
            since: Some(since),
            deadline: None,
        }
    }

    /// Whether the deadline has come.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// The error of a request whose deadline has come.
    pub(crate) fn exceeded(&self, op: OpCode, effect: Effect, peer: Peer) -> Error {
        let waited = self.deadline.zip(self.since);
        let waited = waited.map(|(deadline, since)| deadline.saturating_duration_since(since));
        let waited = waited.unwrap_or_default();
        Error::new(ErrorKind::DeadlineExceeded { op, waited }, peer, effect)
    }
}
