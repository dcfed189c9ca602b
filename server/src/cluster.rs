//! Several servers in one process, with one port each: for tests of what happens when servers fail
//! or lose each other.
//!
//! Not here: what the members do (`engine::ensemble`), and what a cut link means (`engine::member`).

use std::{io, ops::Deref};

use crate::{
    Builder, Server,
    engine::{Engine, Now, ServerId},
    net::{self, Port},
};

/// A running ensemble of servers: a leader and its followers. It stops when this handle is dropped.
///
/// One engine plays all members, so a cluster is a [`Server`] with several ports. All methods of
/// that type are about all members: [`faults`](Server::faults), [`report`](Server::report),
/// [`advance`](Server::advance) and the others. The methods here make members fail. Each takes
/// effect before it returns.
///
/// ```
/// use lockkeeper_server::Cluster;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let cluster = Cluster::start(3).await?;
/// let connect_string = cluster.connect_string(); // all three addresses, for any ZooKeeper client
/// let leader = cluster.leader().unwrap();
///
/// cluster.stop(leader).await;
/// let next = cluster.leader().unwrap();
/// assert_ne!(next, leader);
///
/// cluster.restart(leader).await?;
/// assert_eq!(cluster.leader(), Some(next));
/// # cluster.shutdown().await;
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
///
/// # What it plays
///
/// - The leader orders all writes. A follower answers reads from its own state, and a write when it
///   has learned of the write's transaction. Clients of the leader are served in the same way.
/// - Followers tell the leader every half tick which sessions were active. The leader ends sessions
///   by its own clock.
/// - A member that is cut off from the leader, or a leader that is cut off from a majority, gives
///   up after the sync limit ([`Builder::sync_limit`]). Then it closes its connections, accepts no
///   session, and says in its answers to four-letter words that it does not serve.
/// - `/zookeeper/config` lists the members, with the port 0 for what only members use.
/// - A majority without a leader elects one at once. The new leader gives every session its whole
///   timeout again. A write that was not answered may be lost.
///
/// # What it does not do
///
/// - It keeps nothing on disk. A stopped member has its data when it starts again, as if its disk
///   had survived.
/// - It does not speak ZooKeeper's protocols between servers. A real server cannot join.
/// - An election takes no time, and a transaction reaches every follower at once, unless you let it
///   lag or cut its link.
/// - There are no observers, no read-only members, and no `reconfig`.
///
/// # Panics
/// Each method that takes a server panics if there is no such server.
#[derive(Debug)]
#[must_use = "a cluster stops when its handle is dropped"]
pub struct Cluster {
    server: Server,
}

impl Deref for Cluster {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Cluster {
    /// Starts so many servers on free ports of 127.0.0.1, with all defaults.
    /// [`Builder::start_cluster`] has settings.
    ///
    /// # Errors
    /// As [`Builder::start`].
    pub async fn start(servers: u32) -> io::Result<Self> {
        Server::builder().start_cluster(servers).await
    }

    /// All members, in order.
    pub fn servers(&self) -> impl Iterator<Item = ServerId> + use<> {
        (0..).map(ServerId).take(self.server.ports.len())
    }

    /// The leader, if there is one. A former leader that does not know of its successor does not
    /// count.
    #[must_use]
    pub fn leader(&self) -> Option<ServerId> {
        self.server.shared.look(Engine::leader)
    }

    /// The members that serve clients and do not lead.
    #[must_use]
    pub fn followers(&self) -> Vec<ServerId> {
        self.server.shared.look(|engine| {
            let others = self.servers().filter(|it| Some(*it) != engine.leader());
            others.filter(|it| engine.is_serving(*it)).collect()
        })
    }

    /// The address of one member in the form that clients take: `host:port`.
    #[must_use]
    pub fn connect_string_of(&self, server: ServerId) -> String {
        net::for_clients(self.port(server).address)
    }

    /// The members elect another leader now, as if they had not heard the present one for the sync
    /// limit.
    ///
    /// A leader with whole links becomes a follower. A leader that is cut off
    /// ([`isolate`](Self::isolate)) goes on until the sync limit is over. It answers reads and
    /// pings of its clients, and resumes sessions, but never answers a write.
    ///
    /// Returns the new leader; `None` if no other member reaches a majority.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let cluster = lockkeeper_server::Cluster::start(3).await?;
    /// let former = cluster.leader().unwrap();
    /// cluster.isolate(former);
    /// let leader = cluster.depose();
    /// assert!(leader.is_some() && leader != Some(former));
    /// cluster.heal(); // the former leader learns of its successor
    /// assert_eq!(cluster.leader(), leader);
    /// assert_eq!(cluster.followers().len(), 2);
    /// # cluster.shutdown().await;
    /// # Ok::<(), std::io::Error>(())
    /// # }).unwrap();
    /// ```
    #[allow(clippy::must_use_candidate, reason = "the election is the point")]
    pub fn depose(&self) -> Option<ServerId> {
        self.with(Engine::elect_another)
    }

    /// Stops a member: its process is gone. Its port is closed, its connections are cut, and the
    /// other members notice at once.
    ///
    /// # Cancel safety
    /// Once the future was polled, the member is stopped even if the future is dropped.
    pub async fn stop(&self, server: ServerId) {
        let port = self.port(server);
        self.with(|engine, now| engine.stop_server(server, now));
        port.close().await;
    }

    /// Starts a stopped member again, with the data that it had, on the same port. It follows the
    /// leader if its links let it.
    ///
    /// # Errors
    /// The error of the operating system: another process may have taken the port meanwhile. Then
    /// the member stays stopped.
    ///
    /// # Cancel safety
    /// If the future is dropped early, the port may be open although the member stays stopped.
    pub async fn restart(&self, server: ServerId) -> io::Result<()> {
        self.port(server).open().await?;
        self.with(|engine, now| engine.start_server(server, now));
        Ok(())
    }

    /// A member gets no transaction until [`catch_up`](Self::catch_up), although its link is
    /// whole: it answers reads from its old state, and no write and no new session. This ends when
    /// the member stops or another leader is elected.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let cluster = lockkeeper_server::Cluster::start(3).await?;
    /// let follower = cluster.followers()[0];
    /// cluster.lag(follower);
    /// // .. a client of another member writes; clients of this one read what was there before.
    /// cluster.catch_up(follower);
    /// # cluster.shutdown().await;
    /// # Ok::<(), std::io::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn lag(&self, server: ServerId) {
        self.with_member(server, |engine| engine.set_lags(server, true));
    }

    /// Ends [`lag`](Self::lag): the transactions that the member has missed arrive.
    pub fn catch_up(&self, server: ServerId) {
        self.with_member(server, |engine| engine.set_lags(server, false));
    }

    /// The member goes on showing the ephemeral nodes of sessions that end from now on, and tells
    /// nobody of their end. A real follower has done so after a rolling restart.
    pub fn keep_ended_sessions(&self, server: ServerId) {
        self.with_member(server, |engine| engine.set_keeps_ended(server, true));
    }

    /// Cuts the link between two members, in both directions. Nothing arrives, and neither end is
    /// told.
    ///
    /// In ZooKeeper's terms: the network drops all packets of the members' connection, and closes
    /// nothing. A link between two followers matters only when they elect a leader.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let cluster = lockkeeper_server::Cluster::start(3).await?;
    /// let (leader, follower) = (cluster.leader().unwrap(), cluster.followers()[0]);
    /// cluster.cut_link(leader, follower);
    /// // .. the leader ends the sessions of the follower's clients, and the follower goes on answering them.
    /// cluster.heal_link(leader, follower);
    /// # cluster.shutdown().await;
    /// # Ok::<(), std::io::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn cut_link(&self, one: ServerId, other: ServerId) {
        self.set_cut(one, other, true);
        self.set_cut(other, one, true);
    }

    /// Cuts one direction of the link between two members.
    ///
    /// From a follower to its leader, writes and news of sessions wait. In the other direction,
    /// transactions and pings wait; a follower tells of its sessions only when it is pinged.
    pub fn cut_one_way(&self, from: ServerId, to: ServerId) {
        self.set_cut(from, to, true);
    }

    /// Cuts the links of a member to all others, in both directions. Its clients still reach it.
    pub fn isolate(&self, server: ServerId) {
        for other in self.servers().filter(|other| *other != server) {
            self.cut_link(server, other);
        }
    }

    /// Mends both directions of the link between two members: what waits arrives.
    pub fn heal_link(&self, one: ServerId, other: ServerId) {
        self.set_cut(one, other, false);
        self.set_cut(other, one, false);
    }

    /// Mends all links between members. Stopped members stay stopped.
    pub fn heal(&self) {
        for one in self.servers() {
            for other in self.servers().filter(|other| *other > one) {
                self.heal_link(one, other);
            }
        }
    }

    /// Cuts all connections of one member's clients. The clients may come back.
    pub fn cut_clients(&self, server: ServerId) {
        self.with_member(server, |engine| engine.cut_all(Some(server)));
    }

    /// Closes the port of one member: the operating system refuses new connections. Open
    /// connections stay ([`cut_clients`](Self::cut_clients)), and the other members notice nothing.
    pub async fn refuse_clients(&self, server: ServerId) {
        self.port(server).close().await;
    }

    /// Ends [`refuse_clients`](Self::refuse_clients). [`restart`](Self::restart) starts a stopped
    /// member.
    ///
    /// # Errors
    /// The error of the operating system: another process may have taken the port meanwhile.
    pub async fn accept_clients(&self, server: ServerId) -> io::Result<()> {
        self.port(server).open().await
    }

    /// Stops all servers, and waits until all ports and connections are closed.
    ///
    /// # Cancel safety
    /// As [`Server::shutdown`].
    pub async fn shutdown(self) {
        self.server.shutdown().await;
    }

    fn with<R>(&self, act: impl FnOnce(&mut Engine, Now) -> R) -> R {
        self.server.shared.with(act)
    }

    fn with_member(&self, server: ServerId, act: impl FnOnce(&mut Engine)) {
        self.port(server);
        self.with(|engine, _| act(engine));
    }

    fn set_cut(&self, from: ServerId, to: ServerId, is_cut: bool) {
        let _ = (self.port(from), self.port(to));
        self.with(|engine, now| engine.set_cut_between(from, to, is_cut, now));
    }

    #[track_caller]
    fn port(&self, server: ServerId) -> &Port {
        let ports = &self.server.ports;
        let index = usize::try_from(server.0).unwrap_or(usize::MAX);
        let port = ports.get(index);
        port.unwrap_or_else(|| unreachable!("no {server:?} among {} servers", ports.len()))
    }
}

impl Builder {
    /// Starts a cluster of so many servers with these settings.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    ///
    /// # Cancel safety
    /// As [`start`](Self::start).
    pub async fn start_cluster(self, servers: u32) -> io::Result<Cluster> {
        let server = Server::start_with(self, Some(servers)).await?;
        Ok(Cluster { server })
    }
}
