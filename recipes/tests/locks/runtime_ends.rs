//! A program that ends while it holds a lock: the lock is free at once, not after the session
//! timeout.

use std::time::{Duration, Instant};

use lockkeeper_recipes::{Guard, Mutex};
use lockkeeper_server::Server;
use lockkeeper_session::Client;
use tokio::runtime::{Builder, Runtime};

/// How often each end is tried.
const ROUNDS: usize = 100;

/// How a program ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// The main function returns.
    Returns,
    /// It panics.
    Panics,
    /// The guard outlives the runtime.
    KeepsGuard,
}

fn runtime(threads: usize) -> Runtime {
    let mut builder = match threads {
        0 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder
        .worker_threads(threads.max(1))
        .enable_all()
        .build()
        .unwrap()
}

fn program(threads: usize, servers: &str, end: End) -> Option<Guard> {
    runtime(threads).block_on(async {
        let client = Client::connect(servers).await.unwrap();
        let guard = Mutex::new(&client, "/m").unwrap().lock().await.unwrap();
        match end {
            End::Returns => None,
            End::Panics => std::panic::resume_unwind(Box::new("the program fails")),
            End::KeepsGuard => Some(guard),
        }
    })
}

#[test]
fn a_lock_is_free_when_its_program_has_ended() {
    // The server goes on when the programs have ended.
    let elsewhere = runtime(1);
    let server = elsewhere.block_on(Server::start()).unwrap();
    let servers = server.connect_string();
    for threads in [0, 2] {
        for end in [End::Returns, End::Panics, End::KeepsGuard] {
            for round in 0..ROUNDS {
                let kept = std::panic::catch_unwind(|| program(threads, &servers, end));
                let ended = Instant::now();
                while !server.report().sessions.is_empty() {
                    let waited = ended.elapsed();
                    // A session that is not closed expires after ten.
                    let is_late = waited > Duration::from_secs(8);
                    assert!(!is_late, "{threads} threads, {end:?}, round {round}");
                    std::thread::sleep(Duration::from_millis(1));
                }
                if let Ok(Some(guard)) = kept {
                    assert!(!guard.is_valid(), "nobody keeps its session alive");
                }
            }
        }
    }
}
