//! The gate: counts the instructions and allocations of a request and a lock. Other load does not
//! change these counts.
//!
//! The program runs itself under valgrind, each scenario with two numbers of rounds. The cost of
//! one round is the difference of the counts divided by the difference of the rounds, so start-up
//! does not count.
//!
//! ```text
//! cargo bench -p lockkeeper-bench --bench cost               compare with cost.txt; fail when a scenario costs more
//! cargo bench -p lockkeeper-bench --bench cost -- --bless    write the new costs to cost.txt
//! ```
//!
//! Not here: system calls (`README.md`).

use std::{
    collections::VecDeque,
    env,
    fmt::{self, Write},
    future::{Future, poll_fn},
    hint::black_box,
    pin::Pin,
    process::{Command, ExitCode},
    task::Poll,
};

use bytes::BytesMut;
use lockkeeper::{Client, CreateMode, Mutex, Version, client::Connector, proto::Response};
use lockkeeper_bench::{Failure, loopback, messages};
use lockkeeper_recipes::rank;
use tokio::task::JoinSet;

/// The numbers of rounds of the two runs.
const ROUNDS: [u64; 2] = [300, 1300];
/// By how much the instructions may exceed `cost.txt`, in per cent: compilers and their libraries
/// differ.
const TOLERANCE_PER_CENT: u64 = 3;
const FIGURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/cost.txt");

/// A function that repeats its work for a number of rounds.
type Scenario = fn(u64) -> Result<(), Failure>;

const SCENARIOS: [(&str, Scenario); 15] = [
    ("encode create", encode_create),
    ("decode 32 children", |rounds| decode_children(rounds, 32)),
    ("decode 1000 children", |rounds| {
        decode_children(rounds, 1000)
    }),
    ("rank 32 children", rank_children),
    ("decode and rank 1000 children", decode_and_rank),
    ("split 100 frames", split_frames),
    ("get", |rounds| one_by_one(rounds, Request::Get)),
    ("create and delete", |rounds| {
        one_by_one(rounds, Request::CreateDelete)
    }),
    ("lock and release", |rounds| lock(rounds, true)),
    ("lock after a wait and release", |rounds| {
        lock(rounds, false)
    }),
    ("get, 64 in flight", |rounds| at_once(rounds, Request::Get)),
    ("create and delete, 64 in flight", |rounds| {
        at_once(rounds, Request::CreateDelete)
    }),
    ("enter a crowd", |rounds| in_crowd(rounds, InCrowd::Enter)),
    ("lock and release in a crowd", |rounds| {
        in_crowd(rounds, InCrowd::HandOver)
    }),
    ("enter and leave a crowd", |rounds| {
        in_crowd(rounds, InCrowd::GiveUp)
    }),
];

/// How many contenders of one client there are while others come and go.
const CROWD: usize = 64;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let result = match &arguments[..] {
        [run, scenario, rounds] if run == "run" => run_here(scenario, rounds),
        _ => compare(arguments.iter().any(|argument| argument == "--bless")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cost: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run_here(scenario: &str, rounds: &str) -> Result<(), Failure> {
    let (_, run) = SCENARIOS
        .iter()
        .find(|(name, _)| *name == scenario)
        .ok_or("no such scenario")?;
    run(rounds.parse()?)
}

/// The cost of one round of a scenario.
#[derive(Clone, Copy)]
struct Cost {
    instructions: u64,
    allocations: u64,
}

impl Cost {
    fn measure(scenario: &str) -> Result<Self, Failure> {
        let [few, many] = ROUNDS;
        let per_round = |tool: &str, word: &str| -> Result<u64, Failure> {
            let difference = valgrind(tool, word, scenario, many)?
                .saturating_sub(valgrind(tool, word, scenario, few)?);
            let rounds = many - few;
            Ok((difference + rounds / 2) / rounds)
        };
        Ok(Self {
            instructions: per_round("callgrind", "Collected :")?,
            allocations: per_round("dhat", "Total:")?,
        })
    }
}

/// Runs a scenario under a tool of valgrind, and returns the last number of the output line that
/// contains `word`.
fn valgrind(tool: &str, word: &str, scenario: &str, rounds: u64) -> Result<u64, Failure> {
    let output = Command::new("valgrind")
        .arg(format!("--tool={tool}"))
        .arg(format!("--{tool}-out-file=/dev/null"))
        .arg(env::current_exe()?)
        .args(["run", scenario, &rounds.to_string()])
        .output()
        .map_err(|error| format!("cannot run valgrind: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let number = |word: &str| word.replace(',', "").parse().ok();
    let line = text.lines().find(|line| line.contains(word));
    line.filter(|_| output.status.success())
        .and_then(|line| line.split_whitespace().filter_map(number).next_back())
        .ok_or_else(|| format!("valgrind failed:\n{text}").into())
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>9} instructions {:>6} allocations",
            self.instructions, self.allocations
        )
    }
}

fn compare(bless: bool) -> Result<(), Failure> {
    let known = std::fs::read_to_string(FIGURES).unwrap_or_default();
    let (mut worse, mut figures) = (Vec::new(), String::new());
    for (scenario, _) in SCENARIOS {
        let cost = Cost::measure(scenario)?;
        writeln!(figures, "{scenario:<32}{cost}")?;
        let before = known.lines().find_map(|line| parse(line, scenario));
        let is_worse = before.is_some_and(|before| {
            cost.instructions > before.instructions * (100 + TOLERANCE_PER_CENT) / 100
                || cost.allocations > before.allocations
        });
        let before = before.map(|before| format!("   before: {before}"));
        println!("{scenario:<32}{cost}{}", before.unwrap_or_default());
        if is_worse {
            worse.push(scenario);
        }
    }
    if bless {
        return Ok(std::fs::write(FIGURES, figures)?);
    }
    if worse.is_empty() {
        return Ok(());
    }
    let worse = worse.join(", ");
    Err(format!("these scenarios cost more than {FIGURES} allows: {worse}").into())
}

fn parse(line: &str, scenario: &str) -> Option<Cost> {
    let mut words = line.strip_prefix(scenario)?.split_whitespace();
    let instructions = words.next()?.parse().ok()?;
    let allocations = words.nth(1)?.parse().ok()?;
    Some(Cost {
        instructions,
        allocations,
    })
}

fn encode_create(rounds: u64) -> Result<(), Failure> {
    let request = messages::create_request();
    let mut out = BytesMut::new();
    for _ in 0..rounds {
        out.clear();
        messages::encode(black_box(&request), &mut out)?;
        black_box(&out);
    }
    Ok(())
}

fn decode_children(rounds: u64, names: usize) -> Result<(), Failure> {
    let reply = messages::children_reply(names)?;
    for _ in 0..rounds {
        black_box(messages::decode_children(black_box(&reply).clone())?);
    }
    Ok(())
}

/// Ranks the listing, as the last of 32 contenders does.
fn rank_children(rounds: u64) -> Result<(), Failure> {
    let names = messages::lock_nodes(32);
    let mine = names.last().ok_or("no names")?;
    for _ in 0..rounds {
        let children = black_box(&names).iter().map(String::as_str);
        black_box(rank::rank(rank::Kind::Mutex, children, mine));
    }
    Ok(())
}

/// Ranks a listing straight from its reply, as the last of 1,000 contenders does.
fn decode_and_rank(rounds: u64) -> Result<(), Failure> {
    let reply = messages::children_reply(1000)?;
    let names = messages::lock_nodes(1000);
    let mine = names.last().ok_or("no names")?;
    for _ in 0..rounds {
        let list = messages::decode_children(black_box(&reply).clone())?;
        let Response::GetChildren(list) = list else {
            return Err("another reply".into());
        };
        black_box(rank::rank(rank::Kind::Mutex, list.children.iter(), mine));
    }
    Ok(())
}

fn split_frames(rounds: u64) -> Result<(), Failure> {
    let stream = messages::stream(100)?;
    let mut input = BytesMut::new();
    for _ in 0..rounds {
        input.extend_from_slice(black_box(&stream));
        black_box(messages::split_all(&mut input)?);
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Request {
    Get,
    CreateDelete,
}

impl Request {
    async fn send(self, client: &Client, node: &str) -> Result<(), Failure> {
        match self {
            Self::Get => drop(client.get_data(node).await?),
            Self::CreateDelete => {
                client.create(node, "", CreateMode::Ephemeral).await?;
                client.delete(node, Version::ANY).await?;
            }
        }
        Ok(())
    }
}

fn one_by_one(rounds: u64, request: Request) -> Result<(), Failure> {
    on_client(loopback::connector(true), async |client| {
        for _ in 0..rounds {
            request.send(&client, "/bench/node").await?;
        }
        Ok(())
    })
}

/// Sends requests from many tasks.
fn at_once(rounds: u64, request: Request) -> Result<(), Failure> {
    const TASKS: usize = 64;
    on_client(loopback::connector(true), async |client| {
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let client = client.clone();
            tasks.spawn(async move {
                let node = format!("/bench/node{task}");
                for _ in (0..rounds).skip(task).step_by(TASKS) {
                    request.send(&client, &node).await?;
                }
                Ok::<_, Failure>(())
            });
        }
        while let Some(task) = tasks.join_next().await {
            task??;
        }
        Ok(())
    })
}

fn lock(rounds: u64, empty: bool) -> Result<(), Failure> {
    on_client(loopback::connector(empty), async |client| {
        let mutex = Mutex::new(&client, "/bench/locks/one")?;
        for _ in 0..rounds {
            mutex.lock().await?.release().await?;
        }
        Ok(())
    })
}

#[derive(Clone, Copy, PartialEq)]
enum InCrowd {
    /// All contenders stay, so that the crowd grows with the rounds.
    Enter,
    /// The first one gets the lock and releases it, and another one enters.
    HandOver,
    /// One in the middle gives up, and another one enters.
    GiveUp,
}

/// Runs a whole client with many contenders for one lock.
fn in_crowd(rounds: u64, kind: InCrowd) -> Result<(), Failure> {
    on_client(loopback::connector_of_crowd(), async |client| {
        let mutex = Mutex::new(&client, "/bench/locks/one")?;
        let mut waiters = VecDeque::new();
        let enter = async || Ok::<_, Failure>(Box::pin(mutex.enqueue().await?.wait()));
        for _ in 0..CROWD {
            waiters.push_back(enter().await?);
        }
        for _ in 0..rounds {
            match kind {
                InCrowd::Enter => {}
                InCrowd::HandOver => {
                    let first = waiters.pop_front().ok_or("nobody waits")?.await?;
                    // Its task would be awake, as the next one.
                    polled(waiters.front_mut()).await?;
                    first.release().await?;
                }
                InCrowd::GiveUp => drop(waiters.remove(CROWD / 2)),
            }
            waiters.push_back(enter().await?);
            if kind == InCrowd::GiveUp {
                polled(waiters.get_mut(CROWD / 2)).await?;
            }
        }
        if kind == InCrowd::Enter {
            // Their end is not counted.
            std::process::exit(0);
        }
        Ok(())
    })
}

/// Polls a waiter once.
async fn polled<F: Future>(waiter: Option<&mut Pin<Box<F>>>) -> Result<(), Failure> {
    let waiter = waiter.ok_or("nobody waits")?;
    let poll = poll_fn(|cx| Poll::Ready(waiter.as_mut().poll(cx).is_pending()));
    black_box(poll.await);
    Ok(())
}

/// Runs a whole client, including its driver task, on one thread.
fn on_client(
    connector: Connector,
    work: impl AsyncFnOnce(Client) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    runtime.block_on(async {
        let builder = Client::builder("memory:1")?.connector(connector);
        work(builder.connect().await?).await
    })
}
