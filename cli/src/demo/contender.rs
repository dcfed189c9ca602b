//! A client of the demo. In a loop, it takes the lock, adds one to the counter on the server, and releases the lock.
//!
//! Each client has its own thread, runtime and session, like a separate process. When one client is paused, the others
//! notice only that they do not get the lock.
//!
//! A client reads the counter after the grant, and writes the next value just before the release. If two clients ever
//! held the lock at once, one increment would be lost.

use std::{
    hash::{BuildHasher as _, RandomState},
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use futures::executor::block_on;
use lockkeeper::{Error, Guard, LockError, Mutex, Version};
use tokio::{runtime::Builder, sync::mpsc, time::sleep};

use super::{
    stage::Stage,
    story::{Does, Phase, Story},
};

/// How long a client holds the lock, and how long it rests after that: the shortest and the longest time, in milliseconds.
const HOLD_MS: (u64, u64) = (60, 220);
const REST_MS: (u64, u64) = (20, 300);
/// How soon the late write is sent again, until a server answers it.
const RETRY: Duration = Duration::from_millis(50);

/// A client that contends.
pub(super) struct Contender {
    /// The client's number, counted from 0.
    pub(super) number: usize,
    pub(super) stage: Arc<Stage>,
}

impl Contender {
    /// Starts the client's thread, which tells an error at its end.
    pub(super) fn start(self, failed: mpsc::Sender<LockError>) -> io::Result<()> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let live = async move {
            if let Err(error) = self.contend().await {
                let _ = failed.send(error).await;
            }
        };
        thread::spawn(move || runtime.block_on(live));
        Ok(())
    }

    async fn contend(&self) -> Result<(), LockError> {
        let client = self.stage.settings.clone().connect().await?;
        let name = format!("client {} of a demo", self.number + 1);
        let mutex = Mutex::new(&client, &self.stage.lock)?.with_data(name);
        loop {
            let lock = async {
                self.tell(|story| story.turn(Instant::now(), self.number, Does::Wait, 0));
                mutex.lock().await
            };
            tokio::select! {
                biased;
                _ = self.stage.until(Phase::Finished) => break,
                guard = lock => self.hold(guard?).await?,
            }
            sleep(random(REST_MS)).await;
        }
        client.close().await;
        Ok(())
    }

    /// Counts while the lock is held, and releases the lock.
    async fn hold(&self, guard: Guard) -> Result<(), LockError> {
        let token = guard.fencing_token().get();
        let lease = guard.valid_until().unwrap_or_else(Instant::now);
        let mut is_paused = false;
        self.tell(|story| is_paused = story.granted(self.number, token, lease));
        let next = self.stage.count(guard.client()).await? + 1;
        if is_paused {
            self.pause(&guard, next).await;
            // The release fails if the lock is lost. The demo has shown that already.
            let _ = guard.release().await;
            return Ok(());
        }
        sleep(random(HOLD_MS)).await;
        self.write(&guard, next).await?;
        // If the lock was lost, the hold had ended before.
        let at = guard.valid_until().unwrap_or(lease).min(Instant::now());
        self.tell(|story| story.released(at, self.number));
        guard.release().await
    }

    /// Is paused with the lock held until another client has it, and then writes as if nothing had happened.
    async fn pause(&self, guard: &Guard, value: u64) {
        // This blocks the client's whole runtime. Its session sends and receives nothing, like a suspended process or one in a
        // long garbage collection.
        if block_on(self.stage.until(Phase::Woken)) == Phase::Finished {
            return;
        }
        let valid = guard.is_valid();
        let refused = loop {
            match self.write(guard, value).await {
                Ok(()) => break false,
                Err(error) if error.is_no_node() => break true,
                Err(_) => sleep(RETRY).await,
            }
        };
        self.tell(|story| story.wrote_late(self.number, valid, value, refused));
    }

    /// Writes the counter, unless the lock's node is gone.
    ///
    /// A guard knows that its session has expired, and its transaction sends nothing then. The demo must show that the
    /// server, too, refuses the write. So this method does not ask the guard: it sends the operations of a guard's
    /// transaction itself, in the client's present session.
    async fn write(&self, guard: &Guard, value: u64) -> Result<(), Error> {
        let write = guard.client().transaction();
        let write = write.check(&guard.path(), Version::ANY);
        let write = write.set_data(&self.stage.counter, value.to_string(), Version::ANY);
        write.commit().await.map(drop)
    }

    fn tell(&self, step: impl FnOnce(&mut Story)) {
        self.stage.story.send_modify(step);
    }
}

/// A random time between two times in milliseconds.
fn random((shortest, longest): (u64, u64)) -> Duration {
    let random = RandomState::new().hash_one(0) % (longest - shortest + 1);
    Duration::from_millis(shortest + random)
}
