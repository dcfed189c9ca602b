//! What the answers on one connection prove of the session.
//!
//! A server that answers a client need not be heard by its leader, and the leader alone ends
//! sessions. When the link between the two is cut in silence, the server goes on answering for
//! `syncLimit` ticks. So an answer alone proves little. Two writes in a row prove it:
//!
//! ```text
//!   client     touch ──► answer ── at least the wait ──► W1 ──► answer   W2 ──► answer: the session lives until touch + timeout
//!   server         ○ notes the touch          ○ PING from the leader: answered with the touch
//!   leader                                    ○ handles W1             ○ handles W2: it has read that answer
//! ```
//!
//! The leader pings its servers every half tick, and a server answers with the sessions that it has
//! heard of. `W1` is so late that a ping is ahead of its answer, on one connection. `W2` goes
//! behind the server's answer to that ping, on the same connection. A server that changes its
//! leader closes its clients' connections. A new leader begins after the last write of the former
//! one, and gives every session its whole timeout. Sources: `LearnerSessionTracker.java`,
//! `Learner.java` (`ping`, `shutdown`), `LearnerHandler.java`, `Leader.java` (`lead`),
//! `SessionTrackerImpl.java`.
//!
//! Not here: when to write (`Lease`).

use std::time::{Duration, Instant};

use lockkeeper_proto::{ErrorCode, Xid};

/// What the answers on one connection prove.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proof {
    /// Between a touch and the first write behind it: longer than the time between two pings of the
    /// leader.
    wait: Duration,
    /// Requests of which the server has heard, oldest first: when they were sent, and answered.
    touches: Vec<(Instant, Instant)>,
    /// The newest touch whose `W1` is answered.
    first: Option<Instant>,
    /// The write under way. The others meanwhile prove nothing more.
    write: Option<Write>,
    /// When the last write was sent; `None` while nothing is known to the leader by this
    /// connection.
    last_write: Option<Instant>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Write {
    xid: Xid,
    /// The newest touch that is old enough: this write is `W1` for it.
    touched: Option<Instant>,
    /// The touch for which this write is `W2`.
    proves: Option<Instant>,
}

impl Proof {
    /// A connection whose handshake was sent and answered at these instants. `is_resumed` says that
    /// the session existed.
    #[must_use]
    pub fn new(sent: Instant, answered: Instant, timeout: Duration, is_resumed: bool) -> Self {
        Self {
            // Half a tick is at most a quarter: servers grant two ticks or more.
            wait: timeout / 3,
            touches: vec![(sent, answered)],
            // To resume a session, the server asks its leader. Any write behind that shows that it
            // still was the leader.
            first: is_resumed.then_some(sent),
            write: None,
            last_write: (!is_resumed).then_some(sent),
        }
    }

    /// The server has heard of the session: a request of the client itself, sent and answered at
    /// these instants.
    pub fn touched(&mut self, sent: Instant, answered: Instant) {
        let spacing = self.wait / 10;
        if let Some((newest, _)) = self.touches.last()
            && sent < *newest + spacing
        {
            return;
        }
        // Of those that are old enough, only the newest is of use.
        while let Some((_, second)) = self.touches.get(1)
            && *second + self.wait <= answered
        {
            self.touches.remove(0);
        }
        self.touches.push((sent, answered));
    }

    /// A write is sent.
    pub fn sent(&mut self, now: Instant, xid: Xid) {
        self.last_write = Some(now);
        if self.write.is_some() {
            return;
        }
        let mut touched = None;
        while let Some((sent, answered)) = self.touches.first()
            && *answered + self.wait <= now
        {
            touched = Some(*sent);
            self.touches.remove(0);
        }
        self.write = Some(Write {
            xid,
            touched,
            proves: self.first,
        });
    }

    /// A write is answered. `is_transaction` says that the leader has handled it. Returns the touch
    /// from which the session certainly counts, if that is known now.
    pub fn answered(&mut self, xid: Xid, is_transaction: bool) -> Option<Instant> {
        let write = self.write.take_if(|write| write.xid == xid)?;
        if !is_transaction {
            // Not repeated at once: a server that refuses writes would be asked in a loop.
            self.first = None;
            return None;
        }
        // What was `W1` before is proved by this write, if by any.
        self.first = write.touched;
        write.proves
    }

    /// When a write would prove more than `proved`, at the earliest; `None` while a write is under
    /// way.
    pub(super) fn next_write(&self, proved: Option<Instant>) -> Option<Instant> {
        let is_newer = |touched: Instant| proved.is_none_or(|proved| proved < touched);
        if self.write.is_some() {
            return None;
        }
        if let Some(first) = self.first.filter(|first| is_newer(*first)) {
            return Some(first);
        }
        let newer = self.touches.iter().find(|(sent, _)| is_newer(*sent));
        newer.map(|(_, answered)| *answered + self.wait)
    }

    /// When the next write is due without any hurry. The first one of a resumed session is.
    pub(super) fn regular_write(&self, interval: Duration) -> Option<Instant> {
        self.last_write
            .map_or(self.first, |last| Some(last + interval))
    }
}

/// Whether a write with this result is a transaction. A write that fails for what is in the tree is
/// one; a write that the server refuses before it asks the leader is none.
pub(super) fn is_transaction(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::OK
            | ErrorCode::NO_NODE
            | ErrorCode::NODE_EXISTS
            | ErrorCode::BAD_VERSION
            | ErrorCode::NOT_EMPTY
    )
}
