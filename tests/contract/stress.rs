//! All kinds at the same time, at random: acquired, tried, cancelled at any poll, dropped and
//! released, while connections are cut.
//!
//! No lock may have more holders than it allows. In the end no node, watch or request may be left.
//! `LOCKKEEPER_TEST_ACQUISITIONS` makes the run longer. `LOCKKEEPER_TEST_SEED` repeats the random
//! choices of a run, but not the order in which the tasks run.

use std::{
    hash::{BuildHasher, RandomState},
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lockkeeper::{
    Client, LockError,
    error::{Effect, Loss},
};
use lockkeeper_server::Server;
use lockkeeper_sim::Rng;

use crate::{
    kinds::{Hold, Kind},
    rig::{Dropped, dropped_after, until},
};

/// A debug build needs a few seconds for this number.
const ACQUISITIONS: usize = 5_000;
const CLIENTS: usize = 6;
const TASKS_OF_A_CLIENT: usize = 3;

/// A lock's path, and a count of its holders that does not depend on any server.
struct Room {
    path: &'static str,
    size: usize,
    taken: AtomicUsize,
}

impl Room {
    const fn new(path: &'static str, size: usize) -> Self {
        let taken = AtomicUsize::new(0);
        Self { path, size, taken }
    }

    /// Counts a holder in and out again, and then releases the lock. An exclusive holder counts as
    /// `size`. Returns whether it is known that the lock was held until the release.
    async fn pass(&self, held: Hold, exclusive: bool, random: &mut Rng) -> bool {
        let space = if exclusive { self.size } else { 1 };
        let before = self.taken.fetch_add(space, Ordering::SeqCst);
        assert!(
            before + space <= self.size,
            "{} has too many holders",
            self.path
        );
        tokio::task::yield_now().await;
        self.taken.fetch_sub(space, Ordering::SeqCst);
        if random.below(3) == 0 {
            drop(held);
            return true;
        }
        match held.release().await {
            Ok(()) => true,
            // The reply to the delete was lost, and later the node was gone. An election reports
            // this as `Elapsed`.
            Err(LockError::Session(error)) if error.effect() == Effect::Unknown => false,
            Err(LockError::Lost {
                loss: Loss::Elapsed,
                ..
            }) => false,
            Err(error) => panic!("{}: {error}", self.path),
        }
    }
}

struct Stress {
    server: Server,
    acquired: AtomicUsize,
    wanted: usize,
    /// How many connections were cut.
    cuts: AtomicUsize,
    /// How many releases ended without knowing who deleted the node.
    unknown_releases: AtomicUsize,
    rooms: [Room; 8],
}

impl Stress {
    /// One random use of a lock. Not all kinds have a try, so it is not among the random ways.
    async fn once(&self, kind: Kind, room: usize, tries: bool, client: &Client, random: &mut Rng) {
        let room = &self.rooms[room];
        let lock = kind.at(client, room.path);
        let held = if tries {
            // If the connection is cut during the try, the try returns that error.
            lock.try_lock().await.ok().flatten()
        } else {
            match random.below(4) {
                0 => match dropped_after(random.below(9), client, lock.lock()).await {
                    Dropped::Ended(locked) => Some(locked.unwrap()),
                    _ => None,
                },
                1 => {
                    let wait = Duration::from_micros(u64::try_from(random.below(5_000)).unwrap());
                    lock.try_lock_for(wait).await.ok()
                }
                _ => Some(lock.lock().await.unwrap()),
            }
        };
        if let Some(held) = held {
            self.acquired.fetch_add(1, Ordering::Relaxed);
            if !room.pass(held, kind.holders() == 1, random).await {
                self.unknown_releases.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    async fn contend(&self, client: Client, mut random: Rng) {
        let random = &mut random;
        while self.acquired.load(Ordering::Relaxed) < self.wanted {
            let (kind, room, tries) = match random.below(19) {
                0..3 => (Kind::Mutex, 0, false),
                3 => (Kind::Mutex, 0, true),
                4..6 => (Kind::Writer, 1, false),
                6..9 => (Kind::Reader, 1, false),
                9 => (Kind::Reader, 1, true),
                10 => (Kind::Permits(1), 2, false),
                18 => (Kind::Permits(1), 2, true),
                11 => (Kind::Permits(3), 3, false),
                12 => (Kind::Reentrant, 4, false),
                13 => (Kind::Both, 5, false),
                14 => (Kind::Plain, 7, false),
                15 => (Kind::Plain, 7, true),
                16 => (Kind::Leader, 6, false),
                _ => (Kind::Latch, 6, false),
            };
            self.once(kind, room, tries, &client, random).await;
            if random.below(500) == 0 {
                self.cuts.fetch_add(1, Ordering::Relaxed);
                self.server.faults().cut(client.snapshot().session_id);
            }
        }
    }

    /// The watches and ephemeral nodes that are left on the server.
    fn left(&self) -> (usize, Vec<String>) {
        let report = self.server.report();
        let sessions = report.sessions.into_values();
        let ephemerals = sessions.flat_map(|session| session.ephemerals).collect();
        (report.watches, ephemerals)
    }
}

fn from_environment<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_after_many_random_acquisitions() {
    let wanted = from_environment("LOCKKEEPER_TEST_ACQUISITIONS").unwrap_or(ACQUISITIONS);
    let seed = from_environment("LOCKKEEPER_TEST_SEED")
        .unwrap_or_else(|| RandomState::new().hash_one(wanted));
    println!("LOCKKEEPER_TEST_SEED={seed} LOCKKEEPER_TEST_ACQUISITIONS={wanted}");
    let stress = Arc::new(Stress {
        server: Server::start().await.unwrap(),
        acquired: AtomicUsize::new(0),
        wanted,
        cuts: AtomicUsize::new(0),
        unknown_releases: AtomicUsize::new(0),
        rooms: [
            Room::new("/mutex", 1),
            Room::new("/rw", 1_000),
            Room::new("/one", 1),
            Room::new("/three", 3),
            Room::new("/reentrant", 1),
            Room::new("/both", 1),
            Room::new("/election", 1),
            Room::new("/plain", 1),
        ],
    });
    // Lists the one server 1,000 times, so that clients reconnect after a cut without a pause.
    let servers = [&*stress.server.connect_string(); 1_000].join(",");
    let (mut clients, mut tasks) = (Vec::new(), Vec::new());
    for number in 0..CLIENTS {
        let client = Client::connect(&servers).await.unwrap();
        for task in 0..TASKS_OF_A_CLIENT {
            let mut random = Rng::from_seed(seed);
            let start = random.below(usize::MAX) ^ (number * TASKS_OF_A_CLIENT + task);
            let random = Rng::from_seed(u64::try_from(start).unwrap());
            let (stress, client) = (stress.clone(), client.clone());
            tasks.push(tokio::spawn(async move {
                stress.contend(client, random).await;
            }));
        }
        clients.push(client);
    }
    for task in tasks {
        task.await.unwrap();
    }
    until("no node, no watch and no request is left", async || {
        let idle = |client: &Client| client.metrics().outstanding() + client.metrics().watches == 0;
        clients.iter().all(idle) && stress.left() == (0, Vec::new())
    })
    .await;
    // A cut loses one reply of each task of the client at most.
    let [cuts, unknown] =
        [&stress.cuts, &stress.unknown_releases].map(|it| it.load(Ordering::Relaxed));
    assert!(
        unknown <= cuts * TASKS_OF_A_CLIENT,
        "{unknown} unknown releases after {cuts} cuts"
    );
    let requests = stress.server.counters().all_requests();
    println!(
        "{requests} requests, {} connections",
        stress.server.counters().connections
    );
}
