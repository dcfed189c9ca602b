//! The data of a lock node, for people who look at it: the holder reads and updates them.
//!
//! Not here: the data of a new node (`with_data` of each kind of lock), reading the data of others
//! (`participants`).

use bytes::Bytes;

use crate::{error::LockError, guard::Guard};

impl Guard {
    /// Reads the data of the lock node; `None` for null data. One round trip.
    ///
    /// They are those of `with_data`, until [`set_data`](Self::set_data) or another client changes
    /// them.
    ///
    /// # Errors
    /// [`LockError::Lost`] when the lock is lost: the data of another holder are never returned.
    /// [`LockError::Session`] when the request fails.
    ///
    /// # Cancel safety
    /// Safe: the method changes nothing.
    pub async fn data(&self) -> Result<Option<Bytes>, LockError> {
        self.refuse_if_lost()?;
        let read = self.node().read().await;
        self.of_own_node(read).map(|(data, _)| data)
    }

    /// Sets the data of the lock node, so that others see for instance how far the holder is: in
    /// `participants`, in [`inspect`](crate::inspect()), and with `lockkeeper queue`.
    ///
    /// One round trip, two for a [`PlainMutex`](crate::PlainMutex). The request is sent only in the
    /// session that holds the lock, and names a node that only this client has ever had. With a
    /// `PlainMutex`, whose nodes all have one name, the client looks first whether the node is its
    /// own, and writes only if it has not changed since. So the node of another holder is hit only
    /// if an operator deletes ours between these two requests.
    ///
    /// The contender that is next is woken, and lists the queue again: do not call this many times
    /// a second. The data also replace a request to release the lock ([`revoke`](crate::revoke))
    /// that [`revoked`](Self::revoked) has not seen yet. A
    /// [downgrade](crate::WriteGuard::downgrade) creates a new node, which has the data of
    /// `with_data` again.
    ///
    /// # Errors
    /// [`LockError::Lost`] when the lock is lost. [`LockError::Session`] when the request fails;
    /// "bad version" when others go on changing the data of a plain lock's node for seconds.
    ///
    /// # Cancel safety
    /// Once polled, the data may be set, whether the future is awaited or dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # use lockkeeper_recipes as lockkeeper;
    /// let mutex = lockkeeper::Mutex::new(&client, "/jobs/import")?.with_data("host-7");
    /// let guard = mutex.lock().await?;
    /// guard.set_data("host-7: 40 of 100 files").await?;
    /// let holder = &mutex.participants().await?[0];
    /// assert_eq!(holder.data.as_deref(), Some(&b"host-7: 40 of 100 files"[..]));
    /// assert_eq!(guard.data().await?, holder.data);
    /// # Ok(()) }
    /// ```
    pub async fn set_data(&self, data: impl Into<Bytes>) -> Result<(), LockError> {
        self.refuse_if_lost()?;
        let set = self
            .node()
            .set_data(data.into(), || self.end().is_held())
            .await;
        self.of_own_node(set)
    }
}
