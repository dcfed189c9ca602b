//! The rules that every history must keep, whether a simulation or a test on real servers recorded
//! it.
//!
//! | rule | in |
//! |---|---|
//! | no two holders at once, by their leases; a semaphore grants no more permits than its limit | `overlap` |
//! | tokens grow in the order of the grants; no queued waiter is skipped, or granted after its node is gone | `order` |
//! | a store refuses no holder with a valid lease, and accepts no lower token after a higher one | `order` |
//! | when nothing goes wrong, the lock is handed over without delay, and with enough of the lease left | `hand_over` |
//! | every attempt ends in time, and no caller is told of a loss that did not happen | `ends` |
//! | a listening holder hears each request to release, and no other; no release succeeds after the hold's limit | `asked` |
//! | a watch fires before its reader sees newer data; the answer to a write is true; no node is left behind | `nodes` |
//! | no server drowns in its replies, is left while it is healthy, or is believed when it lies | `nodes` |
//!
//! All functions are pure. Not here: the format of a history and how to record one (`history`).

mod asked;
mod ends;
mod hand_over;
mod holds;
mod nodes;
mod order;
mod overlap;
#[cfg(test)]
mod tests;

use std::{fmt, time::Duration};

use crate::history::Event;
use holds::Holds;

/// What the recorder knows about the run, and the time limits that the run must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// When the last disturbance ended. An attempt must end at most [`max_wait`](Self::max_wait)
    /// after this time, or after it was asked for, if that is later.
    pub calm: Duration,
    /// How long an attempt may last without disturbances; `None` for any time.
    pub max_wait: Option<Duration>,
    /// How long it may take until a client knows what a third party did to its node. The checker
    /// ignores a grant to that client within this time. It checks a later grant like any other.
    pub news: Duration,
    /// From when on, and in which time, a lock is handed over to the next waiter; `None` if nothing
    /// is known of the network.
    pub hand_over: Option<(Duration, Duration)>,
    /// Whether the history has every end of a session
    /// ([`What::SessionOver`](crate::history::What::SessionOver)).
    pub knows_sessions: bool,
}

/// A rule that a history can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// The history does not contradict itself. If it does, the recorder is wrong.
    Record,
    /// No two holders at once.
    Overlap,
    /// Tokens grow in the order of the grants.
    Tokens,
    /// No waiter in the queue is skipped.
    Skipped,
    /// No waiter is granted a lock after it learned that its node is gone.
    Gone,
    /// A store refuses no holder with a valid lease, and accepts no stale write.
    Store,
    /// Every attempt ends in time.
    Endless,
    /// When nothing goes wrong, a waiter has the lock soon after the holder ahead has released it.
    HandOver,
    /// When nothing goes wrong, no lock is granted with less than a quarter of the lease left.
    Scant,
    /// No caller is told of a loss that did not happen.
    FalseLoss,
    /// A listening holder hears each request to release its lock, and hears none that was not made.
    Asked,
    /// A hold that outlasts its limit does not end with a successful release.
    Overdue,
    /// A watch fires before its reader sees newer data.
    Watch,
    /// The answer to a write is true.
    Write,
    /// No node is left behind in a live session.
    Left,
    /// The servers have the watches that their clients want, and no others.
    Strayed,
    /// When all is over, one latch of an election leads, unless messages are so slow that no lease is
    /// proved.
    Leader,
    /// No server is sent for more than it has memory for.
    Storm,
    /// No client leaves a healthy server.
    Deserted,
    /// No client believes in a node or a token that the servers do not have.
    Lie,
    /// No task panics, and no client loops without end.
    Panic,
}

/// One place where a history breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The time of the event that shows it, in true time.
    pub at: Duration,
    /// The rule.
    pub rule: Rule,
    /// The attempt, client or node that broke it, and how.
    pub text: String,
}

impl Violation {
    fn new(at: Duration, rule: Rule, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { at, rule, text }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at.as_secs_f64();
        write!(f, "{seconds:9.3}  {:?}: {}", self.rule, self.text)
    }
}

/// How many grants came after the lease of a holder had ended that did not release the lock.
pub(crate) fn leases_that_ended(history: &[Event], bounds: &Bounds) -> u64 {
    overlap::leases_that_ended(&Holds::of(history, &mut Vec::new()), bounds)
}

/// Finds all violations in a history, in order of time.
#[must_use]
pub fn check(history: &[Event], bounds: &Bounds) -> Vec<Violation> {
    let mut found = Vec::new();
    let holds = Holds::of(history, &mut found);
    overlap::check(&holds, bounds, &mut found);
    order::check(&holds, bounds, &mut found);
    hand_over::check(&holds, bounds, &mut found);
    ends::check(&holds, bounds, &mut found);
    asked::check(&holds, bounds, &mut found);
    nodes::check(history, &mut found);
    found.sort_by_key(|violation| violation.at);
    found
}
