//! What the director tells the clients: stop with the lock in hand, wake up, finish.

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

    /// The next client that gets the lock is to stop.
    pub(super) fn pause_next(&self) {
        self.pause.store(true, Ordering::Relaxed);
    }

    /// Whether it is this client that is to stop. The order is taken by whoever asks first.
    pub(super) fn take_pause(&self) -> bool {
        self.pause.swap(false, Ordering::Relaxed)
    }

    /// Stops the calling thread until it is woken, but no longer than this.
    ///
    /// It blocks the thread, and so the client's whole runtime: its session sends nothing, hears nothing and notices
    /// nothing, like a process that is suspended, or one in a long garbage collection.
    pub(super) fn stand_still(&self, at_most: Duration) {
        let awake = self.awake.lock().unwrap_or_else(PoisonError::into_inner);
        let asleep = |awake: &mut bool| !*awake;
        drop(self.woken.wait_timeout_while(awake, at_most, asleep));
    }

    /// Wakes the client that stands still.
    pub(super) fn wake(&self) {
        *self.awake.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.woken.notify_all();
    }

    /// Ends the contention: nobody queues any more, and nobody stands still.
    pub(super) fn finish(&self) {
        self.finish.send_replace(true);
        self.pause.store(false, Ordering::Relaxed);
        self.wake();
    }

    /// Follows whether the contention is over.
    pub(super) fn finished(&self) -> watch::Receiver<bool> {
        self.finish.subscribe()
    }
}
