//! How long the slowest answer of late has taken, on whatever connection.

use std::time::{Duration, Instant};

/// Answers are remembered for one to two session timeouts.
#[derive(Debug)]
pub(super) struct Pace {
    /// The slowest answer since `since`, and in the session timeout before that.
    recent: Duration,
    before: Duration,
    since: Instant,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            recent: Duration::ZERO,
            before: Duration::ZERO,
            since: now,
        }
    }

    /// Something that was sent at `sent` is answered, or is given up.
    pub(super) fn took(&mut self, now: Instant, sent: Instant, session_timeout: Duration) {
        if self.since + session_timeout <= now {
            self.before = std::mem::take(&mut self.recent);
            self.since = now;
        }
        self.recent = self.recent.max(now.saturating_duration_since(sent));
    }

    pub(super) fn slowest(&self) -> Duration {
        self.recent.max(self.before)
    }
}
