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
//! Every lock here but one ([`PlainMutex`]) is a line of waiters: each contender creates an ephemeral sequential node under the lock's path, and
//! [`rank`] says from a listing whose turn it is. Names are Curator's, so that Curator's and go-zk's clients on the same
//! path exclude us and we them.
//!
//! | kind | type |
//! |---|---|
//! | fair mutex, which any task may release | [`Mutex`] |
//! | plain lock: one node, no line; cheap alone, dear in a crowd | [`PlainMutex`] |
//! | reentrant mutex, counted for each named owner | [`ReentrantMutex`] |
//! | fair read/write lock with downgrade | [`RwLock`] |
//! | semaphore, with a limit that can be shared and changed | [`Semaphore`] |
//! | several locks, all or none | [`MultiLock`] |
//! | leader election: a latch, and a loop | [`Election`] |
//!
//! All of them hand out a [`Guard`], or something around one: with a fencing token, a lease, the notice of its loss,
//! transactions that happen only under the lock, and the request of others to let go ([`Guard::revoked`]).
//! A mutex and a read/write lock on one path are one line, and exclude each other.
//!
//! Where to look for what:
//!
//! | module | what |
//! |---|---|
//! | `name` | node names: made as Curator makes them, read as everybody makes them |
//! | [`rank`] | the one pure function that decides who holds what |
//! | `directory` | the node under which contenders line up, and the requests about it |
//! | `identity` | what a node of ours is known by, and the requests that make it, find it and end it |
//! | `contender` | a node of ours in the queue: created once and for certain, deleted for certain |
//! | `line` | waiting for one's turn |
//! | `guard`, `guarded` | what a holder has in hand, and writes that happen only under the lock |
//! | `lock` | what all kinds have in common: the ways into a line |
//! | `mutex`, `plain`, `reentrant`, `rw_lock`, `semaphore`, `multi_lock`, `election` | the kinds |
//! | `hold`, `metrics` | how long attempts and holds took, and how they ended |
//! | `revocation` | asking a holder to let go |
//! | `participants`, `entries` | looking who is there: in one's own line, and at any path |

#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

mod error;
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod inspect;
mod kinds;
mod metrics;
mod node;
mod participants;
mod queue;
mod revocation;

/// What contenders decide, as pure state machines. For `tests/model`, which explores them; not for users.
#[doc(hidden)]
pub mod decisions {
    pub use crate::{
        kinds::{lease_turn, plain_turn},
        node::life,
        queue::turn,
    };
}

pub use error::{Error, Loss};
pub use guard::{FencingToken, Guard, LockState, transaction::GuardedTransaction};
pub use inspect::{QueueEntry, Recipe, inspect};
pub use kinds::{
    election::{Election, Latch, LeadOutcome, Leadership},
    multi_lock::{Member, MultiGuard, MultiLock},
    mutex::Mutex,
    plain::PlainMutex,
    reentrant::{ReentrantGuard, ReentrantMutex},
    rw_lock::{RwLock, WriteGuard},
    semaphore::{Semaphore, SemaphoreTicket},
};
pub use lockkeeper_session::DurationHistogram;
pub use metrics::LockMetrics;
pub use participants::Participant;
pub use queue::{rank, ticket::Ticket};
pub use revocation::{REVOKE, break_lock, revoke};
