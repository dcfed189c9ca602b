//! The fencing token of a lock, and how sure a holder can be of it.

use std::{fmt, time::Instant};

use crate::error::Loss;

/// A number that grows from holder to holder of a lock, across the whole ensemble. It grows also
/// when the lock's directory was deleted and made again.
///
/// It is the `czxid` of the lock node: the number of the transaction that created it.
///
/// A former holder may have been paused, and not know yet that it has lost the lock. A resource is
/// safe from it if it remembers the highest token it has seen, and refuses lower ones. The order
/// breaks only when the ensemble is rebuilt from nothing, or restored from an older backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    pub(crate) fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How sure a holder can be of its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockState {
    /// The client is connected, and its lease is valid.
    Held,
    /// The connection is lost. No other client can get the lock before `until`, on the clock of
    /// [`Instant::now`].
    Suspended {
        /// The end of the lease.
        until: Instant,
    },
    /// The lease has ended, and no server has renewed it: stop. It may turn out later that the lock
    /// was never lost.
    Elapsed,
    /// The lock is lost for good.
    Lost(Loss),
}
