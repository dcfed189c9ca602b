//! What a lock costs its users, counted as it is used.
//!
//! Counters are shared by all clones of a lock; a snapshot reads them one by one, so that its numbers may be some operations
//! apart.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lockkeeper_session::DurationHistogram;

/// What a lock's users have done and waited for, in this process, over all clones of the lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockMetrics {
    /// How often it was acquired.
    pub acquired: u64,
    /// How often somebody was ahead at first.
    pub contended: u64,
    /// How often a try was refused.
    pub refused: u64,
    /// How often an attempt ended without the lock: given up, timed out, or failed.
    pub given_up: u64,
    /// How often a holder lost it before releasing it.
    pub lost: u64,
    /// From the call to the grant.
    pub wait: DurationHistogram,
    /// From the grant to the release.
    pub hold: DurationHistogram,
    /// From the word that the one just ahead is gone to the grant: how long the lock was nobody's for want of an answer.
    pub hand_over: DurationHistogram,
    /// How many requests the client was asked for to acquire and to release: clean-ups among them, transactions and the
    /// notice of a loss not.
    pub requests: u64,
    /// How many of them were listings of the line.
    pub listings: u64,
    /// How often a node of an abandoned attempt was deleted behind it.
    pub cleaned_up: u64,
}

/// The counters behind [`LockMetrics`], and the name of the lock in the log.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    /// Empty where nobody listened to the log when the lock was made: a name that nobody reads costs an allocation.
    pub(crate) path: String,
    pub(crate) kind: &'static str,
    pub(crate) acquired: AtomicU64,
    pub(crate) contended: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) given_up: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) wait: Durations,
    pub(crate) hold: Durations,
    pub(crate) counters: Arc<RequestCounters>,
}

/// The counters of what goes on at the lock's nodes.
#[derive(Debug, Default)]
pub(crate) struct RequestCounters {
    pub(crate) requests: AtomicU64,
    pub(crate) listings: AtomicU64,
    pub(crate) cleaned_up: AtomicU64,
    pub(crate) hand_over: Durations,
}

impl Recorder {
    pub(crate) fn of(path: &str, kind: &'static str, counters: Arc<RequestCounters>) -> Self {
        Self {
            path: if tracing::enabled!(tracing::Level::WARN) {
                path.to_owned()
            } else {
                String::new()
            },
            kind,
            counters,
            ..Self::default()
        }
    }

    pub(crate) fn snapshot(&self) -> LockMetrics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LockMetrics {
            acquired: read(&self.acquired),
            contended: read(&self.contended),
            refused: read(&self.refused),
            given_up: read(&self.given_up),
            lost: read(&self.lost),
            wait: self.wait.snapshot(),
            hold: self.hold.snapshot(),
            hand_over: self.counters.hand_over.snapshot(),
            requests: read(&self.counters.requests),
            listings: read(&self.counters.listings),
            cleaned_up: read(&self.counters.cleaned_up),
        }
    }
}

/// Counts one more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The counts behind a [`DurationHistogram`]: the lock is held for a few additions, and never over anything else.
#[derive(Debug, Default)]
pub(crate) struct Durations(Mutex<DurationHistogram>);

impl Durations {
    pub(crate) fn record(&self, duration: Duration) {
        let mut histogram = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        histogram.record(duration);
    }

    fn snapshot(&self) -> DurationHistogram {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
