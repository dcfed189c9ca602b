//! The line of waiters as a model, and every state that it can reach.
//!
//! Three contenders want one lock. Their clients do what the recipes do, await by await; who is ahead of whom they ask the
//! recipes' own [`rank`](lockkeeper_recipes::rank::rank). Their servers lag, lose connections with what was under way on them,
//! end sessions; callers give up at any step; an operator deletes nodes. [`explore`] makes every step that is possible in
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
//! | `state` | a state, and which states are one and the same |
//! | `server` | what servers, network and operators do |
//! | `client` | what contenders do |
//! | `check` | what must hold in each state |
//! | `explore` | all states, breadth first |
//! | `action` | the steps, in words |
//! | `scenario`, [`runs`] | who contends, and what may go wrong |
//!
//! Not here: time, but for leases that have run out before the servers end a session (the simulation has clocks); the wire;
//! what a holder does and is told (`tests/contract/`). And it is a model: that the code does the same is held together by the
//! ranking, which is the code's own, by reading, and by the tests of `tests/known_bugs/` that replay what was found here.

mod action;
mod check;
mod client;
mod explore;
pub mod runs;
mod scenario;
mod server;
mod shortcut;
mod state;

pub use explore::{Found, Outcome, explore};
pub use scenario::{Faults, Scenario};
pub use shortcut::Shortcut;
pub use state::{CONTENDERS, Violation};
