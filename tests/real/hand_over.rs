//! Locks that are handed over from process to process on three real servers, while processes are
//! killed at random moments.
//!
//! Each round has a lock of its own, and processes that are this test program, started again: a holder,
//! a waiter behind it, and one or two that take the lock over. The story of a round is drawn from a seed,
//! but a seed does not repeat the order of events. The checker of the simulation reads what the processes say.
//!
//! `LOCKKEEPER_TEST_SEED` and `LOCKKEEPER_TEST_ROUNDS` are those of `random`.
//!
//! Not here: what fails at an exact moment (`tests/sim`), each promise by itself
//! (`recipes/tests/locks/hand_over.rs`).

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use futures::future::join_all;
use lockkeeper::{Client, Guard, LockError, client::Builder, locks::LockTicket};
use lockkeeper_sim::{
    Rng,
    check::{Bounds, check},
    history::{Attempt, End, Event, Mode, What},
};
use lockkeeper_test_support::{
    servers::{Members, on_ensemble},
    waiting::{LONG, soon, until},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
    runtime,
    sync::mpsc,
    time::sleep,
};

use crate::random::seeds;

/// What a process is told: its part, the servers, the path of the lock, and the file of the ticket.
const TOLD: &str = "LOCKKEEPER_TEST_HAND_OVER";
const SESSION: Duration = Duration::from_secs(3);
/// How many rounds there are unless the environment says otherwise, and how many at a time.
const ROUNDS: u64 = 8;
const AT_A_TIME: usize = 4;
const HOLDER: u32 = 0;
const WAITER: u32 = 1;
const TAKER: u32 = 2;

/// The time since 1970, by the clock that all processes have.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// What the processes of a round have said: when, who, and the words.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(Duration, u32, String)>>>);

impl Log {
    fn note(&self, at: Duration, who: u32, words: &str) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push((at, who, words.to_owned()));
    }

    /// Everything, in the order of time.
    fn sorted(&self) -> Vec<(Duration, u32, String)> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = lines.clone();
        lines.sort_by_key(|(at, ..)| *at);
        lines
    }

    /// What a process has said that begins with this word.
    fn of(&self, who: u32, word: &str) -> Option<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut its = lines.iter().filter(|(_, it, _)| *it == who);
        let line = its.find(|(_, _, words)| words.starts_with(word));
        line.map(|(_, _, words)| words.clone())
    }

    /// Waits until a process has said this, or has ended.
    async fn until(&self, who: u32, word: &str) {
        let what = format!("{who} says {word}");
        until(&what, async || {
            self.of(who, word).or(self.of(who, "end")).is_some()
        })
        .await;
    }
}

/// One process. Its drop kills it.
struct Process(Child);

impl Process {
    fn start(log: &Log, who: u32, told: &str) -> Self {
        log.note(now(), who, "asked");
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "hand_over::child_of_the_tests", "--nocapture"])
            .env(TOLD, format!("{who} {told}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let log = log.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let said = line.split_once("> ").and_then(|(_, it)| it.split_once(' '));
                if let Some((at, words)) = said {
                    log.note(Duration::from_nanos(at.parse().unwrap()), who, words);
                }
            }
            log.note(now(), who, "end");
        });
        Self(child)
    }

    /// Tells a process what to do, if it is there.
    async fn tell(&mut self, order: &str) {
        let stdin = self.0.stdin.as_mut().unwrap();
        let _ = stdin.write_all(format!("{order}\n").as_bytes()).await;
    }

    fn kill(&mut self) {
        let _ = self.0.start_kill();
    }
}

/// What is wrong with a round, and whether a process has taken the lock over.
struct Outcome {
    wrong: Vec<String>,
    is_taken: bool,
}

/// A random time, mostly a short one.
fn short(random: &mut Rng, ms: u64) -> Duration {
    let most = 1 + random.draw() % (1000 * ms);
    Duration::from_micros(random.draw() % most)
}

/// Makes one round.
async fn round(servers: String, seed: u64) -> Outcome {
    let mut random = Rng::from_seed(seed);
    let (log, path) = (
        Log::default(),
        format!("/hand-over-{}-{seed}", now().as_nanos()),
    );
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&path[1..]);
    let told = format!("{servers} {path} {}", file.display());
    let mut holder = Process::start(&log, HOLDER, &told);
    log.until(HOLDER, "granted").await;
    let mut waiter = Process::start(&log, WAITER, &told);
    log.until(WAITER, "queued").await;

    sleep(short(&mut random, 300)).await;
    holder.tell("hand").await;
    if random.below(3) == 0 {
        sleep(short(&mut random, 50)).await;
        holder.kill();
    }
    log.until(HOLDER, "end").await;
    let mut takers = Vec::new();
    if file.exists() {
        // Now and then it is too late.
        let late = random.one_of(&[300, 300, 300, 300, 300, 5000]);
        sleep(short(&mut random, late)).await;
        takers.push(Process::start(&log, TAKER, &told));
        if random.below(2) == 0 {
            sleep(short(&mut random, 1000)).await;
            takers.push(Process::start(&log, TAKER + 1, &told));
        }
        if random.below(3) == 0 {
            sleep(short(&mut random, 1500)).await;
            let killed = random.below(takers.len());
            takers[killed].kill();
        }
    }
    let all = 0..TAKER + u32::try_from(takers.len()).unwrap();
    for who in TAKER..all.end {
        log.until(who, "granted").await;
    }
    sleep(short(&mut random, 1000)).await;
    for taker in &mut takers {
        taker.tell("release").await;
    }
    log.until(WAITER, "granted").await;
    waiter.tell("release").await;
    for who in all {
        log.until(who, "end").await;
    }
    let _ = fs::remove_file(file);
    judge(&servers, seed, &path, &log).await
}

/// Looks at what the processes of a round have said, and at what is left in the queue.
async fn judge(servers: &str, seed: u64, path: &str, log: &Log) -> Outcome {
    let mut wrong = Vec::new();
    let held = log.of(HOLDER, "granted");
    let taken = [TAKER, TAKER + 1].map(|who| log.of(who, "granted"));
    let taken = taken.into_iter().flatten().next();
    if taken.is_some() && taken != held {
        wrong.push(format!("{held:?} has become {taken:?}"));
    }
    if log.of(WAITER, "released").is_none() {
        wrong.push("the waiter did not get the lock".to_owned());
    }
    let client = soon(settings(servers).connect()).await.unwrap();
    until("the queue drains", async || {
        let left = client.get_children(path).await;
        // The servers remove containers.
        left.map_or_else(|error| error.is_no_node(), |left| left.is_empty())
    })
    .await;
    soon(client.close()).await;
    let history = history(path, &log.sorted());
    let bounds = Bounds {
        calm: Duration::ZERO,
        max_wait: None,
        news: LONG,
        hand_over: None,
        knows_sessions: false,
    };
    wrong.extend(check(&history, &bounds).iter().map(ToString::to_string));
    let refused = (HOLDER..=TAKER + 1).filter_map(|who| log.of(who, "refused"));
    let refused: Vec<_> = refused.collect();
    println!("seed {seed}: taken over: {}; {refused:?}", taken.is_some());
    if !wrong.is_empty() {
        let lines: Vec<_> = history.iter().map(ToString::to_string).collect();
        let file = format!("hand-over-{seed}.history");
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
        fs::write(&file, lines.join("\n")).expect("a file below target/");
        println!("seed {seed} FAILS: {wrong:#?}; {}", file.display());
    }
    Outcome {
        is_taken: taken.is_some(),
        wrong,
    }
}

/// The history of what the processes have said. A process that has ended claims nothing.
fn history(path: &str, lines: &[(Duration, u32, String)]) -> Vec<Event> {
    let start = lines.first().map_or(Duration::ZERO, |(at, ..)| *at);
    let event = |(at, client, words): &(Duration, u32, String)| {
        let attempt = Attempt(u64::from(*client));
        let words: Vec<_> = words.split(' ').collect();
        let what = match words[..] {
            ["asked"] => What::Asked {
                attempt,
                lock: path.into(),
                mode: Mode::Exclusive,
            },
            ["granted", token, session, node] => What::Granted {
                attempt,
                token: token.parse().unwrap(),
                node: node.to_owned(),
                session: session.parse().unwrap(),
            },
            ["valid", until] => What::Valid {
                attempt,
                until: Duration::from_nanos(until.parse().unwrap()).saturating_sub(start),
            },
            ["handing"] => What::HandedOver(attempt),
            ["letgo"] => What::LetGo(attempt),
            ["end"] => What::Ended {
                attempt,
                end: End::Dropped,
            },
            _ => return None,
        };
        let (at, client) = (at.saturating_sub(start), *client);
        Some(Event { at, client, what })
    };
    lines.iter().filter_map(event).collect()
}

#[test]
#[ignore = "needs three real ZooKeepers: tests/run.sh"]
fn needs_ensemble_a_lock_is_handed_over_while_processes_are_killed() {
    on_ensemble(Members::Fixed, async |servers| {
        let seeds: Vec<_> = seeds(ROUNDS).collect();
        let enough = seeds.len().div_ceil(4);
        // On a busy machine many processes come too late.
        let more: Vec<_> = (1..=4 * ROUNDS).map(|nth| nth << 32).collect();
        let (mut failed, mut taken) = (Vec::new(), 0);
        for (nth, some) in seeds
            .chunks(AT_A_TIME)
            .chain(more.chunks(AT_A_TIME))
            .enumerate()
        {
            if nth * AT_A_TIME >= seeds.len() && taken >= enough {
                break;
            }
            let rounds = some
                .iter()
                .map(|seed| round(servers.connect_string(), *seed));
            for (seed, outcome) in some.iter().zip(join_all(rounds).await) {
                failed.extend((!outcome.wrong.is_empty()).then_some(*seed));
                taken += usize::from(outcome.is_taken);
            }
        }
        assert!(failed.is_empty(), "seeds that fail: {failed:?}");
        assert!(taken >= enough, "{taken} locks were taken over");
    });
}

// The processes.

fn settings(servers: &str) -> Builder {
    Client::builder(servers).unwrap().session_timeout(SESSION)
}

fn say(words: &str) {
    println!("> {} {words}", now().as_nanos());
}

/// A process of a round, if the test above has started this program.
#[test]
fn child_of_the_tests() {
    let Ok(told) = env::var(TOLD) else {
        return;
    };
    let words: Vec<_> = told.split(' ').collect();
    let [who, servers, path, file] = words[..] else {
        panic!("{told}");
    };
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(async {
        match enter(who.parse().unwrap(), servers, path, file).await {
            Ok(guard) => hold(guard, PathBuf::from(file)).await,
            Err(error) => say(&format!("refused {error}")),
        }
    });
}

async fn enter(who: u32, servers: &str, path: &str, file: &str) -> Result<Guard, LockError> {
    if who >= TAKER {
        let ticket = LockTicket::from_bytes(&fs::read(file).unwrap()).unwrap();
        return ticket.take_over(settings(servers)).await;
    }
    let mutex = lockkeeper::Mutex::new(&settings(servers).connect().await?, path)?;
    let place = mutex.enqueue().await?;
    drop(mutex);
    say("queued");
    place.wait().await
}

/// Claims the lock until the process is told to give it up.
async fn hold(guard: Guard, file: PathBuf) {
    let (token, node) = (guard.fencing_token(), guard.path());
    let session = guard.client().snapshot().session_id.0;
    say(&format!("granted {token} {session} {node}"));
    let (sender, mut orders) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for order in io::stdin().lines() {
            let _ = sender.send(order.unwrap());
        }
    });
    let order = loop {
        if let Some(until) = guard.valid_until() {
            let until = now() + until.saturating_duration_since(Instant::now());
            say(&format!("valid {}", until.as_nanos()));
        }
        tokio::select! {
            order = orders.recv() => break order,
            () = sleep(Duration::from_millis(5)) => {}
        }
    };
    if order.as_deref() == Some("hand") {
        say("handing");
        say("letgo");
        let ticket = guard.hand_over().await;
        let new = file.with_extension("new");
        let written = ticket.map(|ticket| fs::write(&new, ticket.to_bytes()));
        match written {
            Ok(written) => written.and_then(|()| fs::rename(new, file)).unwrap(),
            Err(error) => say(&format!("refused {error}")),
        }
        return;
    }
    say("letgo");
    match guard.release().await {
        Ok(()) => say("released"),
        Err(error) => say(&format!("refused {error}")),
    }
}
