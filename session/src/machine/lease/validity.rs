//! From when the lease counts, and what a proof is worth that comes behind its end.
//!
//! A leader ends sessions in two steps: it decides that all those are over whose time has come, and
//! marks one after the other. Between the two a session may be touched, resumed and written to, and
//! ends nevertheless. A proof that is complete before the lease ends is out of reach of that: the
//! leader has decided nothing yet. When a lease has ended that somebody relied on, or whose
//! connection was lost, a proof is in *doubt* until a further write, sent long enough behind it, is
//! handled: a session that was decided upon is marked by then, and its writes fail. Source:
//! `SessionTrackerImpl.java` (`run`).
//!
//! The lease of a quiet session, which nobody keeps proved, ends all the time. There a proof counts
//! at once, so that the first lock does not wait.
//!
//! Not here: what the answers prove (`proof`).

use std::time::{Duration, Instant};

use crate::machine::timing::Timing;

/// From when the lease counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Validity {
    /// The leader counts from this instant, or from a later one; `None` without a session.
    from: Option<Instant>,
    /// Whether somebody was granted a lock by this lease, and keeps it.
    is_relied_on: bool,
    /// A proof counts only when it is confirmed.
    doubt: Option<Doubt>,
}

/// The proofs to confirm: the newest touch that they prove, and when the first of them was complete.
/// Each of them was complete before the lease would have ended that the one before it proves, so
/// what confirms the first one confirms all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Doubt(Option<(Instant, Instant)>);

/// For how long a lease counts, and how long behind a proof a write confirms it.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "`tests/model` makes it")]
pub struct Lengths {
    /// From the touch to the end of the lease.
    pub lease: Duration,
    /// From a proof to the write that confirms it, at least.
    pub confirm: Duration,
}

impl From<&Timing> for Lengths {
    fn from(timing: &Timing) -> Self {
        let (lease, confirm) = (timing.lease, timing.confirm);
        Self { lease, confirm }
    }
}

impl Validity {
    /// From when the lease counts.
    #[must_use]
    pub fn from(&self) -> Option<Instant> {
        self.from
    }

    /// Whether the lease has not ended.
    #[must_use]
    pub fn is_valid(&self, now: Instant, lengths: Lengths) -> bool {
        self.from.is_some_and(|from| now < from + lengths.lease)
    }

    /// Somebody is granted a lock, and relies on the lease from now on.
    pub fn rely(&mut self) {
        self.is_relied_on = true;
    }

    /// The lease counts from this instant.
    pub fn extend(&mut self, from: Instant) {
        self.from = self.from.max(Some(from));
    }

    /// The handshake that resumes the session was sent and answered at these instants. Returns
    /// whether one write behind it proves it.
    pub fn resumed(&mut self, sent: Instant, answered: Instant, lengths: Lengths) -> bool {
        let is_in_time = self.is_valid(answered, lengths);
        if !is_in_time {
            // The leader has heard of the handshake: that is a proof for any write behind it.
            self.doubt = Some(Doubt(Some((sent, answered))));
        }
        is_in_time
    }

    /// Something is answered. Call it before the answer is counted. `is_kept` says that somebody has
    /// the lease kept.
    pub fn heard(&mut self, now: Instant, lengths: Lengths, is_kept: bool) {
        if self.is_valid(now, lengths) {
            self.is_relied_on &= is_kept;
        } else if self.is_relied_on {
            self.doubt.get_or_insert_default();
        }
    }

    /// The leader has handled a write that was sent then.
    pub fn written(&mut self, now: Instant, sent: Instant, lengths: Lengths) {
        if let Some(Doubt(Some((touched, at)))) = self.doubt {
            if at + lengths.confirm <= sent {
                self.extend(touched);
                let is_too_old = self.is_relied_on && !self.is_valid(now, lengths);
                self.doubt = is_too_old.then(Doubt::default);
            }
        }
    }

    /// It is proved that the leader has heard of this touch.
    pub fn proved(&mut self, now: Instant, touched: Instant, lengths: Lengths) {
        match &mut self.doubt {
            None => self.extend(touched),
            Some(Doubt(Some((newest, _)))) if now < *newest + lengths.lease => {
                *newest = touched.max(*newest);
            }
            Some(doubt) => *doubt = Doubt(Some((touched, now))),
        }
    }

    /// When a write may be sent that confirms a proof, at the earliest.
    pub(super) fn confirmed_by(&self, confirm: Duration) -> Option<Instant> {
        let Doubt(proof) = self.doubt.as_ref()?;
        proof.map(|(_, at)| at + confirm)
    }
}
