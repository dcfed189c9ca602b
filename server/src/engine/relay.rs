//! Activity of sessions that the leader learns late.
//!
//! The leader keeps the sessions. Its followers report at intervals which sessions were active.
//! When a follower fails between two reports, its last reports are lost: those sessions expire up
//! to one interval earlier than their clients expect.
//!
//! Source: `Learner.ping`, `Leader.lead` (half a tick), `LearnerSessionTracker`,
//! `SessionTrackerImpl`.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use lockkeeper_proto::SessionId;

use super::basics::{ServerId, after};

/// The sessions that were active and are not reported to the leader yet.
#[derive(Debug)]
pub(super) struct Relay {
    interval: Duration,
    pub(super) due: Instant,
    /// Each with the server that has heard of it.
    pub(super) heard: BTreeSet<(ServerId, SessionId)>,
}

impl Relay {
    pub(super) fn new(interval: Duration, now: Instant) -> Self {
        Self {
            interval,
            due: after(now, interval),
            heard: BTreeSet::new(),
        }
    }

    /// The next interval begins.
    pub(super) fn begin(&mut self, now: Instant) {
        self.due = after(now, self.interval);
    }

    /// Takes what the servers report that are pinged now.
    pub(super) fn take(
        &mut self,
        is_pinged: impl Fn(ServerId) -> bool,
    ) -> BTreeSet<(ServerId, SessionId)> {
        let all = std::mem::take(&mut self.heard).into_iter();
        let (reported, kept) = all.partition(|(server, _)| is_pinged(*server));
        self.heard = kept;
        reported
    }
}
