//! Contenders of two implementations on one mutex, and the checks on what they report.
//!
//! - Each round takes the lock, reads a counter, holds the lock for a moment, and writes the
//!   counter plus one, without a version check. The final value is right only if no two contenders
//!   ever held the lock at once.
//! - The values show the order of the holds, and so whether both sides took turns.
//! - All times come from this machine's clock, because both sides run on it.
//!
//! Not here: locks that several clients share (`tests/real/interop`), the foreign programs
//! (tests/foreign/README.md).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockkeeper::{Client, CreateMode, Guard, Mutex, Version};
use tokio::process::Command;

use crate::{Ensemble, programs::Running};

/// The number of contenders on each side. Each has its own session.
const CONTENDERS: usize = 4;

/// How often each contender takes the lock.
const ROUNDS: usize = 25;

/// How long a contender holds the lock in each round.
const HOLD: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Theirs,
    Ours,
}

/// One round of a contender.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// The value that the contender wrote to the counter.
    pub value: u64,
    pub side: Side,
    /// The first moment inside the lock, in ms since 1970.
    pub start: u128,
    /// The last moment inside the lock, in ms since 1970.
    pub end: u128,
    /// The fencing token, for rounds of our side only.
    pub token: Option<u64>,
}

/// Lets our contenders and those of `program` contend for one mutex, and checks the result.
///
/// The program is one of the contenders in tests/foreign. `more` are its arguments after the usual
/// ones.
pub async fn they_and_we_exclude_each_other(ensemble: &Ensemble, program: Command, more: &[&str]) {
    let lock = ensemble.unique_path("lock");
    let (first, counter) = counter(ensemble).await;
    let mut theirs = start(ensemble, program, &lock, &counter);
    theirs.args([
        CONTENDERS.to_string(),
        ROUNDS.to_string(),
        HOLD.as_millis().to_string(),
    ]);
    theirs.args(more);
    let mut theirs = Running::start(theirs);
    assert_eq!(theirs.line().await, "ready");

    // First, all their contenders wait for a lock that we hold.
    let guard = Mutex::new(&first, &lock).unwrap().lock().await.unwrap();
    theirs.say("go").await;
    until_line_has(&first, &lock, 1 + CONTENDERS).await;
    // Then our contenders enter the queue behind them.
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
        all.push(their_round(&theirs.line().await));
    }
    assert_eq!(theirs.line().await, format!("done {}", CONTENDERS * ROUNDS));
    theirs.end().await;
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    assert_exclusive(all, &value_of(&first, &counter).await);
    first.close().await;
}

/// A new counter with the value 0, and the client that created it.
pub async fn counter(ensemble: &Ensemble) -> (Client, String) {
    let counter = ensemble.unique_path("counter");
    let client = ensemble.client().await;
    client
        .create(&counter, "0", CreateMode::Persistent)
        .await
        .unwrap();
    (client, counter)
}

/// A contender program with the arguments that all contenders have.
pub fn start(ensemble: &Ensemble, mut program: Command, lock: &str, counter: &str) -> Command {
    program.args([&ensemble.servers(), lock, counter]);
    program
}

/// One round of our side, with the lock held: increments the counter and releases the lock.
pub async fn round(guard: Guard, counter: &str) -> Held {
    let held = write(&guard, counter).await;
    guard.release().await.unwrap();
    held
}

/// Increments the counter, not atomically. Between the read and the write its value is not a
/// number, so another contender that reads it at that time fails.
async fn write(guard: &Guard, counter: &str) -> Held {
    let client = guard.client();
    let start = now();
    let value = value_of(client, counter).await.parse::<u64>().unwrap() + 1;
    set(client, counter, "busy").await;
    tokio::time::sleep(HOLD).await;
    set(client, counter, &value.to_string()).await;
    Held {
        value,
        side: Side::Ours,
        start,
        end: now(),
        token: Some(guard.fencing_token().get()),
    }
}

/// Parses a round that a foreign contender reports: `held THREAD VALUE START_MS END_MS`.
pub fn their_round(line: &str) -> Held {
    let words: Vec<_> = line.split(' ').collect();
    let ["held", _, value, start, end] = words[..] else {
        panic!("not a round: {line}");
    };
    Held {
        value: value.parse().unwrap(),
        side: Side::Theirs,
        start: start.parse().unwrap(),
        end: end.parse().unwrap(),
        token: None,
    }
}

/// Checks that no two rounds overlap, no increment is lost, the tokens grow, and the sides took
/// turns.
fn assert_exclusive(mut all: Vec<Held>, counter: &str) {
    all.sort_by_key(|held| held.value);
    let values: Vec<_> = all.iter().map(|held| held.value).collect();
    let expected: Vec<_> = (1..=values.len() as u64).collect();
    assert_eq!(values, expected, "an increment was lost");
    assert_eq!(counter, values.len().to_string());

    for pair in all.windows(2) {
        assert!(
            pair[0].end <= pair[1].start,
            "two contenders held the lock at once: {pair:?}"
        );
    }
    let tokens: Vec<_> = all.iter().filter_map(|held| held.token).collect();
    assert!(tokens.is_sorted(), "{tokens:?}");

    let sides: Vec<_> = all.iter().map(|held| held.side).collect();
    assert_took_turns(&sides);
}

/// Checks that each side held the lock directly after the other side at least twice.
fn assert_took_turns(sides: &[Side]) {
    let turns = |from, to| {
        let pairs = sides.windows(2);
        pairs.filter(|pair| **pair == [from, to]).count()
    };
    let (to_us, to_them) = (
        turns(Side::Theirs, Side::Ours),
        turns(Side::Ours, Side::Theirs),
    );
    assert!(
        to_us >= 2 && to_them >= 2,
        "{to_us} and {to_them} turns: {sides:?}"
    );
}

pub async fn value_of(client: &Client, counter: &str) -> String {
    let node = client.get_data(counter).await.unwrap();
    String::from_utf8(node.data.unwrap().to_vec()).unwrap()
}

async fn set(client: &Client, counter: &str, value: &str) {
    client
        .set_data(counter, value.to_owned(), Version::ANY)
        .await
        .unwrap();
}

/// Waits until the queue has this length.
pub async fn until_line_has(client: &Client, lock: &str, length: usize) {
    until_line(client, lock, |names| names.len() == length).await;
}

/// Waits until the names of the nodes in the queue satisfy a condition.
pub async fn until_line(client: &Client, lock: &str, is_so: impl Fn(&[String]) -> bool) {
    loop {
        // The directory may not exist yet, or the server's reaper may have deleted it while it was
        // empty.
        let (stat, made) = client.exists_and_watch(lock).await.unwrap();
        if stat.is_none() {
            made.await.unwrap();
        }
        match client.get_children_and_watch(lock).await {
            Ok((names, _)) if is_so(&names) => return,
            Ok((_, changed)) => drop(changed.await.unwrap()),
            Err(error) => assert!(error.is_no_node(), "{error}"),
        }
    }
}

/// The present time in ms since 1970.
fn now() -> u128 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("a clock after 1970").as_millis()
}
