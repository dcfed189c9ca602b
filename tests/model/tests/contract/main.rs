//! What the proofs in `tests/proof` assume of the shipped decisions, for all small inputs.
//!
//! | file | the rule of the proof | the decision |
//! |---|---|---|
//! | `ranks` | `queue_lock`: who blocks whom | `rank`, and `Turn::listed` |
//! | `listings` | `queue_lock`: nobody ahead is shown | `Listing` |
//! | `turns` | `events`: when the turn comes; `wakeups`: who waits has watches | `Turn` |
//! | `views` | `wakeups`: who rests is behind one that asks, and is woken | `View`, `Place` |
//! | `permits` | `semaphore`: there is room; `room`: who waits has a watch | `PermitTurn` |
//! | `lives` | `life`: nothing is left behind; `plain`: whose node is there | `NodeLife`, `PlainTurn` |
//! | `proofs` | `lease`: `W1` and `W2` | `Proof` |
//!
//! The rules are written again here, from the nodes (`nodes`) and events and not from the code.
//!
//! Not here: whether the rules are enough (`tests/proof`).

mod listings;
mod lives;
mod nodes;
mod permits;
mod proofs;
mod ranks;
mod turns;
mod views;
