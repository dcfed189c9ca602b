//! A held lock.
//!
//! | file | what |
//! |---|---|
//! | `lock_guard` | the guard: its fencing token, its lease, and how to release it |
//! | `state` | the fencing token, and how sure a holder can be of its lock |
//! | `lost` | waiting for the loss of a lock |
//! | `transaction` | writes that happen only while a lock is held |
//! | `data` | the data of the lock node |
//! | `hold` | how long attempts and holds took, and how they ended |

mod data;
pub(crate) mod hold;
mod lock_guard;
mod lost;
mod state;
pub(crate) mod transaction;

pub use lock_guard::Guard;
pub use state::{FencingToken, LockState};
