//! `lockkeeper-comeback SESSIONS WATCHES AWAY_SECONDS`: an embedded server goes away, and all
//! sessions come back at once. Each has so many watches, and holds a lock. Prints one line of JSON.
//!
//! Not here: how to read the line (`README.md`).

use std::{
    env,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use lockkeeper::{Client, CreateMode, Guard, Mutex, locks::LockState, watch::Watcher};
use lockkeeper_bench::{Failure, runner::SESSION_TIMEOUT, window::cpu};
use lockkeeper_server::Server;
use tokio::{runtime::Runtime, task::JoinSet, time::sleep};

/// How often the server's counters are read.
const SAMPLE: Duration = Duration::from_millis(100);
/// The program fails when a session takes longer to come back.
const LONGEST: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> ExitCode {
    let numbers: Vec<Option<u32>> = env::args().skip(1).map(|it| it.parse().ok()).collect();
    let [Some(sessions), Some(watches), Some(away)] = numbers[..] else {
        eprintln!("usage: lockkeeper-comeback SESSIONS WATCHES AWAY_SECONDS");
        return ExitCode::from(64);
    };
    match run(sessions, watches, Duration::from_secs(away.into())).await {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("lockkeeper-comeback: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A session with watches and a lock.
struct Session {
    client: Client,
    guard: Guard,
    _watchers: Vec<Watcher>,
}

async fn session(servers: String, number: u32, nodes: u32) -> Result<Session, Failure> {
    let builder = Client::builder(&servers)?;
    let client = builder.session_timeout(SESSION_TIMEOUT).connect().await?;
    let guard = Mutex::new(&client, &format!("/locks/{number}"))?;
    let guard = guard.lock().await?;
    let mut watchers = Vec::new();
    for node in 0..nodes {
        let (_, watcher) = client.get_data_and_watch(&format!("/nodes/{node}")).await?;
        watchers.push(watcher);
    }
    Ok(Session {
        client,
        guard,
        _watchers: watchers,
    })
}

/// Makes the sessions, a few at a time.
async fn sessions(servers: &str, count: u32, watches: u32) -> Result<Vec<Session>, Failure> {
    const AT_ONCE: usize = 32;
    let mut made = Vec::new();
    let mut tasks = JoinSet::new();
    for number in 0..count {
        if tasks.len() == AT_ONCE {
            made.extend(tasks.join_next().await.transpose()?.transpose()?);
        }
        tasks.spawn(session(servers.to_owned(), number, watches));
    }
    while let Some(session) = tasks.join_next().await {
        made.push(session??);
    }
    Ok(made)
}

#[allow(clippy::cast_precision_loss, reason = "for people")]
async fn run(count: u32, watches: u32, away: Duration) -> Result<String, Failure> {
    // On threads of its own, as in another process. It is not dropped in this runtime, which would
    // refuse that.
    let threads = Box::leak(Box::new(Runtime::new()?));
    let server = threads.spawn(Server::start()).await??;
    let servers = server.connect_string();
    let maker = Client::connect(&servers).await?;
    for node in 0..watches {
        let path = format!("/nodes/{node}");
        maker.create_all(&path, "", CreateMode::Persistent).await?;
    }
    maker.close().await;
    let sessions = sessions(&servers, count, watches).await?;
    let attempts = |sessions: &[Session]| -> u64 {
        let all = sessions.iter().map(|it| it.client.metrics().attempts);
        all.sum()
    };
    let before = attempts(&sessions);
    let faults = server.faults();
    faults.close_port().await;
    faults.cut_all();
    sleep(away).await;

    let tries = attempts(&sessions) - before;
    let is_over = Arc::new(AtomicBool::new(false));
    let peaks = tokio::spawn(peaks(server, is_over.clone()));
    let (began, used) = (Instant::now(), cpu());
    faults.open_port().await?;
    let mut back = JoinSet::new();
    for session in &sessions {
        let client = session.client.clone();
        // Behind the requests that restore the watches.
        back.spawn(async move {
            while client.sync("/").await.is_err() {}
            began.elapsed()
        });
    }
    let mut times = tokio::time::timeout(LONGEST, back.join_all()).await?;
    let now = cpu();
    let in_state = |state| {
        let of_state = sessions.iter().filter(|it| it.guard.state() == state);
        of_state.count()
    };
    let (held, elapsed) = (in_state(LockState::Held), in_state(LockState::Elapsed));
    // The server ends with the task that looks at it.
    is_over.store(true, Ordering::Relaxed);
    let (connections, requests) = peaks.await?;
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).copied();
    Ok(format!(
        "{{\"sessions\":{count},\"watches\":{watches},\"away_s\":{},\"attempts_meanwhile\":{tries},\"first_half_s\":{:.3},\
         \"all_s\":{:.3},\"connections_in_100_ms\":{connections},\"requests_in_100_ms\":{requests},\"held\":{held},\"elapsed\":{elapsed},\
         \"cpu_s_with_server\":{:.2}}}",
        away.as_secs(),
        at(50).unwrap_or_default().as_secs_f64(),
        times.last().copied().unwrap_or_default().as_secs_f64(),
        now.0 + now.1 - used.0 - used.1,
    ))
}

/// The most connections, and the most requests, between two looks at the server.
async fn peaks(server: Server, is_over: Arc<AtomicBool>) -> (u64, u64) {
    let (mut connections, mut requests) = (0, 0);
    let mut last = server.counters();
    while !is_over.load(Ordering::Relaxed) {
        sleep(SAMPLE).await;
        let now = server.counters();
        connections = connections.max(now.connections - last.connections);
        requests = requests.max(now.all_requests() - last.all_requests());
        last = now;
    }
    (connections, requests)
}
