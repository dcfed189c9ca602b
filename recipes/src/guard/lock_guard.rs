//! The guard of a held lock: its fencing token, its lease, and how to release it.
//!
//! Not here: writes that happen only while the lock is held (`transaction`), waiting for its loss
//! (`lost`).

use std::{
    fmt,
    future::Future,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::{Either, select};
use lockkeeper_proto::SessionId;
use lockkeeper_session::{Client, Error as SessionError};

use super::{
    FencingToken, LockState,
    hold::{Attempt, Hold, HoldEnd},
    lost::lost,
};
use crate::{
    error::{LockError, Loss},
    node::lock_node::LockNode,
    order::{name, rank},
};

/// With fewer sequence numbers left than this, a tenth of all, each grant is a warning in the log.
const SCARCE: u32 = 0x7fff_ffff / 10;

/// A held lock. Dropping the guard releases the lock in the background.
///
/// # Safety of the lock
/// [`is_valid`](Self::is_valid) is local and costs nothing. It turns false *before* any other
/// client can be granted the lock, as long as the clocks of this machine and of the servers run at
/// the same rate, and nobody deletes lock nodes by hand. No lock service can see that a process is
/// paused between this check and its next step. So give the [`fencing_token`](Self::fencing_token)
/// to the resource that the lock protects, or write through [`transaction`](Self::transaction).
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    hold: Hold,
    node: LockNode,
    token: FencingToken,
    session_id: SessionId,
}

impl Guard {
    /// The guard of a contender that was granted the lock.
    pub(crate) fn new(mut node: LockNode, attempt: Attempt) -> Result<Self, LockError> {
        node.keep_lease();
        let Some(tag) = node.node().map(|node| node.tag) else {
            return Err(LockError::lost(Loss::Deleted));
        };
        let token = u64::try_from(tag.czxid.0).unwrap_or(0);
        let guard = Self {
            token: FencingToken::new(token),
            session_id: tag.session_id,
            hold: attempt.granted(token),
            node,
        };
        let headroom = guard.headroom();
        if headroom < SCARCE {
            let path: &str = &guard.node.directory().path;
            tracing::warn!(
                path,
                headroom,
                "the numbers of the lock's directory are running out"
            );
        }
        Ok(guard)
    }

    /// The number with which a resource can refuse former holders.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// The path of the lock node.
    #[must_use]
    pub fn path(&self) -> String {
        self.node.path()
    }

    /// The client whose session holds the lock.
    #[must_use]
    pub fn client(&self) -> &Client {
        self.node.client()
    }

    /// How sure the lock is. Local: asks no server.
    ///
    /// The guard learns that another client has deleted the lock node only when a server reports
    /// it. It does so after a wait for the lock, and while [`lost`](Self::lost) is polled.
    #[must_use]
    pub fn state(&self) -> LockState {
        if let Some(loss) = self.node.session_loss().or_else(|| self.known_loss()) {
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
        matches!(self.state(), LockState::Held | LockState::Suspended { .. })
    }

    /// Waits until the lease of the session is valid, or the session is over. Returns whether it is
    /// valid.
    pub(crate) async fn lease_renewed(&self) -> bool {
        self.node.lease_renewed(self.session_id).await
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
        let confirmed = self.node.confirm().await;
        self.of_own_node(confirmed.map(|is_there| is_there.then_some(())))
    }

    pub(super) fn refuse_if_lost(&self) -> Result<(), LockError> {
        let loss = self.node.session_loss().or_else(|| self.known_loss());
        loss.map_or(Ok(()), |loss| Err(self.named(LockError::lost(loss))))
    }

    /// The result of a request about the lock node. `None` says that the node is gone.
    pub(super) fn of_own_node<T>(
        &self,
        result: Result<Option<T>, SessionError>,
    ) -> Result<T, LockError> {
        let error = match result {
            Ok(Some(result)) => return Ok(result),
            Ok(None) => LockError::lost(self.node.session_loss().unwrap_or(Loss::Deleted)),
            Err(error) => LockError::from(error),
        };
        let loss = self.failed(&error);
        Err(self.named(loss.map_or(error, LockError::lost)))
    }

    /// Waits until the lock can no longer be relied on, and returns why. [`Loss::Elapsed`] comes
    /// before any other client can get the lock.
    ///
    /// The future does not borrow the guard. It ends with [`Loss::Deleted`] when the guard is
    /// released or becomes a reader. While the future is polled, the client watches the lock node.
    ///
    /// # Cancel safety
    /// The future may be dropped, and the method called again.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + 'static {
        let (client, path) = (self.client().raw().downgrade(), self.path());
        let (session_id, end) = (self.session_id, self.hold.end().clone());
        // It may have been deleted: the watch has told this client.
        self.known_loss();
        let stage = end.stage();
        async move {
            let left = pin!(end.left(stage));
            // What this process has given up is told first: the servers tell of it when it is too
            // late.
            match select(left, pin!(lost(&client, &path, session_id))).await {
                // A lease that has ended may be renewed.
                Either::Right((Loss::Elapsed, _)) => {
                    end.elapsed();
                    Loss::Elapsed
                }
                Either::Right((loss, _)) => {
                    end.lost_as(stage, loss);
                    end.why()
                }
                Either::Left(_) => end.why(),
            }
        }
    }

    /// Gives the lock up if it is still held after `limit`, counted from now: the client deletes
    /// the node, the holder is told [`Loss::Overdue`], and its transactions under the lock fail.
    /// Use it for work that may get stuck. A second call replaces the first.
    ///
    /// From then on others may get the lock, whatever the holder does. As after any loss, only the
    /// fencing token and [`transaction`](Self::transaction) stop its late writes.
    pub fn limit_hold(&self, limit: Duration) {
        self.limit_from(self.client().now(), limit);
    }

    fn limit_from(&self, begin: Instant, limit: Duration) {
        let stopped = self.hold.limit_from(begin, limit);
        let Some(delete) = self.node.delete_for_limit() else {
            return;
        };
        let (path, end) = (self.path(), Arc::downgrade(self.hold.end()));
        let stage = self.hold.end().stage();
        let left = limit.saturating_sub(self.client().now().saturating_duration_since(begin));
        let timer = self.client().raw().sleep(left);
        self.client().raw().run_in_background(async move {
            if let Either::Left(_) = select(stopped, timer).await {
                return;
            }
            // The users are told before the delete is sent. If the guard deletes the node itself,
            // nothing else does.
            let end = end.upgrade();
            if end.is_some_and(|end| end.lost_as(stage, Loss::Overdue)) {
                tracing::debug!(path, ?limit, "held for too long, deleting the node");
                delete.await;
            }
        });
    }

    /// How long the lock has been held.
    #[must_use]
    pub fn held_for(&self) -> Duration {
        self.hold.held_for()
    }

    /// How many more contenders the lock's directory can number. After that they are refused with
    /// [`LockError::SequenceExhausted`]. With less than a tenth of all numbers left, each grant is
    /// a warning in the log.
    #[must_use]
    pub fn headroom(&self) -> u32 {
        let used = name::number(self.node.name()).unwrap_or(0);
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
        let deleted = self.node.delete().await;
        deleted.map_err(|error| self.named(error))
    }

    /// Ends the hold, and tells its users, before the node is deleted. Fails if the lock is lost.
    pub(super) fn give_up(&self) -> Result<(), LockError> {
        if let Some(loss) = self.node.session_loss().or_else(|| self.known_loss()) {
            self.hold.end().lost(loss);
        }
        if self.hold.end().release() {
            return Ok(());
        }
        Err(self.named(LockError::lost(self.hold.end().why())))
    }

    /// The error with the path of the lock.
    pub(crate) fn named(&self, error: LockError) -> LockError {
        error.at(self.lock_path())
    }

    /// The path of the lock: the parent of the lock node.
    pub(crate) fn lock_path(&self) -> &str {
        &self.node.directory().path
    }

    /// Becomes a reader, with the token of the writer.
    pub(crate) async fn downgrade(mut self) -> Result<Self, LockError> {
        if !self.hold.end().downgrade() {
            return Err(self.named(LockError::lost(self.hold.end().why())));
        }
        if let Err(error) = self.node.downgrade().await {
            let loss = self.failed(&error);
            return Err(self.named(loss.map_or(error, LockError::lost)));
        }
        // The limit so far was for the writer's node.
        if let Some((begin, limit)) = self.hold.limit() {
            self.limit_from(begin, limit);
        }
        Ok(self)
    }

    pub(super) fn node(&self) -> &LockNode {
        &self.node
    }

    /// The session that holds the lock.
    pub(crate) fn session_id(&self) -> SessionId {
        self.session_id
    }

    /// A transaction has deleted the lock node: there is nothing left to release.
    pub(crate) fn released(&mut self) {
        self.node.forget();
    }

    /// How the lock was lost, as far as this client has been told.
    pub(crate) fn known_loss(&self) -> Option<Loss> {
        let end = self.hold.end();
        if self.node.saw_deletion() {
            self.failed(&LockError::lost(Loss::Deleted));
        }
        end.loss()
    }

    /// Notes that an operation under the lock has failed, perhaps because the lock is lost. Returns
    /// how it was lost.
    pub(crate) fn failed(&self, error: &LockError) -> Option<Loss> {
        error.loss().map(|loss| self.hold.end().lost(loss))
    }

    /// How the hold ends.
    pub(super) fn end(&self) -> &HoldEnd {
        self.hold.end()
    }

    /// The reply to a transaction that releases the lock was lost.
    pub(crate) fn may_be_released(&mut self) {
        self.node.may_be_deleted();
    }
}

/// Tells the users of the lock, then lets the node be deleted, unless that is not ours to do.
impl Drop for Guard {
    fn drop(&mut self) {
        if !self.hold.end().release() {
            self.node.forget();
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("path", &self.path())
            .field("token", &self.token.get())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
