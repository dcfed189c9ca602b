//! How long the slowest answer of late has taken, on whatever connection.
//!
//! Not here: what follows from it.

use std::{
    mem,
    time::{Duration, Instant},
};

/// The answers of one to two session timeouts, or the last ones.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// The slowest answer since `since`, and the slowest one in the session timeout before that.
    recent: Duration,
    before: Duration,
    since: Option<Instant>,
}

impl Pace {
    /// Something that was sent at `sent` is answered, or is given up.
    pub(crate) fn took(&mut self, now: Instant, sent: Instant, session_timeout: Duration) {
        if (self.since).is_none_or(|since| since + session_timeout <= now) {
            self.before = mem::take(&mut self.recent);
            self.since = Some(now);
        }
        self.recent = self.recent.max(now.saturating_duration_since(sent));
    }

    pub(crate) fn slowest(&self) -> Duration {
        self.recent.max(self.before)
    }
}
