//! The workloads over lockkeeper.

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use lockkeeper::{Client, CreateMode, Mutex, Version};
use tokio::task::JoinSet;

use crate::{
    args::{Args, Workload},
    exclusion::Exclusion,
    histogram::Histogram,
    report,
    window::{Window, resident_kb},
};

/// The session timeout that is asked for. The other clients' programs ask for the same.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// How long after the window a task may take to end; more is a hang.
const GRACE: Duration = Duration::from_secs(15);
/// Bytes in the node that is read.
const DATA: usize = 100;

/// Why a run came to nothing.
pub type Failure = Box<dyn Error + Send + Sync>;

/// How a holder lets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// It waits until the node is deleted, and learns whether the lock was held until then.
    Confirmed,
    /// It drops the guard; the delete goes on in the background.
    Dropped,
}

/// Runs a workload and returns the line to print.
///
/// # Errors
/// Whatever a client says.
pub async fn run(name: &str, args: &Args, release: Release) -> Result<String, Failure> {
    if args.workload == Workload::IdleSessions {
        return idle(name, args).await;
    }
    let setup = Setup::new(args).await?;
    let exclusion = Arc::new(Exclusion::default());
    let mut others = Vec::new();
    let mut tasks = JoinSet::new();
    if args.workload == Workload::LockContended {
        for _ in 1..args.param {
            others.push(connect(args).await?);
        }
    }
    let window = Window::after_warm_up(args.seconds);
    let measuring = window.measure()?;
    for task in 0..args.param {
        let client = task.checked_sub(1).and_then(|other| others.get(other));
        let client = client.unwrap_or(&setup.client).clone();
        let worker = Worker {
            client,
            path: setup.path(args.workload, task),
            window,
            release,
        };
        let exclusion = args.workload.is_contended().then(|| exclusion.clone());
        match args.workload {
            Workload::GetPipelined => tasks.spawn(worker.get()),
            Workload::CreateDelete => tasks.spawn(worker.create_delete()),
            _ => tasks.spawn(worker.lock(exclusion)),
        };
    }
    let mut latencies = Histogram::default();
    let ended = tokio::time::timeout_at((window.end() + GRACE).into(), async {
        while let Some(task) = tasks.join_next().await {
            latencies.merge(&task??);
        }
        Ok::<_, Failure>(())
    });
    ended.await.map_err(|_| "a task hangs")??;
    let measured = measuring.join().map_err(|_| "the measuring panicked")?;
    for client in others {
        client.close().await;
    }
    setup.clean_up().await;
    let violations = args.workload.is_contended().then(|| exclusion.violations());
    Ok(report::line(name, args, &latencies, measured, violations))
}

/// The first session, and the nodes that the workload needs.
struct Setup {
    client: Client,
    root: String,
}

impl Setup {
    async fn new(args: &Args) -> Result<Self, Failure> {
        let client = connect(args).await?;
        let root = format!("/lockkeeper-bench-{}", std::process::id());
        client.create(&root, "", CreateMode::Persistent).await?;
        let setup = Self { client, root };
        match args.workload {
            Workload::GetPipelined => {
                let path = setup.path(args.workload, 0);
                setup
                    .client
                    .create(&path, vec![b'x'; DATA], CreateMode::Persistent)
                    .await?;
            }
            // Persistent directories, as for the other clients, so that the window has no server that reaps containers.
            Workload::LockUncontended => {
                for task in 0..args.param {
                    let path = setup.path(args.workload, task);
                    setup
                        .client
                        .create(&path, "", CreateMode::Persistent)
                        .await?;
                }
            }
            Workload::LockContended | Workload::LockSharedSession => {
                let path = setup.path(args.workload, 0);
                setup
                    .client
                    .create(&path, "", CreateMode::Persistent)
                    .await?;
            }
            Workload::CreateDelete | Workload::IdleSessions => {}
        }
        Ok(setup)
    }

    /// The node that a task works on.
    fn path(&self, workload: Workload, task: usize) -> String {
        let root = &self.root;
        match workload {
            Workload::LockUncontended => format!("{root}/l{task:04}"),
            Workload::CreateDelete => format!("{root}/e{task:04}"),
            Workload::GetPipelined => format!("{root}/data"),
            _ => format!("{root}/lock"),
        }
    }

    /// Deletes the nodes again. What cannot be deleted is left: the figures are there already.
    async fn clean_up(self) {
        let children = self.client.get_children(&self.root).await;
        for child in children.unwrap_or_default() {
            let path = format!("{}/{child}", self.root);
            let _ = self.client.delete(&path, Version::ANY).await;
        }
        let _ = self.client.delete(&self.root, Version::ANY).await;
        self.client.close().await;
    }
}

/// A task of a workload. Each method goes round until the window is over.
struct Worker {
    client: Client,
    path: String,
    window: Window,
    release: Release,
}

impl Worker {
    async fn lock(self, exclusion: Option<Arc<Exclusion>>) -> Result<Histogram, Failure> {
        let mut latencies = Histogram::default();
        let mutex = Mutex::new(&self.client, &self.path)?;
        loop {
            let began = Instant::now();
            let guard = mutex.lock().await?;
            if let Some(exclusion) = &exclusion {
                exclusion.visit();
            }
            match self.release {
                Release::Confirmed => guard.release().await?,
                Release::Dropped => drop(guard),
            }
            if !self.window.count(&mut latencies, began) {
                return Ok(latencies);
            }
        }
    }

    async fn get(self) -> Result<Histogram, Failure> {
        let mut latencies = Histogram::default();
        loop {
            let began = Instant::now();
            let node = self.client.get_data(&self.path).await?;
            if node.data.is_none_or(|data| data.len() != DATA) {
                return Err("the node has other data".into());
            }
            if !self.window.count(&mut latencies, began) {
                return Ok(latencies);
            }
        }
    }

    async fn create_delete(self) -> Result<Histogram, Failure> {
        let mut latencies = Histogram::default();
        loop {
            let began = Instant::now();
            self.client
                .create(&self.path, "", CreateMode::Ephemeral)
                .await?;
            self.client.delete(&self.path, Version::ANY).await?;
            if !self.window.count(&mut latencies, began) {
                return Ok(latencies);
            }
        }
    }
}

async fn idle(name: &str, args: &Args) -> Result<String, Failure> {
    let resident = resident_kb();
    let began = Instant::now();
    let mut clients = Vec::with_capacity(args.param);
    for _ in 0..args.param {
        clients.push(connect(args).await?);
    }
    let connecting = began.elapsed().as_secs_f64();
    let measuring = Window::after_warm_up(args.seconds).measure()?;
    let measured = tokio::task::spawn_blocking(move || measuring.join()).await?;
    let measured = measured.map_err(|_| "the measuring panicked")?;
    let line = report::idle_line(name, args, connecting, resident, measured);
    for client in clients {
        client.close().await;
    }
    Ok(line)
}

async fn connect(args: &Args) -> Result<Client, Failure> {
    let builder = Client::builder(&args.server)?;
    Ok(builder.session_timeout(SESSION_TIMEOUT).connect().await?)
}
