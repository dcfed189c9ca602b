//! What must be true of every history, whoever recorded it.
//!
//! | rule | in |
//! |---|---|
//! | no two holders at once, by the leases that they were told; not more leases of a semaphore than its limit | `overlap` |
//! | tokens grow in the order of the grants; nobody who stands in the line is skipped, or granted without a node | `order` |
//! | a store refuses no holder whose lease runs, and takes nobody's write after that of a later one | `order` |
//! | every attempt ends in time, and for a reason that there was | `ends` |
//! | who is asked to let go hears of it, and nobody else does; who has a limit does not hold for longer | `asked` |
//! | a watch fires before its reader sees newer data; writes are what they were said to be; nothing is left behind | `nodes` |
//!
//! The functions are pure. Not here: how histories come about.

mod asked;
mod ends;
mod holds;
mod nodes;
mod order;
mod overlap;
#[cfg(test)]
mod tests;

use std::{fmt, time::Duration};

use crate::history::Event;
use holds::Holds;

/// What the recorder knows of the run, and asks of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// From when nothing disturbed the run any more. An attempt must end at most [`max_wait`](Self::max_wait) after it was
    /// asked for, or after this.
    pub calm: Duration,
    /// How long an attempt may last in calm; `None` if it does not matter.
    pub max_wait: Option<Duration>,
    /// How long it may take until a client knows what a third party did to its node. A grant in between says nothing; one
    /// after that is wrong.
    pub news: Duration,
    /// Whether every end of a session is recorded ([`What::SessionOver`](crate::history::What::SessionOver)).
    pub knows_sessions: bool,
}

/// A rule of which a history can fall foul.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// The history itself makes no sense: the recorder is wrong.
    Record,
    /// No two holders at once.
    Overlap,
    /// Tokens grow in the order of the grants.
    Tokens,
    /// Nobody is skipped.
    Skipped,
    /// Nobody is granted what is known to be gone.
    Gone,
    /// A store refuses no holder whose lease runs, and takes no stale write.
    Store,
    /// Every attempt ends.
    Endless,
    /// Nobody is told that a lock was lost for a reason that there was not.
    FalseLoss,
    /// Who is asked to let go, and listens, hears of it; nobody else does.
    Asked,
    /// Nobody holds for longer than the limit that was set.
    Overdue,
    /// A watch fires before newer data are seen.
    Watch,
    /// A write is what it was said to be.
    Write,
    /// Nothing is left behind.
    Left,
    /// Nothing panics, and nobody goes round in circles.
    Panic,
}

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When it shows, in true time.
    pub at: Duration,
    /// Which rule.
    pub rule: Rule,
    /// By whom, and how.
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

/// Everything that is wrong with a history, in order of time.
#[must_use]
pub fn check(history: &[Event], bounds: &Bounds) -> Vec<Violation> {
    let mut found = Vec::new();
    let holds = Holds::of(history, &mut found);
    overlap::check(&holds, bounds, &mut found);
    order::check(&holds, bounds, &mut found);
    ends::check(&holds, bounds, &mut found);
    asked::check(&holds, bounds, &mut found);
    nodes::check(history, &mut found);
    found.sort_by_key(|violation| violation.at);
    found
}
