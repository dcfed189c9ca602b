//! A held lock.
//!
//! | file | what |
//! |---|---|
//! | `lock_guard` | from the attempt to get a lock to its guard, and how a hold ends |
//! | `lost` | how sure a holder can be of its lock, and what tells it of the loss |
//! | `token` | the fencing token |
//! | `hand_over` | handing a held lock over to another process |
//! | `transaction` | writes that happen only while a lock is held |

pub(crate) mod hand_over;
mod lock_guard;
mod lost;
mod token;
pub(crate) mod transaction;

pub(crate) use lock_guard::Attempt;
pub use lock_guard::Guard;
pub(crate) use lost::lost;
pub use lost::{GuardView, LockState};
pub use token::FencingToken;
