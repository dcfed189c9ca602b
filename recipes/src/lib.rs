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

mod contender;
mod error;
mod guard;
mod line;
mod mutex;
mod name;
pub mod rank;

pub use error::{Error, Loss};
pub use guard::{FencingToken, GuardedTransaction, LockState, MutexGuard};
pub use mutex::{Mutex, Ticket};
