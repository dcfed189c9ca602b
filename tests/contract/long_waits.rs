//! Waits that no event ends. A contender that has waited for a session timeout asks the leader
//! whether what it waits for is still there.
//!
//! Most of it runs on tokio's paused time, on the embedded server alone.

use std::time::Duration;

use futures::future::join_all;
use lockkeeper::{
    Client, LockError, Mutex, RwLock,
    client::Clock,
    error::Obstacle,
    locks::{Ticket, break_lock, inspect},
    node::{Acl, Perms},
    raw::AsRaw,
};
use lockkeeper_server::{Cluster, Server};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    kinds::Kind,
    rig::{nodes, rival, soon, until, until_waiting},
    support::Ensemble,
};

const TIMEOUT: Duration = Duration::from_secs(4);

async fn client(servers: &str) -> Client {
    let builder = Client::builder(servers).unwrap().session_timeout(TIMEOUT);
    let clock = Clock::new(|| Instant::now().into_std());
    builder.clock(clock).connect().await.unwrap()
}

async fn server_and_two() -> (Server, Client, Client) {
    let server = Server::start().await.unwrap();
    let servers = server.connect_string();
    let (holder, waiter) = (client(&servers).await, client(&servers).await);
    (server, holder, waiter)
}

/// Lets a contender wait for three session timeouts, and then frees the lock. The contender has it
/// within two.
async fn granted_late(kind: Kind, waiter: &Client, path: &str, free: impl AsyncFnOnce()) {
    let own = kind.at(waiter, path);
    let granted = tokio::spawn(async move { drop(own.lock().await.unwrap()) });
    until!(waiter.metrics().watches > 0);
    until_waiting(kind, waiter, path, 1).await;
    sleep(3 * TIMEOUT).await;
    assert!(!granted.is_finished());
    free().await;
    let limit = 2 * TIMEOUT + Duration::from_millis(500);
    let granted = timeout(limit, granted).await;
    granted.expect("in time").expect("granted");
}

/// A relay loses it. Other implementations, and this one, waited for ever.
pub(crate) async fn a_lost_event_costs_a_waiter_two_session_timeouts(kind: Kind) {
    let (server, holder, waiter) = server_and_two().await;
    let held = rival(kind, &holder, "/lost").await;
    granted_late(kind, &waiter, "/lost", async || {
        server.faults().lose_event("/lost");
        drop(held);
    })
    .await;
}

/// Servers tell no client of a node that it may not read (CVE-2024-23944), and `setWatches` does not
/// say so.
pub(crate) async fn a_node_that_may_not_be_read_costs_two_session_timeouts(kind: Kind) {
    let (_server, holder, waiter) = server_and_two().await;
    let held = rival(kind, &holder, "/hidden").await;
    hide(kind, &holder, "/hidden").await;
    granted_late(kind, &waiter, "/hidden", async || drop(held)).await;
}

/// A node that may not be read, in real time, also on a real server.
pub(crate) async fn a_contender_behind_a_node_that_it_may_not_read_is_granted_the_lock(
    kind: Kind,
    ensemble: &Ensemble,
) {
    let path = ensemble.unique_path("hidden");
    let builder = Client::builder(&ensemble.servers()).unwrap();
    let short = builder.session_timeout(Duration::from_secs(2));
    let (holder, waiter) = (ensemble.client().await, short.connect().await.unwrap());
    let held = rival(kind, &holder, &path).await;
    hide(kind, &holder, &path).await;
    let own = kind.at(&waiter, &path);
    let granted = tokio::spawn(async move { drop(own.lock().await.unwrap()) });
    until!(waiter.metrics().watches > 0);
    drop(held);
    soon(granted).await.unwrap();
}

/// Lets nobody read the nodes of a lock.
async fn hide(kind: Kind, client: &Client, path: &str) {
    for node in nodes(kind, client, path).await {
        let acl = Acl::new(Perms::DELETE, "world", "anyone");
        client
            .set_acl(&node, vec![acl], lockkeeper::Version::ANY)
            .await
            .unwrap();
    }
}

/// A follower goes on showing the node of a session that has ended.
pub(crate) async fn a_waiter_leaves_a_server_that_shows_what_its_leader_does_not_have(kind: Kind) {
    let cluster = Cluster::start(3).await.unwrap();
    let holder = client(&cluster.connect_string_of(cluster.leader().unwrap())).await;
    let waiter = client(&cluster.connect_string()).await;
    let server = || waiter.snapshot().server.unwrap().to_string();
    let is_of = |follower: &_| cluster.connect_string_of(*follower) == server();
    while !cluster.followers().iter().any(is_of) {
        let before = waiter.snapshot().connections;
        waiter.raw().leave_server();
        until!(waiter.snapshot().connections > before);
    }
    let left = waiter.metrics().servers_left;
    let followers = cluster.followers();
    let wrong = *followers.iter().find(|it| is_of(*it)).unwrap();
    let held = rival(kind, &holder, "/ghost").await;
    granted_late(kind, &waiter, "/ghost", async || {
        cluster.keep_ended_sessions(wrong);
        assert!(cluster.faults().expire_early(holder.snapshot().session_id));
    })
    .await;
    assert!(!is_of(&wrong));
    assert_eq!(waiter.metrics().servers_left, left + 1);
    drop(held);
}

/// Nothing but a wait for ever said that something was wrong.
#[tokio::test(start_paused = true)]
async fn a_deadline_names_what_was_in_the_way() {
    let (_server, holder, waiter) = server_and_two().await;
    let _held = rival(Kind::Mutex, &holder, "/hidden").await;
    let mutex = Mutex::new(&waiter, "/hidden").unwrap();
    let obstacle = async |wait: Duration| match mutex.try_lock_for(wait).await {
        Err(LockError::TimedOut { obstacle, .. }) => obstacle.map(|it| *it),
        other => panic!("{other:?}"),
    };
    assert_eq!(obstacle(2 * TIMEOUT).await, None);
    hide(Kind::Mutex, &holder, "/hidden").await;
    let [node] = &nodes(Kind::Mutex, &holder, "/hidden").await[..] else {
        panic!("one node");
    };
    let hidden = obstacle(2 * TIMEOUT).await;
    assert!(matches!(hidden, Some(Obstacle::Unreadable { node: of, .. }) if of == *node));
    assert_eq!(obstacle(TIMEOUT / 2).await, None, "nobody has asked yet");
    let entries = inspect(&waiter, "/hidden").await.unwrap();
    let [entry] = &entries[..] else {
        panic!("{entries:?}");
    };
    assert!(!entry.is_readable && entry.data.is_none() && entry.holds);
}

/// Each of them heard of nothing, and only one asks.
#[tokio::test(start_paused = true)]
async fn what_one_waiter_learns_is_news_for_all_of_its_client() {
    let (server, holder, waiter) = server_and_two().await;
    let lock = RwLock::new(&holder, "/news").unwrap();
    let held = lock.write().await.unwrap();
    let readers: Vec<_> = (0..5)
        .map(|_| {
            let own = RwLock::new(&waiter, "/news").unwrap();
            tokio::spawn(async move { own.read().await.unwrap() })
        })
        .collect();
    until_waiting(Kind::Mutex, &holder, "/news", 5).await;
    until!(waiter.metrics().watches >= 10);
    for _ in 0..5 {
        server.faults().lose_event("/news");
    }
    drop(held);
    let granted = timeout(3 * TIMEOUT, join_all(readers)).await.unwrap();
    assert!(granted.into_iter().all(|it| it.is_ok()));
}

/// The cost does not grow with the number of those who wait.
#[tokio::test(start_paused = true)]
async fn one_waiter_of_a_client_asks_once_a_session_timeout() {
    let (_server, holder, waiter) = server_and_two().await;
    let held = rival(Kind::Mutex, &holder, "/many").await;
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let own = Mutex::new(&waiter, "/many").unwrap();
            tokio::spawn(async move { drop(own.lock().await.unwrap()) })
        })
        .collect();
    until_waiting(Kind::Mutex, &holder, "/many", 20).await;
    let asked = || waiter.metrics().refused + waiter.metrics().succeeded;
    sleep(TIMEOUT * 9 / 10).await;
    let before = asked();
    sleep(TIMEOUT * 5).await;
    assert_eq!(asked() - before, 5);
    drop(held);
    for granted in waiting {
        granted.await.unwrap();
    }
}

/// Two tickets were waited for, and then left alone. A waiter behind them heard of nothing.
#[tokio::test(start_paused = true)]
async fn tickets_that_nobody_polls_any_more_ask_for_no_other() {
    let (_server, holder, waiter) = server_and_two().await;
    let held = rival(Kind::Mutex, &holder, "/left").await;
    let mutex = Mutex::new(&waiter, "/left").unwrap();
    let mut tickets = Vec::new();
    for _ in 0..2 {
        tickets.push(mutex.enqueue().await.unwrap());
    }
    let moved = join_all(tickets.iter_mut().map(Ticket::moved));
    timeout(2 * TIMEOUT, moved).await.unwrap_err();
    let granted = tokio::spawn(async move { drop(mutex.lock().await.unwrap()) });
    until_waiting(Kind::Mutex, &holder, "/left", 3).await;
    for ticket in &tickets {
        break_lock(&holder, &ticket.path()).await.unwrap();
    }
    drop(held);
    let granted = timeout(5 * TIMEOUT, granted).await;
    granted.expect("in time").expect("granted");
}
