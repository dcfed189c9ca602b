//! Four-letter words: four bytes in place of a handshake. The server answers with text and closes
//! the connection.
//!
//! Served: `ruok`, `isro`, `srvr`, `stat`, `mntr`, `cons`, `dump`, `wchs`, `conf`, `envi`. For the
//! real server's other words the answer says that they are not in the whitelist, and on request for
//! those that name sessions or paths, too. Any other four bytes are the length of a frame.
//!
//! A member of an ensemble answers for itself. One without a majority answers only `ruok`, `isro` and `envi`. The server does not measure
//! latencies and prints 0.
//!
//! Source: `FourLetterCommands`, package `server.command`.

use std::{collections::BTreeSet, fmt::Display};

use super::{
    Engine,
    basics::{ConnId, ServerId},
    connection::Connection,
    tree::CONFIG_PATH,
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
                let clients = self.clients(server, |_| String::new());
                self.server(server, &format!("Clients:\n{clients}"))
            }
            b"mntr" => self.monitor(server),
            b"cons" => self.clients(server, |own| self.session_of(own)),
            b"dump" => self.dump(server),
            b"wchs" => self.watch_summary(server),
            b"conf" => self.configuration(server),
            _ => return None,
        })
    }

    fn server(&self, server: ServerId, clients: &str) -> String {
        let (received, sent) = self.connections.frames_of(server);
        let version = table("", ": ", &[("Zookeeper version", &VERSION)]);
        let rest = table(
            "",
            ": ",
            &[
                ("Latency min/avg/max", &"0/0.0/0"),
                ("Received", &received),
                ("Sent", &sent),
                ("Connections", &self.connections.of(server).count()),
                ("Outstanding", &0),
                ("Zxid", &self.state.view_at(server).zxid),
                ("Mode", &self.mode(server)),
                ("Node count", &self.node_count(server)),
            ],
        );
        version + clients + &rest
    }

    fn mode(&self, server: ServerId) -> &'static str {
        match &self.state.ensemble {
            None => "standalone",
            Some(ensemble) if ensemble.leads(server) => "leader",
            Some(_) => "follower",
        }
    }

    /// A line for each connection, with something more in the bracket.
    fn clients(&self, server: ServerId, more: impl Fn(&Connection) -> String) -> String {
        let line = |own: &Connection| {
            let ready = i32::from(own.session().is_some());
            let (remote, received, sent) = (own.remote, own.traffic.frames, own.sent);
            let more = more(own);
            format!(" /{remote}[{ready}](queued=0,recved={received},sent={sent}{more})\n")
        };
        let lines: String = self.connections.of(server).map(line).collect();
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
        let tree = &self.state.view_at(server).tree;
        let ephemerals: usize = tree.ephemerals().values().map(BTreeSet::len).sum();
        let (received, sent) = self.connections.frames_of(server);
        let watches: usize = self.state.views_of(server).map(|it| it.watches.len()).sum();
        let of_all = table(
            "zk_",
            "\t",
            &[
                ("version", &VERSION),
                ("server_state", &self.mode(server)),
                ("min_latency", &0),
                ("max_latency", &0),
                ("outstanding_requests", &0),
                ("packets_received", &received),
                ("packets_sent", &sent),
                (
                    "num_alive_connections",
                    &self.connections.of(server).count(),
                ),
                ("global_sessions", &self.sessions.iter().len()),
                ("znode_count", &self.node_count(server)),
                ("watch_count", &watches),
                ("ephemerals_count", &ephemerals),
                ("approximate_data_size", &tree.approximate_data_size()),
                ("avg_latency", &"0.0"),
            ],
        );
        let expired = &self.connections.counters.expired;
        let of_some: &[(&str, &dyn Display)] = match &self.state.ensemble {
            None => &[("stale_sessions_expired", expired)],
            Some(all) if all.leader == Some(server) => &[
                ("quorum_size", &all.size()),
                ("learners", &all.followers()),
                ("synced_followers", &all.followers()),
            ],
            Some(all) => &[("quorum_size", &all.size())],
        };
        of_all + &table("zk_", "\t", of_some)
    }

    /// A member's list of members is that of its configuration node.
    fn configuration(&self, server: ServerId) -> String {
        let config = &self.config;
        let tick = config.tick_time.as_millis();
        let index = usize::try_from(server.0).unwrap_or(usize::MAX);
        let address = self.addresses.get(index).and_then(|it| it.rsplit_once(':'));
        let ensemble = self.state.ensemble.as_ref();
        let number = ensemble.map_or(0, |_| server.0.saturating_add(1));
        let of_all = table(
            "",
            "=",
            &[
                ("clientPort", &address.map_or("0", |(_, port)| port)),
                ("tickTime", &tick),
                ("minSessionTimeout", &config.shortest_timeout().as_millis()),
                ("maxSessionTimeout", &config.max_session_timeout.as_millis()),
                ("serverId", &number),
            ],
        );
        let Some(ensemble) = ensemble else {
            return of_all;
        };
        let limit = ensemble.sync_limit.as_millis().checked_div(tick);
        let node = self.state.view_at(server).tree.get(CONFIG_PATH);
        let members = node.and_then(|it| it.data.as_deref()).unwrap_or_default();
        let members = String::from_utf8_lossy(members);
        format!(
            "{of_all}syncLimit={}\npeerType=0\nmembership: \n{members}",
            limit.unwrap_or(0)
        )
    }

    fn dump(&self, server: ServerId) -> String {
        let owners = self.state.view_at(server).tree.ephemerals();
        let live = self.sessions.iter();
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

    fn watch_summary(&self, server: ServerId) -> String {
        let watching = || self.state.views_of(server).map(|view| &view.watches);
        let connections: BTreeSet<_> = watching().flat_map(Watches::connections).collect();
        let paths: BTreeSet<_> = watching().flat_map(Watches::paths).collect();
        let (connections, paths) = (connections.len(), paths.len());
        let watches: usize = watching().map(Watches::len).sum();
        format!("{connections} connections watching {paths} paths\nTotal watches:{watches}\n")
    }

    /// As the real server counts: it counts its root twice, as `/` and as the empty path.
    fn node_count(&self, server: ServerId) -> usize {
        self.state.view_at(server).tree.len().saturating_add(1)
    }
}

/// A line for each name and value.
fn table(before: &str, between: &str, entries: &[(&str, &dyn Display)]) -> String {
    let line = |(name, value): &(&str, &dyn Display)| format!("{before}{name}{between}{value}\n");
    entries.iter().map(line).collect()
}
