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
use tokio::{
    runtime::Builder,
    sync::{mpsc, watch},
    time::sleep,
};

use super::{
    setup::Setup,
    story::{Does, Phase, Story},
    tell,
};

/// How long a client holds the lock, and how long it rests after that: the shortest and the longest time, in milliseconds.
const HOLD_MS: (u64, u64) = (60, 220);
const REST_MS: (u64, u64) = (20, 300);
/// How often the late write is sent at most, until a server answers it, and how soon again.
const ATTEMPTS: u32 = 20;
const RETRY: Duration = Duration::from_millis(50);

/// A client that contends.
pub(super) struct Contender {
    /// The client's number, counted from 0.
    pub(super) number: usize,
    pub(super) setup: Arc<Setup>,
    pub(super) story: Arc<watch::Sender<Story>>,
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
        let thread = thread::Builder::new().name("client".to_owned());
        thread.spawn(move || runtime.block_on(live)).map(drop)
    }

    async fn contend(&self) -> Result<(), LockError> {
        let client = self.setup.settings.clone().connect().await?;
        let name = format!("client {} of a demo", self.number + 1);
        let mutex = Mutex::new(&client, &self.setup.lock)?.with_data(name);
        loop {
            self.turn(Does::Wait);
            let Some(guard) = self.unless_finished(mutex.lock()).await else {
                break;
            };
            self.hold(guard?).await?;
            let rest = sleep(random(REST_MS));
            if self.unless_finished(rest).await.is_none() {
                break;
            }
        }
        self.turn(Does::Rest);
        client.close().await;
        Ok(())
    }

    /// Counts while the lock is held, and releases the lock.
    async fn hold(&self, guard: Guard) -> Result<(), LockError> {
        let token = guard.fencing_token().get();
        let lease = guard.valid_until().unwrap_or_else(Instant::now);
        let is_paused = tell(&self.story, |story| {
            story.granted(self.number, token, lease)
        });
        let next = self.setup.count(guard.client()).await? + 1;
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
        tell(&self.story, |story| story.released(at, self.number));
        guard.release().await
    }

    /// Is paused with the lock held until another client has it, and then writes as if nothing had happened.
    async fn pause(&self, guard: &Guard, value: u64) {
        // This blocks the client's whole runtime. Its session sends and receives nothing, like a suspended process or one in a
        // long garbage collection.
        let mut story = self.story.subscribe();
        let woken = block_on(story.wait_for(|story| story.phase != Phase::Paused));
        if !woken.is_ok_and(|story| story.phase == Phase::Woken) {
            return;
        }
        let valid = guard.is_valid();
        let mut wrote = self.write(guard, value).await;
        for _ in 1..ATTEMPTS {
            if wrote.as_ref().err().is_none_or(Error::is_no_node) {
                break;
            }
            sleep(RETRY).await;
            wrote = self.write(guard, value).await;
        }
        tell(&self.story, |story| {
            story.wrote_late(self.number, valid, value, wrote);
        });
    }

    /// Writes the counter, unless the lock's node is gone.
    ///
    /// A guard knows that its session has expired, and its transaction sends nothing then. The demo must show that the
    /// server, too, refuses the write. So this method does not ask the guard: it sends the operations of a guard's
    /// transaction itself, in the client's present session.
    async fn write(&self, guard: &Guard, value: u64) -> Result<(), Error> {
        let write = guard.client().transaction();
        let write = write.check(&guard.path(), Version::ANY);
        let write = write.set_data(&self.setup.counter, value.to_string(), Version::ANY);
        write.commit().await.map(drop)
    }

    /// The result of the future; `None` if the clients must end.
    async fn unless_finished<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut story = self.story.subscribe();
        tokio::select! {
            biased;
            _ = story.wait_for(|story| story.phase == Phase::Finished) => None,
            value = future => Some(value),
        }
    }

    fn turn(&self, does: Does) {
        tell(&self.story, |story| {
            story.turn(Instant::now(), self.number, does, 0);
        });
    }
}

/// A random time between two times in milliseconds.
fn random((shortest, longest): (u64, u64)) -> Duration {
    let random = RandomState::new().hash_one(0) % (longest - shortest + 1);
    Duration::from_millis(shortest + random)
}
