//! An attempt to get a lock and, when it succeeds, the hold: how long each took, and how the hold ended. Both are one span in the
//! log (`docs/logging.md`).
//!
//! Not here: the lock node (`node`).

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use crate::{error::Loss, metrics::Recorder};

/// An attempt to get a lock. If it is dropped before the grant, it counts as given up.
#[derive(Debug)]
pub(crate) struct Attempt {
    recorder: Arc<Recorder>,
    since: Instant,
    is_settled: bool,
    span: tracing::Span,
}

impl Attempt {
    pub(crate) fn new(recorder: &Arc<Recorder>) -> Self {
        recorder.counters.waiting.begin();
        let (path, kind) = recorder.names();
        Self {
            recorder: recorder.clone(),
            since: recorder.clock.running(),
            is_settled: false,
            span: tracing::debug_span!("lock", path, kind),
        }
    }

    /// The first look showed a contender ahead.
    pub(crate) fn contended(&self) {
        self.recorder.counters.contended.count();
        tracing::debug!(parent: &self.span, "waiting for contenders ahead");
    }

    /// The lock is granted, with this fencing token.
    pub(crate) fn granted(mut self, token: u64) -> Hold {
        self.is_settled = true;
        self.recorder.counters.acquired.count();
        let now = self.recorder.clock.running();
        let waited = now.saturating_duration_since(self.since);
        self.recorder.counters.wait.record(waited);
        self.recorder.counters.held.begin();
        tracing::debug!(parent: &self.span, token, ?waited, "granted");
        let end = Arc::new(HoldEnd {
            end: OnceLock::new(),
            recorder: self.recorder.clone(),
            is_in_doubt: AtomicBool::new(false),
            is_downgraded: AtomicBool::new(false),
            token,
            span: self.span.clone(),
        });
        Hold {
            end,
            since: now,
            limit: Mutex::new(None),
        }
    }

    /// It was a try, and another contender has the lock.
    pub(crate) fn refused(mut self) {
        self.is_settled = true;
        self.recorder.counters.refused.count();
        tracing::debug!(parent: &self.span, "held by another contender, not waiting");
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.recorder.counters.waiting.end();
        if !self.is_settled {
            self.recorder.counters.given_up.count();
            let waited = self.recorder.elapsed(self.since);
            tracing::debug!(parent: &self.span, ?waited, "given up");
        }
    }
}

/// A hold, from the grant to the release.
#[derive(Debug)]
pub(crate) struct Hold {
    end: Arc<HoldEnd>,
    since: Instant,
    /// The limit of the hold, and since when it counts. Dropping the sender stops it.
    limit: Mutex<Option<(oneshot::Sender<()>, Instant, Duration)>>,
}

impl Hold {
    pub(crate) fn end(&self) -> &Arc<HoldEnd> {
        &self.end
    }

    pub(crate) fn held_for(&self) -> Duration {
        self.end.recorder.elapsed(self.since)
    }

    /// Sets a limit in place of the former one. The receiver ends when the limit is stopped.
    pub(crate) fn limit_from(&self, begin: Instant, length: Duration) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let mut limit = self.limit.lock().unwrap_or_else(PoisonError::into_inner);
        *limit = Some((sender, begin, length));
        receiver
    }

    /// Since when the limit counts, and its length; `None` without a limit.
    pub(crate) fn limit(&self) -> Option<(Instant, Duration)> {
        let limit = self.limit.lock().unwrap_or_else(PoisonError::into_inner);
        limit.as_ref().map(|(_, begin, length)| (*begin, *length))
    }

    /// Stops the limit.
    pub(crate) fn stop_limit(&self) {
        let mut limit = self.limit.lock().unwrap_or_else(PoisonError::into_inner);
        *limit = None;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let held = self.held_for();
        self.end.released();
        self.end.recorder.counters.hold.record(held);
        self.end.recorder.counters.held.end();
        if self.end.loss().is_none() {
            tracing::debug!(parent: &self.end.span, ?held, "released");
        }
    }
}

/// How a hold ended. The futures of [`Guard::lost`](crate::Guard::lost) share it, and outlive the hold.
#[derive(Debug)]
pub(crate) struct HoldEnd {
    end: OnceLock<Option<Loss>>,
    recorder: Arc<Recorder>,
    /// Whether the log says already that the lease has ended.
    is_in_doubt: AtomicBool,
    /// Whether a reader's node takes the place of the writer's, whose deletion then means nothing.
    is_downgraded: AtomicBool,
    token: u64,
    span: tracing::Span,
}

impl HoldEnd {
    /// How the lock was lost, if it is known to be lost.
    pub(crate) fn loss(&self) -> Option<Loss> {
        self.end.get().copied().flatten()
    }

    /// A reader's node takes the place of the writer's from now on.
    pub(crate) fn downgraded(&self) {
        self.is_downgraded.store(true, Ordering::Release);
    }

    /// Whether a reader's node takes the place of the writer's.
    pub(crate) fn is_downgraded(&self) -> bool {
        self.is_downgraded.load(Ordering::Acquire)
    }

    /// The holder releases the lock.
    pub(crate) fn released(&self) {
        let _ = self.end.set(None);
    }

    /// The lock is lost for good. The first call decides how: returns what it said.
    pub(crate) fn lost(&self, loss: Loss) -> Loss {
        if self.end.set(Some(loss)).is_ok() {
            self.recorder.counters.lost.count();
            let (path, kind) = self.recorder.names();
            tracing::warn!(parent: &self.span, path, kind, token = self.token, %loss, "lock lost");
        }
        self.loss().unwrap_or(loss)
    }

    /// The lease has ended. It may be renewed.
    pub(crate) fn elapsed(&self) {
        if self.end.get().is_none() && !self.is_in_doubt.swap(true, Ordering::Relaxed) {
            let (path, kind) = self.recorder.names();
            tracing::warn!(parent: &self.span, path, kind, token = self.token, "lease has run out, lock in doubt");
        }
    }
}
