//! Tools that look at a lock from outside, or take it from its holder.

use lockkeeper_recipes::{self as recipes, LockError, QueueEntry};

use crate::{Client, wait};

/// Lists the holders and waiters at a path. See the async [`inspect`](lockkeeper_recipes::inspect).
///
/// # Errors
/// As the async function, and [`InsideRuntime`](lockkeeper_session::Error::InsideRuntime).
pub fn inspect(client: &Client, path: &str) -> Result<Vec<QueueEntry>, LockError> {
    wait::block_on(recipes::inspect(&client.inner, path))?
}

/// Asks the owner of a lock node to release the lock. See the async [`revoke`](lockkeeper_recipes::revoke).
///
/// # Errors
/// As [`inspect`].
pub fn revoke(client: &Client, node: &str) -> Result<(), LockError> {
    wait::block_on(recipes::revoke(&client.inner, node))?
}

/// Takes the lock from its holder by deleting the node. See the async [`break_lock`](lockkeeper_recipes::break_lock).
///
/// # Errors
/// As [`inspect`].
pub fn break_lock(client: &Client, node: &str) -> Result<(), LockError> {
    wait::block_on(recipes::break_lock(&client.inner, node))?
}
