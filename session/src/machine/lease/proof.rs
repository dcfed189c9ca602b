//! What the answers on one connection prove of the session.
//!
//! A server that answers a client need not be heard by its leader, and the leader alone ends
//! sessions. When the link between the two is cut in silence, the server goes on answering for
//! `syncLimit` ticks. So an answer alone proves little. Two requests to the leader in a row prove
//! it:
//!
//! ```text
//!   client     touch ──► answer ── at least the wait ──► first ──► answer   second ──► answer: the session lives until touch + timeout
//!   server         ○ notes the touch          ○ PING from the leader: answered with the touch
//!   leader                                    ○ answers the first    ○ handles the second: it has read that answer
//! ```
//!
//! The leader pings its servers every half tick, and a server answers with the sessions that it has
//! heard of. The first request is so late that a ping is ahead of its answer, on one connection. It
//! may be a `sync`, whose answer waits in the same queue as pings (`Leader.sendSync`,
//! `LearnerHandler.queuePacket`), and which costs the servers no write. The second one goes
//! behind the server's answer to that ping, on the same connection. It must be a write: a leader
//! that has lost its majority answers a `sync`. A server that changes its leader closes its clients'
//! connections. A new leader begins after the last write of the former one, and gives every session
//! its whole timeout. Sources: `LearnerSessionTracker.java`, `Learner.java` (`ping`, `shutdown`),
//! `LearnerHandler.java`, `Leader.java` (`lead`, `processSync`), `SessionTrackerImpl.java`.
//!
//! Proofs overlap: several first and second requests may be under way, for different touches. A
//! session's answers come in the order of its requests, so slow answers delay a proof and do not
//! stop those behind it.
//!
//! Not here: when to send these requests, and what a proof is worth once the lease has ended
//! (`Lease`).

use std::time::{Duration, Instant};

use lockkeeper_proto::{ErrorCode, OpCode, Xid};

use crate::machine::timing::Timing;

/// What the answers on one connection prove.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proof {
    /// Between a touch and the first request behind it: longer than the time between two pings of
    /// the leader.
    wait: Duration,
    /// Requests of which the server has heard, and for which no first request was sent, oldest
    /// first: when they were sent, and answered.
    touches: Vec<(Instant, Instant)>,
    /// The newest touch for which a first request was sent.
    asked: Option<Instant>,
    /// The newest touch whose first request is answered, until a second one is sent.
    first: Option<Instant>,
    /// The requests under way that may prove something, oldest first.
    under_way: Vec<UnderWay>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct UnderWay {
    xid: Xid,
    /// The newest touch that is old enough: this request is the first one for it.
    touched: Option<Instant>,
    /// The touch for which this write is the second request.
    proves: Option<Instant>,
}

impl Proof {
    /// A connection whose handshake was sent and answered at these instants. `is_told` says that
    /// the handshake has told the leader of a session that lives: any write behind it shows that
    /// this still was the leader.
    #[must_use]
    pub fn new(sent: Instant, answered: Instant, wait: Duration, is_told: bool) -> Self {
        Self {
            wait,
            touches: vec![(sent, answered)],
            asked: None,
            first: is_told.then_some(sent),
            under_way: Vec::new(),
        }
    }

    /// The server has heard of the session: a request of the client itself, sent and answered at
    /// these instants.
    pub fn touched(&mut self, sent: Instant, answered: Instant) {
        let spacing = Timing::apart(self.wait);
        let newest = self.touches.last();
        if newest.is_some_and(|(newest, _)| sent < *newest + spacing) {
            return;
        }
        // Of those that are old enough, only the newest is of use.
        let is_old = |(_, at): &(Instant, Instant)| *at + self.wait <= answered;
        while self.touches.get(1).is_some_and(is_old) {
            self.touches.remove(0);
        }
        self.touches.reserve_exact(1);
        self.touches.push((sent, answered));
    }

    /// A request to the leader is sent: a write or a `sync`.
    pub fn sent(&mut self, now: Instant, xid: Xid, is_write: bool) {
        let mut touched = None;
        while let Some((sent, answered)) = self.touches.first() {
            if *answered + self.wait > now {
                break;
            }
            touched = Some(*sent);
            self.touches.remove(0);
        }
        self.asked = self.asked.max(touched);
        let proves = self.first.take_if(|_| is_write);
        if touched.is_some() || proves.is_some() {
            // Few are under way at a time, and mostly none: they keep no room.
            self.under_way.reserve_exact(1);
            self.under_way.push(UnderWay {
                xid,
                touched,
                proves,
            });
        }
    }

    /// A request to the leader is answered. `is_handled` says that the leader has handled it.
    /// Returns the touch of which the leader has certainly heard, if that is known now.
    pub fn answered(&mut self, xid: Xid, is_handled: bool) -> Option<Instant> {
        let at = self.under_way.iter().position(|it| it.xid == xid)?;
        let request = self.under_way.remove(at);
        if self.under_way.is_empty() {
            self.under_way = Vec::new();
        }
        if !is_handled {
            return None;
        }
        self.first = self.first.max(request.touched);
        request.proves
    }

    /// How long it takes until a touch newer than `from` may be proved, when each answer takes as
    /// long as `answer`.
    pub(super) fn next_in(
        &self,
        now: Instant,
        from: Option<Instant>,
        answer: Duration,
    ) -> Duration {
        let has = |is_newer: fn(&UnderWay) -> Option<Instant>| {
            self.under_way.iter().any(|it| is_newer(it) > from)
        };
        if self.first > from || has(|it| it.proves) {
            return answer;
        }
        if has(|it| it.touched) {
            return 2 * answer;
        }
        let mut newer = self.touches.iter().filter(|it| Some(it.0) > from);
        // Or the next one.
        let answered = newer.next().map_or(now + answer, |it| it.1);
        (answered + self.wait).saturating_duration_since(now) + 2 * answer
    }

    /// A touch whose second request may be sent.
    pub(super) fn second(&self) -> Option<Instant> {
        self.first
    }

    /// When a first request may be sent, at the earliest, for a touch that was sent at least this
    /// long after the newest one that has a first request.
    pub(super) fn next_first(&self, spacing: Duration) -> Option<Instant> {
        let is_apart = |sent: Instant| self.asked.is_none_or(|asked| asked + spacing <= sent);
        let next = self.touches.iter().find(|(sent, _)| is_apart(*sent))?;
        Some(next.1 + self.wait)
    }
}

/// Whether a write with this result is a transaction. A write that fails for what is in the tree is
/// one; a write that the server refuses before it asks the leader is none.
pub(crate) fn is_transaction(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::OK
            | ErrorCode::NO_NODE
            | ErrorCode::NODE_EXISTS
            | ErrorCode::BAD_VERSION
            | ErrorCode::NOT_EMPTY
    )
}

/// Whether the leader handles a request with this operation.
pub(crate) fn is_for_leader(op: OpCode) -> bool {
    op.is_write() || op == OpCode::SYNC
}
