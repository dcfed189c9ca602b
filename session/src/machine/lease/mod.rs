//! The lease of the session: until when no server can have ended it, by the policy of the user.
//!
//! Not here: what the answers on one connection prove, and why (`proof`).

mod proof;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use lockkeeper_proto::{ErrorCode, Xid};

use super::config::{LeasePolicy, Timing};
pub use proof::Proof;

/// Keeps the lease proved while it lives. Made by [`Machine::keep_lease`](super::Machine::keep_lease).
#[derive(Debug)]
pub struct LeaseToken(#[allow(dead_code, reason = "the lease counts its clones")] Arc<()>);

/// What is known of the lease, whatever the connection.
#[derive(Debug)]
pub(crate) struct Lease {
    policy: LeasePolicy,
    /// Its own clone, and one in each [`LeaseToken`].
    keepers: Arc<()>,
    /// Since when somebody waits for a lease that is good for a grant.
    awaited: Option<Instant>,
    /// From when the lease counts; `None` without a session.
    ///
    /// By [`LeasePolicy::Proved`], the proof shows that the leader counts from this instant, or from
    /// a later one. By [`LeasePolicy::Assumed`], the newest ping or write that was answered had been
    /// sent then.
    from: Option<Instant>,
    /// `None` without a connection.
    proving: Option<Proving>,
}

/// What proves the lease on one connection.
#[derive(Debug)]
struct Proving {
    proof: Proof,
    /// Whether a write that is to prove something is queued or under way.
    is_writing: bool,
}

impl Lease {
    pub(crate) fn new(policy: LeasePolicy) -> Self {
        Self {
            policy,
            keepers: Arc::new(()),
            awaited: None,
            from: None,
            proving: None,
        }
    }

    /// Until when no server can have ended the session.
    pub(crate) fn deadline(&self, timing: &Timing) -> Option<Instant> {
        Some(self.from? + timing.lease)
    }

    pub(crate) fn keep(&self) -> LeaseToken {
        LeaseToken(self.keepers.clone())
    }

    /// Whether a lock may be granted to a contender that waits for the lease since `since`: a
    /// quarter of the session timeout is left.
    ///
    /// Servers may be so slow that no proof leaves as much. After a quarter of waiting, less is
    /// enough: the lease must reach to half a session timeout after `since`.
    pub(crate) fn is_good(&self, now: Instant, since: Instant, timing: &Timing) -> bool {
        let is_enough = |until| now + timing.grant <= until || since + 2 * timing.grant <= until;
        let until = self.deadline(timing);
        until.is_some_and(|until| now < until && is_enough(until))
    }

    /// Until when a lock may be granted at once.
    pub(crate) fn good_until(&self, timing: &Timing) -> Option<Instant> {
        Some(self.from? + timing.lease.saturating_sub(timing.grant))
    }

    pub(crate) fn await_good(&mut self, since: Instant) {
        self.awaited.get_or_insert(since);
    }

    /// The session is over.
    pub(crate) fn end(&mut self) {
        self.from = None;
    }

    fn extend(&mut self, from: Instant) {
        self.from = self.from.max(Some(from));
    }

    /// The handshake, which was sent at `sent`, is answered.
    pub(crate) fn begin(&mut self, now: Instant, sent: Instant, timeout: Duration, is_new: bool) {
        // A session is made by a transaction, and the leader counts from when it handled it.
        if is_new || self.is_assumed() {
            self.extend(sent);
        }
        self.proving = Some(Proving {
            proof: Proof::new(sent, now, timeout, !is_new),
            is_writing: false,
        });
    }

    /// The connection is gone.
    pub(crate) fn disconnected(&mut self) {
        self.proving = None;
    }

    fn is_assumed(&self) -> bool {
        matches!(self.policy, LeasePolicy::Assumed { .. })
    }

    /// A ping or a write of the client was sent and answered at these instants.
    pub(crate) fn touched(&mut self, now: Instant, sent: Instant) {
        if let Some(proving) = &mut self.proving {
            proving.proof.touched(sent, now);
        }
        if self.is_assumed() {
            self.extend(sent);
        }
    }

    /// A write is answered with this code; `None` if the reply was not read.
    pub(crate) fn write_answered(&mut self, xid: Xid, code: Option<ErrorCode>) {
        let is_transaction = code.is_some_and(proof::is_transaction);
        if let Some(proving) = &mut self.proving
            && let Some(touched) = proving.proof.answered(xid, is_transaction)
            && !self.is_assumed()
        {
            self.extend(touched);
        }
    }

    /// Whether somebody waits for the lease, which is good now. They are told once.
    pub(crate) fn is_renewed(&mut self, now: Instant, timing: &Timing) -> bool {
        let is_renewed = (self.awaited).is_some_and(|since| self.is_good(now, since, timing));
        if is_renewed {
            self.awaited = None;
        }
        is_renewed
    }

    /// Whether somebody waits for the answer to the next ping.
    pub(crate) fn is_urgent(&self) -> bool {
        self.awaited.is_some() && self.is_assumed()
    }

    /// When the next write is due that is to prove something. A client that writes for its users
    /// needs none.
    pub(crate) fn write_due(&self, timing: &Timing) -> Option<Instant> {
        let proving = self.proving.as_ref()?;
        if Arc::strong_count(&self.keepers) == 1 || self.is_assumed() || proving.is_writing {
            return None;
        }
        let regular = proving.proof.regular_write(timing.proof);
        // The lease is no longer good for a grant: a write goes out as soon as it proves something.
        let useful = proving.proof.next_write(self.from);
        let urgent = useful.map(|useful| Some(useful).max(self.good_until(timing)));
        [regular, urgent.flatten()].into_iter().flatten().min()
    }

    /// A write that is to prove something is queued, or is answered.
    pub(crate) fn is_writing(&mut self, is_writing: bool) {
        if let Some(proving) = &mut self.proving {
            proving.is_writing = is_writing;
        }
    }

    /// Any write is sent.
    pub(crate) fn sent(&mut self, now: Instant, xid: Xid) {
        if let Some(proving) = &mut self.proving {
            proving.proof.sent(now, xid);
        }
    }
}
