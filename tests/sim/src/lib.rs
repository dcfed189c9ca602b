//! Locks under failures: a simulation of everything in one thread, and the checker that reads its histories.
//!
//! | module | what |
//! |---|---|
//! | [`history`] | what happened to locks in a run, as a list of events |
//! | [`check`] | what must be true of every history, simulated or real |
//! | [`plan`] | what is to happen in a simulated run, drawn from a seed |
//! | [`run`] | one simulated run |
//! | [`shrink`] | a plan that fails, made smaller |
//! | [`mutations`] | faults in the product that must be found |
//! | `world` | time, network, servers and faults |
//! | `work`, `gate` | what clients do; how they are stopped and killed |

pub mod check;
mod gate;
pub mod history;
pub mod mutations;
pub mod plan;
mod rng;
mod run;
mod shrink;
mod work;
mod world;

pub use run::{Outcome, run};
pub use shrink::shrink;
pub use world::Figures;
