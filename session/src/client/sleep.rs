//! The future that waits for a timer in the client's task. It needs no runtime where it is polled.

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use super::shared::Shared;

/// Stands for a duration that leads out of the range of `Instant`.
const YEARS_30: Duration = Duration::from_secs(86400 * 365 * 30);

/// Waits for a time on the client's clock. Made by [`Raw::sleep`](super::Raw::sleep).
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    shared: Arc<Shared>,
    until: Instant,
    /// The number of the timer; 0 until the future was polled.
    number: u64,
}

impl Sleep {
    pub(super) fn new(shared: &Arc<Shared>, duration: Duration) -> Self {
        let now = shared.lock().clock.now();
        Self::until(shared, now.checked_add(duration).unwrap_or(now + YEARS_30))
    }

    pub(super) fn until(shared: &Arc<Shared>, until: Instant) -> Self {
        Self {
            shared: shared.clone(),
            until,
            number: 0,
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut core = this.shared.lock();
        // At each poll: if the process was paused, this future may be polled before the client's
        // task, which fires the timers. What a `select` polls next, for instance the work of a
        // leader, must not go on then.
        if core.machine.link().is_ended() || this.until <= core.clock.now() {
            return Poll::Ready(());
        }
        if this.number == 0 {
            let is_first = core.timers.next().is_none_or(|next| this.until < next);
            this.number = core.timers.add(this.until, cx.waker().clone());
            let driver = core.driver.take_if(|_| is_first);
            drop(core);
            if let Some(driver) = driver {
                driver.wake();
            }
            return Poll::Pending;
        }
        let Some(waker) = core.timers.waker((this.until, this.number)) else {
            return Poll::Ready(());
        };
        if !waker.will_wake(cx.waker()) {
            let former = mem::replace(waker, cx.waker().clone());
            drop(core);
            // Dropped after the lock was released: it may be the last handle of a task, whose
            // futures take the lock.
            drop(former);
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if self.number > 0 {
            let timer = (self.until, self.number);
            let waker = self.shared.lock().timers.remove(timer);
            // Dropped after the lock was released, as above.
            drop(waker);
        }
    }
}
