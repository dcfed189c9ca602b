//! The line of waiters as a model, and every state that it can reach.
//!
//! Three contenders want one lock. Their clients do what the recipes do, await by await; who is ahead of whom they ask the
//! recipes' own [`rank`](lockkeeper_recipes::rank::rank). Their servers lag, lose connections with what was under way on them,
//! end sessions; callers give up at any step; an operator deletes nodes. `explore` makes every step that is possible in
//! every state that is reachable, and looks at each state:
//!
//! - who holds the lock has nobody ahead with whom it must not be shared: no two holders, nobody skipped;
//! - who is granted the lock still had its node then, and its session;
//! - each node of a live session has somebody who will delete it;
//! - something can happen, and when nothing goes wrong any more, everybody gets done: no wake-up is lost.
//!
//! What the algorithm might leave out is a [`Shortcut`], and the tests show what each would bring about.
//!
//! | module | what |
//! |---|---|
//! | `line` | a line: its states, what servers and contenders do, what must hold, the steps in words |
//! | `counted` | the same for the plain lock and for the semaphore |
//! | `history` | the servers' time |
//! | `explore` | all states, breadth first |
//! | [`runs`] | who contends, and what may go wrong |
//!
//! Not here: time, but for leases that have run out before the servers end a session (the simulation has clocks); the wire;
//! what a holder does and is told (`tests/contract/`). And it is a model: that the code does the same is held together by the
//! ranking, which is the code's own, by reading, and by the tests of `tests/known_bugs/` that replay what was found here.

mod counted;
mod explore;
mod faults;
mod history;
mod line;
pub mod runs;
mod shortcut;
mod violation;

pub use counted::{Counted, Recipe};
pub use explore::{Found, Outcome};
pub use faults::Faults;
pub use line::Line;
pub use shortcut::Shortcut;
pub use violation::Violation;

/// How many contend at most.
pub const CONTENDERS: usize = 3;

/// What to explore.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Scenario {
    /// A line of waiters.
    Line(Line),
    /// A lock whose nodes are counted.
    Counted(Counted),
}

impl Scenario {
    /// Reaches every state, or the first that is wrong.
    ///
    /// # Panics
    /// When there are more than `most` states.
    #[must_use]
    pub fn explore(&self, most: usize) -> Outcome {
        match self {
            Self::Line(line) => explore::explore(line, most),
            Self::Counted(lock) => explore::explore(lock, most),
        }
    }

    /// The same with nothing left out.
    #[must_use]
    pub fn without_shortcut(self) -> Self {
        match self {
            Self::Line(line) => Self::Line(Line {
                shortcut: None,
                ..line
            }),
            Self::Counted(lock) => Self::Counted(Counted {
                shortcut: None,
                ..lock
            }),
        }
    }
}
