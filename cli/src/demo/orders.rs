//! The orders that the director gives to the clients: pause while you hold the lock, wake up, finish.
//!
//! Not here: when an order is given (`director`).

use std::{
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::watch;

/// Orders for all clients.
#[derive(Debug)]
pub(super) struct Orders {
    finish: watch::Sender<bool>,
    pause: AtomicBool,
    awake: Mutex<bool>,
    woken: Condvar,
}

impl Orders {
    pub(super) fn new() -> Self {
        Self {
            finish: watch::Sender::new(false),
            pause: AtomicBool::new(false),
            awake: Mutex::new(false),
            woken: Condvar::new(),
        }
    }

    /// Orders the next client that gets the lock to pause.
    pub(super) fn pause_next(&self) {
        self.pause.store(true, Ordering::Relaxed);
    }

    /// Whether the calling client must pause. Only the first caller after the order gets `true`.
    pub(super) fn take_pause(&self) -> bool {
        self.pause.swap(false, Ordering::Relaxed)
    }

    /// Blocks the calling thread until [`wake`](Self::wake) is called, or until `at_most` has passed.
    ///
    /// This blocks the client's whole runtime. Its session sends and receives nothing, like a suspended process or one in
    /// a long garbage collection.
    pub(super) fn stand_still(&self, at_most: Duration) {
        let awake = self.awake.lock().unwrap_or_else(PoisonError::into_inner);
        let asleep = |awake: &mut bool| !*awake;
        drop(self.woken.wait_timeout_while(awake, at_most, asleep));
    }

    /// Wakes the paused client.
    pub(super) fn wake(&self) {
        *self.awake.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.woken.notify_all();
    }

    /// Ends the contention: no client enters the queue or pauses any more.
    pub(super) fn finish(&self) {
        self.finish.send_replace(true);
        self.pause.store(false, Ordering::Relaxed);
        self.wake();
    }

    /// A receiver that shows whether the contention is over.
    pub(super) fn finished(&self) -> watch::Receiver<bool> {
        self.finish.subscribe()
    }
}
