//! How long the slowest answer of late has taken, on any connection.
//!
//! Not here: what follows from it.

use std::{
    mem,
    time::{Duration, Instant},
};

/// The answers of one to two periods, or the last ones. Each session has several of these.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// In microseconds: the slowest answer since `since`, and the slowest one in the period before.
    recent: u32,
    before: u32,
    since: Option<Instant>,
}

impl Pace {
    /// The answer to something has come, after so long.
    pub(crate) fn took(&mut self, now: Instant, took: Duration, period: Duration) {
        if (self.since).is_none_or(|since| since + period <= now) {
            self.before = mem::take(&mut self.recent);
            self.since = Some(now);
        }
        let took = took.as_micros().try_into().unwrap_or(u32::MAX);
        self.recent = self.recent.max(took);
    }

    pub(crate) fn slowest(&self) -> Duration {
        Duration::from_micros(self.recent.max(self.before).into())
    }
}
