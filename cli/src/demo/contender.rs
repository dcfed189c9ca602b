//! A client of the demo. In a loop, it takes the lock, adds one to the counter on the server, and releases the lock.
//!
//! Each client has its own thread, runtime and session, like a separate process. When one client is paused, the others
//! notice only that they do not get the lock.
//!
//! A client reads the counter after the grant, and writes the next value just before the release. If two clients ever
//! held the lock at once, one increment would be lost.

use std::{
    io,
    ops::Range,
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use lockkeeper::{Client, Error, Guard, LockError, Mutex, Version, client};
use tokio::{
    runtime::Builder,
    sync::{mpsc::UnboundedSender, watch},
    time::sleep,
};

use super::{
    random,
    story::{LINGER, Step, Told},
};
use crate::exit::Failure;

/// How long a client holds the lock, and how long it rests after that: the shortest time, and how much may come to it.
const HOLD_MS: (u64, u64) = (60, 160);
const REST_MS: (u64, u64) = (20, 280);
/// How soon the late write is sent again, until a server answers it.
const RETRY: Duration = Duration::from_millis(50);

/// A client that contends.
pub(super) struct Contender {
    /// The client's number, counted from 0.
    pub(super) number: usize,
    pub(super) counter: String,
    /// The client is paused when it first gets the lock after this time.
    pub(super) pause_at: Option<Instant>,
    /// Each step is in this channel before the client takes the next one. So the end of a hold comes before the grant of the next
    /// holder. The channel needs no bound: a client takes a few steps in each of its rounds.
    pub(super) steps: UnboundedSender<Told>,
    /// The client ends when the other side is dropped.
    pub(super) end: watch::Receiver<()>,
}

impl Contender {
    /// Starts the client's thread.
    pub(super) fn start(mut self, settings: client::Builder) -> io::Result<()> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        thread::spawn(move || {
            if let Err(error) = runtime.block_on(self.contend(settings)) {
                self.tell(Step::Fail(Failure::lock(&lock(&self.counter), error)));
            }
        });
        Ok(())
    }

    async fn contend(&mut self, settings: client::Builder) -> Result<(), LockError> {
        let client = settings.connect().await?;
        let name = format!("client {} of a demo", self.number + 1);
        let mutex = Mutex::new(&client, &lock(&self.counter))?.with_data(name);
        loop {
            let since = self.tell(Step::Wait);
            tokio::select! {
                biased;
                _ = self.end.changed() => break,
                guard = mutex.lock() => self.hold(since, guard?).await?,
            }
            some_time(REST_MS).await;
        }
        client.close().await;
        Ok(())
    }

    /// Counts while the lock is held, and releases the lock. The client has waited for the lock since then.
    async fn hold(&mut self, since: Instant, guard: Guard) -> Result<(), LockError> {
        let from = self.tell(Step::Hold);
        let next = count(guard.client(), &self.counter).await? + 1;
        let lease = guard.valid_until().unwrap_or(from);
        if self.pause_at.take_if(|at| *at <= from).is_some() {
            self.pause(&guard, from..lease, next).await;
            return Ok(());
        }
        some_time(HOLD_MS).await;
        self.write(&guard, next).await?;
        // If the lock was lost, the hold had ended before.
        let to = guard.valid_until().unwrap_or(lease).min(Instant::now());
        let token = guard.fencing_token().get();
        self.tell(Step::Release(from - since, from..to, token));
        guard.release().await
    }

    /// Is paused until another client has the lock, and then writes as if nothing had happened.
    async fn pause(&self, guard: &Guard, held: Range<Instant>, value: u64) {
        let (wake, woken) = channel();
        let lease = held.end.saturating_duration_since(Instant::now());
        self.tell(Step::Pause(held, guard.fencing_token().get(), wake));
        // This blocks the client's whole runtime. Its session sends and receives nothing, like a suspended process or one in a
        // long garbage collection.
        if woken.recv_timeout(lease) == Err(RecvTimeoutError::Timeout) {
            self.tell(Step::LeaseEnd);
            let _ = woken.recv();
        }
        thread::sleep(LINGER);
        if self.end.has_changed().is_err() {
            return;
        }
        let is_valid = guard.is_valid();
        let is_refused = loop {
            match self.write(guard, value).await {
                Ok(()) => break false,
                Err(error) if error.is_no_node() => break true,
                Err(_) => sleep(RETRY).await,
            }
        };
        self.tell(Step::WriteLate(value, is_valid, is_refused));
    }

    /// Writes the counter, unless the lock's node is gone.
    ///
    /// A guard knows that its session has expired, and its transaction sends nothing then. The demo must show that the
    /// server, too, refuses the write. So this method does not ask the guard: it sends the operations of a guard's
    /// transaction itself, in the client's present session.
    async fn write(&self, guard: &Guard, value: u64) -> Result<(), Error> {
        let write = guard.client().transaction();
        let write = write.check(&guard.path(), Version::ANY);
        let write = write.set_data(&self.counter, value.to_string(), Version::ANY);
        write.commit().await.map(drop)
    }

    /// Tells a step, and when it was.
    fn tell(&self, step: Step) -> Instant {
        let at = Instant::now();
        let _ = self.steps.send((at, self.number, step));
        at
    }
}

/// The path of the lock.
pub(super) fn lock(counter: &str) -> String {
    format!("{counter}/lock")
}

/// The counter, as this client reads it behind all earlier writes.
pub(super) async fn count(client: &Client, counter: &str) -> Result<u64, Error> {
    client.sync(counter).await?;
    let data = client.get_data(counter).await?.data.unwrap_or_default();
    Ok(String::from_utf8_lossy(&data).parse().unwrap_or(0))
}

async fn some_time((shortest, more): (u64, u64)) {
    sleep(Duration::from_millis(shortest + random(more + 1))).await;
}
