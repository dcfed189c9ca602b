//! Several locks at once, all or none.
//!
//! Not here: transactions under several locks (`guard::transaction`).

use std::{
    future::poll_fn,
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::Poll,
    time::{Duration, Instant},
};

use lockkeeper_session::{
    AsRaw, OpResult,
    sync::{
        BoxFuture,
        select::{Either, select},
    },
};

use super::{mutex::Mutex, plain::PlainMutex, rw_lock::RwLock, semaphore::Semaphore};
use crate::{
    backoff::Rounds,
    error::{LockError, Loss},
    guard::{
        Guard, LockState,
        transaction::{GuardedTransaction, release_with},
    },
    node::directory::Directory,
    queue::{
        lock_queue::LockQueue,
        timeout::{in_the_way, timeout_at},
    },
};

/// How long a multi-lock waits for its next lock before it watches those that it holds: longer than
/// the round trips to a free lock.
const SHORT_WAIT: Duration = Duration::from_millis(100);

/// One of the locks of a [`MultiLock`]. Made from a lock with `From`, or with [`read`](Self::read)
/// and [`write`](Self::write).
#[derive(Clone, Debug)]
pub struct Member(Lock);

#[derive(Clone, Debug)]
enum Lock {
    Queue(LockQueue),
    Plain(PlainMutex),
    Semaphore(Semaphore),
}

impl Member {
    /// The lock as a reader.
    #[must_use]
    pub fn read(lock: &RwLock) -> Self {
        Self(Lock::Queue(lock.readers.clone()))
    }

    /// The lock as a writer.
    #[must_use]
    pub fn write(lock: &RwLock) -> Self {
        Self(Lock::Queue(lock.writers.clone()))
    }

    fn directory(&self) -> &Directory {
        match &self.0 {
            Lock::Queue(queue) => &queue.directory,
            Lock::Plain(lock) => &lock.directory,
            Lock::Semaphore(lock) => &lock.permits,
        }
    }

    /// The path on the servers, chroot included.
    fn server_path(&self) -> String {
        let Directory { client, path, .. } = self.directory();
        client.raw().server_path(path)
    }

    fn lock(&self) -> BoxFuture<'_, Result<Guard, LockError>> {
        match &self.0 {
            Lock::Queue(lock) => lock.lock(),
            Lock::Plain(lock) => Box::pin(lock.lock()),
            Lock::Semaphore(lock) => Box::pin(lock.acquire()),
        }
    }

    fn try_lock(&self) -> BoxFuture<'_, Result<Option<Guard>, LockError>> {
        match &self.0 {
            Lock::Queue(lock) => Box::pin(lock.try_lock()),
            Lock::Plain(lock) => Box::pin(lock.try_lock()),
            Lock::Semaphore(lock) => Box::pin(lock.try_acquire()),
        }
    }
}

impl From<&Mutex> for Member {
    fn from(mutex: &Mutex) -> Self {
        Self(Lock::Queue(mutex.queue.clone()))
    }
}

impl From<&PlainMutex> for Member {
    fn from(mutex: &PlainMutex) -> Self {
        Self(Lock::Plain(mutex.clone()))
    }
}

impl From<&Semaphore> for Member {
    fn from(semaphore: &Semaphore) -> Self {
        Self(Lock::Semaphore(semaphore.clone()))
    }
}

/// Several locks that are acquired together: all of them, or none.
///
/// It acquires the locks one after the other, in the order of their paths, chroots included. So two
/// multi-locks with common locks cannot deadlock. It releases them in reverse order. When one lock
/// cannot be acquired, it releases those that it has, and does not try the rest.
#[derive(Clone, Debug)]
pub struct MultiLock {
    members: Vec<Member>,
}

impl MultiLock {
    /// A multi-lock of these locks. Sends nothing.
    ///
    /// # Errors
    /// [`LockError::SelfDeadlock`] when two members have the same path. The second one would wait
    /// for the first. This is so even for locks that can be shared: a writer may enter the queue
    /// between two readers, and two clients may each hold one of two permits.
    pub fn new(members: impl IntoIterator<Item = Member>) -> Result<Self, LockError> {
        let mut members: Vec<_> = members.into_iter().collect();
        members.sort_by_cached_key(Member::server_path);
        for pair in members.windows(2) {
            if let [one, other] = pair {
                if one.server_path() == other.server_path() {
                    let path = one.directory().path.to_string();
                    return Err(LockError::SelfDeadlock { path });
                }
            }
        }
        Ok(Self { members })
    }

    /// Waits for all the locks. When the session of those that it has expires, it starts again from
    /// the first one.
    ///
    /// # Errors
    /// - The error of the first lock that could not be acquired. The locks before it are released.
    /// - [`LockError::Lost`] when a node of ours was deleted before the last lock was acquired. All of
    ///   them are released. If another client deletes a node of ours right before that, [`MultiGuard::lost`]
    ///   reports it.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time. The client then deletes its nodes, so that they block
    /// no other contender.
    pub async fn lock(&self) -> Result<MultiGuard, LockError> {
        self.all(&AtomicUsize::new(0)).await
    }

    /// Waits for all the locks as [`lock`](Self::lock) does, but for at most `wait` together.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and [`LockError::TimedOut`].
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn try_lock_for(&self, wait: Duration) -> Result<MultiGuard, LockError> {
        let Some(first) = self.members.first() else {
            return self.lock().await;
        };
        let (client, held) = (&first.directory().client, AtomicUsize::new(0));
        let in_its_way = |member: &Member| {
            let Directory { client, path, .. } = member.directory();
            in_the_way(client, path)
        };
        // First of the one that it waits for. Those that it holds need their leases, too.
        let all = timeout_at(client, wait, Box::pin(self.all(&held)), || {
            let tried = self.members.iter().take(1 + held.load(Ordering::Relaxed));
            tried.rev().find_map(in_its_way)
        });
        let all = all.await;
        let waiting_for = self.members.get(held.into_inner()).unwrap_or(first);
        all.map_err(|error| error.at(&waiting_for.directory().path))
    }

    /// Takes all the locks if each of them is free; otherwise returns `None`.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and as [`Mutex::try_lock`] of each lock.
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    pub async fn try_lock(&self) -> Result<Option<MultiGuard>, LockError> {
        self.acquired(&AtomicUsize::new(0), false).await
    }

    /// Waits for all the locks, and counts those that are held.
    async fn all(&self, count: &AtomicUsize) -> Result<MultiGuard, LockError> {
        let mut rounds = Rounds::default();
        loop {
            match (self.acquired(count, true).await, self.members.first()) {
                (Ok(Some(held)), _) => return Ok(held),
                (Err(error), Some(first)) => {
                    rounds.again(&first.directory().client, error).await?;
                }
                // Who waits is not refused.
                (refused, _) => drop(refused?),
            }
        }
    }

    /// Acquires all the locks. It `waits` for them, or is refused if one of them is not free.
    async fn acquired(
        &self,
        count: &AtomicUsize,
        waits: bool,
    ) -> Result<Option<MultiGuard>, LockError> {
        let mut held = MultiGuard { guards: Vec::new() };
        for member in &self.members {
            count.store(held.guards.len(), Ordering::Relaxed);
            let next = if waits {
                held.and(member.lock()).await.map(Some)
            } else {
                member.try_lock().await
            };
            match next {
                Ok(Some(guard)) => held.guards.push(guard),
                refused => {
                    held.release_quietly().await;
                    return refused.map(|_| None);
                }
            }
        }
        held.if_valid().await.map(Some)
    }
}

/// The guard of a [`MultiLock`]. Dropping it releases the locks in the background, the last one
/// first.
#[derive(Debug)]
#[must_use = "dropping the guard releases the locks"]
pub struct MultiGuard {
    guards: Vec<Guard>,
}

impl MultiGuard {
    /// The guards of the locks, in the order of their paths.
    #[must_use = "the guards stay in the multi-guard"]
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// Whether no other client can hold any of the locks now. Local: asks no server.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.guards.iter().all(Guard::is_valid)
    }

    /// The worst state of the locks: see [`Guard::state`]. Local: asks no server.
    #[must_use]
    pub fn state(&self) -> LockState {
        let worst = |state: &LockState| match state {
            LockState::Held => 0,
            LockState::Suspended { .. } => 1,
            LockState::Elapsed => 2,
            LockState::Lost(_) => 3,
        };
        self.guards
            .iter()
            .map(Guard::state)
            .max_by_key(worst)
            .unwrap_or(LockState::Held)
    }

    /// The earliest instant at which another client can get one of the locks; `None` when one is
    /// lost, or if there are none. See [`Guard::valid_until`].
    #[must_use]
    pub fn valid_until(&self) -> Option<Instant> {
        let all: Option<Vec<_>> = self.guards.iter().map(Guard::valid_until).collect();
        all?.into_iter().min()
    }

    /// Waits until one of the locks can no longer be relied on, and returns how it was lost: see
    /// [`Guard::lost`].
    ///
    /// # Cancel safety
    /// The future may be dropped, and the method called again.
    pub fn lost(&self) -> impl Future<Output = Option<Loss>> + Send + 'static {
        let lost = |guard: &Guard| -> BoxFuture<'static, _> { Box::pin(guard.lost()) };
        let mut all: Vec<_> = self.guards.iter().map(lost).collect();
        poll_fn(move |cx| {
            let mut losses = all.iter_mut().map(|lost| lost.as_mut().poll(cx));
            losses.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
    }

    /// Starts a transaction that happens only if all the locks are still held: it begins with a
    /// check of each lock node. All the locks must belong to one session of one client. Paths are those
    /// of the handle of the first lock, in the order of the locks' paths on the servers.
    pub fn transaction(&self) -> GuardedTransaction<'_> {
        GuardedTransaction::under(&self.guards)
    }

    /// Writes what `build` adds, and releases all the locks, in one transaction. Either all of it
    /// happens while the locks are held, or nothing does.
    ///
    /// # Errors
    /// As [`GuardedTransaction::commit`]. The locks are released in the background then.
    ///
    /// # Cancel safety
    /// Once polled, the transaction may be applied; the locks are released in any case.
    pub async fn release_with(
        mut self,
        build: impl FnOnce(GuardedTransaction<'_>) -> GuardedTransaction<'_>,
    ) -> Result<Vec<OpResult>, LockError> {
        release_with(&mut self.guards, build).await
    }

    /// Releases all the locks, the last one first, and waits until the servers have deleted their
    /// nodes.
    ///
    /// # Errors
    /// The error of the first release that fails, as [`Guard::release`]. The other locks are
    /// released nevertheless.
    ///
    /// # Cancel safety
    /// All the locks are released whether the future is awaited or dropped.
    pub async fn release(mut self) -> Result<(), LockError> {
        let mut outcome = Ok(());
        while let Some(guard) = self.guards.pop() {
            let released = guard.release().await;
            outcome = outcome.and(released);
        }
        outcome
    }

    /// Waits for the next lock. Fails when a lock that is already held is lost meanwhile. The end
    /// of a lease is no reason: the lease may be renewed before the next lock is there.
    async fn and(&self, next: BoxFuture<'_, Result<Guard, LockError>>) -> Result<Guard, LockError> {
        let Some(first) = self.guards.first() else {
            return next.await;
        };
        let known = async {
            loop {
                first.client().raw().sleep(SHORT_WAIT).await;
                match self.lost().await {
                    None | Some(Loss::Elapsed) => {}
                    Some(loss) => return loss,
                }
            }
        };
        match select(pin!(known), next).await {
            Either::Left(loss) => Err(LockError::lost(loss).at(&self.lost_path())),
            Either::Right(next) => next,
        }
    }

    /// The guard itself if all the locks are held. The session of the first ones may have ended
    /// while the last one was acquired.
    async fn if_valid(self) -> Result<Self, LockError> {
        self.leases_renewed().await;
        let Some(loss) = self.state().loss() else {
            return Ok(self);
        };
        let path = self.lost_path();
        self.release_quietly().await;
        Err(LockError::lost(loss).at(&path))
    }

    /// Waits until the lease of each client has been good for a grant, one after the other, or a lock is
    /// lost. That of the last guard is good: it was granted just now.
    async fn leases_renewed(&self) {
        let last = self.guards.last();
        for guard in &self.guards {
            if last.is_some_and(|last| !last.client().raw().is_same(guard.client())) {
                select(pin!(guard.lease_renewed()), self.lost()).await;
            }
        }
    }

    /// The path of the first lock that is not held.
    fn lost_path(&self) -> String {
        let is_lost = |guard: &&Guard| !guard.is_valid();
        let lost = self.guards.iter().find(is_lost);
        lost.map_or_else(String::new, |guard| guard.lock_path().to_owned())
    }

    async fn release_quietly(self) {
        if let Err(error) = self.release().await {
            tracing::debug!(%error, "release of an incomplete multi-lock failed");
        }
    }
}

impl Drop for MultiGuard {
    fn drop(&mut self) {
        while let Some(guard) = self.guards.pop() {
            drop(guard);
        }
    }
}
