//! A held lock.
//!
//! | file | what |
//! |---|---|
//! | `attempt` | an attempt to get a lock |
//! | `lock_guard` | guards: the lease, and how a hold ends |
//! | `lost` | how sure a holder can be of its lock, and what tells it of the loss |
//! | `token` | the fencing token |
//! | `transaction` | writes that happen only while a lock is held |

mod attempt;
mod lock_guard;
mod lost;
mod token;
pub(crate) mod transaction;

pub(crate) use attempt::Attempt;
pub use lock_guard::Guard;
pub use lost::LockState;
pub(crate) use lost::lost;
pub use token::FencingToken;
