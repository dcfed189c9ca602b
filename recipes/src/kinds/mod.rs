//! The kinds of lock, each a thin type around the queue.
//!
//! | file | what |
//! |---|---|
//! | `mutex` | the fair mutex |
//! | `plain` | the plain lock: one node, no queue |
//! | `reentrant` | the reentrant mutex, counted for each owner |
//! | `rw_lock` | the fair read/write lock |
//! | `semaphore` | the semaphore |
//! | `multi_lock` | several locks at once, all or none |
//! | `election` | leader election |

pub(crate) mod election;
pub(crate) mod multi_lock;
pub(crate) mod mutex;
pub(crate) mod plain;
pub(crate) mod reentrant;
pub(crate) mod rw_lock;
pub(crate) mod semaphore;
