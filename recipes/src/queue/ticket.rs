//! A place in a queue, in the hands of a user.

use std::{fmt, marker::PhantomData};

use super::waiter::Waiter;
use crate::{
    error::LockError,
    guard::{Guard, hold::Attempt},
};

/// A place in the queue of a lock. Dropping it leaves the queue.
#[must_use = "dropping the ticket leaves the queue"]
pub struct Ticket<G = Guard> {
    waiter: Waiter,
    attempt: Attempt,
    guard: PhantomData<fn() -> G>,
}

impl<G> Ticket<G> {
    pub(crate) fn new(waiter: Waiter, attempt: Attempt) -> Self {
        Self {
            waiter,
            attempt,
            guard: PhantomData,
        }
    }

    /// Watches our node, unless it is watched.
    pub(crate) fn watch_own(&mut self) {
        self.waiter.watch_own();
    }

    /// How many contenders were ahead when this client last looked: at a listing of the queue, or
    /// at its own contenders. 0 when it is our turn.
    #[must_use]
    pub fn position(&self) -> usize {
        self.waiter.ahead()
    }

    /// The path of our node in the queue.
    #[must_use]
    pub fn path(&self) -> String {
        self.waiter.node.path()
    }

    /// Waits for the turn, and notes how many contenders are ahead.
    pub(crate) async fn granted(mut self, ahead: &mut Option<usize>) -> Result<Guard, LockError> {
        let turn = self.waiter.wait_for_turn(ahead).await;
        let directory = self.waiter.node.directory().clone();
        let granted = turn.and_then(|()| Guard::new(self.waiter.node, self.attempt));
        granted.map_err(|error| error.at(&directory.path))
    }
}

impl Ticket<Guard> {
    /// Waits until the lock is granted.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue.
    pub async fn wait(self) -> Result<Guard, LockError> {
        self.granted(&mut None).await
    }
}

impl<G> fmt::Debug for Ticket<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("path", &self.path())
            .field("ahead", &self.position())
            .finish_non_exhaustive()
    }
}
