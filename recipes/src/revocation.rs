//! Asking a holder to let go, and making it.
//!
//! Asking is Curator's way: the word [`REVOKE`] is written into the holder's node, who may be listening
//! ([`Guard::revoked`]). Making it is to delete the node: the holder is told [`Loss::Deleted`], and its writes under the lock
//! fail. Whoever does that must know that the holder may not have noticed yet.
//!
//! [`Loss::Deleted`]: crate::Loss::Deleted

use lockkeeper_proto::Version;
use lockkeeper_session::Client;

use crate::{error::Error, guard::Guard};

/// What the data of a node are when its owner is asked to let go. Source: Curator's `Revoker`.
pub const REVOKE: &[u8] = b"__REVOKE__";

/// Asks the owner of a lock node to let go of the lock, or to leave the line. Works on every kind of lock, Curator's too.
///
/// # Errors
/// "no node" when the owner has left already.
pub async fn revoke(client: &Client, node: &str) -> Result<(), Error> {
    client.set_data(node, REVOKE, Version::ANY).await?;
    Ok(())
}

/// Takes a lock away from its holder, or a waiter out of the queue: deletes the node. The owner is told.
///
/// # Errors
/// "no node" when the owner has left already.
pub async fn break_lock(client: &Client, node: &str) -> Result<(), Error> {
    client.delete(node, Version::ANY).await?;
    Ok(())
}

impl Guard {
    /// Waits until somebody asks the holder to let go: see [`revoke`]. It is up to the holder to do so.
    ///
    /// The future does not borrow the guard. It never ends once the lock is lost; use it beside [`lost`](Self::lost).
    ///
    /// # Cancel safety
    /// It may be dropped and called again.
    pub fn revoked(&self) -> impl Future<Output = ()> + Send + 'static {
        let (client, path) = (self.client().downgrade(), self.path());
        async move {
            loop {
                match client.get_data_and_watch(&path).await {
                    Ok((node, changed)) => {
                        if node.data.as_deref() == Some(REVOKE) {
                            return;
                        }
                        if changed.await.is_err() {
                            break;
                        }
                    }
                    Err(error) if error.is_transient() => {}
                    Err(_) => break,
                }
            }
            std::future::pending::<()>().await;
        }
    }
}
