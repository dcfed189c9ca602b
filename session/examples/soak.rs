//! A soak test, run by hand. Clients work for minutes while their server goes away every few
//! seconds.
//!
//! In the end:
//!
//! - no future hangs;
//! - no watch is left on the server;
//! - the process uses about as much memory as after the warm-up (at most one minute).
//!
//! `tests/soak.sh` starts it, and the server that it kills again and again.
//!
//! Not here: limits on speed. A slow machine does less work and passes all the same.

use std::{
    error::Error,
    io::{Read, Write},
    net::TcpStream,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lockkeeper_proto::{AddWatchMode, CreateMode, Version};
use lockkeeper_session::Client;
use tokio::time::{Instant, sleep, timeout};

/// The number of clients, and of tasks for each client.
const CLIENTS: usize = 4;
const TASKS: usize = 8;
const USAGE: &str = "usage: soak SECONDS HOST:PORT";
/// A future that takes longer hangs. A single request may take twice the session timeout by itself.
const PROBE_TIMEOUT: Duration = Duration::from_secs(60);
/// How many KiB the process may grow after the warm-up: the allocator keeps some memory for itself.
const SLACK: u64 = 4 * 1024;

#[tokio::main]
async fn main() -> ExitCode {
    match soak().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn soak() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().ok_or(USAGE)?.parse()?;
    let servers = arguments.next().ok_or(USAGE)?;
    let length = Duration::from_secs(seconds);
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = Vec::new();
    let mut tasks = Vec::new();
    for _ in 0..CLIENTS {
        let client = Client::builder(&servers)?
            .connect_timeout(PROBE_TIMEOUT)
            .connect()
            .await?;
        for task in 0..TASKS {
            let (client, stop) = (client.clone(), stop.clone());
            tasks.push(tokio::spawn(
                async move { work(&client, task, &stop).await },
            ));
        }
        clients.push(client);
    }

    let begin = Instant::now();
    let first = watch(&clients, length).await?;
    stop.store(true, Ordering::Relaxed);
    let mut rounds = 0;
    for task in tasks {
        rounds += timeout(2 * PROBE_TIMEOUT, task)
            .await
            .map_err(|_| "a task hangs")??;
    }
    for client in &clients {
        timeout(PROBE_TIMEOUT, settle(client))
            .await
            .map_err(|_| "a request or watch is left")?;
    }
    let watches = watches_on(&servers)?;
    let last = memory()?;
    println!(
        "{rounds} rounds in {} s: {first} KiB after the warm-up, {last} KiB in the end; \
         {watches} watches left on the server",
        begin.elapsed().as_secs(),
    );
    for client in clients {
        timeout(PROBE_TIMEOUT, client.close())
            .await
            .map_err(|_| "close hangs")?;
    }
    if watches > 0 {
        return Err(format!("{watches} watches are left on the server").into());
    }
    if last > first + SLACK {
        return Err(format!("{} KiB more than after the warm-up", last - first).into());
    }
    Ok(())
}

/// Prints the clients' counters, twenty times in all. Returns the memory after the warm-up in KiB.
async fn watch(clients: &[Client], length: Duration) -> Result<u64, Box<dyn Error>> {
    let begin = Instant::now();
    let warm_up = (length / 10).min(Duration::from_secs(60));
    let mut first = None;
    let mut lines = 0;
    while begin.elapsed() < length {
        lines += 1;
        let next = (length / 20).max(Duration::from_secs(1)) * lines;
        sleep(next.min(length).saturating_sub(begin.elapsed())).await;
        let memory = memory()?;
        if begin.elapsed() >= warm_up {
            first.get_or_insert(memory);
        }
        let sum = |count: fn(&Client) -> u64| clients.iter().map(count).sum::<u64>();
        println!(
            "{:4} s: {memory} KiB, {} requests answered, {} of unknown outcome, {} not sent, {} reconnects, {} expiries",
            begin.elapsed().as_secs(),
            sum(|client| client.metrics().succeeded + client.metrics().refused),
            sum(|client| client.metrics().unknown),
            sum(|client| client.metrics().not_sent),
            sum(|client| client.metrics().reconnects()),
            sum(|client| client.metrics().expired_sessions),
        );
    }
    Ok(first.unwrap_or(memory()?))
}

/// Runs rounds until `stop` is set. Returns their number.
async fn work(client: &Client, task: usize, stop: &AtomicBool) -> usize {
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) {
        // Requests may fail because of the restarts. But each round must end in time.
        if timeout(PROBE_TIMEOUT, round(client, task, rounds))
            .await
            .is_err()
        {
            panic!("a future hangs in round {rounds} of task {task}");
        }
        rounds += 1;
    }
    rounds
}

async fn round(
    client: &Client,
    task: usize,
    number: usize,
) -> Result<(), lockkeeper_session::Error> {
    let session = client.snapshot().session_id;
    let path = format!("/soak-{session}-{task}");
    let made = client
        .create(&path, vec![7; 200], CreateMode::Ephemeral)
        .await;
    if made.is_err_and(|error| !error.is_node_exists()) {
        return Ok(());
    }
    let (_, changes) = client.get_data_and_watch(&path).await?;
    let (_, dropped) = client.get_children_and_watch("/").await?;
    let armed = client.raw().watch_group();
    armed.watch("/", vec![path[1..].into()]);
    let mut lasting = client
        .add_watch(&path, AddWatchMode::PERSISTENT_RECURSIVE)
        .await?;
    client.set_data(&path, vec![8; 200], Version::ANY).await?;
    changes.await?;
    lasting.next().await.transpose()?;
    drop((dropped, armed, lasting));
    let hasty = client.with_deadline(Duration::from_micros(50));
    let _ = hasty.exists_and_watch(&path).await;
    let _ = timeout(Duration::from_micros(50), client.get_data_and_watch(&path)).await;
    if number.is_multiple_of(3) {
        let transaction = client.transaction().check(&path, Version::ANY);
        transaction.delete(&path, Version::ANY).commit().await?;
    }
    if number % 1000 == 999 {
        client.move_to_next_server();
    }
    Ok(())
}

/// Waits until the client has no request under way and no watch, across reconnects.
async fn settle(client: &Client) {
    while client.sync("/").await.is_err()
        || client.metrics().outstanding() + client.metrics().watches > 0
    {
        sleep(Duration::from_millis(5)).await;
    }
    // The requests that remove the last watches from the server were sent before this one, so they
    // are answered before it.
    while client.sync("/").await.is_err() {}
}

/// The memory of this process, in KiB.
fn memory() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let size = line.and_then(|line| line.split_whitespace().next());
    Ok(size.ok_or("no VmRSS in /proc/self/status")?.parse()?)
}

/// The number of watches on a server, by the four-letter word `mntr`. The server must allow that
/// word.
fn watches_on(server: &str) -> Result<u64, Box<dyn Error>> {
    let mut stream = TcpStream::connect(server)?;
    stream.write_all(b"mntr")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let line = answer
        .lines()
        .find_map(|line| line.strip_prefix("zk_watch_count\t"));
    Ok(line
        .ok_or("the server does not answer `mntr`")?
        .trim()
        .parse()?)
}
