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

use std::sync::Arc;

use bytes::Bytes;

use crate::metrics::LockMeter;

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

/// The settings that all kinds of lock have, and the directories of their nodes, to which they apply.
macro_rules! settings {
    ($($lock:ty: $($first:ident).+ $(, $($more:ident).+)*;)*) => {$(
        impl $lock {
            /// The same lock. Its nodes have `data`, so that people who look at a node see who the
            /// contender is.
            #[must_use]
            pub fn with_data(mut self, data: impl Into<Bytes>) -> Self {
                let data = data.into();
                $(Arc::make_mut(&mut self.$($more).+).data = data.clone();)*
                Arc::make_mut(&mut self.$($first).+).data = data;
                self
            }

            /// The same lock, and this meter counts what it does.
            #[must_use]
            pub fn with_meter(mut self, meter: &LockMeter) -> Self {
                $(Arc::make_mut(&mut self.$($more).+).counters = Some(meter.counters());)*
                Arc::make_mut(&mut self.$($first).+).counters = Some(meter.counters());
                self
            }

            /// The path of the lock.
            #[must_use]
            pub fn path(&self) -> &str {
                &self.$($first).+.path
            }
        }
    )*};
}

settings! {
    election::Election: queue.directory;
    mutex::Mutex: queue.directory;
    plain::PlainMutex: directory;
    reentrant::ReentrantMutex: mutex.queue.directory;
    rw_lock::RwLock: readers.directory, writers.directory;
    semaphore::Semaphore: queue.directory, leases;
}
