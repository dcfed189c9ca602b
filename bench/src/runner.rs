//! The workloads, for any client on tokio.
//!
//! Not here: the measurement (`window`), the printed line (`report`).

use std::{
    env,
    future::Future,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Parser;
use hdrhistogram::Histogram;
use serde_json::Value;
use tokio::{runtime::Builder, task::JoinSet};

use crate::{
    Failure,
    args::{Args, Workload},
    exclusion::Exclusion,
    report,
    window::{self, Window, resident_kb},
};

/// The session timeout that each client requests.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a task may run after the window. A task that runs longer hangs.
const GRACE: Duration = Duration::from_secs(15);
/// The data of the nodes that a workload needs.
const DATA: &[u8] = &[b'x'; 100];

/// A session of the client under test. A clone is the same session.
pub trait Peer: Clone + Send + Sync + Sized + 'static {
    /// A lock that one task uses many times.
    type Lock: Send + Sync;

    /// Opens a session.
    fn connect(server: &str) -> impl Future<Output = Result<Self, Failure>> + Send;

    /// Creates a persistent or ephemeral node that any client may change.
    fn create(
        &self,
        path: &str,
        data: &[u8],
        ephemeral: bool,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Deletes a node.
    fn delete(&self, path: &str) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Reads a node, and returns the length of its data.
    fn get(&self, path: &str) -> impl Future<Output = Result<usize, Failure>> + Send;

    /// The lock at this path; `None` when the client has no lock recipe.
    fn lock(&self, path: &str) -> Option<Self::Lock>;

    /// Acquires the lock, calls `inside`, and releases the lock.
    fn cycle(
        lock: &Self::Lock,
        inside: impl FnOnce() + Send,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Ends the session.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// Runs the workload of the command line, and prints its line.
///
/// With `BENCH_RT=ct` it runs on one thread instead of one per core.
#[must_use]
pub fn main<P: Peer>(name: &str) -> ExitCode {
    let args = Args::parse();
    let one_thread = env::var("BENCH_RT").is_ok_and(|set| set == "ct");
    let (name, mut runtime) = if one_thread {
        (format!("{name}-ct"), Builder::new_current_thread())
    } else {
        (name.to_owned(), Builder::new_multi_thread())
    };
    let run = async || run::<P>(&name, &args).await;
    let ran = runtime.enable_all().build().map_err(Failure::from);
    let (line, status) = match ran.and_then(|runtime| runtime.block_on(run())) {
        Ok(Some(line)) => (line, ExitCode::SUCCESS),
        Ok(None) => {
            let line = report::skip_line(&name, &args, "no lock recipe");
            (line, ExitCode::from(report::NOT_OFFERED))
        }
        Err(error) => {
            let line = report::skip_line(&name, &args, &format!("failed: {error}"));
            (line, ExitCode::FAILURE)
        }
    };
    println!("{line}");
    status
}

/// Runs a workload and returns the line to print; `None` when the client has no lock recipe and the
/// workload needs one.
async fn run<P: Peer>(name: &str, args: &Args) -> Result<Option<Value>, Failure> {
    if args.workload == Workload::IdleSessions {
        return idle::<P>(name, args).await.map(Some);
    }
    let first = P::connect(&args.server).await?;
    if args.workload.is_lock() && first.lock("/").is_none() {
        return Ok(None);
    }
    let nodes = Nodes::make(&first, args).await?;
    let mut sessions = vec![first];
    if args.workload == Workload::LockContended {
        for _ in 1..args.param {
            sessions.push(P::connect(&args.server).await?);
        }
    }
    let exclusion = Arc::new(Exclusion::default());
    let window = Window::after_warm_up(args.seconds);
    let measuring = window.measure()?;
    let mut tasks = JoinSet::new();
    for (task, session) in (0..args.param).zip(sessions.iter().cycle()) {
        let (session, path, exclusion) = (session.clone(), nodes.of_task(task), exclusion.clone());
        tasks.spawn(repeat(session, args.workload, path, window, exclusion));
    }
    let mut latencies = window::latencies();
    let ended = tokio::time::timeout_at((window.end() + GRACE).into(), async {
        while let Some(task) = tasks.join_next().await {
            latencies.add(task??)?;
        }
        Ok::<_, Failure>(())
    });
    ended.await.map_err(|_| "a task hangs after the window")??;
    let measured = measuring
        .join()
        .map_err(|_| "the measuring thread panicked")?;

    while let Some(session) = sessions.pop() {
        if sessions.is_empty() {
            nodes.remove(&session).await;
        }
        session.close().await;
    }
    let violations = args.workload.is_contended().then(|| exclusion.violations());
    let line = report::line(name, args, &latencies, measured, violations);
    Ok(Some(line))
}

async fn idle<P: Peer>(name: &str, args: &Args) -> Result<Value, Failure> {
    let resident = resident_kb();
    let began = Instant::now();
    let mut sessions = Vec::new();
    for _ in 0..args.param {
        sessions.push(P::connect(&args.server).await?);
    }
    let connecting = began.elapsed().as_secs_f64();
    let measuring = Window::after_warm_up(args.seconds).measure()?;
    // Not `spawn_blocking`: the memory of its thread would be counted as memory of the sessions.
    while !measuring.is_finished() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let measured = measuring
        .join()
        .map_err(|_| "the measuring thread panicked")?;
    let line = report::idle_line(name, args, connecting, resident, measured);
    for session in sessions {
        session.close().await;
    }
    Ok(line)
}

/// The nodes that a workload needs.
///
/// All are persistent. With containers, the server would search for empty ones to delete during the
/// measurement.
struct Nodes {
    root: String,
    workload: Workload,
    /// The paths of the created nodes, the root first.
    made: Vec<String>,
}

impl Nodes {
    async fn make<P: Peer>(session: &P, args: &Args) -> Result<Self, Failure> {
        let mut nodes = Self {
            root: format!("/lockkeeper-bench-{}", std::process::id()),
            workload: args.workload,
            made: Vec::new(),
        };
        let own = match args.workload {
            Workload::LockUncontended => args.param,
            Workload::CreateDelete => 0,
            _ => 1,
        };
        nodes.made = (0..own).map(|task| nodes.of_task(task)).collect();
        nodes.made.insert(0, nodes.root.clone());
        for path in &nodes.made {
            session.create(path, DATA, false).await?;
        }
        Ok(nodes)
    }

    /// The node that a task works on.
    fn of_task(&self, task: u32) -> String {
        let root = &self.root;
        match self.workload {
            Workload::LockUncontended | Workload::CreateDelete => format!("{root}/{task:04}"),
            _ => format!("{root}/node"),
        }
    }

    /// Removes the nodes. A node that cannot be removed stays, because the measurement is already
    /// complete.
    async fn remove<P: Peer>(&self, session: &P) {
        for path in self.made.iter().rev() {
            let _ = session.delete(path).await;
        }
    }
}

/// Does operations one after the other until the window ends. Returns their latencies.
async fn repeat<P: Peer>(
    session: P,
    workload: Workload,
    path: String,
    window: Window,
    exclusion: Arc<Exclusion>,
) -> Result<Histogram<u64>, Failure> {
    let mut latencies = window::latencies();
    let lock = workload.is_lock().then(|| session.lock(&path)).flatten();
    loop {
        let began = Instant::now();
        if let Some(lock) = &lock {
            let inside = || {
                if workload.is_contended() {
                    exclusion.visit();
                }
            };
            P::cycle(lock, inside).await?;
        } else if workload == Workload::CreateDelete {
            session.create(&path, b"", true).await?;
            session.delete(&path).await?;
        } else if session.get(&path).await? != DATA.len() {
            return Err("the node does not have the expected data".into());
        }
        if !window.count(&mut latencies, began) {
            return Ok(latencies);
        }
    }
}
