//! How sure a holder can be of its lock, and what tells it of the loss: the deletion of its node, and
//! the ends of its session and of its lease.
//!
//! Not here: how a hold ends (`lock_guard`).

use std::{
    fmt,
    future::Future,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use lockkeeper_proto::{EventType, SessionId, path};
use lockkeeper_session::{
    AsRaw, Client,
    sync::select::{Either, select},
};

use super::{
    FencingToken, Guard,
    lock_guard::{Hold, Stage},
};
use crate::{
    backoff::Rounds,
    error::{LockError, Loss},
    node::session_loss,
};

/// How late a holder hears of the end of its lease, at most, after the computer has slept.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// How sure a holder can be of its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockState {
    /// The client is connected, and its lease is valid.
    Held,
    /// The connection is lost. No other client can get the lock before `until`, on the clock of
    /// [`Instant::now`].
    #[non_exhaustive]
    Suspended {
        /// The end of the lease.
        until: Instant,
    },
    /// The lease has ended, and no server has renewed it: stop. It may turn out later that the lock
    /// was never lost.
    Elapsed,
    /// The lock is lost for good.
    Lost(Loss),
}

impl LockState {
    /// Why the lock cannot be relied on, if it cannot.
    pub(crate) fn loss(self) -> Option<Loss> {
        match self {
            Self::Held | Self::Suspended { .. } => None,
            Self::Elapsed => Some(Loss::Elapsed),
            Self::Lost(loss) => Some(loss),
        }
    }
}

impl Guard {
    /// How sure the lock is. Local: asks no server.
    ///
    /// The guard learns that somebody has deleted the lock node when a server reports it: at once
    /// while [`lost`](Self::lost) is polled, and after a wait for the lock, as long as nobody
    /// [asks for a release](crate::revoke). Otherwise the next proof of the lease tells, within some
    /// `T / 3` while a server answers, where `T` is the session timeout; with more than 16 locks in
    /// one session they take turns. A [`PlainMutex`](crate::PlainMutex) does not hear of it in this
    /// way if the next holder has made its node already.
    #[must_use]
    pub fn state(&self) -> LockState {
        // In this order: the proof that makes a lease valid again has looked for the node.
        let lease = self.client().lease();
        if let Some(loss) = self.loss() {
            return LockState::Lost(loss);
        }
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

    /// [`is_valid`](Self::is_valid) as a result: for work in steps, which asks before each of them.
    /// Local: asks no server.
    ///
    /// # Errors
    /// [`LockError::Lost`] when another client may hold the lock.
    pub fn ensure_valid(&self) -> Result<(), LockError> {
        let loss = self.state().loss();
        loss.map_or(Ok(()), |loss| Err(self.lost_by(Some(loss))))
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

    /// Waits until the lock can no longer be relied on, and returns how it was lost.
    /// [`Loss::Elapsed`] comes before any other client can get the lock.
    ///
    /// The future does not borrow the guard. It ends with `None`, which is no loss, when this
    /// program releases the lock or makes its writer a reader. While the future is polled, the
    /// client watches the lock node.
    ///
    /// # Cancel safety
    /// The future may be dropped, and the method called again.
    pub fn lost(&self) -> impl Future<Output = Option<Loss>> + Send + 'static {
        let (client, path) = (self.client().raw().downgrade(), self.path());
        // It may have been deleted: the watch has told this client.
        self.known_loss();
        let stage = self.hold.stage();
        ended(self.hold.clone(), stage, client, path, self.session_id)
    }

    /// What another task needs to ask whether this lock is held. It does not borrow the guard, and
    /// keeps neither the lock nor the session.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # use lockkeeper_recipes as lockkeeper;
    /// let guard = lockkeeper::Mutex::new(&client, "/locks/orders")?.lock().await?;
    /// let view = guard.view();
    /// let handler = tokio::spawn(async move {
    ///     view.ensure_valid()?;
    ///     Ok::<_, lockkeeper::LockError>(view.fencing_token())
    /// });
    /// assert_eq!(handler.await??, guard.fencing_token());
    /// let view = guard.view();
    /// guard.release().await?;
    /// assert!(!view.is_valid());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn view(&self) -> GuardView {
        GuardView {
            hold: self.hold.clone(),
            stage: self.hold.stage(),
            client: self.client().raw().downgrade(),
            session_id: self.session_id,
            path: self.path().into(),
            is_gone: Arc::new(self.node().gone_sign()),
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
}

/// Waits until a hold leaves this stage, or can no longer be relied on, and returns how it was lost.
async fn ended(
    hold: Arc<Hold>,
    stage: Stage,
    client: Client,
    path: impl AsRef<str>,
    session_id: SessionId,
) -> Option<Loss> {
    let left = pin!(hold.left(stage, None));
    // What this process has given up is told first: the servers tell of it when it is too late.
    match select(left, pin!(lost(&client, path.as_ref(), session_id))).await {
        // A lease that has ended may be renewed.
        Either::Right(Loss::Elapsed) => {
            hold.elapsed();
            Some(Loss::Elapsed)
        }
        Either::Right(loss) => {
            hold.lost_as(stage, loss);
            hold.loss()
        }
        Either::Left(()) => hold.loss(),
    }
}

/// A view of a held lock, for handlers on other tasks: whether it is held, by the same lease and the
/// same signs of a loss as those of its guard. Made by [`Guard::view`].
///
/// Cheap to clone. It holds nothing up: the lock is released with its guard, and the session ends
/// with the clients and guards, whatever views are left. Like the guard, it needs the fencing token
/// where a late request must not count: see [`Guard`].
#[derive(Clone)]
pub struct GuardView {
    hold: Arc<Hold>,
    /// The stage of the hold when the view was made. It ends with the release, with the loss, and
    /// when a writer becomes a reader.
    stage: Stage,
    client: Client,
    session_id: SessionId,
    path: Arc<str>,
    is_gone: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl GuardView {
    /// The number with which a resource can refuse former holders.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.hold.token()
    }

    /// Whether the guard still holds the lock, and no other client can hold it now. Local: asks no
    /// server. It turns false no later than [`Guard::is_valid`], and before the guard's release or
    /// drop sends anything. For a writer that becomes a reader it turns false, too.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.state().is_ok()
    }

    /// [`is_valid`](Self::is_valid) as a result, as [`Guard::ensure_valid`].
    ///
    /// # Errors
    /// [`LockError::Lost`] when another client may hold the lock, with [`Loss::Deleted`] after a
    /// release.
    pub fn ensure_valid(&self) -> Result<(), LockError> {
        let lost = |loss: Option<Loss>| LockError::lost(loss.unwrap_or(Loss::Deleted));
        self.state().map_err(|loss| lost(loss).at(self.hold.path()))
    }

    /// Waits until the lock can no longer be relied on, as [`Guard::lost`] does, and returns how it
    /// was lost; `None` is a release.
    ///
    /// # Cancel safety
    /// The future may be dropped, and the method called again.
    pub fn lost(&self) -> impl Future<Output = Option<Loss>> + Send + 'static {
        // It may have been deleted: a watch has told this client.
        let _ = self.state();
        let (hold, client) = (self.hold.clone(), self.client.clone());
        ended(hold, self.stage, client, self.path.clone(), self.session_id)
    }

    /// The error is the loss, if this is no release.
    fn state(&self) -> Result<(), Option<Loss>> {
        // In this order: see `Guard::state`.
        let lease = self.client.lease();
        let is_current = || self.hold.stage() == self.stage && self.hold.is_held();
        // A later stage has another node, whose signs are not for this view to take.
        if is_current() && (self.is_gone)() {
            self.hold.lost_as(self.stage, Loss::Deleted);
        }
        if !is_current() {
            return Err(self.hold.loss());
        }
        if let Some(loss) = session_loss(&self.client, self.session_id) {
            return Err(Some(loss));
        }
        if lease.is_valid && lease.session_id == self.session_id {
            return Ok(());
        }
        Err(Some(Loss::Elapsed))
    }
}

impl fmt::Debug for GuardView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardView")
            .field("path", &self.path)
            .field("token", &self.fencing_token().get())
            .field("is_valid", &self.is_valid())
            .finish_non_exhaustive()
    }
}

/// Waits for the deletion of a node, the end of its session, or the end of the session's lease.
pub(crate) async fn lost(client: &Client, path: &str, session_id: SessionId) -> Loss {
    let (mut watches, server_path) = (None, client.raw().server_path(path));
    // Not earlier: somebody may change the data of the node all the time, or the server may set no
    // watch.
    let (mut rounds, mut watch_at) = (Rounds::default(), client.now());
    loop {
        let raw = client.raw();
        let changed = raw.snapshot_changed();
        let lease = client.lease();
        if let Some(loss) = session_loss(client, session_id) {
            return loss;
        }
        let Some(until) = lease.valid_until.filter(|_| lease.is_valid) else {
            return Loss::Elapsed;
        };
        let now = client.now();
        if watches.is_none() && watch_at <= now {
            if let Some(parent) = path::parent(&server_path) {
                let group = watches.insert(raw.watch_group());
                group.watch(parent, vec![path::name(&server_path).into()]);
            }
        }
        // Timers stand still while the computer sleeps; the lease does not.
        let left = until.saturating_duration_since(now);
        let pause = watch_at.saturating_duration_since(now);
        let longest = if pause.is_zero() {
            LONGEST_SLEEP
        } else {
            pause
        };
        let happened = {
            let event = async {
                match &watches {
                    Some(group) => group.next().await,
                    None => std::future::pending().await,
                }
            };
            let elapsed = raw.sleep(left.min(longest));
            let (event, changed, elapsed) = (pin!(event), pin!(changed), pin!(elapsed));
            select(event, select(changed, elapsed)).await
        };
        match happened {
            Either::Left(Ok(event)) if event.event_type == EventType::NODE_DELETED => {
                return session_loss(client, session_id).unwrap_or(Loss::Deleted);
            }
            // The data changed, or the watch has ended: look again.
            Either::Left(_) => {
                watches = None;
                watch_at = client.now();
                watch_at += rounds.begin(watch_at);
            }
            Either::Right(_) => {}
        }
    }
}
