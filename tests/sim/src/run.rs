//! Runs one plan, from the first connection to the check of the history.
//!
//! Not here: what clients do (`work`), the network and the servers (`world`), the rules (`check`).

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use lockkeeper_session::{AsRaw, Client, Clock};
use tokio::{
    runtime,
    task::{JoinError, JoinHandle},
    time::{sleep, timeout},
};

use crate::{
    check::{self, Bounds, Rule, Violation},
    gate::{Gate, Task},
    history::{Event, What},
    plan::{AIMED, PARTITIONS, Plan},
    rng::Rng,
    work::{Career, STANDING, Spawned, Survivor, registers, set_up},
    world::{Figures, Sim},
};

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The violations in its history.
    pub violations: Vec<Violation>,
    /// Its history.
    pub history: Vec<Event>,
    /// The log for people: the history, and every message. Empty without `verbose`.
    pub lines: Vec<String>,
    /// A hash of everything that happened.
    pub digest: u64,
    /// How often each thing happened.
    pub figures: Figures,
}

/// Runs a plan. With `verbose`, the log has a line for everything that happens.
///
/// # Panics
/// If tokio cannot build a runtime.
#[must_use]
pub fn run(plan: &Plan, verbose: bool) -> Outcome {
    let plan = Arc::new(plan.clone());
    let runtime = runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without threads and sockets");
    let outcome = runtime.block_on(run_in(&plan, verbose));
    drop(runtime);
    outcome
}

async fn run_in(plan: &Arc<Plan>, verbose: bool) -> Outcome {
    let sim = Sim::new(plan, verbose);
    let pump = tokio::spawn(sim.clone().pump());
    let spawned = Spawned::default();
    let mut violations = Vec::new();

    let limit = Duration::from_millis(plan.calm_ms() + 3 * plan.max_wait_ms());
    let ran = timeout(limit, run_clients(&sim, plan, &spawned)).await;
    let clients = ran.unwrap_or_else(|_| Ok(Vec::new()));
    let now = Duration::from_micros(sim.lock().now());
    let clients = clients.unwrap_or_else(|panicked| {
        violations.push(panic_of(now, panicked));
        Vec::new()
    });
    look_back(&sim, plan, &clients);
    drop(clients);

    for task in take(&spawned) {
        if task.is_finished()
            && let Err(panicked) = task.await
        {
            violations.push(panic_of(now, panicked));
        }
    }
    if pump.is_finished() {
        if let Err(panicked) = pump.await {
            violations.push(panic_of(now, panicked));
        }
    } else {
        pump.abort();
    }
    let (history, lines, digest) = sim.lock().take_record();
    let calm = sim.lock().calm();
    let news = Duration::from_millis(plan.detection_ms());
    let settled = if plan.faults.is_empty() {
        calm
    } else {
        calm + news
    };
    let bounds = Bounds {
        calm,
        max_wait: Some(Duration::from_millis(plan.max_wait_ms())),
        news,
        hand_over: plan
            .hand_over_ms()
            .map(|ms| (settled, Duration::from_millis(ms))),
        knows_sessions: true,
    };
    violations.extend(check::check(&history, &bounds));
    if !plan.keeps_sessions() {
        // An attempt goes on in the next session, and may find none that lives long enough.
        violations.retain(|violation| violation.rule != Rule::Endless);
    }
    let mut figures = sim.lock().figures.clone();
    if plan.seed % AIMED == PARTITIONS {
        let ended = check::leases_that_ended(&history, &bounds);
        figures.add_count("partitions: leases that ended before the next grant", ended);
    }
    Outcome {
        violations,
        history,
        lines,
        digest,
        figures,
    }
}

/// Runs all steps of all clients, and then waits long enough for their clean-up. The clients stay
/// connected.
async fn run_clients(
    sim: &Sim,
    plan: &Arc<Plan>,
    spawned: &Spawned,
) -> Result<Vec<Survivor>, JoinError> {
    let gate = Gate::new(Rng::of(plan.seed, "admin"), 0, 0);
    let looked = gate.clone();
    let clock = move || {
        looked.looks_at_clock();
        tokio::time::Instant::now().into_std()
    };
    let admin = Client::builder("s0")
        .expect("a list of one server")
        .connector(sim.connector(0))
        .clock(Clock::new(clock))
        .seed(plan.seed);
    let spawn = |driver| {
        let task = tokio::spawn(Task::new(&gate, driver));
        let mut spawned = spawned.lock().unwrap_or_else(PoisonError::into_inner);
        spawned.push(task);
    };
    if let Ok(admin) = admin.connect_on(spawn).await {
        let _ = set_up(&admin).await;
        admin.close().await;
    }
    for path in registers() {
        sim.lock().add_register(&path);
    }
    sim.lock().begin_storm();
    let careers = plan.clients.iter().map(|client| {
        let career = Career::new(sim, plan, client, spawned);
        tokio::spawn(career.run())
    });
    let careers: Vec<_> = careers.collect();
    let clients: Result<Vec<_>, _> = join_all(careers).await.into_iter().collect();
    let clients = clients?;
    let timeout = plan.clients.iter().map(|client| client.timeout_ms).max();
    let storm = sim.lock().storm_left();
    let timeout = Duration::from_millis(timeout.unwrap_or(0));
    sleep(storm + 3 * timeout + Duration::from_secs(3)).await;
    for _ in 0..500 {
        let leaders = leaders(&clients);
        let is_led = leaders.is_empty() || leaders.contains(&true);
        if is_led && clients.iter().all(Survivor::is_at_rest) {
            break;
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(clients)
}

fn take(spawned: &Spawned) -> Vec<JoinHandle<Option<()>>> {
    let mut tasks = spawned.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::take(&mut *tasks)
}

/// For each latch of an open client: whether it leads.
fn leaders(survivors: &[Survivor]) -> Vec<bool> {
    survivors.iter().filter_map(Survivor::leads).collect()
}

/// Records the state at the end of the run: nodes and watches of live sessions, and how often each
/// write was applied.
fn look_back(sim: &Sim, plan: &Plan, survivors: &[Survivor]) {
    let mut world = sim.lock();
    let live: Vec<_> = survivors
        .iter()
        .map(|survivor| survivor.client.snapshot().session_id.0)
        .collect();
    for survivor in survivors.iter().filter(|it| it.is_open()) {
        let client = &survivor.client;
        let connections = client.snapshot().connections;
        if plan.service_us > 0 && connections > 1 {
            world.record(0, What::Deserted(connections));
        }
        if survivor.is_at_rest() {
            let wanted = client.raw().wanted_watches();
            world.compare_watches(client.snapshot().session_id, &wanted);
        } else {
            // It may be about to set its watches again.
            world.figures.count("clients that did not come to rest");
        }
    }
    let renewals = survivors.iter().map(Survivor::renewals).sum();
    world
        .figures
        .add_count("grants that waited for a lease", renewals);
    let leaders = leaders(survivors);
    let is_due = !leaders.is_empty() && plan.keeps_leases();
    if is_due && survivors.iter().all(Survivor::is_at_rest) {
        let latches = leaders.len();
        let leaders = leaders.into_iter().filter(|leads| *leads).count();
        world.record(0, What::Standing { latches, leaders });
        world.figures.count("elections at the end");
    }
    for (session, node) in world.ephemerals() {
        if live.contains(&session) && !node.starts_with(STANDING) {
            world.record(0, What::Left { node, session });
        }
    }
    let paths = world.paths();
    for write in world.answered() {
        let prefix = format!("/raw/w{write}-");
        let times = paths
            .iter()
            .filter(|path| path.starts_with(&prefix))
            .count();
        let times = u32::try_from(times).unwrap_or(u32::MAX);
        world.record(0, What::Applied { write, times });
    }
}

fn panic_of(at: Duration, error: JoinError) -> Violation {
    let text = match error.try_into_panic() {
        Ok(panic) => panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_else(|| "a task panicked".to_owned()),
        Err(error) => error.to_string(),
    };
    Violation {
        at,
        rule: Rule::Panic,
        text,
    }
}
