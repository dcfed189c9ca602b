//! One attempt at a lock and, when it succeeds, the hold: how long each took, and how the hold ended. Both are one span of the
//! log (`docs/logging.md`).
//!
//! Not here: the lock node (`contender`).

use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use tokio::{sync::oneshot, time::Instant};

use crate::{
    error::Loss,
    metrics::{Recorder, count},
};

/// An attempt at a lock. Dropped before it is granted, it counts as given up.
#[derive(Debug)]
pub(crate) struct Attempt {
    recorder: Arc<Recorder>,
    since: Instant,
    is_granted: bool,
    span: tracing::Span,
}

impl Attempt {
    pub(crate) fn new(recorder: &Arc<Recorder>) -> Self {
        Self {
            recorder: recorder.clone(),
            since: Instant::now(),
            is_granted: false,
            span: tracing::debug_span!("lock", path = &*recorder.path, kind = recorder.kind),
        }
    }

    /// Somebody was ahead when first looked.
    pub(crate) fn contended(&self) {
        count(&self.recorder.contended);
        tracing::debug!(parent: &self.span, "somebody is ahead");
    }

    /// The lock is ours, with this fencing token.
    pub(crate) fn granted(mut self, token: u64) -> Hold {
        self.is_granted = true;
        count(&self.recorder.acquired);
        let now = Instant::now();
        let waited = now - self.since;
        self.recorder.wait.record(waited);
        tracing::debug!(parent: &self.span, token, ?waited, "granted");
        let end = Arc::new(HoldEnd {
            end: OnceLock::new(),
            recorder: self.recorder.clone(),
            is_in_doubt: AtomicBool::new(false),
            token,
            span: self.span.clone(),
        });
        Hold {
            end,
            since: now,
            watchdog: Mutex::new(None),
        }
    }

    /// It was a try, and somebody has the lock.
    pub(crate) fn refused(mut self) {
        self.is_granted = true;
        count(&self.recorder.refused);
        tracing::debug!(parent: &self.span, "somebody has it, not waiting");
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.is_granted {
            count(&self.recorder.given_up);
            tracing::debug!(parent: &self.span, waited = ?self.since.elapsed(), "given up");
        }
    }
}

/// A hold, from the grant to the release.
#[derive(Debug)]
pub(crate) struct Hold {
    end: Arc<HoldEnd>,
    since: Instant,
    /// Dropped with the hold: calls off whoever watches over its length; and when that one ends it.
    watchdog: Mutex<Option<(oneshot::Sender<()>, Instant)>>,
}

impl Hold {
    pub(crate) fn end(&self) -> &Arc<HoldEnd> {
        &self.end
    }

    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// The watchdog, if there was one, is replaced by another. Returns what tells the new one that it is called off.
    pub(crate) fn watched(&self, until: Instant) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let mut watchdog = self.watchdog.lock().unwrap_or_else(PoisonError::into_inner);
        *watchdog = Some((sender, until));
        receiver
    }

    /// When the watchdog, if there is one, ends the hold.
    pub(crate) fn limit(&self) -> Option<Instant> {
        let watchdog = self.watchdog.lock().unwrap_or_else(PoisonError::into_inner);
        watchdog.as_ref().map(|(_, until)| *until)
    }

    /// The watchdog, if there was one, is called off.
    pub(crate) fn unwatched(&self) {
        let mut watchdog = self.watchdog.lock().unwrap_or_else(PoisonError::into_inner);
        *watchdog = None;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let held = self.since.elapsed();
        self.end.released();
        self.end.recorder.hold.record(held);
        if self.end.loss().is_none() {
            tracing::debug!(parent: &self.end.span, ?held, "released");
        }
    }
}

/// How a hold ended. Shared with whoever waits for its end and outlives it.
#[derive(Debug)]
pub(crate) struct HoldEnd {
    end: OnceLock<Option<Loss>>,
    recorder: Arc<Recorder>,
    /// Whether the log says already that the lease has run out.
    is_in_doubt: AtomicBool,
    token: u64,
    span: tracing::Span,
}

impl HoldEnd {
    /// How the lock was lost, if it is known to be.
    pub(crate) fn loss(&self) -> Option<Loss> {
        self.end.get().copied().flatten()
    }

    /// The holder lets go.
    pub(crate) fn released(&self) {
        let _ = self.end.set(None);
    }

    /// The lock is lost for good. The first word is the last: returns what it was.
    pub(crate) fn lost(&self, loss: Loss) -> Loss {
        if self.end.set(Some(loss)).is_ok() {
            count(&self.recorder.lost);
            let Recorder { path, kind, .. } = &*self.recorder;
            tracing::warn!(parent: &self.span, path, kind, token = self.token, %loss, "lock lost");
        }
        self.loss().unwrap_or(loss)
    }

    /// The lease has run out, which is not the last word.
    pub(crate) fn elapsed(&self) {
        if self.end.get().is_none() && !self.is_in_doubt.swap(true, Ordering::Relaxed) {
            let Recorder { path, kind, .. } = &*self.recorder;
            tracing::warn!(parent: &self.span, path, kind, token = self.token, "lease has run out, lock in doubt");
        }
    }
}
