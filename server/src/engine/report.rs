//! What tests can ask about a running server: counters, and a snapshot of its state.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use bytes::Bytes;
use lockkeeper_proto::{OpCode, Perms, SessionId, Stat, WatcherType, Zxid};

use super::{
    Engine, acl,
    changes::Event,
    connection::{Connection, Traffic},
    followers::Followers,
};

/// Counts of what has happened since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Connections accepted.
    pub connections: u64,
    /// Sessions started.
    pub sessions: u64,
    /// Sessions expired. Closed sessions do not count.
    pub expired: u64,
    /// Requests by operation, including those that failed. Handshakes count as [`OpCode::CREATE_SESSION`].
    pub requests: BTreeMap<OpCode, u64>,
    /// Replies sent, including those to handshakes.
    pub replies: u64,
    /// Watch events sent.
    pub notifications: u64,
    /// The sum over all connections.
    pub traffic: Traffic,
}

impl Counters {
    /// The number of requests of one operation.
    #[must_use]
    pub fn requests_of(&self, op: OpCode) -> u64 {
        self.requests.get(&op).copied().unwrap_or(0)
    }

    /// The number of requests, without handshakes and pings.
    #[must_use]
    pub fn all_requests(&self) -> u64 {
        let counted = self
            .requests
            .iter()
            .filter(|(op, _)| !matches!(**op, OpCode::PING | OpCode::CREATE_SESSION));
        counted.map(|(_, count)| count).sum()
    }

    pub(crate) fn note(&mut self, op: OpCode) {
        let count = self.requests.entry(op).or_default();
        *count = count.saturating_add(1);
    }

    /// Sends an event to a connection, if the connection may read the node; otherwise sends nothing.
    pub(crate) fn deliver(&mut self, to: &mut Connection, zxid: Zxid, event: &Event<'_>) {
        if acl::allows(event.acl, Perms::READ, &to.ids) {
            self.notifications = self.notifications.saturating_add(1);
            to.notify(zxid, event.what, event.path);
        }
    }
}

/// A snapshot of the server's state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The last transaction.
    pub zxid: Zxid,
    /// The number of nodes, without the system's four.
    pub nodes: usize,
    /// The number of watches: one for each connection, path and kind.
    pub watches: usize,
    /// The number of open connections.
    pub connections: usize,
    /// Live sessions.
    pub sessions: BTreeMap<SessionId, SessionReport>,
}

/// A live session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionReport {
    /// Its negotiated timeout.
    pub timeout: Duration,
    /// Whether the session has a connection.
    pub is_connected: bool,
    /// Paths of its ephemeral nodes, sorted.
    pub ephemerals: Vec<String>,
    /// The number of watches of its connection.
    pub watches: usize,
    /// The paths of these watches, sorted.
    pub watched: Vec<String>,
    /// Counts of what its present connection has sent; zeros if it has none.
    pub traffic: Traffic,
}

/// The ephemeral nodes and the watched paths of the session.
impl fmt::Display for SessionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_connected {
            "connected"
        } else {
            "not connected"
        };
        write!(f, "{state}")?;
        for (what, paths) in [("nodes", &self.ephemerals), ("watches", &self.watched)] {
            if !paths.is_empty() {
                write!(f, "; {what}: {}", paths.join(", "))?;
            }
        }
        Ok(())
    }
}

impl Engine {
    /// Counts of what has happened since the start.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A snapshot of the present state.
    #[must_use]
    pub fn report(&self) -> Report {
        let sessions = self.sessions.iter().map(|(id, session)| {
            let connection = session
                .connection
                .and_then(|id| Some((id, self.connections.get(&id)?)));
            let ephemerals = self.live.tree.ephemerals_of(id);
            let report = SessionReport {
                timeout: session.timeout,
                is_connected: connection.is_some(),
                ephemerals: ephemerals.map(std::string::ToString::to_string).collect(),
                watches: connection.map_or(0, |(id, _)| self.watches_of(id)),
                watched: connection.map_or(Vec::new(), |(id, _)| self.watched_by(id)),
                traffic: connection.map_or(Traffic::default(), |(_, own)| own.traffic),
            };
            (id, report)
        });
        Report {
            zxid: self.live.zxid,
            nodes: self
                .live
                .tree
                .len()
                .saturating_sub(super::tree::SYSTEM_PATHS.len()),
            watches: self.all_watches(),
            connections: self.connections.len(),
            sessions: sessions.collect(),
        }
    }

    /// The paths of all nodes except the system's, sorted.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        self.live.tree.user_paths()
    }

    /// All live sessions in the order of their ids.
    #[must_use]
    pub fn live_sessions(&self) -> impl ExactSizeIterator<Item = SessionId> {
        self.sessions.iter().map(|(id, _)| id)
    }

    /// A node's metadata and data, without a check of its ACL.
    #[must_use]
    pub fn node(&self, path: &str) -> Option<(Stat, Option<Bytes>)> {
        let node = self.live.tree.get(path)?;
        Some((node.stat(), node.data.clone()))
    }

    /// The watches of a session's connection: paths and types, in order. `None` if the session has no connection.
    #[must_use]
    pub fn watches_of_session(&self, session: SessionId) -> Option<Vec<(String, WatcherType)>> {
        let id = self.sessions.get(session)?.connection?;
        let mut all: Vec<_> = self.views().flat_map(|view| view.watches.of(id)).collect();
        all.sort();
        Some(all)
    }

    pub(super) fn all_watches(&self) -> usize {
        self.views().map(|view| view.watches.len()).sum()
    }

    fn watches_of(&self, id: super::ConnId) -> usize {
        self.views().map(|view| view.watches.len_of(id)).sum()
    }

    fn watched_by(&self, id: super::ConnId) -> Vec<String> {
        let paths = self.views().flat_map(|view| view.watches.paths_of(id));
        let paths: BTreeSet<_> = paths.map(std::string::ToString::to_string).collect();
        paths.into_iter().collect()
    }

    pub(super) fn views(&self) -> impl Iterator<Item = &super::view::View> {
        let frozen = self.frozen.values().map(|frozen| &frozen.view);
        let followers = self.followers.iter().flat_map(Followers::views);
        frozen.chain(followers).chain([&self.live])
    }
}
