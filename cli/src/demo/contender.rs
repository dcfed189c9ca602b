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
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use lockkeeper::{Builder, Client, Effect, Guard, LockError, Mutex, Version};
use tokio::{runtime, sync::mpsc, time::sleep};

use super::{
    events::{Event, What, Write},
    orders::Orders,
};

/// How long a client holds the lock: the shortest and the longest time, in milliseconds.
pub(super) const HOLD_MS: (u64, u64) = (60, 220);
/// How long a client rests after it has released the lock: the shortest and the longest time, in milliseconds.
const REST_MS: (u64, u64) = (20, 300);
/// How long a client rests after an error.
const RECOVER: Duration = Duration::from_millis(200);
/// How many times the late write is sent at most, until a server answers it.
const ATTEMPTS: u32 = 20;

/// A client that contends.
#[derive(Debug)]
pub(super) struct Contender {
    /// The client's number, counted from 0.
    pub(super) number: usize,
    pub(super) builder: Builder,
    /// The lock's path.
    pub(super) lock: String,
    /// The counter's path.
    pub(super) counter: String,
    /// The longest pause.
    pub(super) reconnect_timeout: Duration,
    pub(super) orders: Arc<Orders>,
    pub(super) events: mpsc::Sender<Event>,
}

impl Contender {
    /// Starts the client's thread.
    pub(super) fn start(self) -> io::Result<JoinHandle<()>> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        thread::Builder::new()
            .name(format!("client {}", self.number + 1))
            .spawn(move || runtime.block_on(self.live()))
    }

    async fn live(self) {
        let mut finished = self.orders.finished();
        let connected = tokio::select! {
            biased;
            _ = finished.wait_for(|finished| *finished) => return,
            connected = self.builder.clone().connect() => connected,
        };
        match connected {
            Ok(client) => {
                self.contend(&client).await;
                client.close().await;
            }
            Err(error) => self.tell(What::Trouble(error.to_string())).await,
        }
        self.tell(What::Left).await;
    }

    async fn contend(&self, client: &Client) {
        let mut random = Random::new();
        let mut finished = self.orders.finished();
        let mutex = match Mutex::new(client, &self.lock) {
            Ok(mutex) => mutex.with_data(format!("client {} of a demo", self.number + 1)),
            Err(error) => return self.tell(What::Trouble(error.to_string())).await,
        };
        while !*finished.borrow() {
            self.tell(What::Queued).await;
            let guard = tokio::select! {
                biased;
                _ = finished.wait_for(|finished| *finished) => return,
                guard = mutex.lock() => guard,
            };
            let rest = match guard {
                Ok(guard) => {
                    self.hold(guard, random.between(HOLD_MS)).await;
                    random.between(REST_MS)
                }
                Err(error) => {
                    self.tell(What::Trouble(error.to_string())).await;
                    RECOVER
                }
            };
            tokio::select! {
                biased;
                _ = finished.wait_for(|finished| *finished) => {}
                () = sleep(rest) => {}
            }
        }
    }

    /// Counts while the lock is held, and releases the lock.
    async fn hold(&self, guard: Guard, hold: Duration) {
        let granted = Instant::now();
        let token = guard.fencing_token().get();
        self.tell_at(granted, What::Granted { token }).await;
        let lease_until = guard.valid_until().unwrap_or(granted);
        let next = self.read(guard.client()).await;
        if self.orders.take_pause() {
            return self.pause(guard, next).await;
        }
        sleep(hold).await;
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
        self.tell_at(now, What::Released { ended, write }).await;
        if let Err(error) = guard.release().await {
            self.tell(What::Trouble(error.to_string())).await;
        }
    }

    /// Pauses with the lock held until another client has it, and then writes as if nothing had happened.
    async fn pause(&self, guard: Guard, next: Result<u64, String>) {
        let now = Instant::now();
        let lease_until = guard.valid_until().unwrap_or(now);
        self.tell_at(now, What::Stopped { lease_until }).await;
        self.orders.stand_still(self.reconnect_timeout);
        let trusts = guard.is_valid();
        self.tell(What::Woke { trusts }).await;
        let value = next.unwrap_or(0);
        let write = self.write_late(&guard, value).await;
        self.tell(What::Late { value, write }).await;
        // The release fails because the lock is lost. The demo has shown that already.
        let _ = guard.release().await;
    }

    /// The next value of the counter.
    async fn read(&self, client: &Client) -> Result<u64, String> {
        let node = client.get_data(&self.counter).await;
        let data = node.map_err(|error| error.to_string())?.data;
        super::stage::number_in(data.as_deref())
            .and_then(|value| value.checked_add(1))
            .ok_or_else(|| "the counter is not a number".to_owned())
    }

    /// Writes the counter. The write is refused if the lock is not held any more.
    async fn write(&self, guard: &Guard, value: u64) -> Write {
        match self.try_write(guard, value).await {
            Ok(()) => Write::Done,
            Err(LockError::Lost(loss)) => Write::Refused(loss.to_string()),
            Err(LockError::Session(error)) if error.effect() == Effect::Unknown => {
                Write::InDoubt(error.to_string())
            }
            Err(error) => Write::Failed(error.to_string()),
        }
    }

    /// Writes the counter after the pause, and repeats the write until a server answers it.
    ///
    /// A guard knows that its session has expired, and its transaction sends nothing then. The demo must show that the
    /// server, too, refuses the write. So this method does not ask the guard: it sends the operations of a guard's
    /// transaction itself, in the client's present session.
    async fn write_late(&self, guard: &Guard, value: u64) -> Write {
        let mut write = Write::Failed("never sent".to_owned());
        for _ in 0..ATTEMPTS {
            let late = guard
                .client()
                .transaction()
                .check(&guard.path(), Version::ANY)
                .set_data(&self.counter, value.to_string(), Version::ANY);
            write = match late.commit().await {
                Ok(_) => return Write::Done,
                Err(error) if error.is_no_node() => {
                    return Write::Refused("lock node gone".to_owned());
                }
                Err(error) => Write::InDoubt(error.to_string()),
            };
            sleep(RECOVER / 4).await;
        }
        write
    }

    async fn try_write(&self, guard: &Guard, value: u64) -> Result<(), LockError> {
        let transaction = guard.transaction();
        transaction
            .set_data(&self.counter, value.to_string(), Version::ANY)
            .commit()
            .await
            .map(|_| ())
    }

    async fn tell(&self, what: What) {
        self.tell_at(Instant::now(), what).await;
    }

    async fn tell_at(&self, at: Instant, what: What) {
        let client = self.number;
        // At the end of the demo nobody receives events any more.
        let _ = self.events.send(Event { at, client, what }).await;
    }
}

/// Pseudo-random numbers, good enough for durations. Source: Marsaglia, "Xorshift RNGs".
#[derive(Debug)]
struct Random(u64);

impl Random {
    /// Starts at a random state, which is never zero.
    fn new() -> Self {
        Self(RandomState::new().hash_one(0) | 1)
    }

    fn between(&mut self, (low, high): (u64, u64)) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Duration::from_millis(low + self.0 % (high - low + 1))
    }
}
