//! An attempt to get a lock and, when it succeeds, the hold: how long each took, and how the hold
//! ended. Both are one span in the log (`docs/logging.md`).
//!
//! Not here: the lock node (`node`).

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{Notify, oneshot};

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
            stage: Mutex::new(Stage::Held { as_reader: false }),
            changed: Notify::new(),
            recorder: self.recorder.clone(),
            is_in_doubt: AtomicBool::new(false),
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
}

impl Drop for Hold {
    fn drop(&mut self) {
        let held = self.held_for();
        self.end.recorder.counters.hold.record(held);
        self.end.recorder.counters.held.end();
        if self.end.loss().is_none() {
            tracing::debug!(parent: &self.end.span, ?held, "released");
        }
    }
}

/// What became of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The lock is held.
    Held {
        /// Whether a reader's node has taken the place of the writer's, whose deletion then means
        /// nothing.
        as_reader: bool,
    },
    /// The holder gives it up: its node is the guard's to delete.
    Released,
    /// It is lost for good: the guard must not delete its node. Another contender, or the limit of
    /// the hold, does or has.
    Lost(Loss),
}

/// How a hold ends. The futures of [`Guard::lost`](crate::Guard::lost) share it, and outlive the
/// hold.
///
/// Whoever ends it tells the users first, and alone may delete the node after that. All holders of
/// a plain lock use one name, so a second delete, or a transaction after the delete, could hit the
/// node of the next holder.
#[derive(Debug)]
pub(crate) struct HoldEnd {
    stage: Mutex<Stage>,
    changed: Notify,
    recorder: Arc<Recorder>,
    /// Whether the log says already that the lease has ended.
    is_in_doubt: AtomicBool,
    token: u64,
    span: tracing::Span,
}

impl HoldEnd {
    pub(crate) fn stage(&self) -> Stage {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_held(&self) -> bool {
        matches!(self.stage(), Stage::Held { .. })
    }

    /// How the lock was lost, if it is known to be lost.
    pub(crate) fn loss(&self) -> Option<Loss> {
        match self.stage() {
            Stage::Lost(loss) => Some(loss),
            Stage::Held { .. } | Stage::Released => None,
        }
    }

    /// What somebody is told who relies on a hold that has left its stage.
    pub(crate) fn why(&self) -> Loss {
        self.loss().unwrap_or(Loss::Deleted)
    }

    /// Enters a stage, unless the hold has left this one, or is lost.
    fn enter(&self, from: Stage, to: Stage) -> bool {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        let is_entered = *stage == from && !matches!(from, Stage::Lost(_));
        if is_entered {
            *stage = to;
        }
        drop(stage);
        if is_entered {
            self.changed.notify_waiters();
        }
        is_entered
    }

    /// Ends when the hold has left this stage.
    pub(crate) async fn left(&self, stage: Stage) {
        loop {
            let changed = self.changed.notified();
            if self.stage() != stage || !self.is_held() {
                return;
            }
            changed.await;
        }
    }

    /// A reader's node takes the place of the writer's from now on. False if the lock is lost.
    pub(crate) fn downgrade(&self) -> bool {
        let writer = Stage::Held { as_reader: false };
        self.enter(writer, Stage::Held { as_reader: true })
    }

    /// The holder gives the lock up. False if it is lost: then the node is not the holder's to
    /// delete.
    pub(crate) fn release(&self) -> bool {
        self.enter(self.stage(), Stage::Released);
        self.stage() == Stage::Released
    }

    /// The lock is lost for good. The first call decides how: returns what it said.
    pub(crate) fn lost(&self, loss: Loss) -> Loss {
        self.lost_as(self.stage(), loss);
        self.loss().unwrap_or(loss)
    }

    /// The lock is lost for good, unless the hold has left this stage.
    pub(crate) fn lost_as(&self, stage: Stage, loss: Loss) -> bool {
        let is_lost = self.enter(stage, Stage::Lost(loss));
        if is_lost {
            self.recorder.counters.lost.count();
            let (path, kind) = self.recorder.names();
            tracing::warn!(parent: &self.span, path, kind, token = self.token, %loss, "lock lost");
        }
        is_lost
    }

    /// The lease has ended. It may be renewed.
    pub(crate) fn elapsed(&self) {
        if self.is_held() && !self.is_in_doubt.swap(true, Ordering::Relaxed) {
            let (path, kind) = self.recorder.names();
            tracing::warn!(parent: &self.span, path, kind, token = self.token, "lease has run out, lock in doubt");
        }
    }
}
