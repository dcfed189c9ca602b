//! Followers: servers that get every transaction from their leader, each with its own delay.
//!
//! The leader orders and checks writes immediately; its state is the live one. Each transaction then travels to each
//! follower for a while, in order. Clients are connected to followers:
//!
//! - A follower answers reads from its own state.
//! - It answers a write when the transaction of the write has arrived.
//! - Later requests of the same session wait behind that write, on any connection.
//!
//! As in ZooKeeper, a follower recognises the transaction of its oldest waiting write by session id and xid. If the
//! same session has sent a write with the same xid through another follower, that transaction is mistaken for the
//! waiting one.
//!
//! Differences from a real ensemble:
//!
//! - A client's write, and a resumed session, reach the leader immediately, unless the link is cut. Only the way back takes time.
//! - A follower refuses a write by itself if a rule says so. Otherwise rules take effect when the request is answered.
//!
//! Not here: links between servers that are cut, and leaders that are deposed (`links`).
//!
//! Source: `CommitProcessor`, `FollowerRequestProcessor`, `FinalRequestProcessor`.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::{BuildHasher, Hasher},
    sync::Arc,
    time::{Duration, Instant},
};

use lockkeeper_proto::{
    ErrorCode, Id, OpCode, Request, Response, SessionId, Xid, Zxid,
    records::{Create2Response, CreateResponse, Empty, StatResponse, SyncResponse},
};

use super::{
    ConnId, Engine, Now, ServerId, after,
    changes::Change,
    connection::Connection,
    hash::Seeded,
    links::Link,
    rules::Fate,
    txn::{Author, Txn},
    view::View,
    watches::Watches,
    writes::{self, MultiOutcome},
};

/// All followers.
#[derive(Debug)]
pub(crate) struct Followers {
    longest: Duration,
    seed: Seeded,
    /// The number of transactions that were sent to the followers so far.
    sent: u64,
    /// Whether transactions arrive at all.
    pub(super) commits: bool,
    pub(super) all: BTreeMap<ServerId, Follower>,
}

#[derive(Debug)]
pub(super) struct Follower {
    pub(super) view: View,
    /// The link to the leader.
    pub(super) link: Link,
    /// Transactions on their way, with the time of their arrival.
    pub(super) coming: VecDeque<(Instant, Arc<Commit>)>,
    /// Whether no transaction arrives until the follower is thawed.
    is_held: bool,
    /// The unanswered writes that clients sent to this follower, in order: session id and xid.
    writes: VecDeque<(SessionId, Xid)>,
    /// For each session: its oldest unanswered write and all later requests.
    waiting: BTreeMap<SessionId, VecDeque<Waiting>>,
}

/// A request that is not answered yet.
#[derive(Debug)]
struct Waiting {
    connection: ConnId,
    xid: Xid,
    request: Request,
    fate: Fate,
}

impl Waiting {
    /// Whether the reply must wait for the leader.
    fn needs_commit(&self) -> bool {
        self.fate.refuse.is_none() && needs_commit(self.request.op())
    }
}

/// A transaction on its way to the followers.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) zxid: Zxid,
    pub(crate) unix_ms: i64,
    /// The session and the xid of its request.
    pub(crate) asked: (SessionId, Xid),
    pub(crate) deed: Mutation,
    pub(crate) answer: Result<Response, ErrorCode>,
    pub(crate) knows_sasl: bool,
}

/// The effect of a transaction.
#[derive(Debug)]
pub(crate) enum Mutation {
    /// Nothing: the request failed, or it is a `sync`.
    Nothing,
    /// The change that this request asks for, with the identities of its client.
    Request(Request, Arc<[Id]>),
    /// Deletes nodes. If the transaction ends a session, it carries the timeout of that session.
    Remove(Vec<Arc<str>>, Option<Duration>),
    /// Starts a session: the connection, its timeout, and whether the client knows read-only servers.
    Start(ConnId, Duration, bool),
}

impl Followers {
    pub(super) fn due(&self) -> Option<Instant> {
        let all = self
            .all
            .values()
            .filter(|follower| self.commits && !follower.gets_nothing());
        all.filter_map(|follower| follower.coming.front())
            .map(|(due, _)| *due)
            .min()
    }

    pub(super) fn view(&self, server: ServerId) -> Option<&View> {
        self.all.get(&server).map(|follower| &follower.view)
    }

    pub(super) fn view_mut(&mut self, server: ServerId) -> Option<&mut View> {
        self.all.get_mut(&server).map(|follower| &mut follower.view)
    }

    pub(super) fn views(&self) -> impl Iterator<Item = &View> {
        self.all.values().map(|follower| &follower.view)
    }

    pub(super) fn views_mut(&mut self) -> impl Iterator<Item = &mut View> {
        self.all.values_mut().map(|follower| &mut follower.view)
    }

    /// A connection has ended: removes its watches.
    pub(super) fn forget_watches(&mut self, id: ConnId) {
        for follower in self.all.values_mut() {
            follower.view.watches.take_all(id);
        }
    }

    pub(super) fn set_held(&mut self, server: ServerId, is_held: bool) {
        if let Some(follower) = self.all.get_mut(&server) {
            follower.is_held = is_held;
        }
    }

    pub(super) fn set_all_held(&mut self, is_held: bool) {
        for follower in self.all.values_mut() {
            follower.is_held = is_held;
        }
    }

    /// A follower fails: it forgets the requests of its clients. Transactions on their way still arrive.
    pub(super) fn fail(&mut self, server: ServerId) {
        if let Some(follower) = self.all.get_mut(&server) {
            follower.forget_clients();
            follower.link.forget();
        }
    }

    /// Sends a transaction to all followers.
    fn send(&mut self, commit: Commit, now: Instant) {
        let commit = Arc::new(commit);
        self.sent = self.sent.saturating_add(1);
        for (server, follower) in &mut self.all {
            let mut hasher = self.seed.build_hasher();
            hasher.write_u64(self.sent);
            hasher.write_u32(server.0);
            let chance = hasher.finish();
            // Most transactions are quick, so that a slow one arrives much later than the others.
            let longest = match chance & 15 {
                0..8 => self.longest / 10,
                8..13 => self.longest / 2,
                _ => self.longest,
            };
            let part = u32::try_from(chance >> 4 & 0xff).unwrap_or(0);
            let due = after(now, longest.saturating_mul(part) / 256);
            follower.expect(Arc::clone(&commit), due);
        }
    }
}

impl Follower {
    /// Applies all transactions up to `last` and discards those after it. The link is whole again.
    pub(super) fn settle(&mut self, last: Zxid) {
        self.forget_clients();
        self.link = Link::default();
        while let Some((_, commit)) = self.coming.pop_front()
            && commit.zxid <= last
        {
            commit.apply(&mut self.view);
        }
        self.coming.clear();
    }

    /// A transaction is on its way.
    pub(super) fn expect(&mut self, commit: Arc<Commit>, due: Instant) {
        let due = self.coming.back().map_or(due, |last| due.max(last.0));
        self.coming.push_back((due, commit));
    }

    fn gets_nothing(&self) -> bool {
        self.is_held || self.link.from_leader_cut
    }

    fn forget_clients(&mut self) {
        self.is_held = false;
        self.writes.clear();
        self.waiting.clear();
    }

    /// The waiting write that this transaction answers.
    fn asked_for(&mut self, commit: &Commit) -> Option<Waiting> {
        if self.writes.front() != Some(&commit.asked) {
            return None;
        }
        self.writes.pop_front();
        self.waiting.get_mut(&commit.asked.0)?.pop_front()
    }

    /// The next request of a session that need not wait any longer.
    fn next_read(&mut self, session: SessionId) -> Option<Waiting> {
        let queue = self.waiting.get_mut(&session)?;
        let next = if queue.front().is_some_and(|next| !next.needs_commit()) {
            queue.pop_front()
        } else {
            None
        };
        if queue.is_empty() {
            self.waiting.remove(&session);
        }
        next
    }
}

impl Commit {
    /// A new leader begins.
    pub(super) fn new_epoch(first: Zxid, now: Now) -> Arc<Self> {
        Arc::new(Self {
            zxid: first,
            unix_ms: now.unix_ms,
            asked: (SessionId::NONE, Xid(0)),
            deed: Mutation::Nothing,
            answer: Err(ErrorCode::OK),
            knows_sasl: false,
        })
    }

    /// Repeats on a follower what the leader has done.
    fn apply(&self, view: &mut View) -> Vec<Change> {
        view.zxid = self.zxid;
        let mut author = Author {
            zxid: self.zxid,
            unix_ms: self.unix_ms,
            ids: &[],
            knows_sasl: self.knows_sasl,
        };
        match &self.deed {
            Mutation::Nothing | Mutation::Start(..) => Vec::new(),
            Mutation::Remove(paths, _) => {
                let mut txn = Txn::new(&mut view.tree, author);
                for path in paths {
                    txn.remove(path);
                }
                txn.commit()
            }
            Mutation::Request(request, ids) => {
                author.ids = ids;
                let mut txn = Txn::new(&mut view.tree, author);
                let is_done = match request {
                    Request::Multi(multi) => matches!(
                        writes::apply_multi(&mut txn, self.asked.0, multi),
                        MultiOutcome::Applied(_)
                    ),
                    _ => {
                        writes::apply(&mut txn, self.asked.0, request).is_some_and(|it| it.is_ok())
                    }
                };
                if is_done {
                    return txn.commit();
                }
                txn.roll_back();
                Vec::new()
            }
        }
    }

    /// The reply to a request whose transaction this is taken for. If the transaction belongs to another kind of
    /// request, the reply contains as much of it as fits.
    fn answer_to(&self, request: &Request) -> Result<Response, ErrorCode> {
        let answer = self.answer.as_ref().map_err(|code| *code)?;
        if answer.op() == request.op() {
            return Ok(answer.clone());
        }
        let created = match answer {
            Response::Create2(it) | Response::CreateContainer(it) | Response::CreateTtl(it) => {
                Some(it.clone())
            }
            _ => None,
        };
        let stat = match answer {
            Response::SetData(it) | Response::SetAcl(it) => Some(it.stat),
            _ => created.as_ref().map(|created| created.stat),
        };
        let unlike = ErrorCode::MARSHALLING_ERROR;
        let created: Result<Create2Response, _> = created.ok_or(unlike);
        let stat = stat.map(|stat| StatResponse { stat }).ok_or(unlike);
        match request {
            Request::Create(_) => {
                created.map(|it| Response::Create(CreateResponse { path: it.path }))
            }
            Request::Create2(_) => created.map(Response::Create2),
            Request::CreateContainer(_) => created.map(Response::CreateContainer),
            Request::CreateTtl(_) => created.map(Response::CreateTtl),
            Request::Delete(_) => Ok(Response::Delete(Empty {})),
            Request::CloseSession(_) => Ok(Response::CloseSession(Empty {})),
            Request::SetData(_) => stat.map(Response::SetData),
            Request::SetAcl(_) => stat.map(Response::SetAcl),
            Request::Sync(request) => {
                let path = request.path.clone();
                Ok(Response::Sync(SyncResponse { path }))
            }
            _ => Err(unlike),
        }
    }
}

impl Engine {
    /// From now on, the first `count` servers are followers, and clients are connected to them. A transaction travels
    /// to each follower for at most `longest`. Call this before the first connection.
    pub fn set_followers(&mut self, count: u32, longest: Duration) {
        let seed = Seeded(self.config.seed);
        let follower = |_| Follower {
            view: View {
                tree: self.live.tree.clone(),
                watches: Watches::new(seed),
                zxid: self.live.zxid,
            },
            link: Link::default(),
            coming: VecDeque::new(),
            is_held: false,
            writes: VecDeque::new(),
            waiting: BTreeMap::new(),
        };
        let all = (0..count).map(|server| (ServerId(server), follower(server)));
        self.followers = Some(Followers {
            longest,
            seed,
            sent: 0,
            commits: true,
            all: all.collect(),
        });
    }

    /// The last transaction of the leader.
    #[must_use]
    pub fn last_zxid(&self) -> Zxid {
        self.live.zxid
    }

    /// All transactions on their way arrive now.
    pub(super) fn settle_followers(&mut self) {
        if let Some(followers) = &mut self.followers {
            for follower in followers.all.values_mut() {
                follower.settle(self.live.zxid);
            }
        }
    }

    /// Sends a transaction of the leader to the followers.
    pub(super) fn replicate(
        &mut self,
        asked: (SessionId, Xid),
        deed: Mutation,
        answer: Result<Response, ErrorCode>,
        now: Now,
    ) {
        if let Some(followers) = &mut self.followers {
            let commit = Commit {
                zxid: self.live.zxid,
                unix_ms: now.unix_ms,
                asked,
                deed,
                answer,
                knows_sasl: self.config.sasl.is_some(),
            };
            followers.send(commit, now.instant);
        }
    }

    /// Handles a request that a follower has received.
    pub(super) fn request_at_follower(
        &mut self,
        id: ConnId,
        session: SessionId,
        xid: Xid,
        request: Request,
        fate: Fate,
        now: Now,
    ) {
        let server = self.server_of(id);
        let op = request.op();
        let answers_alone = op == OpCode::SYNC && self.leads_alone(server);
        let Some(follower) = self
            .followers
            .as_mut()
            .and_then(|it| it.all.get_mut(&server))
        else {
            return self.close(id);
        };
        let is_behind = follower.waiting.contains_key(&session);
        let proves = matches!(op, OpCode::AUTH | OpCode::SASL);
        let alone = answers_alone && follower.writes.is_empty();
        let waiting = Waiting {
            connection: id,
            xid,
            request: request.clone(),
            fate,
        };
        let needs_commit = waiting.needs_commit();
        if proves || !is_behind && (alone || !needs_commit) {
            return self.conclude(id, session, xid, &request, fate, now);
        }
        if needs_commit {
            follower.writes.push_back((session, xid));
        }
        follower
            .waiting
            .entry(session)
            .or_default()
            .push_back(waiting);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.is_deaf = fate.lose_reply;
        }
        if needs_commit {
            self.forward(id, session, xid, request, now);
        }
    }

    /// The leader checks a write and applies it.
    pub(super) fn request_at_leader(
        &mut self,
        id: ConnId,
        session: SessionId,
        xid: Xid,
        request: Request,
        now: Now,
    ) {
        let asked = (session, xid);
        if let Request::Sync(request) = &request {
            let path = request.path.clone();
            let answer = Ok(Response::Sync(SyncResponse { path }));
            return self.replicate(asked, Mutation::Nothing, answer, now);
        }
        if self.sessions.get(session).is_none() {
            self.next_zxid();
            return self.replicate(
                asked,
                Mutation::Nothing,
                Err(ErrorCode::SESSION_EXPIRED),
                now,
            );
        }
        match &request {
            Request::CloseSession(_) => self.end_session(session, xid, now),
            Request::Reconfig(_) => {
                self.next_zxid();
                self.replicate(
                    asked,
                    Mutation::Nothing,
                    Err(ErrorCode::RECONFIG_DISABLED),
                    now,
                );
            }
            _ => {
                let answer = self.write(id, session, &request, now);
                let ids = self.connections.get(&id).map(|own| own.ids.clone());
                let deed = Mutation::Request(request, ids.unwrap_or_else(|| Arc::from([])));
                self.replicate(asked, deed, answer, now);
            }
        }
    }

    /// Delivers the transactions that are due to the followers.
    pub(super) fn arrive(&mut self, now: Now) {
        let Some(followers) = &self.followers else {
            return;
        };
        let servers: Vec<ServerId> = followers.all.keys().copied().collect();
        for server in servers {
            while let Some(commit) = self.next_arrival(server, now) {
                self.arrives(server, &commit, now);
            }
        }
    }

    fn next_arrival(&mut self, server: ServerId, now: Now) -> Option<Arc<Commit>> {
        let followers = self.followers.as_mut().filter(|it| it.commits)?;
        let follower = followers.all.get_mut(&server)?;
        let (due, _) = follower.coming.front()?;
        if follower.gets_nothing() || *due > now.instant {
            return None;
        }
        follower.coming.pop_front().map(|(_, commit)| commit)
    }

    fn arrives(&mut self, server: ServerId, commit: &Commit, now: Now) {
        let Some(follower) = self
            .followers
            .as_mut()
            .and_then(|it| it.all.get_mut(&server))
        else {
            return;
        };
        let asker = follower.asked_for(commit);
        if let Some(lost) = asker.as_ref().filter(|asker| asker.fate.lose_reply)
            && let Some(connection) = self.connections.get_mut(&lost.connection)
        {
            connection.muted = true;
        }
        for change in commit.apply(&mut follower.view) {
            for event in change.trigger(&mut follower.view.watches, None) {
                if let Some(connection) = self.connections.get_mut(&event.to) {
                    self.counters.deliver(connection, commit.zxid, &event);
                    self.dirty.insert(event.to);
                }
            }
        }
        let (session, _) = commit.asked;
        if let Mutation::Start(connection, timeout, knows_read_only) = commit.deed {
            self.welcome(connection, Some(session), timeout, knows_read_only);
            return;
        }
        if let Some(asker) = asker {
            let answer = commit.answer_to(&asker.request);
            if answer == Err(ErrorCode::SESSION_MOVED) || asker.fate.lose_reply {
                self.close(asker.connection);
            } else {
                if let Some(delay) = asker.fate.delay {
                    self.hold(asker.connection, delay, now);
                }
                self.reply(asker.connection, asker.xid, commit.zxid, &answer);
            }
            self.answer_reads(server, session, now);
        }
        if matches!(commit.deed, Mutation::Remove(_, Some(_))) {
            self.close_all_of(server, session);
        }
    }

    /// Answers the reads that waited for a write of their session.
    fn answer_reads(&mut self, server: ServerId, session: SessionId, now: Now) {
        while let Some(next) = self
            .followers
            .as_mut()
            .and_then(|it| it.all.get_mut(&server)?.next_read(session))
        {
            let id = next.connection;
            let asks = self.connections.get(&id).and_then(Connection::session);
            if asks == Some(session) {
                self.conclude(id, session, next.xid, &next.request, next.fate, now);
            }
        }
    }

    /// A follower learns that a session has ended.
    fn close_all_of(&mut self, server: ServerId, session: SessionId) {
        if let Some(follower) = self
            .followers
            .as_mut()
            .and_then(|it| it.all.get_mut(&server))
        {
            follower.waiting.remove(&session);
        }
        let own = self.connections.iter().filter(|(_, connection)| {
            connection.server == server && connection.session() == Some(session)
        });
        let own: Vec<ConnId> = own.map(|(id, _)| *id).collect();
        for id in own {
            self.close(id);
        }
    }
}

/// Whether the reply to a request must wait for the leader.
fn needs_commit(op: OpCode) -> bool {
    op.is_transaction() || op == OpCode::SYNC
}
