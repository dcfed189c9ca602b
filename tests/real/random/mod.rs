//! Random failures of three real servers and of every link, while clients contend for every kind of
//! lock.
//!
//! A round has three servers, relays between them and before each client, three of the locks, and a
//! plan that is drawn from a seed. Behind the plan everything works again. Then every attempt must
//! end, no queue may keep a node, and a new contender must get each lock at once. The checker of the
//! simulation reads the history of each lock.
//!
//! `LOCKKEEPER_TEST_SEED=S` begins with another seed, and `LOCKKEEPER_TEST_ROUNDS=N` makes N rounds:
//! round n has the seed S + n. A seed repeats the plan, but not the order of events.
//!
//! | file | what |
//! |---|---|
//! | `plan` | what fails, drawn from the seed; the servers and relays that it happens to |
//! | `contender` | what the clients do, and what they record |
//!
//! Not here: failures at an exact moment (`tests/sim`), one failure at a time (`failures`).

mod contender;
mod plan;

use std::{
    collections::BTreeSet,
    fs,
    ops::Range,
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use lockkeeper::{Client, CreateMode, raw::AsRaw};
use lockkeeper_sim::{
    Rng,
    check::{Bounds, check},
    history::Mode,
};
use lockkeeper_test_support::{
    contention::client, proxy::Proxy, recorder::Recorder, waiting::soon,
};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use contender::{Contender, LOCKS, LOOK, Locks, Shared};
use plan::{CLIENTS, Laboratory, plan};

/// Each client has so many tasks, and the last one a crowd.
const TASKS: usize = 3;
const CROWD: usize = 12;

/// How often the witness writes.
const WITNESSED: Duration = Duration::from_millis(20);

/// How long an attempt may take when nothing fails and no hold is long.
const MAX_WAIT: Duration = Duration::from_secs(15);

/// The ephemeral nodes at and below a node, each with its owner, in the order of their numbers: first
/// the one that the others wait for.
async fn ephemerals(client: &Client, root: &str) -> Vec<(String, i64)> {
    let (mut found, mut paths) = (Vec::new(), vec![root.to_owned()]);
    while let Some(path) = paths.pop() {
        // The servers remove containers.
        let Ok(Some(stat)) = client.exists(&path).await else {
            continue;
        };
        let names = client.get_children(&path).await.unwrap_or_default();
        paths.extend(names.iter().map(|name| format!("{path}/{name}")));
        if stat.ephemeral_owner.0 != 0 {
            found.push((path, stat.ephemeral_owner.0));
        }
    }
    found.sort_by_cached_key(|(path, _)| path.get(path.len() - 10..).map(str::to_owned));
    found
}

/// Creates nodes that nobody deletes, and returns how many of those whose create was answered are
/// gone in the end. Servers that keep their promise lose none.
async fn witness(client: Client, root: String, round: Arc<Shared>) -> usize {
    let created = client.create(&root, "", CreateMode::Persistent).await;
    created.expect("a new node");
    let mut answered = Vec::new();
    for number in 0.. {
        if round.stop.load(Ordering::SeqCst) {
            break;
        }
        let name = format!("{number}");
        let node = format!("{root}/{name}");
        if client
            .create(&node, "", CreateMode::Persistent)
            .await
            .is_ok()
        {
            answered.push(name);
        }
        sleep(WITNESSED).await;
    }
    client.sync(&root).await.expect("servers that serve");
    let left: BTreeSet<_> = client
        .get_children(&root)
        .await
        .into_iter()
        .flatten()
        .collect();
    answered.iter().filter(|name| !left.contains(*name)).count()
}

/// Sees whether all queues drain, and whether a new contender gets each lock.
async fn drain(
    laboratory: &Laboratory,
    root: &str,
    round: &Shared,
    clients: Vec<Client>,
    wrong: &mut Vec<String>,
) {
    let session = Duration::from_millis(round.session);
    // As the leader has them. A session of which its client does not know ends by itself. A create
    // that is applied late is found within a session timeout.
    let leader = laboratory.servers.address(laboratory.servers.leader());
    let at_leader = client(&leader.to_string(), MAX_WAIT).await;
    at_leader.sync(root).await.expect("a leader");
    let deadline = Instant::now() + 3 * session;
    let mut left = ephemerals(&at_leader, root).await;
    while !left.is_empty() && Instant::now() < deadline {
        sleep(LOOK).await;
        left = ephemerals(&at_leader, root).await;
    }
    for (node, owner) in left {
        let is_owner = |it: &Client| it.snapshot().session_id.0 == owner;
        let of = clients.iter().position(is_owner);
        wrong.push(format!("{node} is left, of client {of:?}, {owner:#x}"));
    }
    let locks = Locks::new(&at_leader, root);
    for lock in &round.used {
        let granted = locks.enter(*lock, Mode::Exclusive, Some(session)).await;
        match granted {
            Ok(Some(guard)) => guard.release().await.expect("a lock that is held"),
            other => wrong.push(format!("{} is not free: {other:?}", LOCKS[*lock])),
        }
    }
    for client in clients {
        soon(client.close()).await;
    }
    for left in ephemerals(&at_leader, root).await {
        wrong.push(format!("behind all sessions there is {left:?}"));
    }
}

/// Makes one round, prints what is wrong, and returns whether anything is.
async fn fails(seed: u64) -> bool {
    let mut random = Rng::from_seed(seed);
    let session = random.one_of(&[1500, 2500, 4000]);
    let mut used: Vec<_> = (0..LOCKS.len()).collect();
    while used.len() > 3 {
        used.swap_remove(random.below(used.len()));
    }
    let rare = random.one_of(&[8, 20, 50]);
    println!("seed {seed}: sessions of {session} ms, one hold of {rare} is long");
    let steps = plan(&mut random, session);
    for (time, failure) in &steps {
        println!("{:6} to {:6}: {failure:?}", time.start, time.end);
    }
    let mut laboratory = Laboratory::start().await;
    let operator = client(&laboratory.servers.connect_string(), MAX_WAIT).await;
    let root = format!("/random-{:016x}", operator.raw().random_u64());
    let created = operator.create(&root, "", CreateMode::Persistent).await;
    created.expect("a new node");
    let recorders = LOCKS.map(Recorder::new);
    let round = Arc::new(Shared {
        recorders,
        used,
        session,
        rare,
        stop: false.into(),
    });
    let witness_root = format!("{root}-witness");
    let witness = tokio::spawn(witness(operator.clone(), witness_root, round.clone()));
    let session = Duration::from_millis(session);
    let (mut clients, mut contenders) = (Vec::new(), JoinSet::new());
    for (number, row) in (0..).zip(&laboratory.clients) {
        let servers: Vec<_> = row.iter().map(Proxy::connect_string).collect();
        let client = client(&servers.join(","), session).await;
        let locks = Arc::new(Locks::new(&client, &root));
        clients.push(client);
        let is_last = clients.len() == CLIENTS;
        let tasks = if is_last { CROWD } else { TASKS };
        for _ in 0..tasks {
            let contender = Contender {
                client: number,
                locks: locks.clone(),
                round: round.clone(),
                random: Rng::from_seed(random.draw()),
            };
            contenders.spawn(contender.run());
        }
    }
    laboratory.fail(&steps).await;
    for recorder in &round.recorders {
        recorder.disturbed();
    }
    sleep(session / 2).await;
    round.stop.store(true, Ordering::SeqCst);
    let mut wrong = Vec::new();
    let ended = timeout(MAX_WAIT, async {
        while let Some(contender) = contenders.join_next().await {
            contender.expect("no panic");
        }
    });
    if ended.await.is_err() {
        wrong.push("attempts do not end".to_owned());
    }

    drain(&laboratory, &root, &round, clients, &mut wrong).await;
    for lock in &round.used {
        let (lock, recorder) = (LOCKS[*lock], &round.recorders[*lock]);
        let bounds = Bounds {
            calm: recorder.calm(),
            max_wait: Some(MAX_WAIT),
            news: MAX_WAIT,
            hand_over: None,
            knows_sessions: false,
        };
        let history = recorder.history();
        println!("| {seed} | {lock} | {} |", recorder.figures());
        let found = check(&history, &bounds);
        wrong.extend(found.iter().map(|it| format!("{lock}: {it}")));
        let lines: Vec<_> = history.iter().map(ToString::to_string).collect();
        let file = format!("random-{seed}-{lock}.history");
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
        fs::write(file, lines.join("\n")).expect("a file below target/");
    }
    if !wrong.is_empty() {
        let (wrong, logs) = (wrong.join("\n"), laboratory.servers.keep_logs());
        println!("seed {seed} FAILS; histories beside {logs}\n{wrong}");
    }
    // Nothing is promised when servers have lost answered writes.
    let lost = witness.await.expect("no panic");
    if lost > 0 {
        println!("seed {seed} IS VOID: the servers have lost {lost} answered writes");
    }
    !wrong.is_empty() && lost == 0
}

/// The seeds of the rounds. There are so many unless the environment says otherwise.
pub(crate) fn seeds(rounds: u64) -> Range<u64> {
    let number = |name, default| {
        let set = std::env::var(name);
        set.map_or(default, |it| it.parse().expect("a number"))
    };
    let first = number("LOCKKEEPER_TEST_SEED", 1);
    first..first + number("LOCKKEEPER_TEST_ROUNDS", rounds)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs three real ZooKeepers: tests/run.sh"]
async fn needs_ensemble_locks_outlive_random_failures() {
    let mut failed = Vec::new();
    for seed in seeds(1) {
        if fails(seed).await {
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "seeds that fail: {failed:?}");
}
