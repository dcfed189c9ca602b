//! Timers that fire in the client's task.
//!
//! Not here: the future that waits for one (`sleep`), the deadlines of the session
//! (`machine::timers`).

use std::{collections::BTreeMap, num::NonZeroU64, task::Waker, time::Instant};

/// The timers of a client that are being waited for.
#[derive(Debug)]
pub(crate) struct Timers {
    /// By the time at which they fire.
    pub(super) waiting: BTreeMap<(Instant, NonZeroU64), Waker>,
    pub(super) last: NonZeroU64,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            last: NonZeroU64::MIN,
        }
    }
}

impl Timers {
    /// When the next timer fires.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes the timers from the first one on that are due.
    pub(crate) fn fire(&mut self, is_due: impl Fn(Instant) -> bool, woken: &mut Vec<Waker>) {
        while let Some(first) = self.waiting.first_entry()
            && is_due(first.key().0)
        {
            woken.push(first.remove());
        }
    }
}
