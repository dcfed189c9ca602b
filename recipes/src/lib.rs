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
//! Every lock here is a line of waiters: each contender creates an ephemeral sequential node under the lock's path, and
//! [`rank`] says from a listing whose turn it is. Names are Curator's, so that Curator's and go-zk's clients on the same
//! path exclude us and we them.
//!
//! | module | what |
//! |---|---|
//! | `name` | node names: made as Curator makes them, read as everybody makes them |
//! | [`rank`] | the one pure function that decides who holds what |
//! | `contender` | a node of ours in the line: created once and for certain, deleted for certain |
//! | `line` | waiting for one's turn |
//! | `guard` | what a holder has in hand |
//! | `mutex` | the fair mutex |

#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

mod cleanup;
mod contender;
mod directory;
mod election;
mod error;
mod guard;
mod line;
mod lock;
mod multi_lock;
mod mutex;
mod name;
mod participants;
pub mod rank;
mod reentrant;
mod revocation;
mod rw_lock;
mod semaphore;

pub use election::{Election, Latch, Leadership, Term};
pub use error::{Error, Loss};
pub use guard::{FencingToken, Guard, GuardedTransaction, LockState};
pub use lock::Ticket;
pub use multi_lock::{Member, MultiGuard, MultiLock};
pub use mutex::Mutex;
pub use participants::Participant;
pub use reentrant::{ReentrantGuard, ReentrantMutex};
pub use revocation::{REVOKE, break_lock, revoke};
pub use rw_lock::{RwLock, WriteGuard};
pub use semaphore::{Semaphore, SemaphoreTicket};
