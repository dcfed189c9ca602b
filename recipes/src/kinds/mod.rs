//! The kinds of lock, each a thin type around the queue.
//!
//! | file | what |
//! |---|---|
//! | `mutex` | the fair mutex |
//! | `plain`, `plain_turn` | the plain lock: one node, no queue |
//! | `reentrant` | the reentrant mutex, counted for each owner |
//! | `rw_lock` | the fair read/write lock |
//! | `semaphore`, `first_waiter`, `permit_turn`, `limit` | the semaphore |
//! | `multi_lock` | several locks at once, all or none |
//! | `election` | leader election |

use std::sync::Arc;

use bytes::Bytes;
use lockkeeper_proto::Acls;

use crate::{metrics::LockMeter, node::directory::Directory};

pub(crate) mod election;
mod first_waiter;
mod limit;
pub(crate) mod multi_lock;
pub(crate) mod mutex;
pub mod permit_turn;
pub(crate) mod plain;
pub mod plain_turn;
pub(crate) mod reentrant;
pub(crate) mod rw_lock;
pub(crate) mod semaphore;

/// The settings that all kinds of lock have, and the directories of their nodes, to which they apply.
macro_rules! settings {
    ($($lock:ty: $($first:ident).+ $(, $($more:ident).+)*;)*) => {$(
        impl $lock {
            fn set(mut self, set: impl Fn(&mut Directory)) -> Self {
                set(Arc::make_mut(&mut self.$($first).+));
                $(set(Arc::make_mut(&mut self.$($more).+));)*
                self
            }

            /// Returns the lock with `data` in its nodes, so that people who look at a node see who
            /// the contender is.
            #[must_use]
            pub fn with_data(self, data: impl Into<Bytes>) -> Self {
                let data = data.into();
                self.set(|directory| directory.data = data.clone())
            }

            /// Returns the lock with this access control list instead of the client's
            /// [default](lockkeeper_session::Builder::default_acl): for its nodes, and for all nodes
            /// above them that are missing.
            ///
            /// Contenders need READ, CREATE and DELETE on the directory of the lock, and READ on
            /// each other's nodes. A contender that may not read the node ahead is not told of its
            /// end, asks once a session timeout, and gets the lock up to two of them later.
            ///
            /// A list that the servers refuse ("invalid ACL") fails each attempt to lock. The node of a
            /// semaphore's shared limit has the client's default.
            #[must_use]
            pub fn with_acl(self, acl: impl Into<Acls>) -> Self {
                let acl = acl.into();
                self.set(|directory| directory.acl = acl.clone())
            }

            /// Returns the lock with this meter, which counts what the lock does.
            #[must_use]
            pub fn with_meter(self, meter: &LockMeter) -> Self {
                self.set(|directory| directory.set_meter(meter))
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
    semaphore::Semaphore: queue.directory, permits;
}
