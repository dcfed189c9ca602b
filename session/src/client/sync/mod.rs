//! Waiting for another task: for one value, for a change, for the first of two futures.
//!
//! Nothing here needs a runtime. A task is woken by its waker, and always after the lock was
//! released, because a waker may poll at once. That is true of tokio's `Notify` and of the `oneshot`
//! of `futures`, too. A simulation repeats a history only if tasks are woken in the order in which
//! they began to wait. `Notify` keeps that order. Tokio's `watch` does not, so `changes` is our own.
//!
//! | file | what |
//! |---|---|
//! | `mailbox` | a value that one task waits for |
//! | `changes` | a watch channel: the newest value, for any number of receivers |
//! | `select` | the first of two futures |
//! | `os` | locks and threads |

pub mod changes;
pub mod mailbox;
pub mod os;
pub mod select;

use std::{future::Future, pin::Pin};

pub use futures::channel::oneshot;
pub use tokio::sync::{Mutex as AsyncMutex, Notify};

/// A future behind a pointer: its type does not appear in the futures that wait for it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
