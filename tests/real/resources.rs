//! A process without free descriptors, or without a thread more, that holds a lock. The holder is a
//! process of its own: this test program, started again. `prlimit` takes the resource away from it,
//! and gives it back.
//!
//! Not here: the memory and the connections of a server (`burst.rs`, `session/tests/hostile/`), and
//! its disk (`failures`).

use std::{
    env, fs,
    io::{self, Write},
    sync::Arc,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures::executor::block_on;
use lockkeeper::{Client, Guard, Mutex};
use lockkeeper_test_support::{
    Ensemble,
    log::Log,
    on_both_arms,
    programs::Running,
    proxy::Proxy,
    waiting::{soon, until},
};
use tokio::{process::Command, runtime::Builder};

/// What the holder is told: the server and the path.
const HOLDER: &str = "LOCKKEEPER_TEST_HOLDER";
const SESSION: Duration = Duration::from_secs(3);
/// What Linux says.
const NO_DESCRIPTOR: &str = "Too many open files";
const NO_THREAD: &str = "Resource temporarily unavailable";

/// The time since 1970, by the clock that both processes have.
fn now() -> u128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap().as_nanos()
}

/// The process that holds the lock, seen from the test.
struct Holder {
    process: Running,
    id: String,
}

impl Holder {
    async fn start(server: &str, path: &str) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", "resources::child_of_the_tests", "--nocapture"])
            .env(HOLDER, format!("{server} {path}"));
        let process = Running::start(command);
        let mut holder = Self {
            process,
            id: String::new(),
        };
        holder.id = holder.ask("id").await;
        holder
    }

    async fn ask(&mut self, what: &str) -> String {
        self.process.say(what).await;
        loop {
            let line = self.process.line().await;
            if let Some((_, answer)) = line.split_once("> ") {
                return answer.to_owned();
            }
        }
    }

    /// Changes a soft limit of the process. What the process has already it keeps.
    async fn limit(&self, resource: &str, to: &str) {
        let mut command = Command::new("prlimit");
        command.args(["--pid", &self.id, &format!("--{resource}={to}:")]);
        assert!(command.status().await.unwrap().success());
    }

    async fn until_it_says(&mut self, command: &str, expected: &str) {
        until(expected, async || {
            self.ask(command).await.contains(expected)
        })
        .await;
    }
}

on_both_arms! {
    async fn a_holder_without_free_descriptors_keeps_its_promise(ensemble: &Ensemble) {
        let server = ensemble.one_server().parse().unwrap();
        let (proxy, path) = (Proxy::to(&[server]).await, ensemble.unique_path("full"));
        let mut holder = Holder::start(&proxy.connect_string(), &path).await;
        let session = holder.ask("session").await;

        // The connection that is there suffices. Another client is refused, with the reason.
        holder.limit("nofile", "3").await;
        assert!(holder.ask("connect").await.contains(NO_DESCRIPTOR));
        tokio::time::sleep(2 * SESSION).await;
        assert_eq!(holder.ask("valid").await, "true");

        // A lost connection cannot be replaced, until there are descriptors again.
        proxy.reset();
        holder.until_it_says("failures", NO_DESCRIPTOR).await;
        holder.limit("nofile", "1024").await;
        holder.until_it_says("connected", "true").await;
        assert_eq!(holder.ask("session").await, session);
        holder.until_it_says("valid", "true").await;

        // If that lasts for longer than the session, the lock ends by its lease.
        holder.limit("nofile", "3").await;
        let before: u32 = holder.ask("attempts").await.parse().unwrap();
        proxy.reset();
        let next = Mutex::new(&ensemble.client().await, &path).unwrap();
        let next = soon(next.lock()).await.unwrap();
        let granted = now();
        let ended: u128 = holder.ask("ended").await.parse().unwrap();
        assert!(ended < granted, "two valid holders");
        assert!(holder.ask("failures").await.contains(NO_DESCRIPTOR));
        let attempts = holder.ask("attempts").await.parse::<u32>().unwrap() - before;
        assert!((3..30).contains(&attempts), "{attempts} attempts");

        holder.limit("nofile", "1024").await;
        soon(next.release()).await.unwrap();
        assert_eq!(holder.ask("lock").await, "locked");
        holder.process.end().await;
    }

    async fn a_client_without_a_thread_says_so_and_others_go_on(ensemble: &Ensemble) {
        let path = ensemble.unique_path("threads");
        let mut holder = Holder::start(&ensemble.one_server(), &path).await;
        // Address space for what is small, and not for the stack of a thread.
        let pages = fs::read_to_string(format!("/proc/{}/statm", holder.id)).unwrap();
        let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
        holder.limit("as", &(pages * 4096 + (1 << 20)).to_string()).await;
        for how in ["connect", "connect in a runtime"] {
            let refused = holder.ask(how).await;
            assert!(refused.contains(NO_THREAD), "{how}: {refused}");
        }
        tokio::time::sleep(2 * SESSION).await;
        assert_eq!(holder.ask("valid").await, "true");
        holder.limit("as", "unlimited").await;
        for how in ["connect", "connect in a runtime"] {
            assert_eq!(holder.ask(how).await, "connected");
        }
        holder.process.end().await;
    }
}

/// Returns when the lock was last valid.
fn last_valid(guard: &Guard) -> u128 {
    let mut last = 0;
    loop {
        let time = now();
        if !guard.is_valid() {
            return last;
        }
        last = time;
        thread::sleep(Duration::from_millis(1));
    }
}

/// The holder, if a test above has started this program. It answers one question a line.
#[test]
fn child_of_the_tests() {
    let Ok(told) = env::var(HOLDER) else {
        return;
    };
    let (server, path) = told.split_once(' ').unwrap();
    let log = Log::of_all_threads();
    let mut attempts = 0;
    let builder = || Client::builder(server).unwrap().session_timeout(SESSION);
    let connect = || block_on(builder().connect());
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let client = connect().unwrap();
    let mutex = Mutex::new(&client, path).unwrap();
    let mut guard = Arc::new(block_on(mutex.lock()).unwrap());
    for line in io::stdin().lines() {
        let answer = match &*line.unwrap() {
            "id" => std::process::id().to_string(),
            "valid" => guard.is_valid().to_string(),
            "connected" => client.snapshot().state.is_connected().to_string(),
            "session" => client.snapshot().session_id.to_string(),
            "failures" => format!("{:?}", client.failures()),
            "attempts" => {
                attempts += log.take().matches(" connecting").count();
                attempts.to_string()
            }
            "ended" => last_valid(&guard).to_string(),
            how @ ("connect" | "connect in a runtime") => {
                let connected = match how {
                    "connect" => connect(),
                    _ => runtime.block_on(builder().own_thread().connect()),
                };
                connected.map_or_else(|error| error.to_string(), |_| "connected".to_owned())
            }
            _ => {
                guard = Arc::new(block_on(mutex.lock()).unwrap());
                "locked".to_owned()
            }
        };
        writeln!(io::stdout(), "> {answer}").unwrap();
    }
}
