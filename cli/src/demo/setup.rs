//! The servers and the nodes of the demo.
//!
//! Everything is below `/lockkeeper-demo/RANDOM`. The parents are containers, and the counter is ephemeral, so the
//! servers clean up even if the demo is killed.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

use lockkeeper::{Client, CreateMode, Error, Version, client::Builder};
use lockkeeper_server::{Cluster, Server, ServerId};
use tokio::time::timeout;

use super::events::Link;
use crate::{args::DemoArgs, exit::Failure};

/// The parent of everything.
const BASE: &str = "/lockkeeper-demo";
/// The session timeout that the demo asks for. It is short, because nothing happens on the screen until the session of
/// the paused client expires. A real server grants at least two of its ticks.
const SESSION_TIMEOUT: Duration = Duration::from_secs(1);
/// The connect timeout of each client.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The embedded server's tick. It is short, so sessions expire soon after their timeout.
const TICK: Duration = Duration::from_millis(100);
/// How long the clean-up may take.
const CLEAN_UP: Duration = Duration::from_secs(5);

/// Who serves the clients.
#[derive(Debug)]
enum Servers {
    Named,
    Embedded(Server),
    Three(Cluster),
}

/// The servers and the nodes of one demo, and a client that creates and deletes these nodes.
#[derive(Debug)]
pub(super) struct Setup {
    servers: Servers,
    client: Client,
    directory: String,
    /// The servers, as the heading shows them.
    pub(super) place: String,
    /// The settings of a client of any server.
    settings: Builder,
    /// The session timeout that the servers grant to such a client.
    pub(super) session_timeout: Duration,
    /// The path of the lock.
    pub(super) lock: String,
    /// The path of the counter.
    pub(super) counter: String,
    /// The zxid of the demo's last node. All tokens are higher.
    pub(super) first_zxid: u64,
}

impl Setup {
    /// Starts the embedded server if the command line names no servers, and creates the nodes.
    pub(super) async fn new(args: &DemoArgs) -> Result<Self, Failure> {
        let named = args.servers.settings_if_named()?;
        let (servers, chroot, place, settings) = if let Some((servers, settings)) = named {
            let place = servers.to_string();
            (Servers::Named, servers.chroot(), place, settings)
        } else if args.partition {
            let cluster = Server::builder().tick_time(TICK).start_cluster(3).await;
            let cluster = cluster.map_err(Failure::System)?;
            let leader = cluster.leader().unwrap_or(ServerId(0));
            let settings = at(&cluster, leader)?;
            let place = "three embedded servers".to_owned();
            (Servers::Three(cluster), None, place, settings)
        } else {
            let server = Server::builder().tick_time(TICK).start().await;
            let server = server.map_err(Failure::System)?;
            let address = server.local_addr();
            let place = format!("an embedded server at {address}");
            let settings = Builder::new(&address.into());
            (Servers::Embedded(server), None, place, settings)
        };
        // The counter belongs to a session that outlives a pause of this process.
        let lasting = settings.clone().connect_timeout(CONNECT_TIMEOUT);
        let client = lasting.connect().await.map_err(Failure::Connect)?;
        let settings = timed(settings);
        let probe = settings.clone().connect().await.map_err(Failure::Connect)?;
        let session_timeout = probe.snapshot().session_timeout;
        probe.close().await;
        let random = RandomState::new().hash_one(0);
        let directory = format!("{BASE}/{random:016x}");
        let counter = format!("{directory}/counter");
        let created = create_nodes(&client, &directory, &counter).await;
        let first_zxid = created.map_err(|error| match chroot {
            Some(chroot) if error.is_no_node() => Failure::NoChroot(chroot.to_owned()),
            _ => Failure::Connect(error),
        })?;
        Ok(Self {
            servers,
            client,
            place,
            settings,
            session_timeout,
            lock: format!("{directory}/lock"),
            counter,
            directory,
            first_zxid,
        })
    }

    /// The settings of a client. In a cluster, the first client is alone at a follower; the others are at the other servers.
    pub(super) fn settings_of(&self, client: usize) -> Result<Builder, Failure> {
        let (Servers::Three(cluster), Some(cut)) = (&self.servers, self.cut()) else {
            return Ok(self.settings.clone());
        };
        let others: Vec<_> = cluster.servers().filter(|it| *it != cut).collect();
        let server = match client {
            0 => cut,
            client => others.get(client % others.len()).copied().unwrap_or(cut),
        };
        at(cluster, server).map(timed)
    }

    /// The follower that is going to be cut from its leader.
    fn cut(&self) -> Option<ServerId> {
        match &self.servers {
            Servers::Three(cluster) => cluster.followers().first().copied(),
            _ => None,
        }
    }

    /// The link that is going to be cut.
    pub(super) fn link(&self) -> Option<Link> {
        let Servers::Three(cluster) = &self.servers else {
            return None;
        };
        let (server, leader) = (self.cut()?, cluster.leader()?);
        Some(Link {
            server: server.0 + 1,
            leader: leader.0 + 1,
        })
    }

    /// Cuts the link, or mends it.
    pub(super) fn set_link(&self, link: Link, whole: bool) {
        if let Servers::Three(cluster) = &self.servers {
            let [server, leader] = [link.server, link.leader].map(|number| ServerId(number - 1));
            if whole {
                cluster.heal_link(server, leader);
            } else {
                cluster.cut_link(server, leader);
            }
        }
    }

    /// The final value of the counter.
    pub(super) async fn count(&self) -> Option<u64> {
        self.client.sync(&self.counter).await.ok()?;
        let node = self.client.get_data(&self.counter).await.ok()?;
        number_in(node.data.as_deref())
    }

    /// Deletes the nodes, and stops the embedded servers.
    pub(super) async fn clear(self) {
        let clear = async {
            for path in [&self.counter, &self.lock, &self.directory, BASE] {
                // Errors do not matter. A node that stays is an empty container, which the servers delete later, or it
                // is the base while another demo uses it.
                let _ = self.client.delete(path, Version::ANY).await;
            }
            self.client.close().await;
        };
        let _ = timeout(CLEAN_UP, clear).await;
        match self.servers {
            Servers::Named => {}
            Servers::Embedded(server) => server.shutdown().await,
            Servers::Three(cluster) => cluster.shutdown().await,
        }
    }
}

/// The settings for a client of one server of a cluster.
fn at(cluster: &Cluster, server: ServerId) -> Result<Builder, Failure> {
    let builder = Client::builder(&cluster.connect_string_of(server));
    builder.map_err(|error| Failure::Connect(error.into()))
}

fn timed(settings: Builder) -> Builder {
    settings
        .session_timeout(SESSION_TIMEOUT)
        .server_timeout(CONNECT_TIMEOUT / 4)
        .connect_timeout(CONNECT_TIMEOUT)
}

/// Creates the nodes, and returns the zxid of the last one.
async fn create_nodes(client: &Client, directory: &str, counter: &str) -> Result<u64, Error> {
    for path in [BASE, directory] {
        match client.create(path, "", CreateMode::Container).await {
            Err(error) if !error.is_node_exists() => return Err(error),
            _ => {}
        }
    }
    let created = client.create(counter, "0", CreateMode::Ephemeral).await?;
    Ok(u64::try_from(created.stat.czxid.0).unwrap_or(0))
}

/// The number in a node's data.
pub(super) fn number_in(data: Option<&[u8]>) -> Option<u64> {
    std::str::from_utf8(data?).ok()?.parse().ok()
}
