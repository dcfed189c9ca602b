//! What goes into the machine, and what comes out of it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use lockkeeper_proto::{EventType, Response, SessionId};

use super::WatchId;
use crate::{Cause, Endpoint, Error};

/// What the world tells the machine.
#[derive(Clone, Debug)]
pub enum Input {
    /// The connection that was asked for stands.
    Connected,
    /// A whole message has arrived on it.
    Frame(Bytes),
    /// A message was announced on it that is longer than this client takes; it is not read.
    Oversized {
        /// Its length.
        length: usize,
        /// The longest that is taken.
        limit: usize,
    },
    /// It has ended, or never came about.
    Disconnected(Cause),
    /// The answer to [`Output::Probe`], which must have one.
    Probed {
        /// The server that was asked.
        endpoint: Arc<Endpoint>,
        /// Whether it answered `rw`.
        takes_writes: bool,
    },
    /// Time has passed: [`next_deadline`](super::Machine::next_deadline) has come.
    Tick,
}

/// What the machine tells the world, in the order in which it happened: a watch event comes before the reply that
/// shows the new data.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Output<T> {
    /// Connect to this server, then say [`Input::Connected`] or [`Input::Disconnected`].
    Connect(Arc<Endpoint>),
    /// Drop the connection, or the attempt at one; nothing need be said.
    Disconnect,
    /// Ask this server with the word `isro`, beside the connection, whether it takes writes, then say [`Input::Probed`].
    Probe(Arc<Endpoint>),
    /// A request is settled.
    Completed(T, Result<Response, Error>),
    /// A one-shot watch has fired, or any watch has ended.
    Watch(WatchId, Result<Event, Error>),
    /// A lasting watch goes on.
    Notice(WatchId, Notice),
    /// The session's state is another one; what else was true of the session at that moment is with it.
    State(Snapshot),
}

/// What is known of a session at some instant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The state of the session.
    pub state: State,
    /// The session; [`SessionId::NONE`] before the first one and between two.
    pub session_id: SessionId,
    /// The negotiated session timeout, or the one asked for while nothing is negotiated.
    pub session_timeout: Duration,
    /// How often a server took the session on: another number means another connection.
    pub connections: u64,
    /// The server of the present connection.
    pub server: Option<Arc<Endpoint>>,
}

impl Snapshot {
    /// Whether this is the session with that id, alive as far as the client knows.
    #[must_use]
    pub fn is_session(&self, id: SessionId) -> bool {
        id != SessionId::NONE && self.session_id == id && !self.state.is_final()
    }
}

/// What a lasting watch has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Something happened.
    Event(Event),
    /// The watch is left anew on another connection: what happened between the two is not told.
    Reconnected,
}

/// What happened to a watched node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub event_type: EventType,
    /// The node, as a server path.
    pub path: String,
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// There is no session yet, or a new one is being sought after an expiry.
    Connecting,
    /// A server keeps the session alive.
    Connected,
    /// As `Connected`, to a server that takes no writes.
    ReadOnly,
    /// The connection is lost; the session lives until the servers expire it. Watches are silent, locks in doubt.
    Suspended,
    /// The session is over, its ephemeral nodes are gone. Followed by `Connecting`, or by `Closed` when the client ends
    /// with it: see [`OnExpiry`](crate::OnExpiry).
    Expired,
    /// Authentication failed. The client has ended.
    AuthFailed,
    /// The client has ended: it was closed, or its session expired and it was to end with it.
    Closed,
}

impl State {
    /// Whether requests are being answered.
    #[must_use]
    pub fn is_connected(self) -> bool {
        matches!(self, Self::Connected | Self::ReadOnly)
    }

    /// Whether the client has ended for good.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::AuthFailed | Self::Closed)
    }
}
