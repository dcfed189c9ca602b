//! One member of an ensemble: its state, transactions that travel to it, and requests that it has to
//! answer later.
//!
//! The leader orders and checks writes immediately; its state is the live one. Each transaction
//! then travels to each member for a while, in order. Clients are connected to members:
//!
//! - A member answers reads from its own state.
//! - It answers a write when the transaction of the write has arrived.
//! - Later requests of the same session wait behind that write, on any connection. Only `auth`,
//!   `sasl` and operations that no server knows are answered at once.
//!
//! As in ZooKeeper, a follower recognises the transaction of its oldest waiting write by session id
//! and xid. If the same session has sent a write with the same xid through another follower, that
//! transaction is mistaken for the waiting one.
//!
//! The leader keeps the sessions. The others report at intervals which sessions were active. When a
//! member fails between two reports, its last reports are lost: those sessions expire up to one
//! interval earlier than their clients expect.
//!
//! What travels in one direction arrives in order. A cut of the link to the leader is silent:
//! nothing arrives, and neither end is told. The member goes on answering pings and reads. What
//! waits, until the link is mended or the member gives up:
//!
//! | cut | what waits |
//! |---|---|
//! | to the leader | writes of clients, and the news of which sessions were active |
//! | from the leader | transactions, and pings: a member tells of its sessions only when it is pinged |
//! | any | handshakes |
//!
//! A handshake overtakes at the leader what the member had sent before. Then the member owns the
//! session again, even if the client has given the handshake up. So the leader takes writes of earlier
//! connections that it would refuse otherwise. Like a real one it never refuses `sync` and
//! `closeSession` for that (`PrepRequestProcessor`).
//!
//! Differences from a real ensemble:
//!
//! - A client's write, and a resumed session, reach the leader immediately, unless the link is cut.
//!   Only the way back takes time.
//! - A member refuses a write by itself if a rule says so. Otherwise rules take effect when the
//!   request is answered.
//!
//! Not here: which links are cut (`ensemble`), sessions and connections (`replication`).
//!
//! Source: `CommitProcessor`, `FollowerRequestProcessor`, `FinalRequestProcessor`, `Learner.ping`,
//! `Leader.lead` (half a tick), `LearnerSessionTracker`, `SessionTrackerImpl`, `LearnerHandler`
//! (`REVALIDATE`).

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Instant,
};

use lockkeeper_proto::{OpCode, Request, SessionId, Xid};

use super::{basics::ConnId, commit::Commit, rules::Fate, view::View};

/// A request of a client, and what rules want to happen to it.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) connection: ConnId,
    pub(super) session: SessionId,
    pub(super) xid: Xid,
    pub(super) request: Arc<Request>,
    /// How many bytes the request takes, about.
    pub(super) length: usize,
    pub(super) fate: Fate,
}

/// The requests of a session that wait: its oldest unanswered write, and all later ones.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) requests: VecDeque<Asked>,
    /// The lengths of all of them.
    pub(super) length: usize,
}

/// What a member tells its leader.
#[derive(Debug)]
pub(super) enum Upward {
    /// A session was active.
    Touch(SessionId),
    /// A client wants to resume a session. It may have given up by now.
    Resume(SessionId),
    Write(Asked),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It leads, or it follows the leader.
    Serving,
    /// It leads, and does not know that others have elected another leader.
    Former,
    /// It runs, but has no leader.
    Looking,
    Stopped,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) role: Role,
    /// When it gives up its role, if nothing changes.
    pub(super) gives_up: Option<Instant>,
    pub(super) view: View,
    /// Transactions on their way, with the time of their arrival.
    pub(super) coming: VecDeque<(Instant, Arc<Commit>)>,
    /// Whether no transaction arrives for now.
    pub(super) lags: bool,
    /// The sessions that were active and are not reported to the leader yet.
    pub(super) heard: BTreeSet<SessionId>,
    /// What has not reached the leader, oldest first.
    pub(super) unsent: VecDeque<Upward>,
    /// The unanswered writes that clients sent to this member, in order: session id and xid.
    writes: VecDeque<(SessionId, Xid)>,
    pub(super) waiting: BTreeMap<SessionId, Waiting>,
}

impl Member {
    pub(super) fn new(live: &View) -> Self {
        Self {
            role: Role::Looking,
            gives_up: None,
            view: View::new(live.tree.clone(), live.zxid),
            coming: VecDeque::new(),
            lags: false,
            heard: BTreeSet::new(),
            unsent: VecDeque::new(),
            writes: VecDeque::new(),
            waiting: BTreeMap::new(),
        }
    }

    /// A transaction is on its way.
    pub(super) fn expect(&mut self, commit: Arc<Commit>, due: Instant) {
        let due = self.coming.back().map_or(due, |last| due.max(last.0));
        self.coming.push_back((due, commit));
    }

    /// The member fails: it forgets the requests of its clients, and which sessions were active.
    /// Transactions on their way still arrive.
    pub(super) fn fail(&mut self) {
        self.heard.clear();
        self.unsent.clear();
        self.lags = false;
        self.writes.clear();
        self.waiting.clear();
    }

    /// A client has sent a request. Returns whether it is answered later. `leads_alone`: the member
    /// takes itself for the leader, and no majority follows.
    pub(super) fn take(&mut self, asked: &Asked, leads_alone: bool) -> bool {
        let op = asked.request.op();
        let is_behind = self.waiting.contains_key(&asked.session);
        let alone = op == OpCode::SYNC && leads_alone && self.writes.is_empty();
        let is_for_leader = asked.needs_commit();
        let waits = !proves(op) && (is_behind || is_for_leader && !alone);
        if waits {
            let waiting = self.waiting.entry(asked.session).or_default();
            waiting.length = waiting.length.saturating_add(asked.length);
            waiting.requests.push_back(asked.clone());
        }
        if waits && is_for_leader {
            self.writes.push_back((asked.session, asked.xid));
        }
        waits
    }

    /// The waiting write that this transaction answers.
    pub(super) fn asked_for(&mut self, commit: &Commit) -> Option<Asked> {
        if self.writes.front() != Some(&commit.asked) {
            return None;
        }
        self.writes.pop_front();
        self.waiting.get_mut(&commit.asked.0)?.pop()
    }

    /// The next request of a session that need not wait any longer.
    pub(super) fn next_read(&mut self, session: SessionId) -> Option<Asked> {
        let queue = self.waiting.get_mut(&session)?;
        let first = queue.requests.front();
        let may_go = first.is_some_and(|next| !next.needs_commit());
        let next = may_go.then(|| queue.pop()).flatten();
        if queue.requests.is_empty() {
            self.waiting.remove(&session);
        }
        next
    }
}

impl Waiting {
    fn pop(&mut self) -> Option<Asked> {
        let first = self.requests.pop_front()?;
        self.length = self.length.saturating_sub(first.length);
        Some(first)
    }
}

impl Asked {
    /// Whether the reply must wait for the leader.
    pub(super) fn needs_commit(&self) -> bool {
        let op = self.request.op();
        self.fate.refuse.is_none() && (op.is_transaction() || op == OpCode::SYNC)
    }
}

/// Whether the request proves who the client is. Servers answer it in their I/O thread.
pub(super) fn proves(op: OpCode) -> bool {
    matches!(op, OpCode::AUTH | OpCode::SASL)
}
