//! Locks under failures: a simulation of clients, network and servers in one thread, and a checker
//! of lock histories.
//!
//! | module | what |
//! |---|---|
//! | [`history`] | the format of a history: a list of events about locks |
//! | [`check`] | the rules that every history must keep, simulated or real |
//! | [`plan`] | the plan of a simulated run, drawn from a seed |
//! | [`run`] | one simulated run |
//! | [`shrink`] | reduces a plan that fails |
//! | `world` | time, network, servers and faults |
//! | [`Rng`] | random choices; other tests use it, too |
//! | `work`, `gate`, `prompt` | the steps of the clients; how a client process is paused and killed; tasks that run as in a second thread |

#![allow(
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "not published"
)]

pub mod check;
mod gate;
pub mod history;
pub mod plan;
mod prompt;
mod rng;
mod run;
mod shrink;
mod work;
mod world;

pub use rng::Rng;
pub use run::{Outcome, run};
pub use shrink::shrink;
pub use world::Figures;
