//! The guard of a held lock: its lease, and how it ends.
//!
//! Not here: writes that happen only while the lock is held (`transaction`), what tells of its loss
//! (`lost`), the attempt before the grant (`attempt`), the token itself (`token`).

use std::{
    fmt,
    future::Future,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use lockkeeper_proto::SessionId;
use lockkeeper_session::{
    Client,
    sync::{
        Notify,
        select::{Either, select},
    },
};

use super::{
    lost::{LockState, lost},
    token::FencingToken,
};
use crate::{
    error::{LockError, Loss},
    node::{
        identity::Directory,
        lock_node::{BoxedNode, HeldNode, LockNode},
    },
    order::{name, rank},
};

/// With fewer sequence numbers left than this, a tenth of all, each grant is a warning in the log.
const SCARCE: u32 = 0x7fff_ffff / 10;

/// What became of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
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

/// Since when a hold is limited, and for how long it may last from then on.
type Limit = (Instant, Duration);

/// A hold, from the grant to the release. The futures of [`Guard::lost`] share it, and outlive it.
///
/// Whoever ends it tells the users first, and alone may delete the node after that. All holders of
/// a plain lock use one name, so a second delete, or a transaction after the delete, could hit the
/// node of the next holder.
#[derive(Debug)]
pub(crate) struct Hold {
    state: Mutex<(Stage, Option<Limit>)>,
    changed: Notify,
    directory: Arc<Directory>,
    since: Instant,
    /// Whether the log says already that the lease has ended.
    is_in_doubt: AtomicBool,
    token: FencingToken,
    span: tracing::Span,
}

impl Hold {
    pub(super) fn new(
        directory: Arc<Directory>,
        since: Instant,
        token: FencingToken,
        span: tracing::Span,
    ) -> Self {
        Self {
            state: Mutex::new((Stage::Held { as_reader: false }, None)),
            changed: Notify::new(),
            directory,
            since,
            is_in_doubt: AtomicBool::new(false),
            token,
            span,
        }
    }

    fn state(&self) -> MutexGuard<'_, (Stage, Option<Limit>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stage(&self) -> Stage {
        self.state().0
    }

    pub(super) fn is_held(&self) -> bool {
        matches!(self.stage(), Stage::Held { .. })
    }

    /// How the lock was lost, if it is known to be lost.
    fn loss(&self) -> Option<Loss> {
        match self.stage() {
            Stage::Lost(loss) => Some(loss),
            Stage::Held { .. } | Stage::Released => None,
        }
    }

    /// What somebody is told who relies on a hold that has left its stage.
    pub(super) fn why(&self) -> Loss {
        self.loss().unwrap_or(Loss::Released)
    }

    /// Enters a stage, unless the hold has left this one, or is lost.
    fn enter(&self, from: Stage, to: Stage) -> bool {
        let mut state = self.state();
        let is_entered = state.0 == from && !matches!(from, Stage::Lost(_));
        if is_entered {
            state.0 = to;
        }
        drop(state);
        if is_entered {
            self.changed.notify_waiters();
        }
        is_entered
    }

    /// Ends when the hold has left this stage or, if there is one, has another limit than this.
    async fn left(&self, stage: Stage, limit: Option<Limit>) {
        loop {
            let changed = self.changed.notified();
            let now = *self.state();
            let is_replaced = limit.is_some() && now.1 != limit;
            if now.0 != stage || !self.is_held() || is_replaced {
                return;
            }
            changed.await;
        }
    }

    /// The holder gives the lock up. False if it is lost: then the node is not the holder's to
    /// delete.
    fn release(&self) -> bool {
        let stage = self.stage();
        stage == Stage::Released || self.enter(stage, Stage::Released)
    }

    /// The lock is lost for good. The first call decides how: returns what it said.
    fn lost(&self, loss: Loss) -> Loss {
        self.lost_as(self.stage(), loss);
        self.loss().unwrap_or(loss)
    }

    /// The lock is lost for good, unless the hold has left this stage.
    fn lost_as(&self, stage: Stage, loss: Loss) -> bool {
        let is_lost = self.enter(stage, Stage::Lost(loss));
        if is_lost {
            self.directory.count(|it| it.lost += 1);
            let ((path, kind), token) = (self.directory.names(), self.token.get());
            tracing::warn!(parent: &self.span, path, kind, token, %loss, "lock lost");
        }
        is_lost
    }

    /// The lease has ended. It may be renewed.
    fn elapsed(&self) {
        if self.is_held() && !self.is_in_doubt.swap(true, Ordering::Relaxed) {
            let ((path, kind), token) = (self.directory.names(), self.token.get());
            tracing::warn!(parent: &self.span, path, kind, token, "lease has run out, lock in doubt");
        }
    }
}

/// A held lock. Dropping the guard releases the lock in the background.
///
/// # Safety of the lock
/// [`is_valid`](Self::is_valid) is local and costs nothing. It turns false *before* any other
/// client can be granted the lock, as long as the clocks of this machine and of the servers run at
/// the same rate, and nobody deletes lock nodes by hand. No lock service can see that a process is
/// paused between this check and its next step. So give the [`fencing_token`](Self::fencing_token)
/// to the resource that the lock protects, or write through [`transaction`](Self::transaction).
#[must_use = "dropping the guard releases the lock, also by `let _ =`: keep it, as in `let _guard =`"]
pub struct Guard {
    pub(super) hold: Arc<Hold>,
    node: HeldNode,
    pub(super) session_id: SessionId,
}

impl Guard {
    /// The guard of a contender that was granted the lock.
    pub(super) fn new(mut node: BoxedNode, session_id: SessionId, hold: Hold) -> Self {
        node.keep_lease();
        let guard = Self {
            hold: Arc::new(hold),
            node,
            session_id,
        };
        let headroom = guard.headroom();
        if headroom < SCARCE {
            let path = guard.lock_path();
            tracing::warn!(
                path,
                headroom,
                "the numbers of the lock's directory are running out"
            );
        }
        guard
    }

    /// The number with which a resource can refuse former holders.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.hold.token
    }

    /// The path of the lock, as the lock was made with it.
    #[must_use]
    pub fn lock_path(&self) -> &str {
        &self.node().directory().path
    }

    /// The path of the lock node.
    #[must_use]
    pub fn path(&self) -> String {
        self.node().path()
    }

    /// The client whose session holds the lock.
    #[must_use]
    pub fn client(&self) -> &Client {
        self.node().client()
    }

    /// How sure the lock is. Local: asks no server.
    ///
    /// The guard learns that another client has deleted the lock node only when a server reports
    /// it. It does so after a wait for the lock, and while [`lost`](Self::lost) is polled.
    #[must_use]
    pub fn state(&self) -> LockState {
        if let Some(loss) = self.loss() {
            return LockState::Lost(loss);
        }
        let lease = self.client().lease();
        let is_valid = lease.is_valid && lease.session_id == self.session_id;
        match lease.valid_until {
            Some(_) if is_valid && lease.state.is_connected() => LockState::Held,
            Some(until) if is_valid => LockState::Suspended { until },
            _ => LockState::Elapsed,
        }
    }

    /// Whether no other client can hold the lock now. Local: asks no server.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.state().loss().is_none()
    }

    /// [`is_valid`](Self::is_valid) as a result: for work in steps, which looks before each of them.
    ///
    /// # Errors
    /// [`LockError::Lost`] when another client may hold the lock.
    pub fn check(&self) -> Result<(), LockError> {
        let loss = self.state().loss();
        loss.map_or(Ok(()), |loss| Err(self.lost_by(loss)))
    }

    /// Waits until the lease of the session is good for a grant, or the session is over. Returns
    /// whether it is good.
    pub(crate) async fn lease_renewed(&self) -> bool {
        self.node().lease_renewed(self.session_id).await
    }

    /// The instant until which no other client can get the lock, even if no server is heard of any
    /// more; `None` when the lock is lost. It moves forward while the client is connected.
    #[must_use]
    pub fn valid_until(&self) -> Option<Instant> {
        match self.state() {
            LockState::Lost(_) => None,
            _ => self.client().lease().valid_until,
        }
    }

    /// Asks the servers whether the lock is held: `Ok` says that it was, at some instant during
    /// this call. One round trip of a write that changes nothing; two for a
    /// [`PlainMutex`](crate::PlainMutex).
    ///
    /// Unlike [`is_valid`](Self::is_valid) it needs no clock.
    ///
    /// # Errors
    /// [`LockError::Lost`] when the lock is lost. [`LockError::Session`] when no server answers: it
    /// is not known then.
    ///
    /// # Cancel safety
    /// The future may be dropped, and the method called again.
    pub async fn confirm(&self) -> Result<(), LockError> {
        self.refuse_if_lost()?;
        let confirmed = self.node().confirm().await;
        self.of_own_node(confirmed)
    }

    pub(super) fn refuse_if_lost(&self) -> Result<(), LockError> {
        self.loss().map_or(Ok(()), |loss| Err(self.lost_by(loss)))
    }

    /// The result of a request about the lock node.
    pub(super) fn of_own_node<T>(&self, result: Result<T, LockError>) -> Result<T, LockError> {
        result.map_err(|error| {
            let loss = error.loss().map(|loss| self.hold.lost(loss));
            self.named(loss.map_or(error, LockError::lost))
        })
    }

    /// Waits until the lock can no longer be relied on, and returns why. [`Loss::Elapsed`] comes
    /// before any other client can get the lock.
    ///
    /// The future does not borrow the guard. It ends with [`Loss::Released`] when the guard is
    /// released or becomes a reader. While the future is polled, the client watches the lock node.
    ///
    /// # Cancel safety
    /// The future may be dropped, and the method called again.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + 'static {
        let (client, path) = (self.client().raw().downgrade(), self.path());
        let (session_id, hold) = (self.session_id, self.hold.clone());
        // It may have been deleted: the watch has told this client.
        self.known_loss();
        let stage = hold.stage();
        async move {
            let left = pin!(hold.left(stage, None));
            // What this process has given up is told first: the servers tell of it when it is too
            // late.
            match select(left, pin!(lost(&client, &path, session_id))).await {
                // A lease that has ended may be renewed.
                Either::Right(Loss::Elapsed) => {
                    hold.elapsed();
                    Loss::Elapsed
                }
                Either::Right(loss) => {
                    hold.lost_as(stage, loss);
                    hold.why()
                }
                Either::Left(()) => hold.why(),
            }
        }
    }

    /// Runs `work` under the lock, and drops it at its current await when the lock can no longer be
    /// relied on: see [`lost`](Self::lost). The guard stays, to be released.
    ///
    /// `Ok` says that no loss was known before the work was done, [`release`](Self::release)
    /// whether the lock was held until then.
    ///
    /// # Errors
    /// [`LockError::Lost`]: the work was dropped. [`Loss::Elapsed`] comes before any other client
    /// can get the lock.
    ///
    /// # Ordering
    /// The loss is looked at first: the work is not polled when the loss is known, not even if the
    /// work could end then.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work. The lock is still held.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # use lockkeeper_recipes as lockkeeper;
    /// # let charge = async |order| order;
    /// let guard = lockkeeper::Mutex::new(&client, "/locks/orders")?.lock().await?;
    /// let charged = guard.during(async {
    ///     charge(1).await + charge(2).await
    /// });
    /// assert_eq!(charged.await?, 3);
    /// guard.release().await?; // success says that the lock was held until now
    /// # Ok(()) }
    /// ```
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> Result<T, LockError> {
        match select(pin!(self.lost()), pin!(work)).await {
            Either::Left(loss) => Err(self.lost_by(loss)),
            Either::Right(output) => Ok(output),
        }
    }

    /// Runs `work` under the lock, and releases it.
    pub(crate) async fn hold_during<T>(
        self,
        work: impl AsyncFnOnce(&Self) -> T,
    ) -> Result<T, LockError> {
        let output = self.during(work(&self)).await?;
        self.release().await?;
        Ok(output)
    }

    /// Gives the lock up if it is still held after `limit`, counted from now: the client deletes
    /// the node, the holder is told [`Loss::Overdue`], and its transactions under the lock fail.
    /// Use it for work that may get stuck. A second call replaces the first.
    ///
    /// From then on others may get the lock, whatever the holder does. As after any loss, only the
    /// fencing token and [`transaction`](Self::transaction) stop its late writes.
    pub fn limit_hold(&self, limit: Duration) {
        self.limit_from((self.client().now(), limit));
    }

    fn limit_from(&self, limit: Limit) {
        let Some(delete) = self.node().delete_for_limit() else {
            return;
        };
        let (hold, path) = (self.hold.clone(), self.path());
        let stage = {
            let mut state = hold.state();
            state.1 = Some(limit);
            state.0
        };
        hold.changed.notify_waiters();
        let (begin, length) = limit;
        let left = length.saturating_sub(self.client().now().saturating_duration_since(begin));
        let timer = self.client().raw().sleep(left);
        self.client().raw().run_in_background(async move {
            if let Either::Left(()) = select(pin!(hold.left(stage, Some(limit))), timer).await {
                return;
            }
            // The users are told before the delete is sent. If the guard deletes the node itself,
            // nothing else does.
            if hold.lost_as(stage, Loss::Overdue) {
                tracing::debug!(path, limit = ?length, "held for too long, deleting the node");
                delete.await;
            }
        });
    }

    /// How many more contenders the lock's directory can number. After that they are refused with
    /// [`LockError::SequenceExhausted`]. With less than a tenth of all numbers left, each grant is
    /// a warning in the log.
    #[must_use]
    pub fn headroom(&self) -> u32 {
        let used = name::number(self.node().name()).unwrap_or(0);
        u32::try_from(rank::SEQUENCE_LIMIT.saturating_sub(used)).unwrap_or(0)
    }

    /// Releases the lock, and waits until the servers have deleted its node.
    ///
    /// `Ok` says that the lock was held until now: it covered everything that was done under it. An
    /// error says that it did not, or that it is unknown.
    ///
    /// # Errors
    /// - [`LockError::Lost`] when the lock was lost: the client was told so before, the session has
    ///   ended, or the first delete found no node.
    /// - [`LockError::Session`] with an [unknown effect](LockError::effect) when the reply to the
    ///   delete was lost, and no node was found after that. The lock is free. Either this client
    ///   has released it, or another client has deleted the node before
    ///   ([`break_lock`](crate::break_lock)), and a third one may have held the lock meanwhile. If
    ///   a repeated delete finds the node, the result is `Ok`.
    /// - [`LockError::Session`] with a refusal when a server refused the delete, for example
    ///   because the client may not delete the node, which the error names. The client repeats the
    ///   delete in the background, with pauses, while the session lives. Until then the node blocks
    ///   the others ([`LockMetrics::not_deleted`](crate::LockMetrics::not_deleted)).
    ///
    /// A delete that a server has throttled is repeated after a pause.
    ///
    /// # Cancel safety
    /// The lock is released whether the future is awaited or dropped.
    pub async fn release(mut self) -> Result<(), LockError> {
        self.give_up()?;
        let deleted = self.node_mut().delete().await;
        deleted.map_err(|error| self.named(error))
    }

    /// Ends the hold, and tells its users, before the node is deleted. Fails if the lock is lost.
    pub(super) fn give_up(&self) -> Result<(), LockError> {
        if let Some(loss) = self.loss() {
            self.hold.lost(loss);
        }
        if self.hold.release() {
            return Ok(());
        }
        Err(self.lost_by(self.hold.why()))
    }

    /// The error with the path of the lock.
    pub(crate) fn named(&self, error: LockError) -> LockError {
        error.at(self.lock_path())
    }

    pub(super) fn lost_by(&self, loss: Loss) -> LockError {
        self.named(LockError::lost(loss))
    }

    /// Becomes a reader, with the token of the writer.
    pub(crate) async fn downgrade(mut self) -> Result<Self, LockError> {
        let [writer, reader] = [false, true].map(|as_reader| Stage::Held { as_reader });
        if !self.hold.enter(writer, reader) {
            return Err(self.lost_by(self.hold.why()));
        }
        let downgraded = self.node_mut().downgrade().await;
        self.of_own_node(downgraded)?;
        // The limit so far was for the writer's node.
        let limit = self.hold.state().1;
        if let Some(limit) = limit {
            self.limit_from(limit);
        }
        Ok(self)
    }

    pub(super) fn node(&self) -> &LockNode {
        (*self.node).borrow()
    }

    pub(super) fn node_mut(&mut self) -> &mut LockNode {
        (*self.node).borrow_mut()
    }

    /// How the lock was lost, if it was.
    fn loss(&self) -> Option<Loss> {
        self.node().session_loss().or_else(|| self.known_loss())
    }

    /// How the lock was lost, as far as this client has been told.
    pub(super) fn known_loss(&self) -> Option<Loss> {
        if self.node().saw_deletion() {
            self.hold.lost(Loss::Deleted);
        }
        self.hold.loss()
    }
}

/// Tells the users of the lock, then lets the node be deleted, unless that is not ours to do.
impl Drop for Guard {
    fn drop(&mut self) {
        if !self.hold.release() {
            self.node_mut().forget();
        }
        let (directory, since) = (&self.hold.directory, self.hold.since);
        let held = || directory.since(since);
        directory.count(|it| {
            it.hold.record(held());
            it.held -= 1;
        });
        if self.hold.loss().is_none() {
            tracing::debug!(parent: &self.hold.span, held = ?held(), "released");
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("path", &self.path())
            .field("token", &self.fencing_token().get())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
