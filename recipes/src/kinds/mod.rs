//! The kinds of lock, each a thin type around the queue.
//!
//! | file | what |
//! |---|---|
//! | `mutex` | the fair mutex |
//! | `plain`, `plain_turn` | the plain lock: one node, no queue |
//! | `reentrant` | the reentrant mutex, counted for each owner |
//! | `rw_lock` | the fair read/write lock |
//! | `semaphore`, `first_waiter`, `lease_turn`, `limit` | the semaphore |
//! | `multi_lock` | several locks at once, all or none |
//! | `election` | leader election |

pub(crate) mod election;
mod first_waiter;
pub mod lease_turn;
mod limit;
pub(crate) mod multi_lock;
pub(crate) mod mutex;
pub(crate) mod plain;
pub mod plain_turn;
pub(crate) mod reentrant;
pub(crate) mod rw_lock;
pub(crate) mod semaphore;
