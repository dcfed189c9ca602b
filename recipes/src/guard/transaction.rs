//! Writes that happen only while a lock, or several, are held.
//!
//! Not here: the other methods of a guard (`lock_guard`).

use std::slice;

use bytes::Bytes;
use lockkeeper_proto::{CreateMode, ErrorCode, Version};
use lockkeeper_session::{Effect, Error as SessionError, OpResult, Transaction};

use crate::{
    error::{LockError, Loss},
    guard::{Guard, hold::HoldEnd},
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
    /// How many operations come before the user's: one for each lock node.
    checks: usize,
    guards: &'a [Guard],
}

impl<'a> GuardedTransaction<'a> {
    /// A transaction that begins with a check of each lock node. It is sent only in the session
    /// that holds the locks.
    pub(crate) fn under(guards: &'a [Guard]) -> Self {
        let start = |first: &Guard| first.client().transaction().within(first.session_id());
        let inner = holder(guards).map(|first| {
            let check =
                |inner: Transaction, guard: &Guard| inner.check(&guard.path(), Version::ANY);
            guards.iter().fold(start(first), check)
        });
        Self {
            inner,
            checks: guards.len(),
            guards,
        }
    }

    /// Requires that the node exists and that its data have this version.
    pub fn check(self, path: &str, version: Version) -> Self {
        self.and(|inner| inner.check(path, version))
    }

    /// Creates a node. Its ACL lets every client read and change it.
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
    ///   [`TransactionRefused`](lockkeeper_session::Error::TransactionRefused) when an operation
    ///   failed. It has the index of the operation, counted from 0. Nothing was written.
    /// - [`LockError::Session`] with another error when the request failed.
    ///   [`lockkeeper_session::Error::effect`] says whether the transaction may have been applied.
    /// - [`LockError::SeveralSessions`] when the locks of a [`MultiGuard`](crate::MultiGuard) do
    ///   not all belong to one session, or there are none. Nothing was sent.
    ///
    /// # Cancel safety
    /// Once polled, the transaction may be applied, whether the future is awaited or dropped.
    pub async fn commit(self) -> Result<Vec<OpResult>, LockError> {
        self.send(HoldEnd::is_held).await
    }

    /// As [`commit`](Self::commit), if `may_send` says so of each hold when the transaction is
    /// queued.
    async fn send(
        self,
        may_send: impl Fn(&HoldEnd) -> bool + Sync,
    ) -> Result<Vec<OpResult>, LockError> {
        let Some(inner) = self.inner else {
            return Err(LockError::SeveralSessions);
        };
        let ended = |guard: &Guard| Err(guard.named(LockError::lost(guard.end().why())));
        // After a loss, a node with the same fixed name may belong to another contender.
        if let Some(guard) = self.guards.iter().find(|it| it.known_loss().is_some()) {
            return ended(guard);
        }
        let refuses = |guard: &&Guard| !may_send(guard.end());
        // The limit of a hold may begin its delete meanwhile: nothing is queued behind that.
        let committed = inner.commit_if(|| !self.guards.iter().any(|it| refuses(&it)));
        match committed.await {
            Ok(Some(mut results)) => Ok(results.split_off(self.checks.min(results.len()))),
            Ok(None) => match self.guards.iter().find(refuses) {
                Some(guard) => ended(guard),
                None => Ok(Vec::new()),
            },
            Err(SessionError::TransactionRefused { index, code, peer }) => {
                match index.checked_sub(self.checks) {
                    None if code == ErrorCode::NO_NODE => {
                        let deleted = LockError::lost(Loss::Deleted);
                        let Some(guard) = self.guards.get(index) else {
                            return Err(deleted);
                        };
                        // The limit of the hold may have deleted the node. Then the loss is
                        // `Overdue`.
                        guard.failed(&deleted);
                        ended(guard)
                    }
                    of_users => {
                        let index = of_users.unwrap_or(0);
                        Err(SessionError::TransactionRefused { index, code, peer }.into())
                    }
                }
            }
            // The locks belong to one session, which is lost with the first of them.
            Err(error) => {
                let error = LockError::from(error);
                let first = self.guards.first();
                Err(match first {
                    Some(first) => first.named(error),
                    None => error,
                })
            }
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
    let mut transaction = build(GuardedTransaction::under(guards));
    for guard in guards.iter().rev() {
        transaction = transaction.delete(&guard.path(), Version::ANY);
    }
    guards.iter().try_for_each(Guard::give_up)?;
    match transaction.send(|_| true).await {
        Ok(mut results) => {
            results.truncate(results.len().saturating_sub(guards.len()));
            guards.iter_mut().for_each(Guard::released);
            Ok(results)
        }
        Err(error) => {
            if matches!(&error, LockError::Session(error) if error.effect() == Effect::Unknown) {
                guards.iter_mut().for_each(Guard::may_be_released);
            }
            Err(error)
        }
    }
}
