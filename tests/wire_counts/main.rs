//! The cost of locks on the wire: requests, and writes to the socket, counted at the client's
//! transport.
//!
//! All requests in one write need only one round trip. Nothing here is timed.
//!
//! `costs` measures every operation for the table in `docs/costs.md`. The test in this file shows what
//! a crowd of one client costs.

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
