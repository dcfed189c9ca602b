//! Four-letter words: four bytes in place of a handshake. The server answers with text and closes
//! the connection.
//!
//! Served: `ruok`, `isro`, `srvr`, `stat`, `mntr`, `cons`, `conf`, `envi`. For the
//! real server's other words the answer says that they are not in the whitelist. Any other four bytes
//! are the length of a frame.
//!
//! A member of an ensemble answers for itself. One without a majority answers only `ruok`, `isro` and `envi`. The server does not measure
//! latencies and prints 0.
//!
//! Source: `FourLetterCommands`, package `server.command`.

use std::time::Duration;

use super::{
    Engine,
    basics::{ConnId, ServerId},
    connection::Connection,
    tree::CONFIG_PATH,
    view::View,
};

/// The version that the server reports. Clients read the number in front.
const VERSION: &str = concat!(
    "3.9.3-lockkeeper-",
    env!("CARGO_PKG_VERSION"),
    ", built on unknown"
);

/// Words of the real server that this server does not serve.
const OTHERS: [&[u8; 4]; 9] = [
    b"crst", b"dirs", b"dump", b"gtmk", b"hash", b"srst", b"wchc", b"wchp", b"wchs",
];

impl Engine {
    /// The answer to a word; `None` if the bytes are not a word.
    pub(super) fn answer_word(&self, id: ConnId, word: [u8; 4]) -> Option<String> {
        let server = self.connections.server_of(id);
        let is_serving = self.is_serving(server);
        Some(match &word {
            word if OTHERS.contains(&word) => {
                let word = String::from_utf8_lossy(word);
                format!("{word} is not executed because it is not in the whitelist.\n")
            }
            b"ruok" => "imok".to_owned(),
            // Some clients ask for the version with this word.
            b"envi" => format!("Environment:\nzookeeper.version={VERSION}\n"),
            b"isro" => if is_serving { "rw" } else { "null" }.to_owned(),
            b"srvr" | b"stat" | b"mntr" | b"cons" | b"conf" if !is_serving => {
                "This ZooKeeper instance is not currently serving requests\n".to_owned()
            }
            b"srvr" => self.server(server, ""),
            b"stat" => {
                let clients = self.clients(server, false);
                self.server(server, &format!("Clients:\n{clients}"))
            }
            b"mntr" => self.monitor(server),
            b"cons" => self.clients(server, true),
            b"conf" => self.configuration(server),
            _ => return None,
        })
    }

    fn server(&self, server: ServerId, clients: &str) -> String {
        let (received, sent) = self.connections.frames_of(server);
        let connections = self.connections.of(server).count();
        let (view, mode) = (self.state.view_at(server), self.mode(server));
        let (zxid, nodes) = (view.zxid, node_count(view));
        format!(
            "Zookeeper version: {VERSION}\n{clients}Latency min/avg/max: 0/0.0/0\n\
             Received: {received}\nSent: {sent}\nConnections: {connections}\nOutstanding: 0\n\
             Zxid: {zxid}\nMode: {mode}\nNode count: {nodes}\n"
        )
    }

    fn mode(&self, server: ServerId) -> &'static str {
        match &self.state.ensemble {
            only if only.is_empty() => "standalone",
            all if all.leads(server) => "leader",
            _ => "follower",
        }
    }

    /// A line for each connection, with its session or without.
    fn clients(&self, server: ServerId, tells: bool) -> String {
        let line = |own: &Connection| {
            let (remote, received, sent) = (own.remote, own.received, own.sent);
            let session = own.session().filter(|_| tells);
            let live = session.and_then(|id| Some((id, self.sessions.get(id)?.timeout)));
            let text = |(id, timeout)| format!(",sid={id},to={}", Duration::as_millis(&timeout));
            let more = live.map_or(String::new(), text);
            let ready = i32::from(own.session().is_some());
            format!(" /{remote}[{ready}](queued=0,recved={received},sent={sent}{more})\n")
        };
        let lines: String = self.connections.of(server).map(line).collect();
        lines + "\n"
    }

    fn monitor(&self, server: ServerId) -> String {
        let (view, mode) = (self.state.view_at(server), self.mode(server));
        let ephemerals = view.tree.count_ephemerals();
        let (nodes, size) = (node_count(view), view.tree.approximate_data_size());
        let (received, sent) = self.connections.frames_of(server);
        let connections = self.connections.of(server).count();
        let sessions = self.sessions.iter().len();
        let watches = view.watches.len();
        let own = match &self.state.ensemble {
            only if only.is_empty() => String::new(),
            all if all.leader == Some(server) => {
                let (size, followers) = (all.members.len(), all.followers());
                format!(
                    "zk_quorum_size\t{size}\nzk_learners\t{followers}\nzk_synced_followers\t{followers}\n"
                )
            }
            all => format!("zk_quorum_size\t{}\n", all.members.len()),
        };
        format!(
            "zk_version\t{VERSION}\nzk_server_state\t{mode}\nzk_min_latency\t0\n\
             zk_max_latency\t0\nzk_outstanding_requests\t0\nzk_packets_received\t{received}\n\
             zk_packets_sent\t{sent}\nzk_num_alive_connections\t{connections}\n\
             zk_global_sessions\t{sessions}\nzk_znode_count\t{nodes}\nzk_watch_count\t{watches}\n\
             zk_ephemerals_count\t{ephemerals}\nzk_approximate_data_size\t{size}\n\
             zk_avg_latency\t0.0\n{own}"
        )
    }

    /// A member's list of members is that of its configuration node.
    fn configuration(&self, server: ServerId) -> String {
        let config = &self.config;
        let tick = config.tick_time.as_millis();
        let (min, max) = (config.negotiate(0), config.longest_timeout());
        let (min, max) = (min.as_millis(), max.as_millis());
        let index = usize::try_from(server.0).unwrap_or(usize::MAX);
        let address = self.addresses.get(index).and_then(|it| it.rsplit_once(':'));
        let port = address.map_or("0", |(_, port)| port);
        let (number, more) = match &self.state.ensemble {
            only if only.is_empty() => (0, String::new()),
            all => {
                let limit = all.sync_limit.as_millis().checked_div(tick).unwrap_or(0);
                let node = self.state.view_at(server).tree.get(CONFIG_PATH);
                let members = node.and_then(|it| it.data.as_deref()).unwrap_or_default();
                let members = String::from_utf8_lossy(members);
                let more = format!("syncLimit={limit}\npeerType=0\nmembership: \n{members}");
                (server.0.saturating_add(1), more)
            }
        };
        format!(
            "clientPort={port}\ntickTime={tick}\nminSessionTimeout={min}\n\
             maxSessionTimeout={max}\nserverId={number}\n{more}"
        )
    }
}

/// The number of nodes, as the real server counts: it counts its root twice, as `/` and as the
/// empty path.
fn node_count(view: &View) -> usize {
    view.tree.len().saturating_add(1)
}
