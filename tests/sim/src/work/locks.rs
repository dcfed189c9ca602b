//! Taking, holding and releasing locks, and recording these events.
//!
//! Not here: elections through a latch (`latch`), the rules that locks must keep (`check`).

use std::{sync::Arc, time::Duration};

use futures::future::{BoxFuture, Either, FutureExt, select};
use lockkeeper_proto::{CreateMode, Version};
use lockkeeper_recipes::{
    Guard, GuardedTransaction, LockError, Loss, Member, MultiGuard, MultiLock, ReentrantGuard,
    Ticket, WriteGuard,
};
use tokio::time::{sleep, timeout};

use super::{LINES, PERMITS, Worker, raw::answer};
use crate::{
    gate::at_most,
    history::{Answer, Attempt, End, Mode, What},
    plan::{Cancel, Entry, Leave, LockStep, Target},
    world::{shown_time, true_time},
};

/// The guard or guards of a held lock, of any kind.
enum Held {
    One(Guard),
    Writer(WriteGuard),
    Reentrant(ReentrantGuard),
    Permits(Vec<Guard>),
    All(MultiGuard),
}

impl Held {
    fn guards(&self) -> Vec<&Guard> {
        match self {
            Self::One(guard) => vec![guard],
            Self::Writer(guard) => vec![guard],
            Self::Reentrant(guard) => vec![guard],
            Self::Permits(guards) => guards.iter().collect(),
            Self::All(several) => several.guards().iter().collect(),
        }
    }

    async fn release(self) -> Result<(), LockError> {
        match self {
            Self::One(guard) => guard.release().await,
            Self::Writer(guard) => guard.release().await,
            Self::Reentrant(guard) => guard.release().await,
            Self::Permits(guards) => {
                let mut outcome = Ok(());
                for guard in guards {
                    outcome = outcome.and(guard.release().await);
                }
                outcome
            }
            Self::All(several) => several.release().await,
        }
    }
}

/// The result of an attempt; `None` if `try_lock` found the lock taken.
type Entered = Result<Option<Held>, LockError>;

impl Worker {
    pub(super) async fn lock_step(&mut self, step: LockStep) {
        let attempts = self.ask(step.target);
        match step.target {
            Target::Lead => return self.lead(step, &attempts).await,
            Target::Latch => return self.stand(step, &attempts).await,
            _ => {}
        }
        let waits = matches!(step.entry, Entry::Lock | Entry::Timeout(_));
        if waits && !matches!(step.target, Target::Permits | Target::All) {
            self.waiting(attempts.first().copied());
        }
        let entering = self.enter(step, &attempts);
        let entered = match step.cancel {
            Cancel::Never => Some(entering.await),
            Cancel::Polls(polls) => at_most(polls, entering).await,
            Cancel::After(ms) => timeout(Duration::from_millis(ms), entering).await.ok(),
        };
        match entered {
            None => {
                self.sim.lock().figures.count("attempts cancelled");
                self.ended(&attempts, &End::GivenUp);
            }
            Some(Err(error)) => self.ended(&attempts, &end_of(&error)),
            Some(Ok(None)) => self.ended(&attempts, &End::Refused),
            Some(Ok(Some(held))) => {
                self.granted(&attempts, &held.guards());
                self.hold(step, &attempts, &held.guards()).await;
                self.leave(step, &attempts, held).await;
            }
        }
    }

    /// Records the attempts of a step, one for each guard that it may get.
    pub(super) fn ask(&self, target: Target) -> Vec<Attempt> {
        let limit = u32::try_from(PERMITS).unwrap_or(u32::MAX);
        let path = |number: u32| format!("/locks/l{}", number % LINES);
        let semaphore = || ("/locks/s".to_owned(), Mode::Permit { limit });
        let asked = match target {
            Target::Mutex(number) | Target::Write(number) | Target::Reentrant(number) => {
                vec![(path(number), Mode::Exclusive)]
            }
            Target::Read(number) => vec![(path(number), Mode::Shared)],
            Target::Permit => vec![semaphore()],
            Target::Permits => (0..PERMITS).map(|_| semaphore()).collect(),
            Target::All => vec![
                (path(0), Mode::Exclusive),
                (path(1), Mode::Exclusive),
                semaphore(),
            ],
            Target::Lead | Target::Latch => vec![("/locks/e".to_owned(), Mode::Exclusive)],
            Target::Plain => vec![("/locks/p".to_owned(), Mode::Exclusive)],
        };
        let mut world = self.sim.lock();
        let asks = asked.into_iter().map(|(lock, mode)| {
            let attempt = Attempt(world.number());
            let lock: Arc<str> = lock.into();
            let what = What::Asked {
                attempt,
                lock,
                mode,
            };
            world.record(self.plan.id, what);
            attempt
        });
        asks.collect()
    }

    fn enter(&self, step: LockStep, attempts: &[Attempt]) -> BoxFuture<'_, Entered> {
        let locks = &self.locks;
        let at = |number: u32| usize::try_from(number % LINES).unwrap_or(0);
        let (first, entry) = (attempts.first().copied(), step.entry);
        let wait = match entry {
            Entry::Timeout(ms) | Entry::Enqueue(ms) => Duration::from_millis(ms),
            Entry::Lock | Entry::Try => Duration::ZERO,
        };
        /// Asks for the lock in one of four ways. A ticket waits for its turn only after a while.
        macro_rules! asked {
            ($lock:expr, $timed:expr, $tried:expr) => {
                match entry {
                    Entry::Timeout(_) => Some($timed.await?),
                    Entry::Try => $tried.await?,
                    _ => Some($lock.await?),
                }
            };
            ($lock:expr, $timed:expr, $tried:expr, $enqueue:expr, $($place:path)?) => {
                if matches!(entry, Entry::Enqueue(_)) {
                    let ticket = $enqueue.await?;
                    $(self.placed(first, $place(&ticket));)?
                    sleep(wait).await;
                    self.waiting(first);
                    Some(ticket.wait().await?)
                } else {
                    asked!($lock, $timed, $tried)
                }
            };
        }
        async move {
            Ok(match step.target {
                Target::Mutex(number) => {
                    let it = &locks.mutexes[at(number)];
                    let timed = it.try_lock_for(wait);
                    asked!(it.lock(), timed, it.try_lock(), it.enqueue(), Ticket::path)
                        .map(Held::One)
                }
                Target::Read(number) => {
                    let it = &locks.rw[at(number)];
                    let timed = it.try_read_for(wait);
                    asked!(
                        it.read(),
                        timed,
                        it.try_read(),
                        it.enqueue_read(),
                        Ticket::path
                    )
                    .map(Held::One)
                }
                Target::Write(number) => {
                    let it = &locks.rw[at(number)];
                    let timed = it.try_write_for(wait);
                    asked!(
                        it.write(),
                        timed,
                        it.try_write(),
                        it.enqueue_write(),
                        Ticket::path
                    )
                    .map(Held::Writer)
                }
                Target::Permit => {
                    let it = &locks.semaphore;
                    let (timed, tried) = (it.try_acquire_for(wait), it.try_acquire());
                    // Its place is a node of its own, which the rules do not look at.
                    asked!(it.acquire(), timed, tried, it.enqueue(),).map(Held::One)
                }
                Target::Permits => {
                    Some(Held::Permits(locks.semaphore.acquire_many(PERMITS).await?))
                }
                Target::Reentrant(number) => {
                    let it = &locks.reentrant[at(number)];
                    let owner = &format!("task {}", self.task);
                    let (timed, tried) = (it.try_lock_for(owner, wait), it.try_lock(owner));
                    asked!(it.lock(owner), timed, tried).map(Held::Reentrant)
                }
                Target::Plain => {
                    let it = &locks.plain;
                    asked!(it.lock(), it.try_lock_for(wait), it.try_lock()).map(Held::One)
                }
                Target::All | Target::Lead | Target::Latch => {
                    let members = [
                        Member::from(&locks.mutexes[0]),
                        Member::from(&locks.mutexes[1]),
                        Member::from(&locks.semaphore),
                    ];
                    let it = MultiLock::new(members)?;
                    asked!(it.lock(), it.try_lock_for(wait), it.try_lock()).map(Held::All)
                }
            })
        }
        .boxed()
    }

    /// Takes part in an election, and leads for a while if elected.
    async fn lead(&mut self, step: LockStep, attempts: &[Attempt]) {
        let election = self.locks.election.clone();
        self.waiting(attempts.first().copied());
        let this = &mut *self;
        let term = election.lead(async |guard: &Guard| {
            this.granted(attempts, &[guard]);
            this.hold(step, attempts, &[guard]).await;
            this.let_go(attempts);
        });
        let term = match step.cancel {
            Cancel::Never => Some(term.await),
            Cancel::Polls(polls) => at_most(polls, term).await,
            Cancel::After(ms) => timeout(Duration::from_millis(ms), term).await.ok(),
        };
        let end = match &term {
            None => End::GivenUp,
            Some(Err(error)) => end_of(error),
            Some(Ok(())) => End::Released,
        };
        drop(term);
        self.ended(attempts, &end);
    }

    fn placed(&self, attempt: Option<Attempt>, node: String) {
        let mut world = self.sim.lock();
        // If the node is already gone, its owner is unknown, and nothing is recorded.
        if let (Some(attempt), Some(session)) = (attempt, world.owner_of(&node)) {
            let what = What::Placed {
                attempt,
                node,
                session,
            };
            world.record(self.plan.id, what);
        }
    }

    /// The attempt waits for its turn from now on, and for nothing else.
    fn waiting(&self, attempt: Option<Attempt>) {
        if let Some(attempt) = attempt {
            self.record(What::Waiting(attempt));
        }
    }

    fn granted(&self, attempts: &[Attempt], guards: &[&Guard]) {
        // The lock was granted in this same poll, so it belongs to the client's present session.
        let session = self.client.snapshot().session_id.0;
        for (attempt, guard) in attempts.iter().zip(guards) {
            let what = What::Granted {
                attempt: *attempt,
                token: guard.fencing_token().get(),
                node: guard.path(),
                session,
            };
            self.record(what);
            let (now, timeout) = (self.client.now(), self.client.snapshot().session_timeout);
            let left = guard
                .valid_until()
                .map(|it| it.saturating_duration_since(now));
            if let Some(left) = left.filter(|left| *left < timeout / 4) {
                let attempt = *attempt;
                self.record(What::Scant {
                    attempt,
                    left,
                    timeout,
                });
            }
        }
    }

    /// Records until when the guard says that it is valid, but no longer than the hold limit, which
    /// the holder knows.
    pub(super) fn claim(&self, attempt: Attempt, guard: &Guard, limit: Option<Duration>) {
        if !guard.is_valid() {
            return;
        }
        if let Some(until) = guard.valid_until() {
            let mut world = self.sim.lock();
            let shown = until.saturating_duration_since(world.origin());
            let until = true_time(&self.plan, shown);
            let until = limit.map_or(until, |limit| limit.min(until));
            world.record(self.plan.id, What::Valid { attempt, until });
        }
    }

    /// Sets the hold limit. Returns when the hold reaches it, if the holder knows.
    fn limit(&self, step: LockStep, attempts: &[Attempt], guards: &[&Guard]) -> Option<Duration> {
        let limit = Duration::from_millis(step.limit_ms?);
        // The limit counts on the client's clock.
        let now = shown_time(&self.plan, Duration::from_micros(self.sim.lock().now()));
        let until = true_time(&self.plan, now.saturating_add(limit));
        let known = (!self.told).then_some(until);
        for (attempt, guard) in attempts.iter().zip(guards) {
            guard.limit_hold(limit);
            let attempt = *attempt;
            let what = What::Limited { attempt, until };
            self.record(what);
        }
        known
    }

    /// Holds the lock, and uses it now and then.
    async fn hold(&mut self, step: LockStep, attempts: &[Attempt], guards: &[&Guard]) {
        let limit = self.limit(step, attempts, guards);
        for (attempt, guard) in attempts.iter().zip(guards) {
            self.claim(*attempt, guard, limit);
        }
        let part = Duration::from_millis(step.hold_ms / (step.looks + 1));
        let mut revoked = self.listen(step, attempts, guards);
        for look in 0..=step.looks {
            let listens = self.rng.chance(300) || self.told;
            let looked_at = guards.first().filter(|_| listens);
            let rest = async {
                let Some(guard) = looked_at else {
                    sleep(part).await;
                    return None;
                };
                let end = std::pin::pin!(guard.lost());
                let rest = std::pin::pin!(sleep(part));
                match select(end, rest).await {
                    Either::Left((loss, _)) => loss,
                    Either::Right(_) => None,
                }
            };
            match select(&mut revoked, std::pin::pin!(rest)).await {
                Either::Left(((), _)) => break,
                Either::Right((None, _)) => {}
                Either::Right((Some(loss), _)) => {
                    self.sim.lock().figures.count("holders told of their loss");
                    if loss != Loss::Elapsed {
                        break;
                    }
                }
            }
            for (attempt, guard) in attempts.iter().zip(guards) {
                self.claim(*attempt, guard, limit);
                if look < step.looks {
                    self.use_lock(step.target, *attempt, guard).await;
                }
            }
        }
    }

    /// Writes under the lock: to an external store, or to a node.
    pub(super) async fn use_lock(&mut self, target: Target, attempt: Attempt, guard: &Guard) {
        let token = guard.fencing_token().get();
        let exclusive = matches!(
            target,
            Target::Mutex(_)
                | Target::Write(_)
                | Target::Reentrant(_)
                | Target::Lead
                | Target::Plain
        );
        if !exclusive {
            return;
        }
        if self.rng.chance(600) {
            let mut world = self.sim.lock();
            let store = lock_name(guard);
            world.send_to_store(attempt, store.into(), token, self.plan.id);
        } else {
            let (write, prefix) = self.guarded_write(attempt);
            let transaction = self.fenced(guard.transaction(), attempt, guard, &prefix);
            let written = transaction.commit().await;
            self.answered(write, under_lock(written.as_ref().err()));
        }
    }

    /// A [`new_write`](Self::new_write) under the lock.
    fn guarded_write(&self, attempt: Attempt) -> (u64, String) {
        let (write, prefix) = self.new_write();
        self.record(What::Writing { attempt, write });
        (write, prefix)
    }

    /// Adds a fenced write to a transaction. Its data name the attempt, the token and the client.
    fn fenced<'a>(
        &self,
        transaction: GuardedTransaction<'a>,
        attempt: Attempt,
        guard: &Guard,
        prefix: &str,
    ) -> GuardedTransaction<'a> {
        let register = format!("/registers/{}", lock_name(guard));
        let text = format!("{} {} {}", attempt.0, guard.fencing_token(), self.plan.id);
        transaction.set_data(&register, text, Version::ANY).create(
            prefix,
            "",
            CreateMode::PersistentSequential,
        )
    }

    async fn leave(&mut self, step: LockStep, attempts: &[Attempt], held: Held) {
        let first = attempts.first().copied().unwrap_or(Attempt(0));
        match (step.leave, held) {
            (Leave::Drop, held) => {
                self.let_go(attempts);
                drop(held);
                self.ended(attempts, &End::Dropped);
            }
            (Leave::GiveUp(polls), held) => {
                self.let_go(attempts);
                let released = at_most(polls, held.release()).await;
                let end = released.map_or(End::Dropped, |released| {
                    end_of_releases(attempts, &released)
                });
                self.ended(attempts, &end);
            }
            (Leave::With, Held::One(guard))
                if matches!(step.target, Target::Mutex(_) | Target::Plain) =>
            {
                self.let_go(attempts);
                let (write, prefix) = self.guarded_write(first);
                let text = format!("{} {} {}", first.0, guard.fencing_token(), self.plan.id);
                let register = format!("/registers/{}", lock_name(&guard));
                let written = guard.release_with(|transaction| {
                    transaction.set_data(&register, text, Version::ANY).create(
                        &prefix,
                        "",
                        CreateMode::PersistentSequential,
                    )
                });
                let written = written.await;
                self.answered(write, under_lock(written.as_ref().err()));
                self.ended(attempts, &end_of_release(&written.map(drop)));
            }
            (Leave::Downgrade, Held::Writer(writer)) => {
                self.record(What::Downgrading(first));
                match writer.downgrade().await {
                    Ok(reader) => {
                        let what = What::Downgraded {
                            attempt: first,
                            node: reader.path(),
                        };
                        self.record(what);
                        self.sim.lock().figures.count("writers downgraded");
                        let rest = Duration::from_millis(step.hold_ms / 2);
                        sleep(rest).await;
                        self.claim(first, &reader, None);
                        self.let_go(attempts);
                        let released = reader.release().await;
                        self.ended(attempts, &end_of_release(&released));
                    }
                    Err(error) => self.ended(attempts, &end_of(&error)),
                }
            }
            (_, held) => {
                self.let_go(attempts);
                let released = held.release().await;
                self.ended(attempts, &end_of_releases(attempts, &released));
            }
        }
    }

    pub(super) fn let_go(&self, attempts: &[Attempt]) {
        for attempt in attempts {
            let what = What::LetGo(*attempt);
            let mut world = self.sim.lock();
            world.before_release(self.plan.id, *attempt);
            world.record(self.plan.id, what);
        }
    }

    pub(super) fn ended(&self, attempts: &[Attempt], end: &End) {
        for attempt in attempts {
            let what = What::Ended {
                attempt: *attempt,
                end: end.clone(),
            };
            self.record(what);
        }
    }
}

/// The last part of the lock's path: the third part of the node's path.
fn lock_name(guard: &Guard) -> String {
    let path = guard.path();
    path.split('/').nth(2).unwrap_or_default().to_owned()
}

/// The answer that the caller of a write under the lock got.
fn under_lock(error: Option<&LockError>) -> Answer {
    match error {
        None => Answer::Applied,
        Some(LockError::Session(error)) => answer(Some(error)),
        // Each other error means that nothing was written (see `GuardedTransaction::commit`).
        Some(_) => Answer::NotApplied,
    }
}

pub(super) fn end_of(error: &LockError) -> End {
    match error {
        LockError::TimedOut { .. } => End::TimedOut,
        LockError::Lost { loss, .. } => end_of_loss(*loss),
        error => End::Failed(error.to_string()),
    }
}

fn end_of_loss(loss: Loss) -> End {
    match loss {
        Loss::Deleted => End::LostDeleted,
        Loss::Expired | Loss::Closed => End::LostSession,
        Loss::Overdue => End::LostOverdue,
        loss => End::Failed(loss.to_string()),
    }
}

/// The end after a release of these attempts. With several guards the outcome is unknown, because
/// the error may be about any of them.
fn end_of_releases(attempts: &[Attempt], released: &Result<(), LockError>) -> End {
    if attempts.len() > 1 && released.is_err() {
        return End::Dropped;
    }
    end_of_release(released)
}

pub(super) fn end_of_release(released: &Result<(), LockError>) -> End {
    released.as_ref().err().map_or(End::Released, end_of)
}
