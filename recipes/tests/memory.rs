//! The memory of a waiter, beside its task, and of a session that holds a lock. The allocator of
//! this program counts by thread. The servers are on other threads, so only the clients of the tests
//! are counted.

#[path = "locks/support/mod.rs"]
mod support;

use std::time::Duration;

use allocation_counter::AllocationInfo;
use lockkeeper_proto::OpCode;
use lockkeeper_recipes::{Guard, Mutex};
use lockkeeper_server::Server;
use lockkeeper_session::Client;
use tokio::runtime::{Builder, Runtime};

use support::{client, server, waiting::until};

const PATH: &str = "/lock";

/// How many waiters come at a time.
const AT_ONCE: usize = 500;

/// A server on its own threads, and a client that holds the lock there.
struct Apart {
    server: Server,
    _holder: Guard,
    _threads: Runtime,
}

impl Apart {
    fn new() -> Self {
        let threads = Runtime::new().unwrap();
        let (server, holder) = threads.block_on(async {
            let server = server().await;
            let holder = Mutex::new(&client(&server).await, PATH).unwrap();
            let holder = holder.lock().await.unwrap();
            (server, holder)
        });
        Self {
            server,
            _holder: holder,
            _threads: threads,
        }
    }

    /// How often the clients had nothing else to say.
    fn quiet(&self) -> u64 {
        let counters = self.server.counters();
        counters.requests_of(OpCode::PING) + counters.requests_of(OpCode::MULTI)
    }

    /// Returns when all waiters wait.
    async fn all_wait(&self, client: &Client, waiters: usize) {
        until("all wait", async || {
            let queue = client.exists(PATH).await.unwrap();
            let nodes = queue.map_or(0, |stat| usize::try_from(stat.num_children).unwrap());
            let now = client.metrics();
            // Theirs, and that of the holder.
            now.waiting == 0 && now.outstanding() == 0 && nodes > waiters
        })
        .await;
    }

    /// Returns when the client has been quiet for a while.
    async fn some_pings(&self) {
        let before = self.quiet();
        until!(self.quiet() >= before + 6);
    }
}

fn bytes(taken: &AllocationInfo) -> usize {
    usize::try_from(taken.bytes_current).unwrap()
}

/// The bytes that all waiters take beside their tasks, which the executor allocates.
fn beside_the_tasks(waiters: usize) -> usize {
    let apart = Apart::new();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let client = runtime.block_on(async {
        let builder = Client::builder(&apart.server.connect_string()).unwrap();
        let builder = builder.session_timeout(Duration::from_secs(10));
        let builder = builder.request_timeout(Duration::from_secs(60));
        builder.connect().await.unwrap()
    });
    let mutex: &Mutex = Box::leak(Box::new(Mutex::new(&client, PATH).unwrap()));
    let mut tasks = Vec::with_capacity(waiters);
    let mut spawned = 0;
    let all = allocation_counter::measure(|| {
        let _context = runtime.enter();
        // On a busy machine the requests of all at once would take longer than a session timeout.
        while tasks.len() < waiters {
            spawned += bytes(&allocation_counter::measure(|| {
                tasks.extend((0..AT_ONCE).map(|_| tokio::spawn(mutex.lock())));
            }));
            runtime.block_on(apart.all_wait(&client, tasks.len()));
        }
        runtime.block_on(apart.some_pings());
    });
    let taken = bytes(&all) - spawned;
    let each = taken / waiters;
    println!("{waiters} waiters: {each} bytes each, beside the task");
    taken
}

/// What is under way on a busy machine only adds to what is counted: one of three attempts must fit.
fn in_one_of_three(
    counts: [usize; 2],
    bytes: impl Fn(usize) -> usize,
    fits: impl Fn(usize, usize) -> bool,
) {
    let attempts = (0..3).map(|_| counts.map(&bytes));
    let too_many: Vec<_> = attempts
        .take_while(|&[few, many]| !fits(few, many))
        .collect();
    assert!(too_many.len() < 3, "{counts:?} take {too_many:?} bytes");
}

/// Half of it is the future of the lock, which is in a box.
#[test]
fn a_waiter_takes_at_most_1_300_bytes() {
    in_one_of_three([1_000, 10_000], beside_the_tasks, |few, many| {
        many <= 10_000 * 1_300 && many - few <= 9_000 * 1_300
    });
}

/// How often the memory of sessions is looked at.
const LOOKS: usize = 50;

/// The bytes that clients take, each with a session, a task and a held lock.
fn of_sessions(count: usize) -> usize {
    let apart = Apart::new();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let servers = apart.server.connect_string();
    let all = allocation_counter::measure(|| {
        runtime.block_on(async {
            let mut guards = Vec::new();
            for nth in 0..count {
                let builder = Client::builder(&servers).unwrap();
                let client = builder.session_timeout(Duration::from_secs(4)).connect();
                let mutex = Mutex::new(&client.await.unwrap(), &format!("/own/{nth}")).unwrap();
                guards.push(mutex.lock().await.unwrap());
            }
            let before = apart.quiet();
            let pings = 6 * u64::try_from(count).unwrap();
            until!(apart.quiet() >= before + pings);
            std::mem::forget(guards);
        });
    });
    // Some sessions may have requests under way, and room for them: on a busy machine many have.
    let (mut taken, mut least) = (all.bytes_current, all.bytes_current);
    for _ in 0..LOOKS {
        let while_idle = allocation_counter::measure(|| {
            runtime.block_on(async { tokio::time::sleep(Duration::from_millis(20)).await });
        });
        taken += while_idle.bytes_current;
        least = least.min(taken);
    }
    let least = usize::try_from(least).unwrap();
    println!("{count} sessions: {} bytes each", least / count);
    least
}

/// With the client's task, and what tokio keeps for its socket and its timer.
#[test]
fn a_session_with_a_held_lock_takes_some_six_kilobytes() {
    in_one_of_three([20, 220], of_sessions, |few, many| {
        many - few <= 200 * 6_400
    });
}
