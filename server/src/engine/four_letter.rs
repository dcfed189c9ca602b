//! Four-letter words: four bytes in place of a handshake. The server answers with text and closes the connection.
//!
//! Served: `ruok`, `isro`, `srvr`, `stat`, `mntr`, `cons`, `dump`, `wchs`, `conf`, `envi`. For the real server's other
//! words the answer says that they are not in the whitelist, and on request for those that name sessions or paths, too. Any other four bytes are the length of a frame.
//!
//! The server does not measure latencies and prints 0.
//!
//! Source: `FourLetterCommands`, package `server.command`.

use std::{collections::BTreeSet, fmt::Write as _};

use super::{ConnId, Engine, ServerId, connection::Connection, watches::Watches};

/// The version that the server reports. Clients read the number in front.
pub(crate) const VERSION: &str = concat!("3.9.3-lockkeeper-", env!("CARGO_PKG_VERSION"));

/// Words of the real server that this server does not serve.
const OTHERS: [&[u8; 4]; 7] = [
    b"crst", b"dirs", b"gtmk", b"hash", b"srst", b"wchc", b"wchp",
];

/// Words whose answers name sessions, addresses or paths.
const TELLING: [&[u8; 4]; 3] = [b"cons", b"dump", b"stat"];

impl Engine {
    /// The answer to a word; `None` if the bytes are not a word.
    pub(super) fn answer_word(&self, id: ConnId, word: [u8; 4]) -> Option<String> {
        let server = self.server_of(id);
        let is_closed =
            OTHERS.contains(&&word) || (self.config.sessions_hidden && TELLING.contains(&&word));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = match &word {
            word if is_closed => {
                let word = String::from_utf8_lossy(word);
                writeln!(
                    text,
                    "{word} is not executed because it is not in the whitelist."
                )
            }
            b"ruok" => write!(text, "imok"),
            b"isro" if self.is_read_only(id) => write!(text, "ro"),
            b"isro" => write!(text, "rw"),
            b"srvr" => self.server(&mut text, server, |_| Ok(())),
            b"stat" => self.server(&mut text, server, |text| self.clients(text)),
            b"mntr" => self.monitor(&mut text, server),
            b"cons" => self.full_clients(&mut text),
            b"dump" => self.dump(&mut text),
            b"wchs" => self.watch_summary(&mut text),
            b"conf" => self.configuration(&mut text),
            // Some clients ask for the version with this word.
            b"envi" => write!(
                text,
                "Environment:\nzookeeper.version={VERSION}, built on unknown\n"
            ),
            _ => return None,
        };
        Some(text)
    }

    fn server(
        &self,
        text: &mut String,
        server: ServerId,
        clients: impl FnOnce(&mut String) -> std::fmt::Result,
    ) -> std::fmt::Result {
        writeln!(text, "Zookeeper version: {VERSION}, built on unknown")?;
        clients(text)?;
        writeln!(text, "Latency min/avg/max: 0/0.0/0")?;
        writeln!(text, "Received: {}", self.counters.traffic.frames)?;
        writeln!(text, "Sent: {}", self.packets_sent())?;
        writeln!(text, "Connections: {}", self.connections.len())?;
        writeln!(text, "Outstanding: 0")?;
        writeln!(text, "Zxid: {}", self.live.zxid)?;
        writeln!(text, "Mode: {}", self.mode(server))?;
        writeln!(text, "Node count: {}", self.node_count())
    }

    fn mode(&self, server: ServerId) -> &'static str {
        match self.leader() {
            None => "standalone",
            Some(leader) if leader == server => "leader",
            Some(_) => "follower",
        }
    }

    fn clients(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "Clients:")?;
        for connection in self.connections.values() {
            writeln!(text, "{})", Line(connection))?;
        }
        writeln!(text)
    }

    fn full_clients(&self, text: &mut String) -> std::fmt::Result {
        for connection in self.connections.values() {
            let session = connection
                .session()
                .and_then(|id| Some((id, self.sessions.get(id)?)));
            let line = Line(connection);
            match session {
                None => writeln!(text, "{line})")?,
                Some((id, session)) => {
                    let timeout = session.timeout.as_millis();
                    writeln!(text, "{line},sid={id},to={timeout})")?;
                }
            }
        }
        writeln!(text)
    }

    fn monitor(&self, text: &mut String, server: ServerId) -> std::fmt::Result {
        let ephemerals = self.live.tree.ephemerals().values();
        let ephemerals: usize = ephemerals.map(std::collections::BTreeSet::len).sum();
        writeln!(text, "zk_version\t{VERSION}, built on unknown")?;
        writeln!(text, "zk_server_state\t{}", self.mode(server))?;
        for (key, value) in [
            ("min_latency", 0),
            ("max_latency", 0),
            ("outstanding_requests", 0),
            ("packets_received", self.counters.traffic.frames),
            ("packets_sent", self.packets_sent()),
            ("stale_sessions_expired", self.counters.expired),
        ] {
            writeln!(text, "zk_{key}\t{value}")?;
        }
        for (key, value) in [
            ("num_alive_connections", self.connections.len()),
            ("global_sessions", self.sessions.iter().len()),
            ("znode_count", self.node_count()),
            ("watch_count", self.all_watches()),
            ("ephemerals_count", ephemerals),
            (
                "approximate_data_size",
                self.live.tree.approximate_data_size(),
            ),
        ] {
            writeln!(text, "zk_{key}\t{value}")?;
        }
        writeln!(text, "zk_avg_latency\t0.0")
    }

    fn configuration(&self, text: &mut String) -> std::fmt::Result {
        let config = &self.config;
        for (key, time) in [
            ("tickTime", config.tick_time),
            ("minSessionTimeout", self.min_session_timeout()),
            ("maxSessionTimeout", config.max_session_timeout),
        ] {
            writeln!(text, "{key}={}", time.as_millis())?;
        }
        writeln!(text, "serverId=0")
    }

    fn dump(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "SessionTracker dump:")?;
        writeln!(text, "Sessions ({}):", self.sessions.iter().len())?;
        for (id, session) in self.sessions.iter() {
            writeln!(text, "\t{id}\t{}ms", session.timeout.as_millis())?;
        }
        let ephemerals = self.live.tree.ephemerals();
        writeln!(text, "ephemeral nodes dump:")?;
        writeln!(text, "Sessions with Ephemerals ({}):", ephemerals.len())?;
        for (session, paths) in ephemerals {
            writeln!(text, "{session}:")?;
            for path in paths {
                writeln!(text, "\t{path}")?;
            }
        }
        Ok(())
    }

    fn watch_summary(&self, text: &mut String) -> std::fmt::Result {
        let watching = || self.views().map(|view| &view.watches);
        let connections: BTreeSet<_> = watching().flat_map(Watches::connections).collect();
        let paths: BTreeSet<_> = watching().flat_map(Watches::paths).collect();
        let (connections, paths) = (connections.len(), paths.len());
        let watches = self.all_watches();
        writeln!(text, "{connections} connections watching {paths} paths")?;
        writeln!(text, "Total watches:{watches}")
    }

    /// As the real server counts: it counts its root twice, as `/` and as the empty path.
    fn node_count(&self) -> usize {
        self.live.tree.len().saturating_add(1)
    }

    fn packets_sent(&self) -> u64 {
        let counters = &self.counters;
        counters.replies.saturating_add(counters.notifications)
    }
}

/// Prints a connection for the lists, up to the closing bracket.
struct Line<'a>(&'a Connection);

impl std::fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(connection) = self;
        let ready = i32::from(connection.session().is_some());
        write!(
            f,
            " /{}[{ready}](queued=0,recved={},sent={}",
            connection.remote, connection.traffic.frames, connection.sent
        )
    }
}
