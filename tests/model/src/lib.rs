//! Every reachable state of three contenders for one lock.
//!
//! What the contenders decide is the product's own code: the state machines of
//! `lockkeeper_recipes::decisions`, which the recipes drive, too. The servers are a model: they
//! lag, lose connections with all requests and replies on them, and end sessions. Callers drop
//! their futures at any await, and operators delete nodes. [`Scenario::explore`] makes every step
//! that is possible in every state that is reachable, and checks each state:
//!
//! - a holder has no contender ahead with which it must not share the lock: there are no two
//!   holders, and nobody is overtaken;
//! - a contender that is granted the lock still has its node, and its session;
//! - each node of a live session has a contender that will delete it;
//! - something can happen, and when no more faults happen, every contender ends: no event is
//!   missed.
//!
//! | module | what |
//! |---|---|
//! | `scenario`, [`runs`] | who contends for what, and what may go wrong |
//! | `state`, `name`, `history` | one state, the names of nodes, the time of the servers |
//! | `client`, `decide`, `view` | what contenders do, driven by the machines of the recipes |
//! | `doubt` | long waits: whether the node ahead is still there |
//! | `late` | writes of lost connections, by server |
//! | `server` | what the servers, the network and operators do |
//! | `check`, [`Violation`] | what must hold |
//! | `canonical` | which states are the same |
//! | `action` | the steps, and their words |
//! | `explore`, [`Fingerprint`] | all states, breadth first |
//! | `fair` | circles in which a contender never ends, and nobody is passed over |
//! | [`lease`] | another world: whether a lease outlives its session |
//!
//! Not here:
//! - clocks (`tests/sim` has them); only a lease may end here before the servers end its session;
//! - the wire, and replies that are not true (`session/src/machine/tests/created.rs`);
//! - what a holder does and hears (`tests/contract`);
//! - the code around the machines: `client` and `decide` repeat it in a few lines each.

#![allow(
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "not published"
)]

mod action;
mod canonical;
mod check;
mod client;
mod decide;
mod doubt;
mod explore;
mod fair;
mod fingerprint;
mod history;
mod late;
pub mod lease;
mod name;
pub mod runs;
mod scenario;
mod server;
mod state;
mod view;
mod violation;

pub use explore::{Found, Outcome};
pub use fingerprint::Fingerprint;
pub use scenario::{CONTENDERS, Faults, Planted, Role, Scenario};
pub use violation::Violation;
