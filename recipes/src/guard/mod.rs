//! What a holder has in hand: the token, the lease, and the way to let go.
//!
//! Not here: writes that happen only under the lock (`guarded`).

pub(crate) mod hold;
pub(crate) mod transaction;

use std::{
    fmt,
    future::Future,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use futures::future::{Either, select};
use lockkeeper_proto::{EventType, SessionId};
use lockkeeper_session::{Client, Error as SessionError};

use crate::{
    error::{Error, Loss},
    guard::hold::{Attempt, Hold},
    node::name,
    node::{LockNode, session_loss},
    queue::rank,
};

/// Fewer numbers than this are few: a tenth of all.
const SCARCE: u32 = 0x7fff_ffff / 10;

/// A number that grows from holder to holder of a lock, across the whole ensemble: also when the lock's directory was
/// deleted and made again. It is the `czxid` of the lock node.
///
/// A resource that remembers the highest token it has seen, and refuses lower ones, is safe from a holder that was
/// paused and does not know yet that it lost the lock. It breaks only when the ensemble is rebuilt from nothing or
/// restored from an older backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How sure a holder can be of its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockState {
    /// A server keeps the session alive.
    Held,
    /// The connection is lost. Nobody else can have the lock before `until`, on the clock of [`Instant::now`].
    Suspended {
        /// The end of the lease.
        until: Instant,
    },
    /// The lease has run out without a word from a server: stop. It may turn out that the lock was never lost.
    Elapsed,
    /// The lock is lost for good.
    Lost(Loss),
}

/// A lock that is held. Dropping it releases the lock in the background.
///
/// # Safety of the lock
/// [`is_valid`](Self::is_valid) is local, costs nothing, and turns false *before* any other client can be granted the
/// lock, as long as the clocks of this machine and the servers run at the same rate. What no lock service can see is a
/// process that is paused between that look and its next step: give the [`fencing_token`](Self::fencing_token) to
/// whatever the lock protects, or write through [`transaction`](Self::transaction).
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    /// Dropped before the contender: the node that goes then was let go of, not lost.
    hold: Hold,
    lock_node: LockNode,
    token: FencingToken,
    session_id: SessionId,
}

impl Guard {
    /// The guard of a contender whose turn it is.
    pub(crate) fn new(lock_node: LockNode, attempt: Attempt) -> Result<Self, Error> {
        let Some(node) = lock_node.node() else {
            return Err(Error::Lost(Loss::Deleted));
        };
        let token = u64::try_from(node.czxid.0).unwrap_or(0);
        let guard = Self {
            token: FencingToken(token),
            session_id: node.session_id,
            hold: attempt.granted(token),
            lock_node,
        };
        if guard.headroom() < SCARCE {
            let (path, headroom) = (&guard.lock_node.directory().path, guard.headroom());
            tracing::warn!(
                path,
                headroom,
                "the numbers of the lock's directory are running out"
            );
        }
        Ok(guard)
    }

    /// The number by which a resource can refuse holders of the past.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// The lock node.
    #[must_use]
    pub fn path(&self) -> String {
        self.lock_node.path()
    }

    /// The client whose session holds the lock.
    #[must_use]
    pub fn client(&self) -> &Client {
        self.lock_node.client()
    }

    /// How sure the lock is. Local: asks no server.
    ///
    /// That somebody deleted the node by hand is known here once a server has told: after a wait for the lock, or while
    /// [`lost`](Self::lost) is awaited.
    #[must_use]
    pub fn state(&self) -> LockState {
        if let Some(loss) = self.lock_node.session_loss() {
            return LockState::Lost(loss);
        }
        if let Some(loss) = self.known_loss() {
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

    /// Whether nobody else can hold the lock now. Local: asks no server.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        matches!(self.state(), LockState::Held | LockState::Suspended { .. })
    }

    /// Until when nobody else can hold the lock, should no server be heard of any more; `None` when it is lost. It moves
    /// on while the session is connected.
    #[must_use]
    pub fn valid_until(&self) -> Option<Instant> {
        match self.state() {
            LockState::Lost(_) => None,
            _ => self.client().lease().valid_until,
        }
    }

    /// Waits until the lock cannot be relied on any more, and tells why: [`Loss::Elapsed`] comes before any other client
    /// can have the lock.
    ///
    /// The future does not borrow the guard, and ends with [`Loss::Deleted`] when the guard is released. While it is
    /// polled the lock node is watched.
    ///
    /// # Cancel safety
    /// It may be dropped and called again.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + 'static {
        let (client, path) = (self.client().downgrade(), self.path());
        let (session_id, end) = (self.session_id, self.hold.end().clone());
        let known = self.known_loss();
        async move {
            let loss = match known {
                Some(loss) => loss,
                None => lost(&client, &path, session_id).await,
            };
            // A lease that has run out is not the last word.
            if loss == Loss::Elapsed {
                end.elapsed();
                loss
            } else {
                end.lost(loss)
            }
        }
    }

    /// Gives the lock up by force when it is still held after `limit`, counted from now: the node is deleted, the holder is
    /// told [`Loss::Overdue`], and its writes under the lock fail. For work that may get stuck with the lock in its hands.
    /// A second call replaces the first.
    ///
    /// Others may have the lock from then on, whatever the holder is doing: as with any loss, only the fencing token and
    /// [`transaction`](Self::transaction) keep its late writes out.
    pub fn limit_hold(&self, limit: Duration) {
        let begin = tokio::time::Instant::now();
        let far = Duration::from_secs(86400 * 365 * 30);
        let until = begin.checked_add(limit).unwrap_or(begin + far);
        self.limit_until(until, limit);
    }

    fn limit_until(&self, until: tokio::time::Instant, limit: Duration) {
        let called_off = self.hold.watched(until);
        let delete_started = self.lock_node.delete_started().clone();
        let (identity, node) = (self.lock_node.identity().detached(), self.lock_node.node());
        let (Some(node), path) = (node.cloned(), self.path()) else {
            return;
        };
        let end = Arc::downgrade(self.hold.end());
        self.client().run_in_background(async move {
            let timer = pin!(tokio::time::sleep_until(until));
            if let Either::Left(_) = select(called_off, timer).await {
                return;
            }
            let Some(end) = end.upgrade() else { return };
            if delete_started.swap(true, Ordering::AcqRel) {
                return;
            }
            end.lost(Loss::Overdue);
            tracing::debug!(path, ?limit, "held for too long, deleting the node");
            let reply = identity.delete(&node);
            identity.finish_delete(&node, reply).await;
        });
    }

    /// How long the lock has been held.
    #[must_use]
    pub fn held_for(&self) -> Duration {
        self.hold.since().elapsed()
    }

    /// How many more contenders the lock's directory can number before they are refused with
    /// [`Error::SequenceExhausted`]. Below a tenth of all numbers each grant is a warning in the log.
    #[must_use]
    pub fn headroom(&self) -> u32 {
        let number = self
            .lock_node
            .node()
            .and_then(|node| name::number(&node.name));
        let used = number.unwrap_or(0);
        u32::try_from(rank::SEQUENCE_LIMIT.saturating_sub(used)).unwrap_or(0)
    }

    /// Releases the lock and waits until it is free.
    ///
    /// Success says that the lock was held until now: everything that was done under it was covered. An error says that
    /// it was not, or that nobody knows.
    ///
    /// # Errors
    /// [`Error::Lost`] when the lock had been lost.
    ///
    /// # Cancel safety
    /// The lock is released whether the future is awaited or dropped.
    pub async fn release(self) -> Result<(), Error> {
        if let Some(loss) = self.lock_node.session_loss().or(self.known_loss()) {
            return Err(Error::Lost(self.hold.end().lost(loss)));
        }
        let Self {
            hold, lock_node, ..
        } = self;
        hold.end().released();
        lock_node.delete().await
    }

    /// Becomes a reader, with the token of the writer.
    pub(crate) async fn downgrade(self) -> Result<Self, Error> {
        let Self {
            hold,
            lock_node,
            token,
            session_id,
        } = self;
        let lock_node = lock_node.downgrade().await?;
        let reader = Self {
            hold,
            lock_node,
            token,
            session_id,
        };
        // Whoever watches over the length of the hold knows of the writer's node.
        if let Some(until) = reader.hold.limit() {
            reader.limit_until(until, reader.held_for());
        }
        Ok(reader)
    }

    /// Nobody else lets go of the lock from now on.
    pub(crate) fn stop_hold_limit(&self) {
        self.hold.unwatched();
    }

    /// The session that holds the lock.
    pub(crate) fn session_id(&self) -> SessionId {
        self.session_id
    }

    /// The lock node was deleted by somebody who has told: there is nothing to release any more.
    pub(crate) fn released(&mut self) {
        self.lock_node.forget();
    }

    /// How the lock was lost, as far as anybody has told.
    pub(crate) fn known_loss(&self) -> Option<Loss> {
        let end = self.hold.end();
        if self.lock_node.saw_deletion() {
            end.lost(Loss::Deleted);
        }
        end.loss()
    }

    /// An operation under the lock has failed: perhaps because the lock is lost.
    pub(crate) fn told(&self, error: &Error) {
        if let Error::Lost(loss) = error {
            self.hold.end().lost(*loss);
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("path", &self.path())
            .field("token", &self.token.0)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

/// Waits for the end of a node, of its session, or of the session's lease.
async fn lost(client: &Client, path: &str, session_id: SessionId) -> Loss {
    let mut snapshots = client.snapshots();
    // The connection on which no watch is to be had.
    let (mut watcher, mut blind) = (None, None);
    loop {
        let connection = Some(snapshots.borrow_and_update().connections);
        let lease = client.lease();
        if let Some(loss) = session_loss(client, session_id) {
            return loss;
        }
        let Some(until) = lease.valid_until.filter(|_| lease.is_valid) else {
            return Loss::Elapsed;
        };
        if watcher.is_none() && blind != connection {
            watcher = client
                .watch_nodes(&[path])
                .ok()
                .and_then(|mut watchers| watchers.pop());
        }
        let event = async {
            match watcher.as_mut() {
                Some(watcher) => watcher.await,
                None => std::future::pending().await,
            }
        };
        let changed = snapshots.changed();
        let elapsed = tokio::time::sleep(until.saturating_duration_since(client.now()));
        let (event, changed, elapsed) = (pin!(event), pin!(changed), pin!(elapsed));
        let other = select(changed, elapsed);
        match select(event, other).await {
            Either::Left((Ok(event), _)) if event.event_type == EventType::NODE_DELETED => {
                return session_loss(client, session_id).unwrap_or(Loss::Deleted);
            }
            // Its data changed, or the watch ended with the session: look again.
            Either::Left((Ok(_) | Err(SessionError::SessionExpired { .. }), _)) => watcher = None,
            // No watch is to be had from this server; perhaps from another.
            Either::Left((Err(_), _)) => {
                watcher = None;
                blind = connection;
            }
            Either::Right((Either::Left((Err(_), _)), _)) => return Loss::Closed,
            Either::Right(_) => {}
        }
    }
}
