//! A value behind a lock, and the one task that waits for it to be as it should be.

use std::task::{Context, Poll, Waker};

use super::os::{Mutex, lock};

/// A value that one task waits for.
#[derive(Debug, Default)]
pub struct Mailbox<S>(Mutex<(S, Option<Waker>)>);

impl<S> Mailbox<S> {
    /// Begins with this value.
    pub fn new(value: S) -> Self {
        Self(Mutex::new((value, None)))
    }

    /// Looks at the value, or changes it in a way that nobody waits for.
    pub fn look<R>(&self, look: impl FnOnce(&mut S) -> R) -> R {
        look(&mut lock(&self.0).0)
    }

    /// Changes the value, and wakes the task that waits.
    pub fn tell<R>(&self, change: impl FnOnce(&mut S) -> R) -> R {
        let mut inner = lock(&self.0);
        let result = change(&mut inner.0);
        let waker = inner.1.take();
        // Not under the lock: the task may run at once, and take it.
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
        result
    }

    /// Takes what the task waits for, or notes the task.
    pub fn poll<R>(&self, cx: &Context<'_>, take: impl FnOnce(&mut S) -> Option<R>) -> Poll<R> {
        let mut inner = lock(&self.0);
        if let Some(taken) = take(&mut inner.0) {
            return Poll::Ready(taken);
        }
        let is_noted = |waker: &Waker| waker.will_wake(cx.waker());
        if !inner.1.as_ref().is_some_and(is_noted) {
            let former = inner.1.replace(cx.waker().clone());
            // A waker may be the last handle of a task, whose futures take locks when they are
            // dropped.
            drop(inner);
            drop(former);
        }
        Poll::Pending
    }
}
