//! Counters of what a lock does and costs.
//!
//! All clones of a lock share their counters. A snapshot reads them one by one, so its numbers may be some operations
//! apart.
//!
//! Not here: log lines (`guard::hold`).

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use lockkeeper_session::{Client, Clock, DurationHistogram};

/// What a lock has done in this process so far, over all its clones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockMetrics {
    /// How often the lock was acquired.
    pub acquired: u64,
    /// How often another contender was ahead when an attempt began.
    pub contended: u64,
    /// How often a try found the lock taken.
    pub refused: u64,
    /// How often an attempt ended without the lock: it was dropped, timed out, or failed.
    pub given_up: u64,
    /// How often a holder lost the lock before it released it.
    pub lost: u64,
    /// The time from the call to the grant.
    pub wait: DurationHistogram,
    /// The time from the grant to the release.
    pub hold: DurationHistogram,
    /// The time from the event that the contender just ahead is gone to the grant. No contender holds the lock
    /// meanwhile.
    pub hand_over: DurationHistogram,
    /// Requests that acquire and release the lock, clean-ups included. Transactions, and requests that watch for a
    /// loss, are not counted.
    pub requests: u64,
    /// How many of these requests were listings of the queue.
    pub listings: u64,
    /// How often the client deleted the node of an abandoned attempt.
    pub cleaned_up: u64,
    /// How many nodes a server has refused to delete, for instance because the client may not delete them. The client repeats
    /// the delete while the session lives. Until then such a node blocks all others.
    pub not_deleted: u64,
}

/// The counters behind [`LockMetrics`], and the name of the lock in the log.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    /// The path of the lock. Empty if the log had no subscriber for warnings when the lock was made: that saves an
    /// allocation.
    pub(crate) path: String,
    pub(crate) kind: &'static str,
    pub(crate) clock: Clock,
    pub(crate) acquired: AtomicU64,
    pub(crate) contended: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) given_up: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) wait: Durations,
    pub(crate) hold: Durations,
    pub(crate) counters: Arc<RequestCounters>,
}

/// The counters of requests about the lock's nodes, and of hand-overs.
#[derive(Debug, Default)]
pub(crate) struct RequestCounters {
    pub(crate) requests: AtomicU64,
    pub(crate) listings: AtomicU64,
    pub(crate) cleaned_up: AtomicU64,
    pub(crate) not_deleted: AtomicU64,
    pub(crate) hand_over: Durations,
}

impl Recorder {
    pub(crate) fn of(
        client: &Client,
        path: &str,
        kind: &'static str,
        counters: Arc<RequestCounters>,
    ) -> Self {
        Self {
            path: if tracing::enabled!(tracing::Level::WARN) {
                path.to_owned()
            } else {
                String::new()
            },
            kind,
            clock: client.raw().clock(),
            counters,
            ..Self::default()
        }
    }

    /// The time since `since`.
    pub(crate) fn elapsed(&self, since: Instant) -> Duration {
        self.clock.running().saturating_duration_since(since)
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
            not_deleted: read(&self.counters.not_deleted),
        }
    }
}

/// Adds one to a counter.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A [`DurationHistogram`] behind a mutex, which is locked for a few additions and never across an await.
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
