//! The server without sockets, tasks and clocks: bytes and the time go in, bytes come out.
//!
//! One serial loop handles one request at a time. It checks the request against the present tree, applies it, sends the
//! watch events, and replies. All ordering promises of ZooKeeper follow from that.
//!
//! The caller of an [`Engine`]
//!
//! - reports what happens: [`connected`](Engine::connected), [`received`](Engine::received),
//!   [`disconnected`](Engine::disconnected), and [`tick`](Engine::tick) at [`next_deadline`](Engine::next_deadline);
//! - calls [`poll_output`](Engine::poll_output) after each of these calls, until it returns `None`.
//!
//! The same calls with the same times and the same seed give the same bytes.
//!
//! | module | what it does |
//! |---|---|
//! | `handshake`, `requests` | handling a frame: the first one of a connection, all others |
//! | `reads`, `set_watches` | requests that do not change the tree |
//! | `writes`, `txn`, `tree` | requests that change the tree; the only way to change it; the tree |
//! | `changes`, `watches` | the events that follow from a change; the connections that get them |
//! | `sessions`, `expiry` | live sessions and their timeouts; the end of sessions, containers and TTL nodes |
//! | `acl`, `auth` | permissions; the identities of a connection |
//! | `sasl`, `digest_md5` | logging in; the mechanism for it |
//! | `rules`, `hooks`, `lag`, `read_only`, `relay`, `followers`, `links` | faults on demand, for tests |
//! | `ensemble` | the members of an ensemble: who leads, and what cuts between them mean |
//! | `report`, `four_letter` | what tests and clients can ask about a running server |

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use lockkeeper_proto::{SessionId, Zxid, frame};

use self::{
    connection::{Connection, Phase},
    ensemble::Ensemble,
    followers::Followers,
    hash::Seeded,
    lag::Frozen,
    relay::Relay,
    rules::Rules,
    sessions::Sessions,
    view::View,
};

mod acl;
mod auth;
mod changes;
mod connection;
#[cfg(feature = "sasl-digest-md5")]
pub(crate) mod digest_md5;
mod ensemble;
mod expiry;
mod followers;
mod four_letter;
mod handshake;
mod hash;
mod hooks;
mod lag;
mod links;
mod read_only;
mod reads;
mod relay;
mod report;
mod requests;
mod rules;
pub(crate) mod sasl;
mod sessions;
mod set_watches;
#[cfg(debug_assertions)]
mod soundness;
mod tree;
mod txn;
mod view;
mod watches;
mod writes;

pub(crate) use auth::digest;
pub use connection::Traffic;
pub use links::Direction;
pub use report::{Counters, Report, SessionReport};
pub use rules::{Effect, RuleId, When};

/// The settings of a server. Times as in ZooKeeper's `zoo.cfg`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// `tickTime`: sessions expire in steps of this.
    pub tick_time: Duration,
    /// `minSessionTimeout`; `None` means two ticks.
    pub min_session_timeout: Option<Duration>,
    /// `maxSessionTimeout`.
    pub max_session_timeout: Duration,
    /// How long a connection may take for its handshake.
    pub handshake_timeout: Duration,
    /// `znode.container.checkIntervalMs`: how often the server looks for containers and TTL nodes to delete.
    pub container_check_interval: Duration,
    /// `jute.maxbuffer`: the longest message that the server accepts, in bytes.
    pub frame_limit: usize,
    /// The seed of session passwords and of the order of children.
    pub seed: u64,
    /// The transactions are numbered from here on.
    pub first_zxid: Zxid,
    /// For how long after its start the server creates no ephemeral node.
    pub no_ephemerals_for: Duration,
    /// The digest of the user `super`, for whom no ACL counts.
    pub(crate) super_digest: Option<String>,
    /// The users who may log in, and the mechanism.
    pub(crate) sasl: Option<Arc<dyn sasl::Mechanism>>,
    /// `sessionRequireClientSASLAuth`: the server does not answer a client that has not logged in.
    pub(crate) sasl_required: bool,
    /// Whether no four-letter word names sessions, addresses or paths.
    pub(crate) sessions_hidden: bool,
}

#[cfg(feature = "sasl-digest-md5")]
impl Config {
    /// With a user who may log in. Whether others are served: see `Builder::require_sasl`. For `fuzz/`; not for users.
    #[doc(hidden)]
    #[must_use]
    pub fn with_user(mut self, name: &str, password: &str, is_required: bool) -> Self {
        let mut users = digest_md5::Users::default();
        users.add(name, password);
        self.sasl = Some(Arc::new(users));
        self.sasl_required = is_required;
        self
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tick_time: Duration::from_millis(500),
            min_session_timeout: None,
            max_session_timeout: Duration::from_secs(60),
            handshake_timeout: Duration::from_secs(10),
            container_check_interval: Duration::from_secs(60),
            frame_limit: frame::SERVER_LIMIT,
            seed: 0,
            first_zxid: Zxid::ZERO,
            no_ephemerals_for: Duration::ZERO,
            super_digest: None,
            sasl: None,
            sasl_required: false,
            sessions_hidden: false,
        }
    }
}

/// One moment on the monotonic clock and the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// For timeouts.
    pub instant: Instant,
    /// Milliseconds since 1970: for `ctime`, `mtime` and times to live.
    pub unix_ms: i64,
}

/// The number that the caller of the engine gives a connection; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// One server of an ensemble. One engine plays all servers of it. They differ in how far they lag behind, and in which
/// connections are cut when one of them fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub u32);

impl ServerId {
    /// The only server, if there is just one.
    pub const FIRST: Self = Self(0);
}

/// Something that the caller of the engine must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send these bytes.
    Send(ConnId, BytesMut),
    /// Close the connection once everything is sent.
    Close(ConnId),
    /// Close it now and discard what is not sent yet.
    Cut(ConnId),
}

/// How much of the received input is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "after `Partly` the engine must be called again"]
pub enum Received {
    /// All whole requests in the input are done.
    Wholly,
    /// Some whole requests are left.
    Partly,
}

/// A whole ZooKeeper server, without sockets, tasks and clocks.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    live: View,
    /// The state that lagging connections see, for each server whose reads are frozen.
    frozen: BTreeMap<ServerId, Frozen>,
    /// The servers that have no majority.
    read_only: BTreeSet<ServerId>,
    /// Set if clients are connected to followers.
    followers: Option<Followers>,
    /// Set if the followers elect their leaders.
    ensemble: Option<Ensemble>,
    /// Set while the leader learns late which sessions were active.
    relay: Option<Relay>,
    sessions: Sessions,
    connections: BTreeMap<ConnId, Connection>,
    /// Connections for which [`poll_output`](Self::poll_output) may have something.
    dirty: BTreeSet<ConnId>,
    cuts: VecDeque<ConnId>,
    /// Connections whose handshake is pending, with its deadline.
    handshakes: BTreeSet<(Instant, ConnId)>,
    /// Connections that hold frames back, with the moment when the first frame may leave.
    held: BTreeSet<(Instant, ConnId)>,
    reap_due: Instant,
    /// No ephemeral node is created before.
    ephemerals_from: Instant,
    /// Set after a request that took time in proportion to the tree.
    turn_is_over: bool,
    rules: Rules,
    counters: Counters,
}

impl Engine {
    /// A new server that has only the system nodes.
    #[must_use]
    pub fn new(config: Config, now: Now) -> Self {
        let seed = Seeded(config.seed);
        let mut live = View::new(seed);
        live.zxid = config.first_zxid;
        Self {
            live,
            frozen: BTreeMap::new(),
            read_only: BTreeSet::new(),
            followers: None,
            ensemble: None,
            relay: None,
            sessions: Sessions::new(now.instant, now.unix_ms, config.tick_time, config.seed),
            connections: BTreeMap::new(),
            dirty: BTreeSet::new(),
            cuts: VecDeque::new(),
            handshakes: BTreeSet::new(),
            held: BTreeSet::new(),
            reap_due: after(now.instant, config.container_check_interval),
            ephemerals_from: after(now.instant, config.no_ephemerals_for),
            turn_is_over: false,
            rules: Rules::default(),
            counters: Counters::default(),
            config,
        }
    }

    /// A connection was accepted.
    pub fn connected(&mut self, id: ConnId, remote: SocketAddr, now: Now) {
        self.connected_to(ServerId::FIRST, id, remote, now);
    }

    /// A connection was accepted by this server of an ensemble.
    pub fn connected_to(&mut self, server: ServerId, id: ConnId, remote: SocketAddr, now: Now) {
        let due = after(now.instant, self.config.handshake_timeout);
        self.counters.connections = self.counters.connections.saturating_add(1);
        self.handshakes.insert((due, id));
        self.connections
            .insert(id, Connection::new(remote, server, due));
        if !self.is_serving(server) {
            self.cut(id);
        }
    }

    /// Bytes came from a connection, split anywhere.
    ///
    /// After [`Received::Partly`] there is too much to do or to send in one call. First let other connections have
    /// their turn and send the output. Then call again, without bytes.
    pub fn received(&mut self, id: ConnId, bytes: BytesMut, now: Now) -> Received {
        let Some(connection) = self.connections.get_mut(&id) else {
            return Received::Wholly;
        };
        if connection.phase == Phase::Closing {
            return Received::Wholly;
        }
        let reads = u64::from(!bytes.is_empty());
        connection.input.unsplit(bytes);
        if connection.input.len() > STASH_LIMIT {
            self.cut(id);
            return Received::Wholly;
        }
        let (received, frames) = self.read_input(id, now);
        self.counters.traffic.note(reads, frames);
        if let Some(connection) = self.connections.get_mut(&id) {
            if connection.input.is_empty() {
                // Even an empty slice would keep the whole buffer alive.
                connection.input = BytesMut::new();
            }
            connection.traffic.note(reads, frames);
        }
        received
    }

    /// A connection is gone. Its session lives on.
    pub fn disconnected(&mut self, id: ConnId) {
        self.leave(id);
        self.forget(id);
    }

    /// Time has passed: sessions expire, containers are deleted, and frames that were held back leave.
    pub fn tick(&mut self, now: Now) {
        self.give_up(now);
        self.relay(now);
        if self.has_leader() {
            self.expire_sessions(now);
        }
        self.reap(now);
        self.arrive(now);
        while let Some((due, id)) = self.handshakes.first().copied()
            && due <= now.instant
        {
            tracing::debug!(
                connection = id.0,
                "closing a connection: no handshake in time"
            );
            self.handshakes.pop_first();
            self.close(id);
        }
        while let Some((due, id)) = self.held.first().copied()
            && due <= now.instant
        {
            self.held.pop_first();
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.release(now.instant);
                self.dirty.insert(id);
                self.held
                    .extend(connection.release_due().map(|due| (due, id)));
            }
        }
    }

    /// When [`tick`](Self::tick) has something to do next.
    #[must_use]
    pub fn next_deadline(&self) -> Instant {
        let firsts = [
            self.next_expiry(),
            self.handshakes.first().map(|(due, _)| *due),
            self.held.first().map(|(due, _)| *due),
            self.relay.as_ref().map(Relay::due),
            self.followers.as_ref().and_then(Followers::due),
            self.ensemble.as_ref().and_then(Ensemble::due),
        ];
        let earliest = firsts.into_iter().flatten().min();
        earliest.map_or(self.reap_due, |due| due.min(self.reap_due))
    }

    /// The next thing to do; `None` if there is nothing.
    #[must_use = "an output must be carried out: the engine returns it only once"]
    pub fn poll_output(&mut self) -> Option<Output> {
        if let Some(id) = self.cuts.pop_front() {
            return Some(Output::Cut(id));
        }
        let mut from = ConnId(0);
        while let Some(id) = self.dirty.range(from..).next().copied() {
            from = ConnId(id.0.saturating_add(1));
            if self.is_stalled(id) {
                continue;
            }
            self.dirty.remove(&id);
            let Some(connection) = self.connections.get_mut(&id) else {
                continue;
            };
            let bytes = connection.take_ready();
            if !bytes.is_empty() {
                if connection.is_done() {
                    self.dirty.insert(id);
                }
                return Some(Output::Send(id, bytes));
            }
            if connection.is_done() {
                self.forget(id);
                return Some(Output::Close(id));
            }
        }
        None
    }

    /// Handles the whole messages in a connection's input, unless the connection is stalled. Returns how many there
    /// were.
    fn read_input(&mut self, id: ConnId, now: Now) -> (Received, u64) {
        let mut frames = 0_u64;
        self.turn_is_over = false;
        while !self.is_stalled(id) {
            let Some(connection) = self.connections.get_mut(&id) else {
                break;
            };
            if connection.phase == Phase::Closing || connection.is_deaf {
                break;
            }
            let is_over = std::mem::take(&mut self.turn_is_over) || frames >= TURN;
            if is_over || connection.ready_len() > BATCH_LIMIT {
                return (Received::Partly, frames);
            }
            if let Some(message) = connection.unheard.take() {
                self.handshake(id, message, now);
                continue;
            }
            if connection.phase == Phase::Fresh
                && let Some(word) = connection.input.first_chunk().copied()
                && let Some(answer) = self.answer_word(id, word)
            {
                self.with(id, |connection| connection.send_raw(answer.as_bytes()));
                self.close(id);
                break;
            }
            let Some(connection) = self.connections.get_mut(&id) else {
                break;
            };
            match frame::split(&mut connection.input, self.config.frame_limit) {
                Ok(Some(message)) => {
                    frames = frames.saturating_add(1);
                    match connection.phase {
                        Phase::Open(session) => self.request(id, session, message, now),
                        Phase::Fresh | Phase::Closing => self.handshake(id, message, now),
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(connection = id.0, %error, "closing a connection: bad frame");
                    self.close(id);
                }
            }
        }
        (Received::Wholly, frames)
    }

    /// Changes a connection, and notes that it may now have something to send.
    fn with(&mut self, id: ConnId, act: impl FnOnce(&mut Connection)) {
        if let Some(connection) = self.connections.get_mut(&id) {
            act(connection);
            self.dirty.insert(id);
        }
    }

    /// Closes a connection once its whole output is sent.
    fn close(&mut self, id: ConnId) {
        self.leave(id);
        self.with(id, |connection| {
            connection.phase = Phase::Closing;
            connection.input.clear();
        });
    }

    /// Closes a connection now.
    fn cut(&mut self, id: ConnId) {
        self.leave(id);
        if self.connections.contains_key(&id) {
            self.forget(id);
            self.cuts.push_back(id);
        }
    }

    /// Ends a connection's part in the service: removes its watches and detaches its session.
    fn leave(&mut self, id: ConnId) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        self.handshakes.remove(&(connection.handshake_due, id));
        if let Some(session) = connection
            .session()
            .and_then(|id| self.sessions.get_mut(id))
            && session.connection == Some(id)
        {
            session.connection = None;
        }
        self.live.watches.take_all(id);
        for frozen in self.frozen.values_mut() {
            frozen.view.watches.take_all(id);
        }
        if let Some(followers) = &mut self.followers {
            followers.forget_watches(id);
        }
    }

    fn forget(&mut self, id: ConnId) {
        self.dirty.remove(&id);
        if let Some(connection) = self.connections.remove(&id)
            && let Some(due) = connection.release_due()
        {
            self.held.remove(&(due, id));
        }
    }

    fn server_of(&self, id: ConnId) -> ServerId {
        let connection = self.connections.get(&id);
        connection.map_or(ServerId::FIRST, |connection| connection.server)
    }

    /// The connection that a session is attached to.
    fn connection_of(&self, session: SessionId) -> Option<ConnId> {
        self.sessions.get(session)?.connection
    }
}

/// Bytes of output above which a connection's further requests wait. Requests are small, replies are not.
const BATCH_LIMIT: usize = 1 << 20;

/// The number of messages of one connection after which other connections have their turn.
const TURN: u64 = 100;

/// Bytes of unread input above which a connection is cut. A stalled connection gathers such input.
const STASH_LIMIT: usize = 8 << 20;

/// `now` plus `time`; just `now` if the clock cannot represent the sum.
fn after(now: Instant, time: Duration) -> Instant {
    now.checked_add(time).unwrap_or(now)
}
