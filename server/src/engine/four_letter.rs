//! Four-letter words: four bytes in place of a handshake. The server answers with text and closes
//! the connection.
//!
//! Served: `ruok`, `isro`, `srvr`, `stat`, `mntr`, `cons`, `dump`, `wchs`, `conf`, `envi`. For the
//! real server's other words the answer says that they are not in the whitelist, and on request for
//! those that name sessions or paths, too. Any other four bytes are the length of a frame.
//!
//! A server without a majority answers only `ruok`, `isro` and `envi`. The server does not measure
//! latencies and prints 0.
//!
//! Source: `FourLetterCommands`, package `server.command`.

use std::{collections::BTreeSet, fmt::Display};

use super::{
    Engine,
    basics::{ConnId, ServerId},
    connection::Connection,
    watches::Watches,
};

/// The version that the server reports. Clients read the number in front.
const VERSION: &str = concat!(
    "3.9.3-lockkeeper-",
    env!("CARGO_PKG_VERSION"),
    ", built on unknown"
);

/// Words of the real server that this server does not serve.
const OTHERS: [&[u8; 4]; 7] = [
    b"crst", b"dirs", b"gtmk", b"hash", b"srst", b"wchc", b"wchp",
];

/// Words whose answers name sessions, addresses or paths.
const TELLING: [&[u8; 4]; 3] = [b"cons", b"dump", b"stat"];

impl Engine {
    /// The answer to a word; `None` if the bytes are not a word.
    pub(super) fn answer_word(&self, id: ConnId, word: [u8; 4]) -> Option<String> {
        let server = self.connections.server_of(id);
        let is_serving = self.is_serving(server);
        let is_closed =
            OTHERS.contains(&&word) || (self.config.sessions_hidden && TELLING.contains(&&word));
        Some(match &word {
            word if is_closed => {
                let word = String::from_utf8_lossy(word);
                format!("{word} is not executed because it is not in the whitelist.\n")
            }
            b"ruok" => "imok".to_owned(),
            // Some clients ask for the version with this word.
            b"envi" => format!("Environment:\nzookeeper.version={VERSION}\n"),
            b"isro" => if is_serving { "rw" } else { "null" }.to_owned(),
            b"srvr" | b"stat" | b"mntr" | b"cons" | b"dump" | b"wchs" | b"conf" if !is_serving => {
                "This ZooKeeper instance is not currently serving requests\n".to_owned()
            }
            b"srvr" => self.server(server, ""),
            b"stat" => {
                let clients = self.clients(|_| String::new());
                self.server(server, &format!("Clients:\n{clients}"))
            }
            b"mntr" => self.monitor(server),
            b"cons" => self.clients(|own| self.session_of(own)),
            b"dump" => self.dump(),
            b"wchs" => self.watch_summary(),
            b"conf" => self.configuration(),
            _ => return None,
        })
    }

    fn server(&self, server: ServerId, clients: &str) -> String {
        let version = table("", ": ", &[("Zookeeper version", &VERSION)]);
        let rest = table(
            "",
            ": ",
            &[
                ("Latency min/avg/max", &"0/0.0/0"),
                ("Received", &self.connections.counters.traffic.frames),
                ("Sent", &self.packets_sent()),
                ("Connections", &self.connections.len()),
                ("Outstanding", &0),
                ("Zxid", &self.last_zxid()),
                ("Mode", &self.mode(server)),
                ("Node count", &self.node_count()),
            ],
        );
        version + clients + &rest
    }

    fn mode(&self, server: ServerId) -> &'static str {
        match self.leader() {
            None => "standalone",
            Some(leader) if leader == server => "leader",
            Some(_) => "follower",
        }
    }

    /// A line for each connection, with something more in the bracket.
    fn clients(&self, more: impl Fn(&Connection) -> String) -> String {
        let line = |own: &Connection| {
            let ready = i32::from(own.session().is_some());
            let (remote, received, sent) = (own.remote, own.traffic.frames, own.sent);
            let more = more(own);
            format!(" /{remote}[{ready}](queued=0,recved={received},sent={sent}{more})\n")
        };
        let lines: String = self.connections.iter().map(|(_, own)| line(own)).collect();
        lines + "\n"
    }

    fn session_of(&self, own: &Connection) -> String {
        let live = own
            .session()
            .and_then(|id| Some((id, self.sessions.get(id)?)));
        live.map_or(String::new(), |(id, session)| {
            format!(",sid={id},to={}", session.timeout.as_millis())
        })
    }

    fn monitor(&self, server: ServerId) -> String {
        let (tree, counters) = (&self.state.live.tree, &self.connections.counters);
        let ephemerals: usize = tree.ephemerals().values().map(BTreeSet::len).sum();
        table(
            "zk_",
            "\t",
            &[
                ("version", &VERSION),
                ("server_state", &self.mode(server)),
                ("min_latency", &0),
                ("max_latency", &0),
                ("outstanding_requests", &0),
                ("packets_received", &counters.traffic.frames),
                ("packets_sent", &self.packets_sent()),
                ("stale_sessions_expired", &counters.expired),
                ("num_alive_connections", &self.connections.len()),
                ("global_sessions", &self.sessions.iter().len()),
                ("znode_count", &self.node_count()),
                ("watch_count", &self.all_watches()),
                ("ephemerals_count", &ephemerals),
                ("approximate_data_size", &tree.approximate_data_size()),
                ("avg_latency", &"0.0"),
            ],
        )
    }

    fn configuration(&self) -> String {
        let config = &self.config;
        table(
            "",
            "=",
            &[
                ("tickTime", &config.tick_time.as_millis()),
                ("minSessionTimeout", &config.shortest_timeout().as_millis()),
                ("maxSessionTimeout", &config.max_session_timeout.as_millis()),
                ("serverId", &0),
            ],
        )
    }

    fn dump(&self) -> String {
        let (live, owners) = (self.sessions.iter(), self.state.live.tree.ephemerals());
        let (all, with_nodes) = (live.len(), owners.len());
        let sessions = live.map(|(id, own)| format!("\t{id}\t{}ms\n", own.timeout.as_millis()));
        let nodes = owners.iter().map(|(session, paths)| {
            let paths = paths.iter().map(|path| format!("\t{path}\n"));
            format!("{session}:\n{}", paths.collect::<String>())
        });
        format!(
            "SessionTracker dump:\nSessions ({all}):\n{}ephemeral nodes dump:\n\
             Sessions with Ephemerals ({with_nodes}):\n{}",
            sessions.collect::<String>(),
            nodes.collect::<String>()
        )
    }

    fn watch_summary(&self) -> String {
        let watching = || self.state.views().map(|view| &view.watches);
        let connections: BTreeSet<_> = watching().flat_map(Watches::connections).collect();
        let paths: BTreeSet<_> = watching().flat_map(Watches::paths).collect();
        let (connections, paths) = (connections.len(), paths.len());
        let watches = self.all_watches();
        format!("{connections} connections watching {paths} paths\nTotal watches:{watches}\n")
    }

    /// As the real server counts: it counts its root twice, as `/` and as the empty path.
    fn node_count(&self) -> usize {
        self.state.live.tree.len().saturating_add(1)
    }

    fn packets_sent(&self) -> u64 {
        let counters = &self.connections.counters;
        counters.replies.saturating_add(counters.notifications)
    }
}

/// A line for each name and value.
fn table(before: &str, between: &str, entries: &[(&str, &dyn Display)]) -> String {
    let line = |(name, value): &(&str, &dyn Display)| format!("{before}{name}{between}{value}\n");
    entries.iter().map(line).collect()
}
