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

use lockkeeper::{Client, Guard, Mutex, Version, client::Builder, error::Effect};
use tokio::{
    runtime,
    sync::{mpsc, watch},
    time::sleep,
};

use super::{
    events::{Event, What, Write},
    setup::number_in,
};

/// How long a client holds the lock: the shortest and the longest time, in milliseconds.
pub(super) const HOLD_MS: (u16, u16) = (60, 220);
/// How long a client rests after it has released the lock: the same.
const REST_MS: (u16, u16) = (20, 300);
/// How long a client rests after an error.
const RECOVER: Duration = Duration::from_millis(200);
/// How many times the late write is sent at most, until a server answers it.
const ATTEMPTS: u32 = 20;
/// How often a paused client looks at the phase of the demo.
const GLANCE: Duration = Duration::from_millis(5);

/// What the clients must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Contend,
    /// The next client that gets the lock sets the next phase.
    PauseNext,
    /// One client is paused; the others contend.
    Paused,
    /// That client goes on; all contend.
    Woken,
    /// All clients end.
    Finished,
}

/// A client that contends.
#[derive(Debug)]
pub(super) struct Contender {
    /// The client's number, counted from 0.
    pub(super) number: usize,
    pub(super) settings: Builder,
    pub(super) lock: String,
    pub(super) counter: String,
    pub(super) phase: Arc<watch::Sender<Phase>>,
    pub(super) events: mpsc::Sender<Event>,
}

impl Contender {
    /// Starts the client's thread.
    pub(super) fn start(self) -> io::Result<()> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = thread::Builder::new().name(format!("client {}", self.number + 1));
        thread
            .spawn(move || runtime.block_on(self.live()))
            .map(drop)
    }

    async fn live(self) {
        match self.unless_finished(self.settings.clone().connect()).await {
            Some(Ok(client)) => {
                self.contend(&client).await;
                client.close().await;
            }
            Some(Err(error)) => self.tell(What::Failed(error.to_string())).await,
            None => {}
        }
        self.tell(What::Left).await;
    }

    async fn contend(&self, client: &Client) {
        let mutex = match Mutex::new(client, &self.lock) {
            Ok(mutex) => mutex.with_data(format!("client {} of a demo", self.number + 1)),
            Err(error) => return self.tell(What::Failed(error.to_string())).await,
        };
        loop {
            let since = Instant::now();
            self.tell(What::Waiting).await;
            let rest = match self.unless_finished(mutex.lock()).await {
                Some(Ok(guard)) => {
                    self.hold(guard, since).await;
                    random(REST_MS)
                }
                Some(Err(error)) => {
                    self.tell(What::Failed(error.to_string())).await;
                    RECOVER
                }
                None => return,
            };
            if self.unless_finished(sleep(rest)).await.is_none() {
                return;
            }
        }
    }

    /// Counts while the lock is held, and releases the lock. The client has waited for the lock since `since`.
    async fn hold(&self, guard: Guard, since: Instant) {
        let granted = Instant::now();
        let (token, waited) = (guard.fencing_token().get(), granted - since);
        self.tell(What::Granted(token, waited)).await;
        let lease_until = guard.valid_until().unwrap_or(granted);
        let next = self.read(guard.client()).await;
        if self.is_to_pause() {
            return self.pause(guard, next.unwrap_or(0)).await;
        }
        sleep(random(HOLD_MS)).await;
        let write = match next {
            Ok(next) => self.write(&guard, next).await,
            Err(error) => Write::Failed(error),
        };
        let now = Instant::now();
        let ended = if guard.is_valid() {
            now
        } else {
            guard.valid_until().unwrap_or(lease_until).min(now)
        };
        self.tell(What::Released(ended, write)).await;
        if let Err(error) = guard.release().await {
            self.tell(What::Failed(error.to_string())).await;
        }
    }

    /// Is paused with the lock held until another client has it, and then writes as if nothing had happened.
    async fn pause(&self, guard: Guard, value: u64) {
        let lease_until = guard.valid_until().unwrap_or_else(Instant::now);
        self.tell(What::Paused(lease_until)).await;
        // This blocks the client's whole runtime. Its session sends and receives nothing, like a suspended process or one in a
        // long garbage collection.
        while *self.phase.borrow() == Phase::Paused {
            thread::sleep(GLANCE);
        }
        if *self.phase.borrow() == Phase::Woken {
            let valid = guard.is_valid();
            let mut write = self.write(&guard, value).await;
            for _ in 1..ATTEMPTS {
                if matches!(write, Write::Done | Write::Refused) {
                    break;
                }
                sleep(RECOVER / 4).await;
                write = self.write(&guard, value).await;
            }
            self.tell(What::WroteLate(valid, value, write)).await;
        }
        // The release fails if the lock is lost. The demo has shown that already.
        let _ = guard.release().await;
    }

    /// The next value of the counter.
    async fn read(&self, client: &Client) -> Result<u64, String> {
        let node = client.get_data(&self.counter).await;
        let value = number_in(node.map_err(|error| error.to_string())?.data.as_deref());
        let next = value.and_then(|value| value.checked_add(1));
        next.ok_or_else(|| "the counter is not a number".to_owned())
    }

    /// Writes the counter, unless the lock's node is gone.
    ///
    /// A guard knows that its session has expired, and its transaction sends nothing then. The demo must show that the
    /// server, too, refuses the write. So this method does not ask the guard: it sends the operations of a guard's
    /// transaction itself, in the client's present session.
    async fn write(&self, guard: &Guard, value: u64) -> Write {
        let write = guard.client().transaction();
        let write = write.check(&guard.path(), Version::ANY);
        let write = write.set_data(&self.counter, value.to_string(), Version::ANY);
        match write.commit().await {
            Ok(_) => Write::Done,
            Err(error) if error.is_no_node() => Write::Refused,
            Err(error) if error.effect() == Effect::Unknown => Write::InDoubt(error.to_string()),
            Err(error) => Write::Failed(error.to_string()),
        }
    }

    /// Whether this client is the one that is paused.
    fn is_to_pause(&self) -> bool {
        self.phase.send_if_modified(|phase| {
            let is_next = *phase == Phase::PauseNext;
            is_next.then(|| *phase = Phase::Paused).is_some()
        })
    }

    /// The result of the future; `None` if the clients must end.
    async fn unless_finished<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut phase = self.phase.subscribe();
        tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase == Phase::Finished) => None,
            value = future => Some(value),
        }
    }

    async fn tell(&self, what: What) {
        let (at, client) = (Instant::now(), self.number);
        // At the end of the demo nobody receives events any more.
        let _ = self.events.send(Event { at, client, what }).await;
    }
}

/// A random time between two times in milliseconds.
fn random((shortest, longest): (u16, u16)) -> Duration {
    let choices = u64::from(longest - shortest) + 1;
    let random = RandomState::new().hash_one(0) % choices;
    Duration::from_millis(u64::from(shortest) + random)
}
