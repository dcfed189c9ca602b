//! What tests can ask about a running server: counters, and a snapshot of its state.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use lockkeeper_proto::{SessionId, Stat, WatcherType, Zxid};

use super::{Engine, counters::Counters, tree::SYSTEM_PATHS};

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
    /// Until when the server makes no ephemeral nodes, and so grants no locks, by its own clock:
    /// see [`Builder::no_ephemerals_for`](crate::Builder::no_ephemerals_for). The time of its start
    /// if it did not wait.
    pub no_ephemerals_until: SystemTime,
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
    /// The watches of its connection: paths and types, in order.
    pub watches: Vec<(String, WatcherType)>,
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
        // A client that knows of its session's end has nothing left.
        let connections = self.connections.iter();
        let known = connections.filter_map(|(_, own)| own.knows_end_of());
        let known: BTreeSet<_> = known.collect();
        let sessions = self.sessions.iter().filter(|(id, _)| !known.contains(id));
        let sessions = sessions.map(|(id, session)| {
            let connection = session.connection;
            let views = self.state.views();
            let watches = views.filter_map(|view| connection.map(|own| view.watches.of(own)));
            let mut watches: Vec<_> = watches.flatten().collect();
            watches.sort();
            let report = SessionReport {
                timeout: session.timeout,
                is_connected: connection.is_some(),
                ephemerals: tree.ephemerals_of(id).map(ToString::to_string).collect(),
                watches,
            };
            (id, report)
        });
        let until = u64::try_from(self.ephemerals_from.unix_ms).unwrap_or(0);
        Report {
            zxid: self.last_zxid(),
            nodes: tree.len().saturating_sub(SYSTEM_PATHS.len()),
            watches: self.state.views().map(|view| view.watches.len()).sum(),
            connections: self.connections.len(),
            sessions: sessions.collect(),
            no_ephemerals_until: SystemTime::UNIX_EPOCH + Duration::from_millis(until),
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
}
