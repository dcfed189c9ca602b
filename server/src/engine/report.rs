//! What can be asked about a running server: counters, and a picture of its state.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use lockkeeper_proto::{OpCode, Perms, SessionId, Stat, Zxid};

use super::{
    Engine, acl,
    changes::Event,
    connection::{Connection, Traffic},
    followers::Followers,
};

/// What has happened since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Connections accepted.
    pub connections: u64,
    /// Sessions started.
    pub sessions: u64,
    /// Sessions expired; those that were closed are not among them.
    pub expired: u64,
    /// Requests by operation, whatever became of them; handshakes as [`OpCode::CREATE_SESSION`].
    pub requests: BTreeMap<OpCode, u64>,
    /// Replies sent, those to handshakes among them.
    pub replies: u64,
    /// Watch events sent.
    pub notifications: u64,
    /// Over all connections.
    pub traffic: Traffic,
}

impl Counters {
    /// How many requests of an operation have come.
    #[must_use]
    pub fn requests_of(&self, op: OpCode) -> u64 {
        self.requests.get(&op).copied().unwrap_or(0)
    }

    /// How many requests have come, without handshakes and pings.
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

    /// Sends an event to a connection that may read what it is about; one that may not hears nothing.
    pub(crate) fn deliver(&mut self, to: &mut Connection, zxid: Zxid, event: &Event<'_>) {
        if acl::allows(event.acl, Perms::READ, &to.ids) {
            self.notifications = self.notifications.saturating_add(1);
            to.notify(zxid, event.what, event.path);
        }
    }
}

/// A picture of the server's state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The last transaction.
    pub zxid: Zxid,
    /// Nodes, without the system's four.
    pub nodes: usize,
    /// Watches: one for each connection, path and kind.
    pub watches: usize,
    /// Open connections.
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
    /// Whether a connection speaks for it.
    pub is_connected: bool,
    /// Paths of its ephemeral nodes, sorted.
    pub ephemerals: Vec<String>,
    /// Watches of its connection.
    pub watches: usize,
    /// What its connection has sent so far; zeros without one.
    pub traffic: Traffic,
}

impl Engine {
    /// What has happened since the start.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A picture of the present state.
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

    /// Paths of all nodes but the system's, sorted.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        self.live.tree.user_paths()
    }

    /// All live sessions, in order of their numbers.
    #[must_use]
    pub fn live_sessions(&self) -> impl ExactSizeIterator<Item = SessionId> {
        self.sessions.iter().map(|(id, _)| id)
    }

    /// A node's metadata and data, whoever may read them.
    #[must_use]
    pub fn node(&self, path: &str) -> Option<(Stat, Option<Bytes>)> {
        let node = self.live.tree.get(path)?;
        Some((node.stat(), node.data.clone()))
    }

    pub(super) fn all_watches(&self) -> usize {
        self.views().map(|view| view.watches.len()).sum()
    }

    fn watches_of(&self, id: super::ConnId) -> usize {
        self.views().map(|view| view.watches.len_of(id)).sum()
    }

    fn views(&self) -> impl Iterator<Item = &super::view::View> {
        let frozen = self.frozen.values().map(|frozen| &frozen.view);
        let followers = self.followers.iter().flat_map(Followers::views);
        frozen.chain(followers).chain([&self.live])
    }
}
