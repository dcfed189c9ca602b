//! Followers: servers that get every transaction from their leader, each with its own delay.
//!
//! The leader orders and checks writes immediately; its state is the live one. Each transaction
//! then travels to each follower for a while, in order. Clients are connected to followers:
//!
//! - A follower answers reads from its own state.
//! - It answers a write when the transaction of the write has arrived.
//! - Later requests of the same session wait behind that write, on any connection.
//!
//! As in ZooKeeper, a follower recognises the transaction of its oldest waiting write by session id
//! and xid. If the same session has sent a write with the same xid through another follower, that
//! transaction is mistaken for the waiting one.
//!
//! Differences from a real ensemble:
//!
//! - A client's write, and a resumed session, reach the leader immediately, unless the link is cut.
//!   Only the way back takes time.
//! - A follower refuses a write by itself if a rule says so. Otherwise rules take effect when the
//!   request is answered.
//!
//! Not here: links that are cut (`link`), sessions and connections (`replication`).
//!
//! Source: `CommitProcessor`, `FollowerRequestProcessor`, `FinalRequestProcessor`.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::{BuildHasher, Hasher},
    sync::Arc,
    time::{Duration, Instant},
};

use lockkeeper_proto::{OpCode, SessionId, Xid, Zxid};

use super::{
    asked::Asked,
    basics::{ServerId, after},
    commit::Commit,
    hash::Seeded,
    link::Link,
    view::View,
};

/// All followers.
#[derive(Debug)]
pub(super) struct Followers {
    longest: Duration,
    seed: Seeded,
    /// The number of transactions that were sent to the followers so far.
    sent: u64,
    /// Whether transactions arrive at all.
    pub(super) commits: bool,
    /// No election loses a transaction up to this one.
    pub(super) kept: Zxid,
    pub(super) all: BTreeMap<ServerId, Follower>,
}

#[derive(Debug)]
pub(super) struct Follower {
    pub(super) view: View,
    /// The link to the leader.
    pub(super) link: Link,
    /// Transactions on their way, with the time of their arrival.
    coming: VecDeque<(Instant, Arc<Commit>)>,
    /// Whether no transaction arrives until the follower is thawed.
    is_held: bool,
    /// The unanswered writes that clients sent to this follower, in order: session id and xid.
    writes: VecDeque<(SessionId, Xid)>,
    /// For each session: its oldest unanswered write and all later requests.
    pub(super) waiting: BTreeMap<SessionId, VecDeque<Asked>>,
}

/// What a follower does with a request.
pub(super) enum Taken {
    /// It answers at once.
    Answer(Asked),
    /// It answers later; the leader must get the request.
    Forward(Asked),
    /// It answers later.
    Wait,
}

impl Followers {
    pub(super) fn new(count: u32, longest: Duration, live: &View) -> Self {
        let follower = || Follower {
            view: live.copy(),
            link: Link::default(),
            coming: VecDeque::new(),
            is_held: false,
            writes: VecDeque::new(),
            waiting: BTreeMap::new(),
        };
        let all = (0..count).map(|server| (ServerId(server), follower()));
        Self {
            longest,
            seed: live.tree.seed(),
            sent: 0,
            commits: true,
            kept: Zxid::ZERO,
            all: all.collect(),
        }
    }

    /// Whether this follower, or each of them, gets no transaction for now.
    pub(super) fn set_held(&mut self, server: Option<ServerId>, is_held: bool) {
        let wanted = |id: &ServerId| server.is_none_or(|server| server == *id);
        for (_, follower) in self.all.iter_mut().filter(|(id, _)| wanted(id)) {
            follower.is_held = is_held;
        }
    }

    /// When the next transaction arrives.
    pub(super) fn due(&self) -> Option<Instant> {
        let all = self.all.values().filter(|_| self.commits);
        all.filter_map(Follower::due).min()
    }

    /// Sends a transaction to all followers.
    pub(super) fn send(&mut self, commit: Commit, now: Instant) {
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

    /// Takes a transaction that has arrived, with its follower.
    pub(super) fn next_arrival(&mut self, now: Instant) -> Option<(ServerId, Arc<Commit>)> {
        let is_due = |follower: &Follower| follower.due().is_some_and(|due| due <= now);
        let mut all = self.all.iter_mut().filter(|_| self.commits);
        let (server, follower) = all.find(|(_, follower)| is_due(follower))?;
        let (_, commit) = follower.coming.pop_front()?;
        Some((*server, commit))
    }

    /// The followers whose links are whole have a new leader, which knows what any follower has
    /// learned, and what is kept. Returns the transactions that the new leader does not know.
    pub(super) fn elect(&mut self, live: &mut View) -> VecDeque<(Instant, Arc<Commit>)> {
        let learned = self.all.values().map(|follower| follower.view.zxid);
        let last = learned.fold(self.kept, Zxid::max);
        let mut unknown = VecDeque::new();
        for follower in self.all.values_mut() {
            let coming = &mut follower.coming;
            let known = coming.partition_point(|(_, commit)| commit.zxid <= last);
            unknown = coming.split_off(known);
            if !follower.link.is_cut() {
                for (_, commit) in coming.drain(..) {
                    let _ = follower.view.catch_up_with(&commit);
                }
                live.tree.clone_from(&follower.view.tree);
            }
        }
        unknown
    }
}

impl Follower {
    /// When the next transaction arrives.
    fn due(&self) -> Option<Instant> {
        let gets_nothing = self.is_held || self.link.from_leader_cut;
        let (due, _) = self.coming.front().filter(|_| !gets_nothing)?;
        Some(*due)
    }

    /// A transaction is on its way.
    fn expect(&mut self, commit: Arc<Commit>, due: Instant) {
        let due = self.coming.back().map_or(due, |last| due.max(last.0));
        self.coming.push_back((due, commit));
    }

    /// The follower fails: it forgets the requests of its clients. Transactions on their way still
    /// arrive.
    pub(super) fn fail(&mut self) {
        self.link.waiting.clear();
        self.is_held = false;
        self.writes.clear();
        self.waiting.clear();
    }

    /// A client has sent a request.
    pub(super) fn take(&mut self, asked: Asked) -> Taken {
        let op = asked.request.op();
        let session = asked.session;
        let is_behind = self.waiting.contains_key(&session);
        let proves = matches!(op, OpCode::AUTH | OpCode::SASL);
        let alone = op == OpCode::SYNC && self.link.leads && self.writes.is_empty();
        let is_for_leader = needs_commit(&asked);
        if proves || !is_behind && (alone || !is_for_leader) {
            return Taken::Answer(asked);
        }
        let waiting = self.waiting.entry(session).or_default();
        waiting.push_back(asked.clone());
        if is_for_leader {
            self.writes.push_back((session, asked.xid));
            return Taken::Forward(asked);
        }
        Taken::Wait
    }

    /// The waiting write that this transaction answers.
    pub(super) fn asked_for(&mut self, commit: &Commit) -> Option<Asked> {
        if self.writes.front() != Some(&commit.asked) {
            return None;
        }
        self.writes.pop_front();
        self.waiting.get_mut(&commit.asked.0)?.pop_front()
    }

    /// The next request of a session that need not wait any longer.
    pub(super) fn next_read(&mut self, session: SessionId) -> Option<Asked> {
        let queue = self.waiting.get_mut(&session)?;
        let may_go = queue.front().is_some_and(|next| !needs_commit(next));
        let next = may_go.then(|| queue.pop_front()).flatten();
        if queue.is_empty() {
            self.waiting.remove(&session);
        }
        next
    }
}

/// Whether the reply must wait for the leader.
fn needs_commit(asked: &Asked) -> bool {
    let op = asked.request.op();
    asked.fate.refuse.is_none() && (op.is_transaction() || op == OpCode::SYNC)
}
