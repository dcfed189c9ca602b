//! The engine in the role of all servers: bytes in, bytes out, and what it reports about sessions
//! and nodes.
//!
//! Not here: delays and broken connections (`net`), failures of servers (`faults`).

use std::net::SocketAddr;

use bytes::BytesMut;
use lockkeeper_proto::{SessionId, WatcherType};
use lockkeeper_server::engine::{ConnId, Output, Received, ServerId, SessionReport};

use super::{Coming, World, burdens::address_of};
use crate::{
    history::{Attempt, What},
    work::STANDING,
};

impl World {
    /// A connection reaches its server.
    pub(super) fn accept(&mut self, id: u64) {
        let now = self.now();
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let (client, server) = (link.client, link.server);
        let state = self.servers.get(&ServerId(server));
        let taken = state.is_some_and(|state| state.down_until <= now);
        link.served = taken;
        let at = now + link.rng.within(0, 1000 * self.plan.delay_ms);
        self.at(at, Coming::Opened(id, taken));
        if taken {
            let remote = SocketAddr::from((address_of(client), 1024));
            let now = self.engine_now();
            self.engine
                .connected(ServerId(server), ConnId(id), remote, now);
            self.after_engine();
        }
    }

    /// Bytes reach the server.
    pub(super) fn arrives_up(&mut self, id: u64, bytes: &[u8]) {
        if self.is_broken(id) || !self.links.get(&id).is_some_and(|link| link.served) {
            return;
        }
        let rules = self.engine.rules().pending();
        self.receives(ConnId(id), BytesMut::from(bytes));
        for _ in self.engine.rules().pending()..rules {
            self.figures.count("requests throttled");
        }
    }

    fn receives(&mut self, id: ConnId, mut bytes: BytesMut) {
        let now = self.engine_now();
        while self.engine.received(id, bytes.split(), now) == Received::Partly {
            self.after_engine();
        }
        self.after_engine();
    }

    /// The server learns that the client is gone.
    pub(super) fn server_loses(&mut self, id: u64) {
        if let Some(link) = self.links.get_mut(&id) {
            link.served = false;
            let over = link.is_over();
            let now = self.engine_now();
            self.engine.disconnected(ConnId(id), now);
            self.after_engine();
            if over {
                self.links.remove(&id);
            }
        }
    }

    /// Carries out the engine's outputs. Records the sessions that ended, and the fenced writes
    /// that were applied.
    pub(super) fn after_engine(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Send(ConnId(id), bytes) => self.send_down(id, &bytes),
                Output::Close(ConnId(id)) => self.end_down(id, false),
                Output::Cut(ConnId(id)) => self.end_down(id, true),
                Output::Resume(id) => self.receives(id, BytesMut::new()),
            }
        }
        let started = self.engine.counters().sessions;
        if started != self.sessions_started
            || self.engine.live_sessions().len() != self.sessions.len()
        {
            self.sessions_started = started;
            let live = self.engine.live_sessions().collect();
            let before = std::mem::replace(&mut self.sessions, live);
            for over in before {
                if !self.sessions.contains(&over) {
                    self.record(0, What::SessionOver(over.0));
                }
            }
        }
        self.look_at_registers();
        self.look_at_servers();
    }

    /// Adds a node that fenced writes go to.
    pub(crate) fn add_register(&mut self, path: &str) {
        self.registers.insert(path.to_owned(), 0);
    }

    /// Records the fenced writes that have reached their nodes.
    fn look_at_registers(&mut self) {
        let mut seen = Vec::new();
        for (path, changed) in &mut self.registers {
            if let Some((stat, Some(data))) = self.engine.node(path)
                && stat.mzxid.0 > *changed
            {
                *changed = stat.mzxid.0;
                let text = String::from_utf8_lossy(&data).into_owned();
                let mut words = text.split(' ').map(str::parse);
                if let (Some(Ok(attempt)), Some(Ok(token)), Some(Ok(client))) =
                    (words.next(), words.next(), words.next())
                {
                    seen.push((path.clone(), Attempt(attempt), token, client));
                }
            }
        }
        for (path, attempt, token, client) in seen {
            let what = What::Stored {
                attempt,
                store: path.into(),
                token,
                accepted: true,
            };
            self.record(u32::try_from(client).unwrap_or(0), what);
        }
    }

    /// A write reaches an external store.
    pub(super) fn stored(
        &mut self,
        attempt: Attempt,
        store: std::sync::Arc<str>,
        token: u64,
        client: u32,
    ) {
        let highest = self.stores.entry(store.clone()).or_default();
        let accepted = token >= *highest;
        *highest = token.max(*highest);
        self.figures.count(if accepted {
            "writes with a token accepted"
        } else {
            "writes with a token refused"
        });
        let what = What::Stored {
            attempt,
            store,
            token,
            accepted,
        };
        self.record(client, what);
    }

    /// The session that owns a node; `None` if the node does not exist.
    pub(crate) fn owner_of(&self, node: &str) -> Option<i64> {
        let (stat, _) = self.engine.node(node)?;
        Some(stat.ephemeral_owner.0)
    }

    /// The node below `parent` that was created with this zxid.
    pub(crate) fn node_of(&self, parent: &str, czxid: u64) -> Option<String> {
        let paths = self.engine.paths().into_iter();
        let mut below = paths.filter(|path| path.starts_with(parent));
        below.find(|path| {
            let stat = self.engine.node(path).map(|(stat, _)| stat.czxid.0);
            stat.and_then(|czxid| u64::try_from(czxid).ok()) == Some(czxid)
        })
    }

    /// The paths of all nodes.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.engine.paths()
    }

    /// The ephemeral nodes of live sessions, each with its session.
    pub(crate) fn ephemerals(&self) -> Vec<(i64, String)> {
        let sessions = self.engine.report().sessions.into_iter();
        sessions
            .flat_map(|(session, report)| {
                let nodes = report.ephemerals.into_iter();
                nodes.map(move |node| (session.0, node))
            })
            .collect()
    }

    /// Records how the watches that a session has differ from those that its client wants.
    pub(crate) fn compare_watches(&mut self, session: SessionId, wanted: &[(String, WatcherType)]) {
        let mut sessions = self.engine.report().sessions;
        let own = sessions.remove(&session).filter(|own| own.is_connected);
        let Some(SessionReport { watches: set, .. }) = own else {
            self.figures
                .count("clients without a connection at the end");
            return;
        };
        let both = wanted.iter().filter(|watch| set.contains(watch)).count();
        self.figures.add_count("watches at the end", both as u64);
        let missing = wanted.iter().filter(|watch| !set.contains(watch));
        let missing = missing.map(|watch| (watch, false));
        let left = set.iter().filter(|watch| !wanted.contains(watch));
        let strayed = missing.chain(left.map(|watch| (watch, true)));
        // The latches go on until the end, so their watches may be in transit.
        let strayed = strayed.filter(|((path, _), _)| !path.starts_with(STANDING));
        for ((path, watcher_type), is_set) in strayed {
            let what = What::Strayed {
                watch: format!("{path} ({watcher_type})"),
                session: session.0,
                is_set,
            };
            self.record(0, what);
        }
    }

    /// The sequential nodes of contenders, of all locks.
    pub(super) fn contenders(&self) -> Vec<String> {
        let is_contender = |path: &String| {
            path.starts_with("/locks/")
                && path.len() > 10
                && path
                    .bytes()
                    .rev()
                    .take(10)
                    .all(|byte| byte.is_ascii_digit())
        };
        self.paths().into_iter().filter(is_contender).collect()
    }
}
