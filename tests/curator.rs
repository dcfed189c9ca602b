//! Curator's mutex and ours on one path, at the same time: they must exclude each other.
//!
//! Each round reads a counter, holds for a moment and writes it back plus one without a version: it is right at the end only if
//! nobody ever shared the lock. Which side wrote which value is the order of the holds, and shows whether the sides took turns.
//! Times are those of this machine's clock, on which both sides are.

mod support;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockkeeper::{Client, CreateMode, Guard, Mutex, Version};
use support::{
    Arm, Ensemble,
    programs::{self, Running},
};

/// Contenders of each side, each with a session of its own.
const CONTENDERS: usize = 4;

/// How often each contender takes the lock.
const ROUNDS: usize = 25;

/// How long it is held, in each round.
const HOLD: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Curator,
    Ours,
}

/// One round.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// What was written.
    value: u64,
    side: Side,
    /// Inside the lock, ms since 1970.
    start: u128,
    end: u128,
    /// Of ours alone.
    token: Option<u64>,
}

mod needs_java {
    use super::{Arm, curator_and_we_exclude_each_other, support};

    #[tokio::test]
    #[ignore = "needs Java, Curator and a real ZooKeeper: tests/run.sh"]
    async fn curator_and_we_exclude_each_other_on_a_real_zookeeper() {
        support::run(Arm::Real, curator_and_we_exclude_each_other).await;
    }

    #[tokio::test]
    #[ignore = "needs Java and Curator: tests/run.sh"]
    async fn curator_and_we_exclude_each_other_on_the_embedded_server() {
        support::run(Arm::Embedded, curator_and_we_exclude_each_other).await;
    }
}

async fn curator_and_we_exclude_each_other(ensemble: &Ensemble) {
    let (lock, counter) = (
        ensemble.unique_path("lock"),
        ensemble.unique_path("counter"),
    );
    let first = ensemble.client().await;
    first
        .create(&counter, "0", CreateMode::Persistent)
        .await
        .unwrap();

    let mut curator = programs::java("CuratorContender");
    curator.args([&ensemble.servers(), &lock, &counter]);
    curator.args([
        CONTENDERS.to_string(),
        ROUNDS.to_string(),
        HOLD.as_millis().to_string(),
    ]);
    let mut curator = Running::start(curator);
    assert_eq!(curator.line().await, "ready");

    // All of Curator's wait for a lock that we hold ..
    let guard = Mutex::new(&first, &lock).unwrap().lock().await.unwrap();
    curator.say("go").await;
    until_line_has(&first, &lock, 1 + CONTENDERS).await;
    // .. and behind them ours wait for one that Curator will hold.
    let mut ours = Vec::new();
    for _ in 0..CONTENDERS {
        let client = ensemble.client().await;
        let mutex = Mutex::new(&client, &lock).unwrap();
        let ticket = mutex.enqueue().await.unwrap();
        assert!(ticket.position() > CONTENDERS, "{ticket:?}");
        ours.push((client, mutex, ticket));
    }
    let mut all = vec![round(guard, &counter).await];

    let mut tasks = Vec::new();
    for (client, mutex, ticket) in ours {
        let counter = counter.clone();
        tasks.push(tokio::spawn(async move {
            let mut rounds = vec![round(ticket.wait().await.unwrap(), &counter).await];
            for _ in 1..ROUNDS {
                rounds.push(round(mutex.lock().await.unwrap(), &counter).await);
            }
            client.close().await;
            rounds
        }));
    }
    for _ in 0..CONTENDERS * ROUNDS {
        all.push(curators_round(&curator.line().await));
    }
    assert_eq!(
        curator.line().await,
        format!("done {}", CONTENDERS * ROUNDS)
    );
    curator.end().await;
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    assert_exclusive(all, &value_of(&first, &counter).await);
    first.close().await;
}

/// One round of ours: the counter goes up, in no atomic way.
async fn round(guard: Guard, counter: &str) -> Held {
    let client = guard.client().clone();
    let start = now();
    let value = value_of(&client, counter).await.parse::<u64>().unwrap() + 1;
    tokio::time::sleep(HOLD).await;
    client
        .set_data(counter, value.to_string(), Version::ANY)
        .await
        .unwrap();
    let end = now();
    let token = Some(guard.fencing_token().get());
    guard.release().await.unwrap();
    Held {
        value,
        side: Side::Ours,
        start,
        end,
        token,
    }
}

/// `held THREAD VALUE START_MS END_MS`
fn curators_round(line: &str) -> Held {
    let words: Vec<_> = line.split(' ').collect();
    let ["held", _, value, start, end] = words[..] else {
        panic!("not a round: {line}");
    };
    Held {
        value: value.parse().unwrap(),
        side: Side::Curator,
        start: start.parse().unwrap(),
        end: end.parse().unwrap(),
        token: None,
    }
}

fn assert_exclusive(mut all: Vec<Held>, counter: &str) {
    all.sort_by_key(|held| held.value);
    let values: Vec<_> = all.iter().map(|held| held.value).collect();
    let expected: Vec<_> = (1..=values.len() as u64).collect();
    assert_eq!(values, expected, "an increment was lost");
    assert_eq!(counter, values.len().to_string());

    for pair in all.windows(2) {
        assert!(
            pair[0].end <= pair[1].start,
            "two held the lock at once: {pair:?}"
        );
    }
    let tokens: Vec<_> = all.iter().filter_map(|held| held.token).collect();
    assert!(tokens.is_sorted(), "{tokens:?}");

    let turns = |from, to| {
        let pairs = all.windows(2);
        pairs
            .filter(|pair| (pair[0].side, pair[1].side) == (from, to))
            .count()
    };
    let (to_us, to_curator) = (
        turns(Side::Curator, Side::Ours),
        turns(Side::Ours, Side::Curator),
    );
    assert!(
        to_us >= 2 && to_curator >= 2,
        "{to_us} and {to_curator} turns: {all:?}"
    );
}

async fn value_of(client: &Client, counter: &str) -> String {
    let node = client.get_data(counter).await.unwrap();
    String::from_utf8(node.data.unwrap().to_vec()).unwrap()
}

/// Waits until this many stand in the line.
async fn until_line_has(client: &Client, lock: &str, length: usize) {
    loop {
        let (children, watcher) = client.get_children_and_watch(lock).await.unwrap();
        if children.len() == length {
            return;
        }
        watcher.await.unwrap();
    }
}

fn now() -> u128 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("a clock after 1970").as_millis()
}
