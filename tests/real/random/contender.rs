//! What the clients do: they get, hold and release locks at random, and record that.
//!
//! Not here: what fails meanwhile (`plan`), the rules for what is recorded (`lockkeeper_sim::check`).

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use lockkeeper::{
    Client, Election, Guard, LockError, Mutex, RwLock, Semaphore,
    error::Loss,
    locks::{PlainMutex, WriteGuard},
};
use lockkeeper_sim::{
    Rng,
    history::{Attempt, End, Mode, What},
};
use lockkeeper_test_support::{contention::end_of, recorder::Recorder};
use tokio::time::{sleep, timeout};

use super::plan::within;

pub(super) const LOCKS: [&str; 5] = ["mutex", "rw", "plain", "semaphore", "election"];

/// How many permits the semaphore has.
const PERMITS: u32 = 2;

/// How often holders look at their locks.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// The locks of one client.
pub(super) struct Locks {
    mutex: Mutex,
    rw: RwLock,
    plain: PlainMutex,
    semaphore: Semaphore,
    election: Election,
}

impl Locks {
    pub(super) fn new(client: &Client, root: &str) -> Self {
        let [mutex, rw, plain, semaphore, election] = LOCKS.map(|lock| format!("{root}/{lock}"));
        let permits = usize::try_from(PERMITS).expect("few");
        Self {
            mutex: Mutex::new(client, &mutex).expect("a path"),
            rw: RwLock::new(client, &rw).expect("a path"),
            plain: PlainMutex::new(client, &plain).expect("a path"),
            semaphore: Semaphore::new(client, &semaphore, permits).expect("a path"),
            election: Election::new(client, &election).expect("a path"),
        }
    }

    /// Gets a lock within some time; in no time means by a try; `None` is for ever.
    pub(super) async fn enter(
        &self,
        lock: usize,
        mode: Mode,
        wait: Option<Duration>,
    ) -> Result<Option<Guard>, LockError> {
        macro_rules! enter {
            ($lock:expr, $any:ident, $timed:ident $(, $tried:ident)?) => {
                match wait {
                    $(Some(wait) if wait.is_zero() => $lock.$tried().await?,)?
                    Some(wait) => Some($lock.$timed(wait).await?),
                    None => Some($lock.$any().await?),
                }
            };
        }
        Ok(match (LOCKS[lock], mode) {
            ("mutex", _) => enter!(self.mutex, lock, try_lock_for, try_lock),
            ("rw", Mode::Shared) => enter!(self.rw, read, try_read_for, try_read),
            ("rw", _) => {
                enter!(self.rw, write, try_write_for, try_write).map(WriteGuard::into_guard)
            }
            ("plain", _) => enter!(self.plain, lock, try_lock_for, try_lock),
            ("semaphore", _) => enter!(self.semaphore, acquire, try_acquire_for, try_acquire),
            _ => enter!(self.election, elect, try_elect_for),
        })
    }
}

/// What the contenders of a round share.
pub(super) struct Shared {
    pub(super) recorders: [Recorder; LOCKS.len()],
    /// The locks of this round.
    pub(super) used: Vec<usize>,
    /// The session timeout, in milliseconds.
    pub(super) session: u64,
    /// One of so many holds is long.
    pub(super) rare: usize,
    pub(super) stop: AtomicBool,
}

/// One task of a client.
pub(super) struct Contender {
    pub(super) client: u32,
    pub(super) locks: Arc<Locks>,
    pub(super) round: Arc<Shared>,
    pub(super) random: Rng,
}

impl Contender {
    pub(super) async fn run(mut self) {
        while !self.round.stop.load(Ordering::SeqCst) {
            let lock = self.random.one_of(&self.round.used);
            let mode = match LOCKS[lock] {
                "rw" if self.random.below(2) == 0 => Mode::Shared,
                "semaphore" => Mode::Permit { limit: PERMITS },
                _ => Mode::Exclusive,
            };
            let (round, locks) = (self.round.clone(), self.locks.clone());
            let recorder = &round.recorders[lock];
            let attempt = recorder.asked(self.client, mode);
            let scale = within(&mut self.random, 1..13);
            let patience = Duration::from_millis(within(&mut self.random, 1..1 << scale));
            let waits = [None, None, None, Some(Duration::ZERO), Some(patience)];
            let wait = self.random.one_of(&waits);
            let entering = locks.enter(lock, mode, wait);
            let entered = match self.random.below(5) {
                0 => timeout(patience, entering).await.ok(),
                _ => Some(entering.await),
            };
            let end = match entered {
                None => End::GivenUp,
                Some(Ok(None)) => End::Refused,
                Some(Err(error)) => end_of(&error),
                Some(Ok(Some(guard))) => self.hold(recorder, attempt, mode, guard).await,
            };
            recorder.ended(self.client, attempt, end);
            sleep(Duration::from_millis(within(&mut self.random, 0..20))).await;
        }
    }

    async fn hold(
        &mut self,
        recorder: &Recorder,
        attempt: Attempt,
        mode: Mode,
        guard: Guard,
    ) -> End {
        recorder.granted(self.client, attempt, &guard);
        let token = guard.fencing_token().get();
        let length = match self.random.below(self.round.rare) {
            0 => within(
                &mut self.random,
                self.round.session / 4..self.round.session * 2,
            ),
            _ => within(&mut self.random, 0..30),
        };
        let end = Instant::now() + Duration::from_millis(length);
        // Some holders hold on until they know more than that the lease has ended.
        let hopes = self.random.below(2) == 0;
        let mut was_told = false;
        while Instant::now() < end && !self.round.stop.load(Ordering::SeqCst) {
            if mode == Mode::Exclusive {
                recorder.store(self.client, attempt, token);
            }
            if was_told {
                sleep(LOOK).await;
            } else if let Ok(Some(loss)) = timeout(LOOK, guard.lost()).await {
                recorder.told(loss);
                if loss != Loss::Elapsed || !hopes {
                    break;
                }
                was_told = true;
            }
            recorder.valid(self.client, attempt, &guard);
        }
        recorder.note(self.client, What::LetGo(attempt));
        let released = match self.random.below(6) {
            0 => {
                drop(guard);
                return End::Dropped;
            }
            1 => timeout(Duration::from_millis(1), guard.release())
                .await
                .ok(),
            _ => Some(guard.release().await),
        };
        match released {
            None => End::Dropped,
            Some(Ok(())) => End::Released,
            Some(Err(error)) => end_of(&error),
        }
    }
}
