//! What the proofs in `tests/proof` assume of the shipped decisions, for all small inputs.
//!
//! | file | the rule of the proof | the decision |
//! |---|---|---|
//! | `ranks` | `queue_lock`: who blocks whom | `rank`, and `Turn::listed` |
//! | `listings` | `queue_lock`: nobody ahead is shown | `Listing` |
//! | `turns` | `events`: when a deletion is a grant; `wakeups`: who waits has a watch | `Turn` |
//! | `leases` | `semaphore`: there is room; `room`: who waits has a watch | `LeaseTurn` |
//! | `proofs` | `lease`: `W1` and `W2` | `Proof` |
//!
//! The rules are written again here, from the nodes (`nodes`) and events and not from the code.
//!
//! Not here: what a crowd hands over (`recipes/src/order/crowd.rs`); whether the rules are enough
//! (`tests/proof`).

mod leases;
mod listings;
mod nodes;
mod proofs;
mod ranks;
mod turns;
