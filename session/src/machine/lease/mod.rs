//! The lease of the session: until when no server can have ended it, by the policy of the user.
//!
//! | file | what |
//! |---|---|
//! | `proof` | what the answers on one connection prove, and why |
//! | `validity` | from when the lease counts, and what a proof is worth behind its end |
//! | `keepers` | who relies on the lease, and the nodes that a proof checks |
//!
//! Here: when to send what proves the lease.

mod keepers;
mod proof;
mod validity;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use lockkeeper_proto::Xid;

use super::{config::LeasePolicy, earlier, pace::Pace, timing::Timing};
pub(crate) use keepers::Checked;
use keepers::Keepers;
pub use keepers::LeaseToken;
pub use proof::Proof;
pub(crate) use proof::{is_for_leader, is_transaction};
pub use validity::{Lengths, Validity};

/// A request that is to prove something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A `sync`.
    First,
    /// A write that changes nothing.
    Second,
}

/// What is known of the lease, whatever the connection.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    policy: LeasePolicy,
    keepers: Keepers,
    /// When the first answer came since when somebody keeps the lease all the time.
    kept_since: Option<Instant>,
    /// Since when somebody waits for a lease that is good for a grant.
    awaited: Option<Instant>,
    /// By [`LeasePolicy::Proved`], the proof shows that the leader counts from this instant, or from
    /// a later one. By [`LeasePolicy::Assumed`], the newest ping or write that was answered had been
    /// sent then.
    validity: Validity,
    /// How long a ping or a `sync` takes with no write of this session ahead of it. Then it waits for
    /// the writes of others only.
    alone: Pace,
    /// `None` without a connection.
    proving: Option<Proving>,
}

/// What proves the lease on one connection.
#[derive(Debug)]
struct Proving {
    proof: Proof,
    /// Whether a first request is queued that is to prove something, and whether a second one is.
    is_first_queued: bool,
    is_second_queued: bool,
    /// When the last write was sent.
    last_write: Option<Instant>,
    /// How many writes are under way, and when the last one was sent that was answered, and when
    /// that was.
    writes: u32,
    written: Option<(Instant, Instant)>,
    /// Until when requests of users are no part of a proof, as one was refused. Others may be, too,
    /// and each would take the place of a request that proves something.
    refused_until: Option<Instant>,
}

/// A write or a `sync`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForLeader {
    pub(crate) xid: Xid,
    pub(crate) is_write: bool,
    /// Whether the machine sends it by itself.
    pub(crate) is_own: bool,
}

impl Lease {
    pub(crate) fn new(policy: LeasePolicy) -> Self {
        Self {
            policy,
            ..Self::default()
        }
    }

    /// Until when no server can have ended the session.
    pub(crate) fn deadline(&self, timing: &Timing) -> Option<Instant> {
        Some(self.validity.from()? + timing.lease)
    }

    /// Keeps the lease proved from now on, for whoever has this node of a directory.
    pub(crate) fn keep(&mut self, directory: Arc<str>, name: Arc<str>) -> LeaseToken {
        self.keepers.add(directory, name)
    }

    /// The nodes that the next write of a proof checks, which has at most so many bytes.
    pub(crate) fn nodes_to_check(&mut self, max_request: usize) -> (Vec<String>, Checked) {
        self.keepers.next(max_request)
    }

    /// Whether a lock may be granted to a contender that waits for the lease since `since`: a
    /// quarter of the session timeout is left.
    ///
    /// Servers may be so slow that no proof leaves as much. After a quarter of waiting, less is
    /// enough: the lease must reach to half a session timeout after `since`.
    ///
    /// When each answer takes as long as `answer`, the next proof must come in time, too.
    pub(crate) fn is_good(
        &mut self,
        now: Instant,
        since: Instant,
        answer: Duration,
        timing: &Timing,
    ) -> bool {
        let is_enough = |until| now + timing.grant <= until || since + 2 * timing.grant <= until;
        let is_good = self.deadline(timing).is_some_and(|until| {
            now < until && is_enough(until) && self.goes_on(now, until, answer)
        });
        if is_good {
            self.validity.rely();
        }
        is_good
    }

    /// Whether the next proof comes before the end of the lease: then those behind it do, too.
    fn goes_on(&self, now: Instant, until: Instant, answer: Duration) -> bool {
        let from = self.validity.from();
        let is_next = |proving: &Proving| now + proving.proof.next_in(now, from, answer) <= until;
        // The answers to what was sent meanwhile come one behind the other.
        let is_in_turn = self.kept_since.is_some() && self.kept_since <= from;
        is_in_turn || self.is_assumed() || self.proving.as_ref().is_some_and(is_next)
    }

    /// Something is answered. Call it before the answer is counted.
    fn heard(&mut self, now: Instant, timing: &Timing) {
        let is_kept = self.keepers.are_there();
        self.kept_since = is_kept.then_some(self.kept_since.unwrap_or(now));
        self.validity.heard(now, timing.into(), is_kept);
    }

    /// Until when a lock may be granted at once.
    pub(crate) fn good_until(&self, timing: &Timing) -> Option<Instant> {
        Some(self.validity.from()? + timing.lease.saturating_sub(timing.grant))
    }

    /// From when less is left of a lease that somebody keeps.
    pub(crate) fn scarce(&self, timing: &Timing) -> Option<Instant> {
        if !self.keepers.are_there() || self.is_assumed() {
            return None;
        }
        self.good_until(timing)
    }

    pub(crate) fn await_good(&mut self, since: Instant) {
        self.awaited.get_or_insert(since);
    }

    /// The session is over.
    pub(crate) fn end(&mut self) {
        self.validity = Validity::default();
    }

    /// The handshake, which was sent at `sent`, is answered.
    pub(crate) fn begin(&mut self, now: Instant, sent: Instant, is_new: bool, timing: &Timing) {
        let mut is_told = false;
        // A session is made by a transaction, and the leader counts from when it handled it.
        if is_new || self.is_assumed() {
            self.validity.extend(sent);
        } else {
            is_told = self.validity.resumed(sent, now, timing.into());
        }
        self.proving = Some(Proving {
            proof: Proof::new(sent, now, timing.wait, is_told),
            is_first_queued: false,
            is_second_queued: false,
            last_write: None,
            writes: 0,
            written: None,
            refused_until: None,
        });
    }

    /// The connection is gone.
    pub(crate) fn disconnected(&mut self) {
        self.proving = None;
    }

    pub(crate) fn is_assumed(&self) -> bool {
        matches!(self.policy, LeasePolicy::Assumed { .. })
    }

    /// A ping was sent and answered at these instants.
    pub(crate) fn ponged(&mut self, now: Instant, sent: Instant, timing: &Timing) {
        self.note_alone(now, sent, timing);
        self.touched(now, sent, timing);
    }

    /// A request that writes nothing is answered. Answers come in the order of requests, so it may
    /// have waited for that to a write. Over a slow link it comes as long behind it as it was sent. Of
    /// one that has waited, only that is noted that what was noted before is older.
    fn note_alone(&mut self, now: Instant, sent: Instant, timing: &Timing) {
        let written = self.proving.as_ref().and_then(|proving| proving.written);
        let took = now.saturating_duration_since(sent);
        let has_waited = written.is_some_and(|(write, answered)| {
            let apart = sent.saturating_duration_since(write).max(took / 8);
            sent < answered && 2 * now.saturating_duration_since(answered) < apart
        });
        let took = if has_waited { Duration::ZERO } else { took };
        self.alone.took(now, took, timing.queue_wait);
    }

    /// A ping or a write of the client was sent and answered at these instants.
    pub(crate) fn touched(&mut self, now: Instant, sent: Instant, timing: &Timing) {
        self.heard(now, timing);
        if let Some(proving) = &mut self.proving {
            proving.proof.touched(sent, now);
        }
        if self.is_assumed() {
            self.validity.extend(sent);
        }
    }

    /// A write or a `sync`, which was sent at `sent`, is answered. `is_handled` says that the leader
    /// has handled it.
    pub(crate) fn answered(
        &mut self,
        now: Instant,
        (request, sent): (ForLeader, Instant),
        is_handled: bool,
        timing: &Timing,
    ) {
        let ForLeader {
            xid,
            is_write,
            is_own,
        } = request;
        if is_write {
            self.touched(now, sent, timing);
        } else {
            self.note_alone(now, sent, timing);
            self.heard(now, timing);
        }
        let is_assumed = self.is_assumed();
        let Some(proving) = &mut self.proving else {
            return;
        };
        if is_write {
            proving.writes = proving.writes.saturating_sub(1);
            proving.written = Some((sent, now));
        }
        if !is_handled && !is_own {
            proving.refused_until = Some(now + timing.proof);
        }
        let proved = proving.proof.answered(xid, is_handled);
        if is_assumed {
            return;
        }
        if is_write && is_handled {
            self.validity.written(now, sent, timing.into());
        }
        if let Some(touched) = proved {
            self.validity.proved(now, touched, timing.into());
        }
    }

    /// Takes the wish of those who wait for the lease, if it is good now: they are told once. Returns
    /// whether there was one.
    pub(crate) fn take_renewed(&mut self, now: Instant, answer: Duration, timing: &Timing) -> bool {
        let awaited = self.awaited;
        let is_renewed = awaited.is_some_and(|since| self.is_good(now, since, answer, timing));
        if is_renewed {
            self.awaited = None;
        }
        is_renewed
    }

    /// How long after a ping the next one is due. None is waited for while somebody waits for the
    /// answer.
    pub(crate) fn ping_interval(&self, timing: &Timing) -> Duration {
        match (self.is_assumed(), self.keepers.are_there()) {
            (true, _) if self.awaited.is_some() => Duration::ZERO,
            (false, true) => timing.kept_ping,
            _ => timing.ping,
        }
    }

    /// When the next request is due that is to prove something, and which one, when an answer takes
    /// as long as `answer`.
    pub(crate) fn due(&self, answer: Duration, timing: &Timing) -> Option<(Instant, Step)> {
        let proving = self.proving.as_ref()?;
        let proof = &proving.proof;
        if !self.keepers.are_there() || self.is_assumed() {
            return None;
        }
        // A contender waits for the lease, or it ends: what proves something newer is due. That takes
        // a `sync` and a write, and the answer to the next touch may be under way.
        let scarce = || {
            let until = match self.awaited {
                Some(_) => self.good_until(timing),
                None => self.deadline(timing),
            }?;
            let early = 2 * self.alone.slowest() + answer;
            Some(until.checked_sub(early).unwrap_or(until))
        };
        // Before that: users may write soon, which proves as much.
        let last_write = proving.last_write;
        let quiet = |at: Instant| match last_write.map(|last| last + timing.quiet) {
            Some(quiet) if at < quiet => at.max(earlier(quiet, scarce())),
            _ => at,
        };
        let first = || {
            let (apart, next) = (
                proof.next_first(timing.proof),
                proof.next_first(Duration::ZERO),
            );
            if apart == next {
                return apart;
            }
            let useful = next.map(|at| scarce().map_or(at, |scarce| at.max(scarce)));
            [apart, useful].into_iter().flatten().min()
        };
        // Where the disk of the server is slow and nobody else writes, a write only waits for the one
        // ahead of it, and so does all that is behind it: no proof would be complete in time.
        let is_for_users = proving.refused_until.is_none();
        let is_in_the_way = is_for_users && proving.writes > 0 && 4 * self.alone.slowest() < answer;
        let second = || {
            let is_useful = |touch: &Instant| self.validity.from() < Some(*touch);
            let proves = proof.second().filter(is_useful).map(quiet);
            // Not in a loop: servers may refuse the write.
            let again = |at: Instant| last_write.map_or(at, |last| at.max(last + timing.again));
            let confirms = self.validity.confirmed_by(timing.confirm).map(again);
            [proves, confirms].into_iter().flatten().min()
        };
        let first = (!proving.is_first_queued).then(first).flatten();
        let second = (!proving.is_second_queued && !is_in_the_way)
            .then(second)
            .flatten();
        let steps = [(first.map(quiet), Step::First), (second, Step::Second)];
        let steps = steps.into_iter().filter_map(|(at, step)| Some((at?, step)));
        steps.min_by_key(|(at, _)| *at)
    }

    /// A request that is to prove something is queued.
    pub(crate) fn queued(&mut self, step: Step) {
        if let Some(proving) = &mut self.proving {
            match step {
                Step::First => proving.is_first_queued = true,
                Step::Second => proving.is_second_queued = true,
            }
        }
    }

    /// A write or a `sync` is sent, whoever asked for it.
    pub(crate) fn sent(&mut self, now: Instant, request: ForLeader) {
        let ForLeader { xid, is_write, .. } = request;
        if let Some(proving) = &mut self.proving {
            proving.writes += u32::from(is_write);
            proving.refused_until.take_if(|until| *until <= now);
            if proving.refused_until.is_some() && !request.is_own {
                return;
            }
            if is_write {
                proving.is_second_queued = false;
                proving.last_write = Some(now);
            } else {
                proving.is_first_queued = false;
            }
            proving.proof.sent(now, xid, is_write);
        }
    }
}
