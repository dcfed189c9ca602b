//! The search of a client on a read-only server for one that accepts writes: when to ask the next
//! one.
//!
//! Not here: the move (`moving`).

use std::time::{Duration, Instant};

use crate::machine::State;

/// From the connection to a read-only server to the first probe of another one.
///
/// Source: `ClientCnxn.java`, `minPingRwTimeout`.
const FIRST_PROBE: Duration = Duration::from_millis(100);
/// The longest pause between two probes. The pause doubles after each.
///
/// Source: `ClientCnxn.java`, `maxPingRwTimeout`.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The search for a server that accepts writes.
#[derive(Debug)]
pub(crate) struct WritableSearch {
    pub(super) next: Instant,
    pub(super) pause: Duration,
    /// Whether a probe waits for its answer.
    pub(super) is_probing: bool,
}

impl WritableSearch {
    /// A search that begins now, if a server in this state is read-only.
    pub(crate) fn after(now: Instant, state: State) -> Option<Self> {
        (state == State::ReadOnly).then(|| Self {
            next: now + FIRST_PROBE,
            pause: FIRST_PROBE,
            is_probing: false,
        })
    }

    /// When the next probe is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        (!self.is_probing).then_some(self.next)
    }
}
