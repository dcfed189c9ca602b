//! The clients: each carries out the steps of its plan.
//!
//! A client is a process with one `Client`, which its tasks share. When the process crashes, a new
//! process goes on with the steps that the old one had not begun.
//!
//! | module | what |
//! |---|---|
//! | `handing` | handing a mutex over from process to process |
//! | `locks` | taking, holding and releasing locks |
//! | `latch` | elections through a latch; asking holders to release |
//! | `raw` | operations on single nodes: watches, reads and writes |
//!
//! Not here: which steps there are (`plan`), what goes wrong (`world`).

mod handing;
mod latch;
mod locks;
mod raw;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lockkeeper_proto::CreateMode;
use lockkeeper_recipes as recipes;
use lockkeeper_recipes::{
    Election, Latch, LockMeter, PlainMutex, ReentrantMutex, RwLock, Semaphore,
};
use lockkeeper_session::{Builder, Client, Clock, Error};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{
    gate::{Gate, Task},
    history::What,
    plan::{ClientPlan, Plan, RawStep, Step},
    rng::Rng,
    world::{Sim, shown_time},
};
use raw::Watches;

/// The driver tasks. At the end, the run checks whether one of them panicked.
pub(crate) type Spawned = Arc<Mutex<Vec<JoinHandle<Option<()>>>>>;

/// How many paths there are for mutexes and read/write locks.
const LINES: u32 = 2;
/// The election in which the processes of some plans stand for as long as they live.
pub(crate) const STANDING: &str = "/standing";
/// How many permits the semaphore has.
const PERMITS: usize = 2;
/// How many nodes there are for reads, writes and watches.
pub(crate) const NODES: u32 = 2;

/// One task of a client process, and what it needs.
pub(crate) struct Worker {
    sim: Sim,
    plan: Arc<ClientPlan>,
    maker: Maker,
    client: Client,
    locks: Arc<Locks>,
    task: usize,
    /// Whether it believes that it holds a lock until it is told.
    told: bool,
    rng: Rng,
}

/// The locks and watches that the tasks of a process share.
struct Locks {
    mutexes: Vec<recipes::Mutex>,
    rw: Vec<RwLock>,
    reentrant: Vec<ReentrantMutex>,
    semaphore: Semaphore,
    election: Election,
    plain: PlainMutex,
    meter: LockMeter,
    watches: Mutex<Watches>,
}

/// What is left of a process when its tasks are done: the client is open, and has the watches that
/// nobody has given up.
pub(crate) struct Survivor {
    pub(crate) client: Client,
    locks: Arc<Locks>,
    latch: Option<Latch>,
}

impl Survivor {
    /// Whether the process leads the election in which each process stands; `None` if there is
    /// none.
    pub(crate) fn leads(&self) -> Option<bool> {
        let latch = self.latch.as_ref().filter(|_| self.is_open())?;
        Some(latch.token().is_some())
    }

    /// Whether the process has not crashed after its last step.
    pub(crate) fn is_open(&self) -> bool {
        !self.client.is_closed()
    }

    /// Whether the client is connected and waits for no reply, or is closed.
    pub(crate) fn is_at_rest(&self) -> bool {
        let is_idle = || self.client.metrics().outstanding() == 0;
        !self.is_open() || self.client.snapshot().state.is_connected() && is_idle()
    }

    /// How often a turn came while the lease was not valid.
    pub(crate) fn renewals(&self) -> u64 {
        self.locks.meter.metrics().renewals
    }
}

/// One client of the plan: all its processes, one after the other.
pub(crate) struct Career {
    sim: Sim,
    run: Arc<Plan>,
    plan: Arc<ClientPlan>,
    /// For each task: the index of the next step.
    progress: Vec<Arc<AtomicUsize>>,
    spawned: Spawned,
    lives: u64,
}

impl Career {
    pub(crate) fn new(sim: &Sim, run: &Arc<Plan>, plan: &ClientPlan, spawned: &Spawned) -> Self {
        Self {
            sim: sim.clone(),
            run: run.clone(),
            progress: plan.tasks.iter().map(|_| Arc::default()).collect(),
            plan: Arc::new(plan.clone()),
            spawned: spawned.clone(),
            lives: 0,
        }
    }

    /// Runs the processes of the client, one after the other, until all steps are done. Returns
    /// what is left of the last one.
    pub(crate) async fn run(mut self) -> Survivor {
        loop {
            self.lives += 1;
            if let Some(survivor) = self.live().await {
                return survivor;
            }
            let away = self.sim.lock().away(self.plan.id);
            sleep(away).await;
        }
    }

    /// Runs one process. Returns `None` if it was killed.
    async fn live(&mut self) -> Option<Survivor> {
        let rng = Rng::of(self.run.seed, ("gate", self.plan.id, self.lives));
        let gate = Gate::new(rng, self.run.yield_per_mille, self.run.prompt_per_mille);
        self.sim.lock().born(self.plan.id, gate.clone());
        let maker = Maker {
            sim: self.sim.clone(),
            run: self.run.clone(),
            plan: self.plan.clone(),
            spawned: self.spawned.clone(),
            gate: gate.clone(),
        };
        let client = self.connect(&maker).await?;
        self.sim.lock().introduce(self.plan.id, &client);
        let locks = Arc::new(Locks::new(&client));
        let standing = self.run.latches.then(|| Election::new(&client, STANDING));
        let latch = standing.map(|election| election.expect("the path is valid").latch());
        let mut tasks = Vec::new();
        for (task, (steps, progress)) in self.plan.tasks.iter().zip(&self.progress).enumerate() {
            let worker = Worker {
                sim: self.sim.clone(),
                plan: self.plan.clone(),
                maker: maker.clone(),
                client: client.clone(),
                locks: locks.clone(),
                task,
                told: self.run.told,
                rng: Rng::of(self.run.seed, ("task", self.plan.id, task, self.lives)),
            };
            let work = worker.work(steps.clone(), progress.clone());
            tasks.push(tokio::spawn(Task::new(&gate, work)));
        }
        let mut done = true;
        for task in tasks {
            match task.await {
                Ok(ended) => done &= ended.is_some(),
                Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
            }
        }
        done.then_some(Survivor {
            client,
            locks,
            latch,
        })
    }

    async fn connect(&self, maker: &Maker) -> Option<Client> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let seed = Rng::of(self.run.seed, ("client", self.plan.id, self.lives, attempt)).draw();
            let connecting = maker.clone().connect(maker.settings(seed));
            if let Ok(client) = Task::new(&maker.gate, connecting).await? {
                return Some(client);
            }
            assert!(!maker.gate.has_looped(), "the task of a client has looped");
            sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Makes the clients of one process.
#[derive(Clone)]
struct Maker {
    sim: Sim,
    run: Arc<Plan>,
    plan: Arc<ClientPlan>,
    spawned: Spawned,
    gate: Arc<Gate>,
}

impl Maker {
    fn settings(&self, seed: u64) -> Builder {
        let servers: Vec<_> = (0..self.run.servers).map(|n| format!("s{n}")).collect();
        let origin = Instant::now() - Duration::from_micros(self.sim.lock().now());
        let (plan, looked) = (self.plan.clone(), self.gate.clone());
        let clock = Clock::new(move || {
            looked.looks_at_clock();
            let real = Instant::now().saturating_duration_since(origin);
            origin.into_std() + shown_time(&plan, real)
        });
        let mut builder = Client::builder(&servers.join(",")).expect("a list of servers");
        if self.run.max_outstanding > 0 {
            builder = builder.max_outstanding(self.run.max_outstanding);
        }
        builder
            .lease_policy(self.run.lease)
            .session_timeout(Duration::from_millis(self.plan.timeout_ms))
            .connector(self.sim.connector(self.plan.id))
            .seed(seed)
            .clock(clock)
    }

    async fn connect(self, settings: Builder) -> Result<Client, Error> {
        let (spawned, driven) = (self.spawned, self.gate);
        let connecting = settings.connect_on(move |driver| {
            let task = tokio::spawn(Task::new(&driven, driver));
            if let Ok(mut spawned) = spawned.lock() {
                spawned.push(task);
            }
        });
        connecting.await
    }
}

impl Locks {
    fn new(client: &Client) -> Self {
        let path = |number| format!("/locks/l{number}");
        let all = || (0..LINES).map(path);
        let (valid, meter) = ("the paths are valid", LockMeter::new("simulation"));
        let mutex = |path: String| {
            let mutex = recipes::Mutex::new(client, &path).expect(valid);
            mutex.with_meter(&meter)
        };
        let rw = |path: String| RwLock::new(client, &path).expect(valid);
        let reentrant = |path: String| ReentrantMutex::new(client, &path).expect(valid);
        let semaphore = Semaphore::new(client, "/locks/s", PERMITS).expect(valid);
        let election = Election::new(client, "/locks/e").expect(valid);
        let plain = PlainMutex::new(client, "/locks/p").expect(valid);
        Self {
            mutexes: all().map(mutex).collect(),
            rw: all().map(rw).collect(),
            reentrant: all().map(reentrant).collect(),
            semaphore: semaphore.with_meter(&meter),
            election: election.with_meter(&meter),
            plain: plain.with_meter(&meter),
            meter,
            watches: Mutex::default(),
        }
    }
}

impl Worker {
    /// Does the steps that no earlier process has begun.
    async fn work(mut self, steps: Vec<Step>, progress: Arc<AtomicUsize>) {
        loop {
            let next = progress.fetch_add(1, Ordering::Relaxed);
            let Some(step) = steps.get(next) else { break };
            match step {
                Step::Sleep(ms) => sleep(Duration::from_millis(*ms)).await,
                Step::Lock(step) => self.lock_step(*step).await,
                Step::HandOver(step) => self.hand_step(*step).await,
                Step::Raw(step) => self.raw_step(*step).await,
                Step::Close => {
                    self.sim.lock().figures.count("clients closed by a task");
                    self.client.clone().close().await;
                }
            }
        }
        if steps
            .iter()
            .any(|step| matches!(step, Step::Raw(RawStep::Watch(_))))
        {
            self.last_look().await;
        }
    }

    /// Adds an event of this client to the history.
    fn record(&self, what: What) {
        self.sim.lock().record(self.plan.id, what);
    }
}

/// Creates the nodes that the steps need, before the first fault.
pub(crate) async fn set_up(client: &Client) -> Result<(), Error> {
    for path in ["/raw", "/registers"] {
        client.create(path, "", CreateMode::Persistent).await?;
    }
    for path in registers().chain((0..NODES).map(raw::node)) {
        client.create(&path, "", CreateMode::Persistent).await?;
    }
    Ok(())
}

/// The nodes that fenced writes go to.
pub(crate) fn registers() -> impl Iterator<Item = String> {
    ["l0", "l1", "e", "p"]
        .into_iter()
        .map(|lock| format!("/registers/{lock}"))
}
