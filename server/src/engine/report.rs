//! What tests can ask about a running server: counters, and a snapshot of its state.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::Bytes;
use lockkeeper_proto::{SessionId, Stat, WatcherType, Zxid};

use super::{Engine, basics::ConnId, counters::Counters, tree::SYSTEM_PATHS};

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
}

impl Engine {
    /// Counts of what has happened since the start.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.connections.counters
    }

    /// A snapshot of the present state.
    #[must_use]
    pub fn report(&self) -> Report {
        let tree = &self.state.live.tree;
        // A client that was told of its session's end has nothing left.
        let connections = self.connections.iter();
        let told: BTreeSet<_> = connections.filter_map(|(_, own)| own.told_end_of).collect();
        let sessions = self.sessions.iter().filter(|(id, _)| !told.contains(id));
        let sessions = sessions.map(|(id, session)| {
            let own = session.connection;
            let connection = own.and_then(|own| self.connections.get(own));
            let watches = own.map_or(Vec::new(), |own| self.watches_of(own));
            let mut paths: Vec<_> = watches.iter().map(|(path, _)| path.clone()).collect();
            paths.dedup();
            let report = SessionReport {
                timeout: session.timeout,
                is_connected: connection.is_some(),
                ephemerals: tree.ephemerals_of(id).map(ToString::to_string).collect(),
                watches: watches.len(),
                watched: paths,
            };
            (id, report)
        });
        Report {
            zxid: self.last_zxid(),
            nodes: tree.len().saturating_sub(SYSTEM_PATHS.len()),
            watches: self.state.views().map(|view| view.watches.len()).sum(),
            connections: self.connections.len(),
            sessions: sessions.collect(),
        }
    }

    /// The paths of all nodes except the system's, sorted.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        self.state.live.tree.user_paths()
    }

    /// All live sessions in the order of their ids.
    #[must_use]
    pub fn live_sessions(&self) -> impl ExactSizeIterator<Item = SessionId> {
        self.sessions.iter().map(|(id, _)| id)
    }

    /// A node's metadata and data, without a check of its ACL.
    #[must_use]
    pub fn node(&self, path: &str) -> Option<(Stat, Option<Bytes>)> {
        let node = self.state.live.tree.get(path)?;
        Some((node.stat(), node.data.clone()))
    }

    /// The watches of a session's connection: paths and types, in order. `None` if the session has
    /// no connection.
    #[must_use]
    pub fn watches_of_session(&self, session: SessionId) -> Option<Vec<(String, WatcherType)>> {
        Some(self.watches_of(self.sessions.get(session)?.connection?))
    }

    fn watches_of(&self, id: ConnId) -> Vec<(String, WatcherType)> {
        let views = self.state.views();
        let mut all: Vec<_> = views.flat_map(|view| view.watches.of(id)).collect();
        all.sort();
        all
    }
}
