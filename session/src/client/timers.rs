//! Timers that fire in the client's task. Code that waits for them needs no runtime of its own.
//!
//! Not here: the deadlines of the session (`machine::timers`).

use std::{
    collections::BTreeMap,
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use super::shared::Shared;

/// Stands for a duration that leads out of the range of `Instant`.
const YEARS_30: Duration = Duration::from_secs(86400 * 365 * 30);

/// The timers of a client that are being waited for.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// By the time at which they fire.
    waiting: BTreeMap<(Instant, u64), Waker>,
    last: u64,
}

impl Timers {
    /// When the next timer fires.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes the timers from the first one on that are due.
    pub(crate) fn fire(&mut self, is_due: impl Fn(Instant) -> bool, woken: &mut Vec<Waker>) {
        while let Some(first) = self.waiting.first_entry()
            && is_due(first.key().0)
        {
            woken.push(first.remove());
        }
    }
}

/// Waits for a time on the client's clock. Made by [`Raw::sleep`](super::Raw::sleep).
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    shared: Arc<Shared>,
    until: Instant,
    /// The number of the timer, once the future was polled.
    number: Option<u64>,
}

impl Sleep {
    pub(super) fn new(shared: &Arc<Shared>, duration: Duration) -> Self {
        let now = shared.lock().clock.now();
        Self {
            shared: shared.clone(),
            until: now.checked_add(duration).unwrap_or(now + YEARS_30),
            number: None,
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut core = this.shared.lock();
        // At each poll: if the process was paused, this future may be polled before the client's task, which fires the timers.
        // What a `select` polls next, for instance the work of a leader, must not go on then.
        if core.machine.is_ended() || this.until <= core.clock.now() {
            return Poll::Ready(());
        }
        let Some(number) = this.number else {
            let is_first = core.timers.next().is_none_or(|next| this.until < next);
            core.timers.last += 1;
            let number = core.timers.last;
            let waker = cx.waker().clone();
            core.timers.waiting.insert((this.until, number), waker);
            drop(core);
            this.number = Some(number);
            if is_first {
                this.shared.driver.wake();
            }
            return Poll::Pending;
        };
        let Some(waker) = core.timers.waiting.get_mut(&(this.until, number)) else {
            return Poll::Ready(());
        };
        if !waker.will_wake(cx.waker()) {
            let former = mem::replace(waker, cx.waker().clone());
            drop(core);
            // Dropped after the lock was released: it may be the last handle of a task, whose futures take the lock.
            drop(former);
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let waker = self
                .shared
                .lock()
                .timers
                .waiting
                .remove(&(self.until, number));
            // Dropped after the lock was released, as above.
            drop(waker);
        }
    }
}
