//! Distributed locks on ZooKeeper: fair, fenced, cancel-safe.
//!
//! ```
//! # use lockkeeper_server::Server;
//! use lockkeeper_recipes::Mutex;
//! use lockkeeper_session::Client;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! # let server = Server::builder().start().await?;
//! # let servers = server.connect_string();
//! let client = Client::connect(&servers).await?;
//! let mutex = Mutex::new(&client, "/locks/orders")?;
//! let guard = mutex.lock().await?;
//! println!("token {}", guard.fencing_token());
//! guard.release().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | lock | type |
//! |---|---|
//! | fair mutex; any task may release it | [`Mutex`] |
//! | plain lock: one node, no queue; the cheapest lock alone, the most expensive one with many waiters | [`PlainMutex`] |
//! | reentrant mutex, counted for each named owner | [`ReentrantMutex`] |
//! | fair read/write lock with downgrade | [`RwLock`] |
//! | semaphore, with a limit that can be shared and changed | [`Semaphore`] |
//! | several locks, all or none | [`MultiLock`] |
//! | leader election, for one piece of work or in the background | [`Election`] |
//!
//! The holder of each lock has a [`Guard`], or a type around one. (A [`Latch`] keeps its guard
//! inside.) The guard offers:
//!
//! - the fencing token of the lock, and its lease;
//! - the notice of its loss ([`Guard::lost`]);
//! - transactions that happen only while the lock is held ([`Guard::transaction`]);
//! - the request of another client to release the lock ([`Guard::revoked`]).
//!
//! Every lock except [`PlainMutex`] is a queue. Each contender creates an ephemeral sequential node
//! under the lock's path, and one function says from a listing whose turn it is. A mutex and a
//! read/write lock on the same path use the same queue, and exclude each other. The names of the
//! nodes are those of Curator. So these locks and the clients of Curator and go-zk on the same path
//! exclude each other.
//!
//! # Modules
//!
//! | module | what |
//! |---|---|
//! | `kinds` | the kinds of lock, each a thin type around the queue or the node |
//! | `queue` | entering a queue, waiting in it, and whose turn it is |
//! | `guard` | the held lock: fencing token, lease, loss, release, transactions |
//! | `node` | lock nodes: how they are created once and deleted for certain |
//! | `order` | the names of nodes, and who is ahead of whom |
//! | `common` | what the contenders of one client have in common at a path |
//! | `inspect` | all contenders at a path, for tools |
//! | `backoff` | the pauses before a request is repeated, and in loops |
//! | `revocation` | asking a holder to release a lock, and forcing it |
//! | `metrics` | counters of one lock, or of many under one name |
//! | `error` | the error of all the locks, and the ways to lose a lock |
//! | `decisions` | entry points for `tests/model` |

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

mod backoff;
mod common;
mod error;
mod guard;
mod inspect;
mod kinds;
mod metrics;
mod node;
mod order;
mod queue;
mod revocation;

/// The decisions of contenders, as pure state machines. For `tests/model`, which explores them; not
/// for users.
#[doc(hidden)]
pub mod decisions {
    pub use crate::{
        kinds::{permit_turn, plain_turn},
        node::life,
        order::listing,
        queue::{turn, view},
    };
}

#[doc(hidden)]
pub use order::rank;

pub use error::{LockError, Loss, NotHandedOver, Obstacle};
pub use guard::{
    FencingToken, Guard, GuardView, LockState, hand_over::LockTicket,
    transaction::GuardedTransaction,
};
pub use inspect::{QueueEntry, inspect};
pub use kinds::{
    election::{Election, Latch},
    multi_lock::{Member, MultiGuard, MultiLock},
    mutex::Mutex,
    plain::PlainMutex,
    reentrant::{ReentrantGuard, ReentrantMutex},
    rw_lock::{RwLock, WriteGuard},
    semaphore::Semaphore,
};
pub use metrics::{LockMeter, LockMetrics};
pub use order::name::Kind;
pub use queue::lock_queue::Ticket;
pub use revocation::{REVOKE, break_lock, revoke};
