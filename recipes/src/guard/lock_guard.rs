//! From the attempt to get a lock to the guard of the held lock, and how that ends. The attempt and the
//! hold are one span in the log (`docs/logging.md`).
//!
//! Not here: whose turn it is (`queue`), writes that happen only while the lock is held
//! (`transaction`), what tells of its loss (`lost`), the token itself (`token`).

use std::{
    fmt,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use lockkeeper_proto::SessionId;
use lockkeeper_session::{
    AsRaw, Client,
    sync::{
        Notify,
        select::{Either, select},
    },
};

use super::token::FencingToken;
use crate::{
    error::{LockError, Loss},
    node::{BoxedNode, HeldNode, Node, directory::Directory},
    order::{name, rank},
};

/// With fewer sequence numbers left than this, a tenth of all, each grant is a warning in the log.
const SCARCE: u32 = 0x7fff_ffff / 10;

/// An attempt to get a lock. If it is dropped before the grant, it counts as given up.
#[derive(Debug)]
pub(crate) struct Attempt {
    directory: Arc<Directory>,
    since: Instant,
    is_contended: AtomicBool,
    is_settled: bool,
    span: tracing::Span,
}

impl Attempt {
    pub(crate) fn new(directory: &Arc<Directory>) -> Self {
        Self::since(directory, directory.clock.running())
    }

    fn since(directory: &Arc<Directory>, since: Instant) -> Self {
        directory.count(|it| it.waiting += 1);
        let (path, kind) = directory.names();
        Self {
            directory: directory.clone(),
            since,
            is_contended: AtomicBool::new(false),
            is_settled: false,
            span: tracing::debug_span!("lock", path, kind),
        }
    }

    /// A look showed a contender ahead. The first one counts.
    pub(crate) fn contended(&self) {
        if !self.is_contended.swap(true, Ordering::Relaxed) {
            self.directory.count(|it| it.contended += 1);
            tracing::debug!(parent: &self.span, "waiting for contenders ahead");
        }
    }

    /// The lock is granted, with this fencing token.
    pub(super) fn granted(mut self, token: FencingToken) -> Hold {
        self.is_settled = true;
        let since = self.directory.clock.running();
        let waited = || since.saturating_duration_since(self.since);
        self.directory.count(|it| {
            it.acquired += 1;
            it.wait.record(waited());
            it.held += 1;
        });
        tracing::debug!(parent: &self.span, token = token.get(), waited = ?waited(), "granted");
        Hold::new(self.directory.clone(), since, token, self.span.clone())
    }

    /// The guard of a node whose turn has come.
    pub(crate) fn guard(self, node: BoxedNode) -> Result<Guard, LockError> {
        let own = node.own().map(|own| own.tag);
        let tag = own.map_err(|error| error.at(&self.directory.path))?;
        let hold = self.granted(FencingToken::of(tag.czxid));
        Ok(Guard::new(node, tag.session_id, hold))
    }

    /// The guards of these nodes, whose turn has come together.
    pub(crate) fn guards(mut self, nodes: Vec<BoxedNode>) -> Result<Vec<Guard>, LockError> {
        // Without a node, nothing was asked for.
        self.is_settled = nodes.is_empty();
        let others = (1..nodes.len()).map(|_| Self::since(&self.directory, self.since));
        let attempts: Vec<_> = others.collect();
        let granted = attempts.into_iter().chain([self]).zip(nodes);
        granted.map(|(attempt, node)| attempt.guard(node)).collect()
    }

    /// The result of this attempt. Without a node it was a try, and another contender has the lock.
    pub(crate) fn ended(
        self,
        node: Result<Option<BoxedNode>, LockError>,
    ) -> Result<Option<Guard>, LockError> {
        match node {
            Ok(Some(node)) => self.guard(node).map(Some),
            Ok(None) => Ok(self.refused()),
            Err(error) => Err(error.at(&self.directory.path)),
        }
    }

    pub(crate) fn refused<T>(mut self) -> Option<T> {
        self.is_settled = true;
        self.directory.count(|it| it.refused += 1);
        tracing::debug!(parent: &self.span, "held by another contender, not waiting");
        None
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.directory.count(|it| it.waiting -= 1);
        if !self.is_settled {
            self.directory.count(|it| it.given_up += 1);
            let waited = self.directory.since(self.since);
            tracing::debug!(parent: &self.span, ?waited, "given up");
        }
    }
}

/// What became of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
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
pub(super) type Limit = (Instant, Duration);

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

    pub(super) fn token(&self) -> FencingToken {
        self.token
    }

    /// The path of the lock.
    pub(super) fn path(&self) -> &str {
        &self.directory.path
    }

    pub(super) fn stage(&self) -> Stage {
        self.state().0
    }

    pub(super) fn is_held(&self) -> bool {
        matches!(self.stage(), Stage::Held { .. })
    }

    /// How the lock was lost, if it is known to be lost.
    pub(super) fn loss(&self) -> Option<Loss> {
        match self.stage() {
            Stage::Lost(loss) => Some(loss),
            Stage::Held { .. } | Stage::Released => None,
        }
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
    pub(super) async fn left(&self, stage: Stage, limit: Option<Limit>) {
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
    pub(super) fn lost_as(&self, stage: Stage, loss: Loss) -> bool {
        let is_lost = self.enter(stage, Stage::Lost(loss));
        if is_lost {
            self.directory.count(|it| it.lost += 1);
            let ((path, kind), token) = (self.directory.names(), self.token.get());
            tracing::warn!(parent: &self.span, path, kind, token, %loss, "lock lost");
        }
        is_lost
    }

    /// The lease has ended. It may be renewed.
    pub(super) fn elapsed(&self) {
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
///
/// # What a question costs
/// | question | requests | what the answer says |
/// |---|---|---|
/// | [`Guard::is_valid`], [`Guard::ensure_valid`] | none | no other client can hold the lock now |
/// | [`Guard::state`], [`Guard::valid_until`] | none | how sure that is, and until when |
/// | [`Guard::view`] | none | the same, for handlers on other tasks |
/// | [`Guard::lost`], [`Guard::during`] | one watch | nothing before the lock is in doubt |
/// | [`Guard::confirm`] | one write (a plain lock: and a read) | held at an instant of the call |
/// | [`Guard::transaction`] | none but its own | held when the writes happened |
/// | [`Guard::release`] | one delete | held until then |
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

    /// Waits until the lease of the session is good for a grant, or the session is over. Returns
    /// whether it is good.
    pub(crate) async fn lease_renewed(&self) -> bool {
        self.node().lease_renewed(self.session_id).await
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
        self.loss()
            .map_or(Ok(()), |loss| Err(self.lost_by(Some(loss))))
    }

    /// The result of a request about the lock node.
    pub(super) fn of_own_node<T>(&self, result: Result<T, LockError>) -> Result<T, LockError> {
        result.map_err(|error| {
            let loss = error.loss().map(|loss| self.hold.lost(loss));
            self.named(loss.map_or(error, LockError::lost))
        })
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
        self.of_own_node(deleted)
    }

    /// Ends the hold, and tells its users, before the node is deleted. Fails if the lock is lost.
    pub(super) fn give_up(&self) -> Result<(), LockError> {
        if let Some(loss) = self.loss() {
            self.hold.lost(loss);
        }
        if self.hold.release() {
            return Ok(());
        }
        Err(self.lost_by(self.hold.loss()))
    }

    /// The error with the path of the lock.
    pub(crate) fn named(&self, error: LockError) -> LockError {
        error.at(self.lock_path())
    }

    /// Without a loss, this program has given the lock up, and its node is deleted.
    pub(super) fn lost_by(&self, loss: Option<Loss>) -> LockError {
        self.named(LockError::lost(loss.unwrap_or(Loss::Deleted)))
    }

    /// Becomes a reader, with the token of the writer.
    pub(crate) async fn downgrade(mut self) -> Result<Self, LockError> {
        let [writer, reader] = [false, true].map(|as_reader| Stage::Held { as_reader });
        if !self.hold.enter(writer, reader) {
            return Err(self.lost_by(self.hold.loss()));
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

    pub(crate) fn node(&self) -> &Node {
        (*self.node).borrow()
    }

    pub(super) fn node_mut(&mut self) -> &mut Node {
        (*self.node).borrow_mut()
    }

    /// How the lock was lost, if it was.
    pub(super) fn loss(&self) -> Option<Loss> {
        self.node().session_loss().or_else(|| self.known_loss())
    }

    /// How the lock was lost, as far as this client has been told.
    pub(super) fn known_loss(&self) -> Option<Loss> {
        if self.node().is_gone() {
            self.hold.lost(Loss::Deleted);
        }
        self.hold.loss()
    }
}

/// Tells the users of the lock, then lets the node be deleted, unless that is not ours to do.
impl Drop for Guard {
    fn drop(&mut self) {
        // Nobody may have asked. The end of the client is no loss to somebody who drops the guard.
        let is_lost = |loss: &Loss| self.hold.is_held() && *loss != Loss::Closed;
        if let Some(loss) = self.loss().filter(is_lost) {
            self.hold.lost(loss);
        }
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
