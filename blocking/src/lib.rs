//! The client and the locks of lockkeeper for code without async: the same names and shapes, with methods that block the
//! calling thread.
//!
//! Use it as `lockkeeper::blocking`, with the feature `blocking` of the crate `lockkeeper`. That module says what drops do, and
//! what happens inside an async runtime.
//!
//! Each method has a summary here, and a link to the async method, which has the details: errors, costs, promises. What an
//! async method says about cancelling does not apply.
//!
//! | module | what |
//! |---|---|
//! | `client` | the client, its settings, the operations on nodes |
//! | `transaction`, `watch` | several operations in one request; the watchers |
//! | `locks`, `election` | the kinds of lock |
//! | `guard` | held locks, which wait for their release when they are dropped; tickets |
//! | `tools` | looking at a lock from outside |
//! | `host` | the background thread of a client |
//! | `wait` | waiting for a future on the caller's thread |
//! | `methods` | the macros that make the methods |

#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

mod client;
mod election;
mod guard;
mod host;
mod locks;
mod methods;
mod tools;
mod transaction;
mod wait;
mod watch;

pub use client::{Builder, Client};
pub use election::{Election, Latch, LeadOutcome};
pub use guard::{Guard, MultiGuard, ReentrantGuard, SemaphoreTicket, Ticket, WriteGuard};
pub use locks::{Member, MultiLock, Mutex, PlainMutex, ReentrantMutex, RwLock, Semaphore};
pub use tools::{break_lock, inspect, revoke};
pub use transaction::{GuardedTransaction, ReadTransaction, Transaction};
pub use wait::Pending;
pub use watch::{PersistentWatcher, Watcher};
