//! A burst of tasks of one client that enter the queue of one lock at the same time.
//!
//! The client left a healthy server because its pings waited behind the requests, and what it asked
//! for after each reconnect ended that server with `OutOfMemoryError`.
//! `LOCKKEEPER_TEST_TASKS=100000` makes more tasks of it.
//!
//! Not here: what one lost connection costs in requests (`recipes/tests/locks/lost_creates.rs`).

use std::{
    net::ToSocketAddrs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use lockkeeper::{Client, Mutex, locks::LockMeter};
use lockkeeper_test_support::{Ensemble, on_both_arms, proxy::Proxy};

/// The shortest timeout that a ZooKeeper with its default settings grants.
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

fn tasks() -> usize {
    let tasks = std::env::var("LOCKKEEPER_TEST_TASKS");
    tasks.map_or(2_000, |tasks| tasks.parse().expect("a number"))
}

/// Checks that all tasks enter and leave, and that they list the queue rarely. The connection is
/// lost when half of them have entered, if `is_cut`.
async fn all_enter(ensemble: &Ensemble, is_cut: bool) {
    let count = tasks();
    let server = ensemble.one_server().to_socket_addrs().unwrap().next();
    let proxy = Proxy::to(&[server.unwrap()]).await;
    let client = Client::builder(&proxy.connect_string())
        .unwrap()
        .session_timeout(SESSION_TIMEOUT)
        .connect()
        .await
        .unwrap();
    let meter = LockMeter::new("burst");
    let mutex = Mutex::new(&client, &ensemble.unique_path("burst"))
        .unwrap()
        .with_meter(&meter);
    let (begin, entered) = (Instant::now(), Arc::<AtomicUsize>::default());
    let enter = |_| {
        let (mutex, entered) = (mutex.clone(), entered.clone());
        tokio::spawn(async move {
            let ticket = mutex.enqueue().await;
            entered.fetch_add(1, Ordering::Relaxed);
            ticket
        })
    };
    let entering: Vec<_> = (0..count).map(enter).collect();
    if is_cut {
        while entered.load(Ordering::Relaxed) < count / 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        proxy.reset();
    }
    let mut tickets = Vec::new();
    for ticket in entering {
        tickets.push(ticket.await.unwrap().unwrap());
        if tickets.len() % 1_000 == 0 {
            ensemble.part_done();
        }
    }
    let (took, listings) = (begin.elapsed(), meter.metrics().listings);
    let connections = client.snapshot().connections;
    println!("{count} tasks: {took:?}, {listings} listings, {connections} connections");
    // The listings grow with the logarithm of the tasks. After a lost connection a few more come.
    let most = 100 + 40 * connections;
    assert!(
        listings <= most,
        "{listings} listings of {connections} connections"
    );
    drop(tickets);
    let guard = mutex.lock().await.unwrap();
    guard.release().await.unwrap();
    client.close().await;
}

on_both_arms! {
    async fn a_burst_of_tasks_enters(ensemble: &Ensemble) {
        all_enter(ensemble, false).await;
    }

    async fn a_burst_of_tasks_enters_while_the_connection_is_lost(ensemble: &Ensemble) {
        all_enter(ensemble, true).await;
    }
}
