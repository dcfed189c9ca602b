//! Writes that happen only under a lock, or under several.
//!
//! Not here: what else a holder can do (`guard`).

use std::slice;

use bytes::Bytes;
use lockkeeper_proto::{CreateMode, ErrorCode, Version};
use lockkeeper_session::{Client, Error as SessionError, OpResult, Transaction};

use crate::{
    error::{Error, Loss},
    guard::Guard,
};

/// Operations that happen all, and only while the lock is held, or not at all.
#[derive(Debug)]
#[must_use = "a transaction does nothing until `commit`"]
pub struct GuardedTransaction<'a> {
    /// `None` when no transaction can check all of the locks.
    inner: Option<Transaction>,
    /// How many operations come before the user's: one for each lock node.
    checks: usize,
    guards: &'a [Guard],
}

impl<'a> GuardedTransaction<'a> {
    /// A transaction that begins with a check of each lock node, and happens in the session that holds them.
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

    /// The node must be there and its data have this version.
    pub fn check(self, path: &str, version: Version) -> Self {
        self.and(|inner| inner.check(path, version))
    }

    /// Creates a node that anybody may change.
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

    /// Sends the operations; the results are theirs, in order.
    ///
    /// # Errors
    /// [`Error::Lost`] when a lock was not held any more; nothing was written then.
    /// [`lockkeeper_session::Error::TransactionRefused`] when an operation failed, counted from 0; nothing was written then.
    /// [`Error::SeveralSessions`] when the locks of a [`MultiGuard`](crate::MultiGuard) are not all of one client.
    pub async fn commit(self) -> Result<Vec<OpResult>, Error> {
        let Some(inner) = self.inner else {
            return Err(Error::SeveralSessions);
        };
        // The node of one that was lost may be somebody else's by now.
        if let Some(loss) = self.guards.iter().find_map(Guard::known_loss) {
            return Err(Error::Lost(loss));
        }
        match inner.commit().await {
            Ok(mut results) => Ok(results.split_off(self.checks.min(results.len()))),
            Err(SessionError::TransactionRefused { index, code, peer }) => {
                match index.checked_sub(self.checks) {
                    // It may have been the guard itself that gave it up, for being held too long.
                    None if code == ErrorCode::NO_NODE => {
                        let guard = self.guards.get(index);
                        let known = guard.and_then(Guard::known_loss);
                        Err(Error::Lost(known.unwrap_or(Loss::Deleted)))
                    }
                    of_users => {
                        let index = of_users.unwrap_or(0);
                        Err(SessionError::TransactionRefused { index, code, peer }.into())
                    }
                }
            }
            Err(error) => Err(Error::of_session(error)),
        }
    }
}

impl Guard {
    /// Starts a transaction that happens only if the lock is still held: its first operation checks the lock node.
    pub fn transaction(&self) -> GuardedTransaction<'_> {
        GuardedTransaction::under(slice::from_ref(self))
    }

    /// Writes what `build` adds, and releases the lock, in one transaction: all of it happens while the lock is held, or
    /// nothing does.
    ///
    /// # Errors
    /// As [`GuardedTransaction::commit`]. The lock is released in the background then.
    ///
    /// # Cancel safety
    /// Once polled, the transaction may be applied; the lock is released in any case.
    pub async fn release_with(
        mut self,
        build: impl FnOnce(GuardedTransaction<'_>) -> GuardedTransaction<'_>,
    ) -> Result<Vec<OpResult>, Error> {
        release_with(slice::from_mut(&mut self), build).await
    }
}

/// The one guard whose client can speak for all of them.
fn holder(guards: &[Guard]) -> Option<&Guard> {
    let first = guards.first()?;
    let is_same = |guard: &Guard| {
        Client::is_same(guard.client(), first.client()) && guard.session_id() == first.session_id()
    };
    guards.iter().all(is_same).then_some(first)
}

/// Writes what `build` adds, and releases all of these locks, the last one first, in one transaction.
pub(crate) async fn release_with(
    guards: &mut [Guard],
    build: impl FnOnce(GuardedTransaction<'_>) -> GuardedTransaction<'_>,
) -> Result<Vec<OpResult>, Error> {
    let mut transaction = build(GuardedTransaction::under(guards));
    for guard in guards.iter().rev() {
        transaction = transaction.delete(&guard.path(), Version::ANY);
    }
    guards.iter().for_each(Guard::stop_hold_limit);
    let committed = transaction.commit().await;
    match committed {
        Ok(mut results) => {
            results.truncate(results.len().saturating_sub(guards.len()));
            guards.iter_mut().for_each(Guard::released);
            Ok(results)
        }
        Err(error) => {
            // One lock alone is the one that was lost; of several, each finds out for itself.
            if let [guard] = guards {
                guard.failed(&error);
            }
            Err(error)
        }
    }
}
