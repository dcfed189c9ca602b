//! Everything except the clients: time, the network, the servers, the faults, and the record of the
//! run.
//!
//! One queue of events in order of time drives the world; one task takes events from it. Messages
//! on one connection keep their order, as in TCP. Other events may overtake each other.
//!
//! | module | what |
//! |---|---|
//! | `net` | connections, as the client sees them |
//! | `ops` | the operations in the bytes that a client sends |
//! | `servers` | the engine, in the role of all servers |
//! | `faults` | the faults of the plan |
//! | `members` | servers that are stopped, cut off from each other, or late, and elections |
//! | `refusals` | servers that throttle |
//! | `burdens` | servers that are slow, have little memory, or lie |
//! | `record` | the history, the log, the figures |
//!
//! Not here: what clients do (`work`), which faults there are (`plan`).

mod burdens;
mod faults;
mod members;
mod net;
mod ops;
mod record;
mod refusals;
mod servers;

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures::future::select;
use lockkeeper_proto::SessionId;
use lockkeeper_server::engine::{Config, Engine, Now, ServerId};
use lockkeeper_session::{AsRaw, Client};
use tokio::{sync::Notify, time::Instant};

use crate::{
    gate::Gate,
    history::{Attempt, Event},
    plan::{ClientPlan, Plan, Trigger, Vanish},
    rng::Rng,
};
use net::Link;
pub use record::Figures;

/// The servers' wall clock at the start of a run: 2026-01-01, in milliseconds since 1970.
const BIRTH_MS: i64 = 1_767_225_600_000;

/// A shared handle to the world, and the signal that wakes its pump early.
#[derive(Clone)]
pub(crate) struct Sim(Arc<Mutex<World>>, Arc<Notify>);

/// The world. Its times are microseconds since the start of the run; tokio's clock moves in whole
/// milliseconds.
pub(crate) struct World {
    pub(crate) plan: Arc<Plan>,
    start: Instant,
    /// When the last fault is over.
    calm: u64,
    engine: Engine,
    /// What is to come, in order of time and then of creation.
    queue: BTreeMap<(u64, u64), Coming>,
    next_entry: u64,
    /// When the pump next looks at the queue.
    pump_at: u64,
    earlier: Arc<Notify>,
    links: BTreeMap<u64, Link>,
    next_link: u64,
    rng: Rng,
    clients: BTreeMap<u32, Process>,
    servers: BTreeMap<ServerId, Server>,
    /// Until when directions between servers are cut: from the first to the second.
    cuts: BTreeMap<(ServerId, ServerId), u64>,
    /// How many faults of throttled requests have not ended.
    throttles: usize,
    armed: Vec<Armed>,
    /// The highest token that each external store has seen.
    stores: BTreeMap<Arc<str>, u64>,
    /// For each node that fenced writes go to: the last `mzxid` seen.
    registers: BTreeMap<String, i64>,
    /// The leader, and how many transactions elections have lost so far.
    leader: Option<ServerId>,
    lost: u64,
    sessions: BTreeSet<SessionId>,
    sessions_started: u64,
    next_number: u64,
    /// Attempts that have not ended: the client, and whether the lock was granted.
    open: BTreeMap<Attempt, (u32, bool)>,
    /// Watches that have not fired, and their clients.
    watches: BTreeMap<u64, u32>,
    history: Vec<Event>,
    lines: Option<Vec<String>>,
    /// Whether a server had to keep more bytes than it has memory for.
    has_drowned: bool,
    digest: u64,
    pub(crate) figures: Figures,
}

/// A client's process, as the network and the faults see it.
#[derive(Default)]
struct Process {
    gate: Option<Arc<Gate>>,
    handle: Option<Client>,
    silent_until: u64,
    slow_by: u64,
    slow_until: u64,
    /// Whether a fault deletes the node of the next waiter just before this client's next release.
    betrayed: bool,
}

#[derive(Clone, Copy, Default)]
struct Server {
    down_until: u64,
    lag_until: u64,
    /// Whether it has a leader, or leads, as far as it knows.
    serves: bool,
}

/// A fault that waits for a matching message.
#[derive(Clone, Copy)]
struct Armed {
    client: u32,
    trigger: Trigger,
    what: Blow,
}

/// What a fault does to the message that it waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blow {
    CutWrite,
    LoseReply,
    CutReply,
    Vanish(Vanish),
}

/// An event to come.
enum Coming {
    /// A connection reaches its server.
    Accept(u64),
    /// Bytes reach the server.
    Up(u64, Bytes),
    /// The server learns that the client is gone.
    UpEnd(u64),
    /// The client learns whether it is connected.
    Opened(u64, bool),
    /// Bytes reach the client.
    Down(u64, Bytes),
    /// The client learns that the connection is gone.
    DownEnd(u64),
    /// A slow server is done with the oldest request of a connection.
    Served(u64),
    /// A client's socket takes bytes again.
    Room(u64),
    /// A fault of the plan begins.
    Fault(usize),
    /// A fault of the plan ends.
    FaultEnd(usize),
    /// A server fails.
    Fail(ServerId),
    /// Servers may be up again, or not late any more, or links between them whole again.
    Mend,
    /// A write reaches an external store.
    Store(Attempt, Arc<str>, u64, u32),
}

impl Sim {
    /// Makes the world of a plan. With `verbose`, it writes a log line for everything that happens.
    pub(crate) fn new(plan: &Arc<Plan>, verbose: bool) -> Self {
        let start = Instant::now();
        let mut config = Config::default();
        config.tick_time = Duration::from_millis(plan.tick_ms);
        config.container_check_interval = Duration::from_millis(plan.reap_ms);
        config.seed = plan.seed;
        let now = Now {
            instant: start.into_std(),
            unix_ms: BIRTH_MS,
        };
        let mut engine = Engine::new(config, now);
        let limit = Duration::from_millis(plan.sync_limit * plan.tick_ms);
        let travel = Duration::from_millis(plan.commit_ms);
        engine.set_ensemble(plan.servers, limit, travel, now);
        let earlier = Arc::new(Notify::new());
        let servers = (0..plan.servers).map(|id| (ServerId(id), Server::default()));
        let world = World {
            plan: plan.clone(),
            start,
            calm: 0,
            engine,
            queue: BTreeMap::new(),
            next_entry: 0,
            pump_at: 0,
            earlier: earlier.clone(),
            links: BTreeMap::new(),
            next_link: 0,
            rng: Rng::of(plan.seed, "world"),
            clients: BTreeMap::new(),
            servers: servers.collect(),
            cuts: BTreeMap::new(),
            throttles: 0,
            armed: Vec::new(),
            stores: BTreeMap::new(),
            registers: BTreeMap::new(),
            leader: None,
            lost: 0,
            sessions: BTreeSet::new(),
            sessions_started: 0,
            next_number: 0,
            open: BTreeMap::new(),
            watches: BTreeMap::new(),
            history: Vec::new(),
            lines: verbose.then(Vec::new),
            has_drowned: false,
            digest: plan.seed,
            figures: Figures::default(),
        };
        Self(Arc::new(Mutex::new(world)), earlier)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles each event when it is due. Never returns.
    pub(crate) async fn pump(self) {
        loop {
            let next = {
                let mut world = self.lock();
                world.catch_up();
                world.instant_of(world.pump_at)
            };
            let sleep = pin!(tokio::time::sleep_until(next));
            let earlier = pin!(self.1.notified());
            select(earlier, sleep).await;
        }
    }
}

impl World {
    /// Schedules the faults of the plan, from now on.
    pub(crate) fn begin_storm(&mut self) {
        let begin = self.now();
        self.calm = begin + self.plan.calm_ms() * 1000;
        let plan = self.plan.clone();
        for (index, fault) in plan.faults.iter().enumerate() {
            self.at(begin + fault.at_ms * 1000, Coming::Fault(index));
        }
    }

    /// When the last fault is over, as a duration since the start of the run.
    pub(crate) fn calm(&self) -> Duration {
        Duration::from_micros(self.calm)
    }

    /// How long it is from now until the last fault is over.
    pub(crate) fn storm_left(&self) -> Duration {
        Duration::from_micros(self.calm.saturating_sub(self.now()))
    }

    /// The present virtual time, in microseconds.
    pub(crate) fn now(&self) -> u64 {
        let elapsed = Instant::now().saturating_duration_since(self.start);
        u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
    }

    /// The instant at which virtual time is 0. Clients' clocks count from it.
    pub(crate) fn origin(&self) -> std::time::Instant {
        self.start.into_std()
    }

    fn instant_of(&self, at: u64) -> Instant {
        self.start + Duration::from_micros(at)
    }

    fn engine_now(&self) -> Now {
        let elapsed_ms = i64::try_from(self.now() / 1000).unwrap_or(i64::MAX);
        Now {
            instant: Instant::now().into_std(),
            unix_ms: BIRTH_MS.saturating_add(elapsed_ms),
        }
    }

    /// Schedules an event.
    fn at(&mut self, at: u64, what: Coming) {
        self.queue.insert((at, self.next_entry), what);
        self.next_entry += 1;
        if at < self.pump_at {
            self.pump_at = at;
            self.earlier.notify_one();
        }
    }

    /// Handles everything that is due, and computes when the pump must run next.
    fn catch_up(&mut self) {
        loop {
            let now = self.now();
            if self.engine_due() <= now {
                let now = self.engine_now();
                self.engine.tick(now);
                self.after_engine();
            }
            let Some(next) = self.queue.first_entry().filter(|next| next.key().0 <= now) else {
                break;
            };
            let (key, what) = next.remove_entry();
            self.happens(key, what, now);
        }
        let queued = self.queue.keys().next().map(|(at, _)| *at);
        let due = self.engine_due();
        self.pump_at = queued.map_or(due, |queued| queued.min(due));
    }

    /// When the engine wants to be called next, in microseconds.
    fn engine_due(&self) -> u64 {
        let due = Instant::from_std(self.engine.next_deadline());
        let nanos = due.saturating_duration_since(self.start).as_nanos();
        // Not before it is due: nothing would happen then, again and again.
        u64::try_from(nanos.div_ceil(1000)).unwrap_or(u64::MAX)
    }

    fn happens(&mut self, (at, number): (u64, u64), what: Coming, now: u64) {
        self.mix(&[at, number]);
        if let Some(link) = what.link() {
            let silent = self.silent_until(link);
            if silent > now {
                // The client is silent: the event waits until that ends. With its old number it
                // keeps its place.
                self.queue.insert((silent, number), what);
                return;
            }
        }
        match what {
            Coming::Accept(link) => self.accept(link),
            Coming::Up(link, bytes) => self.arrives_at_server(link, &bytes),
            Coming::Served(link) => self.served(link),
            Coming::UpEnd(link) => self.server_loses(link),
            Coming::Opened(link, taken) => self.opened(link, taken),
            Coming::Down(link, bytes) => self.arrives_down(link, &bytes),
            Coming::DownEnd(link) => self.client_loses(link),
            Coming::Room(link) => self.has_room(link),
            Coming::Fault(index) => self.fault(index),
            Coming::FaultEnd(index) => self.fault_ends(index),
            Coming::Fail(server) => self.fail(server, 500),
            Coming::Mend => self.mend(),
            Coming::Store(attempt, store, token, client) => {
                self.stored(attempt, store, token, client);
            }
        }
    }

    fn silent_until(&self, link: u64) -> u64 {
        let link = self.links.get(&link).filter(|link| !link.vanishing());
        let process = link.and_then(|link| self.clients.get(&link.client));
        process.map_or(0, |process| process.silent_until)
    }

    /// Registers a new process of a client.
    pub(crate) fn born(&mut self, client: u32, gate: Arc<Gate>) {
        let process = self.clients.entry(client).or_default();
        process.gate = Some(gate);
        process.handle = None;
    }

    /// Registers the `Client` of a process: faults find its session there.
    pub(crate) fn introduce(&mut self, client: u32, handle: &Client) {
        let process = self.clients.entry(client).or_default();
        process.handle = Some(handle.raw().downgrade());
    }

    /// A number that is unique in this run.
    pub(crate) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// The newest of these numbers.
    pub(crate) fn newest_number(&self) -> u64 {
        self.next_number
    }

    /// Sends a write to an external store. It arrives up to 20 ms later, and one write in ten up to
    /// 5 s later.
    pub(crate) fn send_to_store(
        &mut self,
        attempt: Attempt,
        store: Arc<str>,
        token: u64,
        client: u32,
    ) {
        let delay = if self.rng.chance(100) {
            self.rng.within(0, 5_000_000)
        } else {
            self.rng.within(0, 20_000)
        };
        let at = self.now() + delay;
        self.at(at, Coming::Store(attempt, store, token, client));
    }
}

impl Coming {
    fn link(&self) -> Option<u64> {
        match self {
            Self::Accept(link)
            | Self::Up(link, _)
            | Self::UpEnd(link)
            | Self::Opened(link, _)
            | Self::Down(link, _)
            | Self::DownEnd(link) => Some(*link),
            _ => None,
        }
    }
}

/// Converts a time on a client's clock to true time.
pub(crate) fn true_time(client: &ClientPlan, shown: Duration) -> Duration {
    let micros = i128::try_from(shown.as_micros()).unwrap_or(i128::MAX);
    let micros = micros - i128::from(client.offset_ms) * 1000;
    let real = micros * 1_000_000 / (1_000_000 + i128::from(client.drift_ppm));
    Duration::from_micros(u64::try_from(real).unwrap_or(0))
}

/// Converts true time to the time on a client's clock.
pub(crate) fn shown_time(client: &ClientPlan, real: Duration) -> Duration {
    let micros = i128::try_from(real.as_micros()).unwrap_or(i128::MAX);
    let shown = micros * (1_000_000 + i128::from(client.drift_ppm)) / 1_000_000;
    let shown = shown + i128::from(client.offset_ms) * 1000;
    Duration::from_micros(u64::try_from(shown).unwrap_or(0))
}
