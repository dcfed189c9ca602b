//! A value behind a lock, and the one task that waits for it to be as it should be.

use std::task::{Context, Poll};

use futures::task::AtomicWaker;

use super::os::{Mutex, lock};

/// A value that one task waits for.
#[derive(Debug, Default)]
pub struct Mailbox<S> {
    value: Mutex<S>,
    waiting: AtomicWaker,
}

impl<S> Mailbox<S> {
    /// Looks at the value, or changes it in a way that nobody waits for.
    pub fn look<R>(&self, look: impl FnOnce(&mut S) -> R) -> R {
        look(&mut lock(&self.value))
    }

    /// Changes the value, and wakes the task that waits.
    pub fn tell<R>(&self, change: impl FnOnce(&mut S) -> R) -> R {
        let result = self.look(change);
        // Not under the lock: the task may run at once, and take it.
        self.waiting.wake();
        result
    }

    /// Takes what the task waits for, or notes the task.
    pub fn poll<R>(&self, cx: &Context<'_>, mut take: impl FnMut(&mut S) -> Option<R>) -> Poll<R> {
        if let Some(taken) = self.look(&mut take) {
            return Poll::Ready(taken);
        }
        self.waiting.register(cx.waker());
        // Before it was noted, nobody could wake it.
        self.look(take).map_or(Poll::Pending, Poll::Ready)
    }
}
