//! `lockkeeper-crowd HOST:PORT WAITERS SESSIONS`: what many waiters on one lock cost while they
//! enter, while half of them give up at once, and while the rest are granted the lock. Prints one
//! line of JSON for each of the three.
//!
//! Not here: how to read the lines (`README.md`).

use std::time::{Duration, Instant};

use clap::Parser;
use lockkeeper::{Client, Mutex, locks::LockMeter};
use lockkeeper_bench::{
    Failure,
    runner::SESSION_TIMEOUT,
    window::{cpu, resident_kb},
};
use serde_json::json;
use tokio::{sync::mpsc, task::JoinSet};

#[derive(Parser)]
struct Args {
    server: String,
    waiters: usize,
    sessions: usize,
}

async fn connect(server: &str) -> Result<Client, Failure> {
    let builder = Client::builder(server)?;
    Ok(builder.session_timeout(SESSION_TIMEOUT).connect().await?)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let (server, waiters) = (&*args.server, args.waiters);
    let path = format!("/lockkeeper-bench-{}", std::process::id());
    let first = Mutex::new(&connect(server).await?, &path)?.lock().await?;
    let mut crowd = Crowd {
        waiters,
        clients: Vec::new(),
        locks: Vec::new(),
        meter: LockMeter::new("crowd"),
    };
    for _ in 0..args.sessions {
        let client = connect(server).await?;
        let lock = Mutex::new(&client, &path)?.with_meter(&crowd.meter);
        crowd.locks.push(lock);
        crowd.clients.push(client);
    }
    let (entered, mut entering) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();

    let before = crowd.now();
    let mut handles = Vec::new();
    for lock in crowd.locks.iter().cycle().take(waiters) {
        let (lock, entered) = (lock.clone(), entered.clone());
        handles.push(tasks.spawn(async move {
            let ticket = lock.enqueue().await?;
            let _ = entered.send(());
            ticket.wait().await?.release().await
        }));
    }
    for _ in 0..waiters {
        entering.recv().await.ok_or("a waiter is gone")?;
    }
    crowd.rest().await;
    crowd.print("enter", waiters, &before);

    let before = crowd.now();
    let leaving: Vec<_> = handles.iter().step_by(2).collect();
    for handle in &leaving {
        handle.abort();
    }
    for _ in &leaving {
        let _ = tasks.join_next().await;
    }
    crowd.rest().await;
    crowd.print("give_up", leaving.len(), &before);

    let (before, left) = (crowd.now(), tasks.len());
    first.release().await?;
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    crowd.rest().await;
    crowd.print("drain", left, &before);
    for client in crowd.clients {
        client.close().await;
    }
    Ok(())
}

/// The sessions, and what their locks cost.
struct Crowd {
    waiters: usize,
    clients: Vec<Client>,
    locks: Vec<Mutex>,
    meter: LockMeter,
}

/// What was used so far.
struct Used {
    at: Instant,
    cpu: (f64, f64),
    resident_kb: u64,
    requests: u64,
    listings: u64,
    received: u64,
}

impl Crowd {
    fn now(&self) -> Used {
        let locks = self.meter.metrics();
        let clients = self.clients.iter();
        let received = clients.map(|it| it.metrics().bytes_received);
        Used {
            at: Instant::now(),
            cpu: cpu(),
            resident_kb: resident_kb(),
            requests: locks.requests,
            listings: locks.listings,
            received: received.sum(),
        }
    }

    /// Waits until every request is answered.
    async fn rest(&self) {
        let rests = |client: &Client| client.metrics().outstanding() == 0;
        while !self.clients.iter().all(rests) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "for people")]
    fn print(&self, what: &str, operations: usize, before: &Used) {
        let now = self.now();
        let seconds = (now.at - before.at).as_secs_f64();
        let each = |now: u64, before: u64| (now as f64 - before as f64) / operations as f64;
        let line = json!({
            "workload": "crowd",
            "name": what,
            "param": self.waiters,
            "sessions": self.clients.len(),
            "ops": operations,
            "secs": seconds,
            "ops_per_s": operations as f64 / seconds,
            "cpu_user_s": now.cpu.0 - before.cpu.0,
            "cpu_sys_s": now.cpu.1 - before.cpu.1,
            "requests_per_op": each(now.requests, before.requests),
            "listings": now.listings - before.listings,
            "received_per_op": each(now.received, before.received),
            "resident_kb_per_op": each(now.resident_kb, before.resident_kb),
        });
        println!("{line}");
    }
}
