//! Locks under failures: a simulation of everything in one thread, and the checker that reads its histories.
//!
//! | module | what |
//! |---|---|
//! | [`history`] | what happened to locks in a run, as a list of events |
//! | [`check`] | what must be true of every history, simulated or real |

pub mod check;
pub mod history;
