//! Writes that happen only while a lock, or several, are held: transactions, and the data of the
//! lock node, which the holder reads and updates for people who look at it.
//!
//! Not here: the other methods of a guard (`lock_guard`), the data of a new node (`with_data` of each
//! kind of lock), reading the data of others (`inspect`).

use std::{mem, slice};

use bytes::Bytes;
use lockkeeper_proto::{CreateMode, ErrorCode, Version};
use lockkeeper_session::{AsRaw, Effect, ErrorKind, OpResult, Transaction};

use crate::{
    error::{LockError, Loss},
    guard::{Guard, lock_guard::Hold},
};

/// A transaction under one lock or several: all its operations happen while the locks are held, or
/// none does.
///
/// Made by [`Guard::transaction`] and [`MultiGuard::transaction`](crate::MultiGuard::transaction).
#[derive(Debug)]
#[must_use = "a transaction does nothing until `commit`"]
pub struct GuardedTransaction<'a> {
    /// `None` when no transaction can check all the locks: see [`LockError::SeveralSessions`].
    inner: Option<Transaction>,
    /// The operations begin with one check for each of them.
    guards: &'a [Guard],
}

impl<'a> GuardedTransaction<'a> {
    /// A transaction that begins with a check of each lock node. It is sent only in the session
    /// that holds the locks.
    pub(crate) fn under(guards: &'a [Guard]) -> Self {
        let start = |first: &Guard| first.client().transaction().within(first.session_id);
        let inner = holder(guards).map(|first| {
            let check = |inner: Transaction, guard: &Guard| {
                let inner = inner.through(guard.client());
                inner.check(&guard.path(), Version::ANY)
            };
            let inner = guards.iter().fold(start(first), check);
            inner.through(first.client())
        });
        Self { inner, guards }
    }

    /// Requires that the node exists and that its data have this version.
    pub fn check(self, path: &str, version: Version) -> Self {
        self.and(|inner| inner.check(path, version))
    }

    /// Creates a node with the client's
    /// [default ACL](lockkeeper_session::Builder::default_acl).
    pub fn create(self, path: &str, data: impl Into<Bytes>, mode: CreateMode) -> Self {
        self.and(|inner| inner.create(path, data, mode))
    }

    /// Sets a node's data, if they have this version.
    pub fn set_data(self, path: &str, data: impl Into<Bytes>, version: Version) -> Self {
        self.and(|inner| inner.set_data(path, data, version))
    }

    /// Deletes a node without children, if its data have this version.
    pub fn delete(self, path: &str, version: Version) -> Self {
        self.and(|inner| inner.delete(path, version))
    }

    fn and(self, add: impl FnOnce(Transaction) -> Transaction) -> Self {
        Self {
            inner: self.inner.map(add),
            ..self
        }
    }

    /// Sends the transaction. Returns the result of each operation, in the order in which they were
    /// added.
    ///
    /// # Errors
    /// - [`LockError::Lost`] when a lock was lost. Nothing was written, unless the loss
    ///   is [`Loss::Closed`]: the transaction may have been applied before the client was
    ///   closed.
    /// - [`LockError::Session`] with
    ///   [`TransactionRefused`](lockkeeper_session::ErrorKind::TransactionRefused) when an operation
    ///   failed. It has the index of the operation, counted from 0. Nothing was written.
    /// - [`LockError::Session`] with another error when the request failed.
    ///   [`lockkeeper_session::Error::effect`] says whether the transaction may have been applied.
    /// - [`LockError::SeveralSessions`] when the locks of a [`MultiGuard`](crate::MultiGuard) do
    ///   not all belong to one session, or there are none. Nothing was sent.
    ///
    /// # Cancel safety
    /// Once polled, the transaction may be applied, whether the future is awaited or dropped.
    pub async fn commit(self) -> Result<Vec<OpResult>, LockError> {
        self.send(Hold::is_held).await
    }

    /// Sends the transaction as [`commit`](Self::commit) does, if `may_send` says so of each hold
    /// when the transaction is queued.
    async fn send(
        self,
        may_send: impl Fn(&Hold) -> bool + Sync,
    ) -> Result<Vec<OpResult>, LockError> {
        let (Some(inner), Some(first)) = (self.inner, self.guards.first()) else {
            return Err(LockError::SeveralSessions);
        };
        let ended = |guard: &Guard| Err(guard.lost_by(guard.hold.loss()));
        // After a loss, a node with the same fixed name may belong to another contender.
        if let Some(guard) = self.guards.iter().find(|it| it.known_loss().is_some()) {
            return ended(guard);
        }
        let refuses = |guard: &&Guard| !may_send(&guard.hold);
        let checks = self.guards.len();
        // The limit of a hold may begin its delete meanwhile: nothing is queued behind that.
        let committed = inner.commit_if(|| !self.guards.iter().any(|it| refuses(&it)));
        match committed.await {
            Ok(Some(mut results)) => Ok(results.split_off(checks.min(results.len()))),
            Ok(None) => ended(self.guards.iter().find(refuses).unwrap_or(first)),
            Err(error) => match *error.kind() {
                ErrorKind::TransactionRefused { index, code, .. } => match self.guards.get(index) {
                    // The limit of the hold may have deleted the node. Then the loss is `Overdue`.
                    Some(guard) if code == ErrorCode::NO_NODE => {
                        guard.of_own_node(Err(LockError::lost(Loss::Deleted)))
                    }
                    _ => Err(error.behind(checks).into()),
                },
                // The locks belong to one session, which is lost with the first of them.
                _ => Err(first.named(error.into())),
            },
        }
    }
}

impl Guard {
    /// Starts a transaction that happens only if the lock is still held: its first operation checks
    /// the lock node.
    pub fn transaction(&self) -> GuardedTransaction<'_> {
        GuardedTransaction::under(slice::from_ref(self))
    }

    /// Writes what `build` adds, and releases the lock, in one transaction. Either all of it
    /// happens while the lock is held, or nothing does. The results are those of the added
    /// operations.
    ///
    /// # Errors
    /// As [`GuardedTransaction::commit`]. The lock is released in the background then.
    ///
    /// # Cancel safety
    /// Once polled, the transaction may be applied; the lock is released in any case.
    pub async fn release_with(
        mut self,
        build: impl FnOnce(GuardedTransaction<'_>) -> GuardedTransaction<'_>,
    ) -> Result<Vec<OpResult>, LockError> {
        release_with(slice::from_mut(&mut self), build).await
    }

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

    /// Sets the data of the lock node, so that others see for instance how far the holder is: with
    /// [`inspect`](crate::inspect()), and with `lockkeeper queue`.
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
    /// let holder = &lockkeeper::inspect(&client, "/jobs/import").await?[0];
    /// assert_eq!(holder.data.as_deref(), Some(&b"host-7: 40 of 100 files"[..]));
    /// assert_eq!(guard.data().await?, holder.data);
    /// # Ok(()) }
    /// ```
    pub async fn set_data(&self, data: impl Into<Bytes>) -> Result<(), LockError> {
        self.refuse_if_lost()?;
        let is_held = || self.hold.is_held();
        let set = self.node().set_data(data.into(), is_held).await;
        self.of_own_node(set)
    }
}

/// The first guard, if all the guards belong to one client. They belong to one session then:
/// several locks are granted only together, in the present session.
fn holder(guards: &[Guard]) -> Option<&Guard> {
    let first = guards.first()?;
    let is_same = |guard: &Guard| guard.client().raw().is_same(first.client());
    guards.iter().all(is_same).then_some(first)
}

/// Writes what `build` adds, and releases all these locks, the last one first, in one transaction.
pub(crate) async fn release_with(
    guards: &mut [Guard],
    build: impl FnOnce(GuardedTransaction<'_>) -> GuardedTransaction<'_>,
) -> Result<Vec<OpResult>, LockError> {
    let mut releasing = Releasing(guards);
    let mut transaction = build(GuardedTransaction::under(releasing.0));
    // The first lock comes last: the results have the paths of its handle, as those of `commit`.
    for guard in releasing.0.iter().rev() {
        let delete = |inner: Transaction| {
            let own = inner.through(guard.client());
            own.delete(&guard.path(), Version::ANY)
        };
        transaction = transaction.and(delete);
    }
    let sent = match releasing.0.iter().try_for_each(Guard::give_up) {
        Ok(()) => transaction.send(|_| true).await,
        Err(lost) => Err(lost),
    };
    match sent {
        Ok(mut results) => {
            let guards = releasing.known();
            results.truncate(results.len().saturating_sub(guards.len()));
            // The transaction has deleted the nodes.
            for guard in guards {
                guard.node_mut().forget();
            }
            Ok(results)
        }
        Err(error) if error.effect() == Effect::Unknown => Err(error),
        Err(error) => {
            for guard in releasing.known() {
                // One that is lost counts as lost.
                let _ = guard.give_up();
            }
            Err(error)
        }
    }
}

/// Locks that a transaction releases. Dropped before the outcome is known, their nodes may be
/// deleted already: a bare delete could hit that of the next holder of a plain lock.
struct Releasing<'a>(&'a mut [Guard]);

impl<'a> Releasing<'a> {
    /// The outcome of the transaction is known. Returns the locks.
    fn known(&mut self) -> &'a mut [Guard] {
        mem::take(&mut self.0)
    }
}

impl Drop for Releasing<'_> {
    fn drop(&mut self) {
        for guard in &mut *self.0 {
            guard.node_mut().may_be_deleted();
        }
    }
}
