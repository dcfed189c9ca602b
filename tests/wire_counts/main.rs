//! The cost of locks on the wire: requests, and writes to the socket, counted at the client's
//! transport.
//!
//! All requests in one write need only one round trip. Nothing here is timed.
//!
//! `costs` measures every operation for the table in `docs/costs.md`. The tests in this file check
//! costs that must never change.

mod costs;
mod operations;

use lockkeeper_test_support as support;
use lockkeeper_test_support::counting;
use std::time::Duration;

use lockkeeper::{Client, CreateMode, Mutex, proto::OpCode};
use lockkeeper_server::Server;

use counting::Tally;
use support::waiting::until;

/// The longest session timeout that the server grants.
const LONG_SESSION: Duration = Duration::from_secs(60);

const ACQUIRE: &[OpCode] = &[OpCode::CREATE2, OpCode::GET_CHILDREN];

/// A server, and a lock whose directory exists.
async fn server_with_lock() -> (Server, &'static str) {
    let server = Server::start().await.unwrap();
    let client = Client::connect(&server.connect_string()).await.unwrap();
    client
        .create("/lock", "", CreateMode::Persistent)
        .await
        .unwrap();
    client.close().await;
    (server, "/lock")
}

async fn client(server: &Server) -> (Client, Tally) {
    let tally = Tally::default();
    // So long that a slow test writes no proof of its lease.
    let client = Client::builder(&server.connect_string())
        .unwrap()
        .session_timeout(LONG_SESSION)
        .connector(tally.connector());
    (client.connect().await.unwrap(), tally)
}

/// Waits until the server has received `count` requests of a kind in total.
async fn heard(server: &Server, op: OpCode, count: u64) {
    until("the requests have come", async || {
        server.counters().requests_of(op) >= count
    })
    .await;
}

#[tokio::test]
async fn an_uncontended_lock_is_one_write_of_two_requests_and_one_round_trip() {
    let (server, path) = server_with_lock().await;
    let (client, tally) = client(&server).await;
    let mutex = Mutex::new(&client, path).unwrap();
    tally.clear();
    let guard = mutex.lock().await.unwrap();
    assert_eq!(tally.writes(), [ACQUIRE]);
    guard.release().await.unwrap();
    assert_eq!(tally.writes(), [ACQUIRE, &[OpCode::DELETE]]);
}

#[tokio::test]
async fn a_missing_path_costs_one_more_write_however_deep_it_is() {
    let server = Server::start().await.unwrap();
    let (client, tally) = client(&server).await;
    tally.clear();
    let _guard = Mutex::new(&client, "/a/b/c").unwrap().lock().await.unwrap();
    let make = OpCode::CREATE_CONTAINER;
    let second = [make, make, make, OpCode::CREATE2, OpCode::GET_CHILDREN];
    assert_eq!(tally.writes(), [ACQUIRE, &second]);
}

#[tokio::test]
async fn a_refused_try_is_one_read_and_writes_nothing() {
    let (server, path) = server_with_lock().await;
    let (holder, _) = client(&server).await;
    let _guard = Mutex::new(&holder, path).unwrap().lock().await.unwrap();
    let (client, tally) = client(&server).await;
    let mutex = Mutex::new(&client, path).unwrap();
    let nodes = server.report().nodes;
    tally.clear();
    assert!(mutex.try_lock().await.unwrap().is_none());
    assert_eq!(tally.writes(), [&[OpCode::GET_CHILDREN]]);
    assert_eq!(server.report().nodes, nodes);
}

#[tokio::test]
async fn a_waiter_sends_one_request_more_and_is_granted_the_lock_without_another() {
    let (server, path) = server_with_lock().await;
    let (holder, _) = client(&server).await;
    let guard = Mutex::new(&holder, path).unwrap().lock().await.unwrap();
    let (waiter, tally) = client(&server).await;
    let mutex = Mutex::new(&waiter, path).unwrap();
    tally.clear();
    let waiting = tokio::spawn(async move { mutex.lock().await });
    heard(&server, OpCode::SET_WATCHES, 1).await;
    guard.release().await.unwrap();
    let _granted = waiting.await.unwrap().unwrap();
    assert_eq!(tally.writes(), [ACQUIRE, &[OpCode::SET_WATCHES]]);
}

/// In a deep queue, a waiter makes the listing for its grant while its predecessor still holds the
/// lock.
#[tokio::test]
async fn no_hand_over_in_a_deep_queue_waits_for_a_request() {
    const WAITERS: u64 = 6;
    let (server, path) = server_with_lock().await;
    let (holder, _) = client(&server).await;
    let mut guard = Mutex::new(&holder, path).unwrap().lock().await.unwrap();
    let mut waiters = Vec::new();
    for number in 1..=WAITERS {
        let (client, tally) = client(&server).await;
        let mutex = Mutex::new(&client, path).unwrap();
        tally.clear();
        waiters.push((tokio::spawn(async move { mutex.lock().await }), tally));
        heard(&server, OpCode::SET_WATCHES, number).await;
    }
    let listings = |tally: &Tally| {
        let requests = tally.writes().concat();
        requests
            .iter()
            .filter(|op| **op == OpCode::GET_CHILDREN)
            .count()
    };
    let tallies: Vec<_> = waiters.iter().map(|(_, tally)| tally.clone()).collect();
    for (index, (waiting, tally)) in waiters.into_iter().enumerate() {
        // A waiter with more than one contender ahead has listed again. Now it needs only the
        // event.
        let looked = 1 + usize::from(index > 0);
        until("the next waiter looks", async || {
            listings(&tallies[index]) >= looked
        })
        .await;
        let before = tally.writes().concat().len();
        guard.release().await.unwrap();
        guard = waiting.await.unwrap().unwrap();
        let requests = tally.writes().concat();
        assert_eq!(requests.len(), before, "waiter {index}: {requests:?}");
        assert!(requests.len() <= 4, "waiter {index}: {requests:?}");
    }
}

/// The fifth contender of one client makes no listing, the sixth does.
#[tokio::test]
async fn most_contenders_of_a_crowd_make_no_listing() {
    let (server, path) = server_with_lock().await;
    let (client, tally) = client(&server).await;
    let mutex = Mutex::new(&client, path).unwrap();
    let mut tickets = Vec::new();
    for number in 1..=6 {
        tally.clear();
        tickets.push(mutex.enqueue().await.unwrap());
        heard(&server, OpCode::SET_WATCHES, number).await;
        let enter = if number == 5 { &ACQUIRE[..1] } else { ACQUIRE };
        assert_eq!(tally.writes(), [enter, &[OpCode::SET_WATCHES]], "{number}");
    }
}

#[tokio::test]
async fn writes_under_the_lock_and_its_release_are_one_request() {
    let (server, path) = server_with_lock().await;
    let (client, tally) = client(&server).await;
    let guard = Mutex::new(&client, path).unwrap().lock().await.unwrap();
    tally.clear();
    let results = guard
        .release_with(|writes| writes.create("/result", "42", CreateMode::Persistent))
        .await
        .unwrap();
    assert_eq!(results.len(), 1);
    assert_eq!(tally.writes(), [&[OpCode::MULTI]]);
    assert_eq!(server.report().nodes, 2);
}
