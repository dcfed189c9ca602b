//! The server without sockets, tasks and clocks: bytes and the time go in, bytes come out.
//!
//! One serial loop handles one request at a time. It checks the request against the present tree,
//! applies it, sends the watch events, and replies. All ordering promises of ZooKeeper follow from
//! that.
//!
//! The caller of an [`Engine`]
//!
//! - reports what happens: [`connected`](Engine::connected), [`received`](Engine::received),
//!   [`disconnected`](Engine::disconnected), and [`tick`](Engine::tick) at
//!   [`next_deadline`](Engine::next_deadline);
//! - calls [`poll_output`](Engine::poll_output) after each of these calls, until it returns `None`.
//!
//! The same calls with the same times and the same seed give the same bytes.
//!
//! The parts of an engine know nothing of it, nor of each other beyond what this table shows above
//! them:
//!
//! | module | what it does |
//! |---|---|
//! | `basics`, `hash`, `counters`, `rules` | ids, times and settings; maps in a seeded order; counts; faults for single requests |
//! | `tree`, `txn`, `writes`, `commit` | the nodes; the only way to change them; requests that do; transactions of all kinds |
//! | `acl`, `auth` | permissions; the identities of a connection |
//! | `changes`, `watches` | the events that follow from a change; the connections that get them |
//! | `connection`, `connections` | one client's input and output; all of them |
//! | `sessions` | live sessions and their timeouts |
//! | `view`, `reads`, `set_watches` | nodes with watches; requests that do not change the nodes |
//! | `member`, `ensemble` | requests and transactions under way at one member; who leads, who lags, and links that are cut |
//! | `state` | what all servers know |
//!
//! These are methods of the engine, which put the parts together:
//!
//! | module | what it does |
//! |---|---|
//! | `handshake`, `requests` | handling a frame: the first one of a connection, all others |
//! | `replication`, `elections` | what happens between a leader and its followers; members of an ensemble |
//! | `hooks` | faults on demand, for tests |
//! | `report`, `four_letter` | what tests and clients can ask about a running server |

use std::{net::SocketAddr, sync::Arc, time::Instant};

use bytes::BytesMut;
use lockkeeper_proto::{ErrorCode, OpCode, Response, SessionId, Xid, frame};

use self::{
    basics::after,
    commit::{Commit, Deed},
    connection::{Connection, Phase},
    connections::Connections,
    counters::count,
    sessions::Sessions,
    state::State,
};

mod acl;
mod auth;
mod basics;
mod changes;
mod commit;
mod connection;
mod connections;
mod counters;
mod elections;
mod ensemble;
mod four_letter;
mod handshake;
mod hash;
mod hooks;
mod member;
mod reads;
mod replication;
mod report;
mod requests;
mod rules;
mod sessions;
mod set_watches;
#[cfg(debug_assertions)]
mod soundness;
mod state;
mod tree;
mod txn;
mod view;
mod watches;
mod writes;

pub(crate) use auth::digest;
pub(crate) use basics::CENTURY;
pub use basics::{Config, ConnId, Now, Output, Received, ServerId};
pub use counters::Counters;
pub use report::{Report, SessionReport};
pub use rules::{Effect, Rules, When};

/// A whole ZooKeeper server, without sockets, tasks and clocks.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    state: State,
    sessions: Sessions,
    connections: Connections,
    /// The addresses for clients, one for each server. Empty if nobody has said them.
    addresses: Vec<String>,
    rules: Rules,
    reap_due: Instant,
    /// No ephemeral node is created before.
    ephemerals_from: Now,
}

impl Engine {
    /// A new server that has only the system nodes.
    #[must_use]
    pub fn new(config: Config, now: Now) -> Self {
        Self {
            state: State::new(&config),
            sessions: Sessions::new(now.instant, now.unix_ms, config.tick_time, config.seed),
            connections: Connections::default(),
            addresses: Vec::new(),
            rules: Rules::default(),
            reap_due: after(now.instant, config.container_check_interval),
            ephemerals_from: now.later(config.no_ephemerals_for),
            config,
        }
    }

    /// A connection was accepted by this server of an ensemble; otherwise by
    /// [`ServerId::FIRST`].
    pub fn connected(&mut self, server: ServerId, id: ConnId, remote: SocketAddr, now: Now) {
        let due = after(now.instant, self.config.handshake_timeout);
        self.connections.accept(id, remote, server, due);
        if self.is_stopped(server) {
            self.cut(id);
        }
    }

    /// Bytes came from a connection, split anywhere.
    ///
    /// After [`Received::Partly`] there is too much to do or to send in one call. First let other
    /// connections have their turn and send the output. Then call again, without bytes.
    pub fn received(&mut self, id: ConnId, bytes: BytesMut, now: Now) -> Received {
        if !bytes.is_empty() {
            count(&mut self.connections.counters.reads);
        }
        let connection = self.connections.get_mut(id);
        let Some(connection) = connection.filter(|own| own.phase != Phase::Closing) else {
            return Received::Wholly;
        };
        connection.input.unsplit(bytes);
        if connection.input.len() > STASH_LIMIT {
            self.cut(id);
            return Received::Wholly;
        }
        let received = self.read_frames(id, now);
        let connection = self.connections.get_mut(id);
        if let Some(connection) = connection.filter(|own| own.input.is_empty()) {
            // Even an empty slice would keep the whole buffer alive.
            connection.input = BytesMut::new();
        }
        received
    }

    /// A connection is gone. Its session lives on.
    pub fn disconnected(&mut self, id: ConnId, now: Now) {
        let known = self.connections.get(id).and_then(Connection::knows_end_of);
        if let Some(session) = known {
            if self.sessions.get(session).is_some_and(|own| own.is_ending) {
                self.expire_session(session, now);
            }
        }
        self.leave(id);
        self.connections.forget(id);
    }

    /// Time has passed: sessions expire, containers are deleted, and frames that were held back
    /// leave.
    pub fn tick(&mut self, now: Now) {
        self.give_up(now);
        self.report_in_time(now);
        if self.state.ensemble.has_leader() {
            for session in self.sessions.expired(now.instant) {
                self.expire_session(session, now);
            }
        }
        self.reap(now);
        self.arrive(now);
        while let Some(id) = self.connections.take_late(now.instant) {
            tracing::debug!(
                connection = id.0,
                "closing a connection: no handshake in time"
            );
            self.close(id);
        }
        self.connections.release(now.instant);
    }

    /// When [`tick`](Self::tick) has something to do next.
    #[must_use]
    pub fn next_deadline(&self) -> Instant {
        let rounds = [self.next_event(), self.state.ensemble.report_due];
        let rounds = rounds.into_iter().flatten();
        rounds.fold(self.reap_due, Instant::min)
    }

    /// When something is due that does not come again and again.
    fn next_event(&self) -> Option<Instant> {
        let has_leader = self.state.ensemble.has_leader();
        let firsts = [
            self.sessions.next_expiry().filter(|_| has_leader),
            self.connections.due(),
            self.state.ensemble.due(),
        ];
        firsts.into_iter().flatten().min()
    }

    /// The next thing to do; `None` if there is nothing.
    #[must_use = "an output must be carried out: the engine returns it only once"]
    pub fn poll_output(&mut self) -> Option<Output> {
        let (rules, state) = (&self.rules, &self.state);
        self.connections
            .poll_output(|own| is_stalled(rules, state, own))
    }

    /// Handles the whole messages in a connection's input, unless the connection is stalled.
    fn read_frames(&mut self, id: ConnId, now: Now) -> Received {
        let (mut frames, mut turn_is_over) = (0, false);
        while let Some(connection) = self.connections.get_mut(id) {
            if is_stalled(&self.rules, &self.state, connection)
                || connection.phase == Phase::Closing
                || connection.is_deaf
            {
                break;
            }
            if turn_is_over || frames >= TURN || connection.ready.len() > BATCH_LIMIT {
                return Received::Partly;
            }
            if let Some(message) = connection.unheard.take() {
                self.handshake(id, message, now);
                continue;
            }
            if connection.phase == Phase::Fresh {
                if let Some(word) = connection.input.first_chunk().copied() {
                    if let Some(answer) = self.answer_word(id, word) {
                        self.connections.with(id, |connection| {
                            connection.ready.extend_from_slice(answer.as_bytes());
                        });
                        self.close(id);
                        break;
                    }
                }
            }
            let Some(connection) = self.connections.get_mut(id) else {
                break;
            };
            let server = connection.server;
            match frame::split(&mut connection.input, frame::SERVER_LIMIT) {
                Ok(Some(message)) => {
                    count(&mut frames);
                    count(&mut connection.received);
                    match connection.session() {
                        Some(session) => {
                            turn_is_over = takes_long(&message);
                            self.request(id, session, message, now);
                            turn_is_over |= self.state.ensemble.owes_read(server, session);
                        }
                        None => self.handshake(id, message, now),
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(connection = id.0, %error, "closing a connection: bad frame");
                    self.close(id);
                }
            }
        }
        Received::Wholly
    }

    /// Carries out a transaction at the leader, tells the connections that watch, and sends it to
    /// the members of an ensemble.
    fn transact(
        &mut self,
        asked: (SessionId, Xid),
        deed: Deed,
        now: Now,
    ) -> Result<Response, ErrorCode> {
        if deed.takes_zxid(asked.0) {
            self.state.next_zxid();
        }
        let mut commit = Commit {
            zxid: self.last_zxid(),
            unix_ms: now.unix_ms,
            asked,
            deed,
            reply: Err(ErrorCode::OK),
        };
        let reply = self.state.live.apply(&commit, &mut self.connections);
        if !self.state.ensemble.is_empty() {
            commit.reply.clone_from(&reply);
            self.state.ensemble.send(commit, now.instant);
        }
        reply
    }

    /// Expires a session now, and closes its connection without a reply.
    fn expire_session(&mut self, session: SessionId, now: Now) {
        tracing::debug!(%session, "session expired");
        count(&mut self.connections.counters.expired);
        let connection = self.sessions.get(session).and_then(|own| own.connection);
        self.end_session(session, Xid(0), now);
        if let Some(connection) = connection.filter(|_| self.state.ensemble.is_empty()) {
            self.close(connection);
        }
    }

    /// The transaction that ends a session, with the xid of the close request, or 0. All its
    /// ephemeral nodes are deleted under one zxid, whether the session is closed or expires.
    fn end_session(&mut self, session: SessionId, xid: Xid, now: Now) {
        let timeout = self.sessions.get(session).map(|own| own.timeout);
        self.sessions.remove(session);
        let ephemerals = self.state.live.tree.ephemerals_of(session);
        let end = Deed::Remove(ephemerals.cloned().collect(), timeout);
        let _ = self.transact((session, xid), end, now);
    }

    /// Deletes empty containers and nodes whose time to live is over, once in each interval.
    fn reap(&mut self, now: Now) {
        if now.instant < self.reap_due {
            return;
        }
        self.reap_due = after(now.instant, self.config.container_check_interval);
        if !self.state.ensemble.has_leader() {
            return;
        }
        for path in self.state.live.tree.to_reap(now.unix_ms) {
            tracing::debug!(
                path = &*path,
                "node deleted: an empty container, or its time to live is over"
            );
            self.remove(path, now);
        }
    }

    /// Deletes a node that has no children, without a check of permissions, in a transaction of its
    /// own.
    fn remove(&mut self, path: Arc<str>, now: Now) {
        let nobody = (SessionId::NONE, Xid(0));
        let _ = self.transact(nobody, Deed::Remove(vec![path], None), now);
    }

    /// Closes a connection once its whole output is sent.
    fn close(&mut self, id: ConnId) {
        self.leave(id);
        self.connections.close(id);
    }

    /// Closes a connection now.
    fn cut(&mut self, id: ConnId) {
        self.leave(id);
        self.connections.cut(id);
    }

    /// Ends a connection's part in the service: removes its watches and detaches its session.
    fn leave(&mut self, id: ConnId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        // A client that was cut off may not have heard.
        connection.told_end_of = None;
        if let Some(session) = connection.session() {
            self.sessions.detach(session, id);
        }
        self.connections.end_handshake(id);
        for view in self.state.views_mut() {
            view.watches.remove_all(id);
        }
    }
}

/// Whether nothing is read from a connection and nothing sent to it.
fn is_stalled(rules: &Rules, state: &State, own: &Connection) -> bool {
    let resumes = own.named != SessionId::NONE;
    let is_unheard = || own.unheard.is_some() && state.ensemble.awaits_leader(own.server, resumes);
    rules.is_session_stalled(own.named)
        || own.phase == Phase::Fresh && (own.awaits_session || is_unheard())
}

/// Whether a request takes time in proportion to the tree.
fn takes_long(message: &[u8]) -> bool {
    let op = message.get(4..).and_then(<[u8]>::first_chunk);
    op.is_some_and(|op| i32::from_be_bytes(*op) == OpCode::GET_ALL_CHILDREN_NUMBER.0)
}

/// Bytes of output above which a connection's further requests wait. Requests are small, replies
/// are not.
const BATCH_LIMIT: usize = 1 << 20;

/// The number of messages of one connection after which other connections have their turn.
const TURN: u64 = 100;

/// Bytes of unread input above which a connection is cut. A stalled connection gathers such input.
/// Requests that wait behind a write count likewise.
const STASH_LIMIT: usize = 8 << 20;

/// The number of bytes for a client above which its connection is cut. Only watch events, and the
/// replies to reads that have waited behind a write, reach it: no requests are read meanwhile.
pub(crate) const CUT_ABOVE: usize = 16 << 20;
