//! Two ways to get a lock from its holder.
//!
//! - To ask, as Curator does: write [`REVOKE`] into the holder's node. The holder may wait for that
//!   ([`Guard::revoked`]).
//! - To force, by deleting the node. The holder's loss is [`Loss::Deleted`], and its transactions
//!   under the lock fail. The holder may not have noticed yet when another contender gets the lock.
//!
//! Not here: the limit that a holder sets for itself (`guard::lock_guard`).
//!
//! [`Loss::Deleted`]: crate::Loss::Deleted

use lockkeeper_proto::{ErrorCode, Version};
use lockkeeper_session::{AsRaw, Client, ErrorKind};

use crate::{
    backoff::{Backoff, Rounds},
    error::LockError,
    guard::Guard,
};

/// The data of a lock node whose owner is asked to release the lock. Source: Curator's `Revoker`.
pub const REVOKE: &[u8] = b"__REVOKE__";

/// Asks the owner of a lock node to release the lock, or to leave the queue.
///
/// Works with every kind of lock, also with those of Curator. Take the path of the node from
/// [`inspect`](crate::inspect), or from [`Guard::path`]. The owner decides whether it releases the
/// lock. For a [`PlainMutex`](crate::PlainMutex), see its caution first.
///
/// # Errors
/// [`LockError::Session`] when the request fails: with "no node" when the owner has left already.
///
/// # Cancel safety
/// Once polled, the data may be written, whether the future is awaited or dropped.
pub async fn revoke(client: &Client, node: &str) -> Result<(), LockError> {
    client.set_data(node, REVOKE, Version::ANY).await?;
    Ok(())
}

/// Takes the lock from its holder, or removes a waiter from the queue, by deleting the node.
///
/// The owner's loss is [`Loss::Deleted`](crate::Loss::Deleted). A waiter notices that when the
/// waiters of its client ahead have had their turns. A holder may notice it only after another
/// contender got the lock: only the fencing token and [`transaction`](Guard::transaction)
/// stop its late writes.
///
/// # Errors
/// [`LockError::Session`] when the request fails: with "no node" when the owner has left already.
///
/// # Cancel safety
/// Once polled, the node may be deleted, whether the future is awaited or dropped.
pub async fn break_lock(client: &Client, node: &str) -> Result<(), LockError> {
    client.delete(node, Version::ANY).await?;
    Ok(())
}

impl Guard {
    /// Waits until another client asks the holder to release the lock: see [`revoke`]. The holder
    /// decides whether it does.
    ///
    /// The future does not borrow the guard. It never ends once the lock is lost, so use it
    /// together with [`lost`](Self::lost).
    ///
    /// # Cancel safety
    /// The future may be dropped, and the method called again.
    pub fn revoked(&self) -> impl Future<Output = ()> + Send + 'static {
        let (client, path) = (self.client().raw().downgrade(), self.path());
        let own = self.node().node().map(|own| own.tag.czxid);
        async move {
            let (mut backoff, mut rounds) = (Backoff::default(), Rounds::default());
            loop {
                rounds.pause(&client).await;
                match client.get_data_and_watch(&path).await {
                    // The next holder of a plain lock has a node with the same name.
                    Ok((node, _)) if Some(node.stat.czxid) != own => break,
                    Ok((node, changed)) => {
                        if node.data.as_deref() == Some(REVOKE) {
                            return;
                        }
                        // Also when the watch has ended: the next read says why.
                        drop(changed.await);
                    }
                    Err(error) if error.code() == Some(ErrorCode::THROTTLED_OP) => {
                        backoff.begin(&client);
                        backoff.pause().await;
                    }
                    Err(error) if error.is_transient() => {}
                    // The watch of a reply that cannot be read has gone with it.
                    Err(error) if matches!(error.kind(), ErrorKind::Malformed { .. }) => {}
                    Err(_) => break,
                }
            }
            std::future::pending::<()>().await;
        }
    }
}
