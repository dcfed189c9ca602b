//! When a thread that drives a client may sleep, and who has to wake it.
//!
//! A wake-up costs a system call only if the thread sleeps. The order that makes this safe: the
//! thread says that it goes to sleep, and sleeps only if nobody has woken it since it was awake;
//! whoever wakes it has submitted the work before.
//!
//! Not here: what the thread does when it is awake (`own_thread`).

use std::{sync::Arc, task::Wake, time::Duration};

use super::sync::os::atomic::{AtomicU8, Ordering};

/// Wakes a thread that sleeps in its [`Bed`]. If it does not sleep yet, its next sleep ends at once.
pub(crate) trait Poke: Send + Sync + 'static {
    fn poke(&self);
}

/// Where a thread sleeps.
pub(crate) trait Bed {
    /// Sleeps until the thread is poked, something happens that it waits for, or this time is over.
    fn sleep(&mut self, limit: Option<Duration>);

    /// Tells of what has happened during the sleep. The thread is awake again.
    fn tell(&mut self);
}

/// The thread has seen every wake-up.
const AWAKE: u8 = 0;
/// The thread was woken, and will see it before it sleeps.
const WOKEN: u8 = 1;
/// The thread sleeps, or is about to: it needs a poke.
const ASLEEP: u8 = 2;

/// The state of one thread.
pub(crate) struct Parker<P> {
    state: AtomicU8,
    poke: P,
}

impl<P: Poke> Parker<P> {
    pub(crate) fn new(poke: P) -> Self {
        Self {
            state: AtomicU8::new(AWAKE),
            poke,
        }
    }

    /// The thread has nothing to do. Whether it may sleep; otherwise it was woken meanwhile.
    pub(crate) fn may_sleep(&self) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        (self.state)
            .compare_exchange(AWAKE, ASLEEP, success, failure)
            .is_ok()
    }

    /// The thread is awake, and looks at everything from now on.
    pub(crate) fn is_awake(&self) {
        self.state.swap(AWAKE, Ordering::AcqRel);
    }
}

impl<P: Poke> Wake for Parker<P> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::AcqRel) == ASLEEP {
            self.poke.poke();
        }
    }
}
