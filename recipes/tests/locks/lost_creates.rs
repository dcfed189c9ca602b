//! Many creates of one client whose replies are lost with the connection: what it costs to find the
//! nodes.

use std::time::Duration;

use lockkeeper_proto::OpCode;
use lockkeeper_recipes::{LockError, Mutex, Ticket};
use lockkeeper_server::{Server, When};
use lockkeeper_session::Client;
use tokio::task::JoinHandle;

use crate::support::{
    below, client, server,
    waiting::{soon, until},
};

const PATH: &str = "/lost";
const MANY: usize = 300;

/// Enters the queue this many times, all at once.
fn enter(client: &Client, count: usize) -> Vec<JoinHandle<Result<Ticket, LockError>>> {
    let enter = |_| {
        let mutex = Mutex::new(client, PATH).unwrap();
        tokio::spawn(async move { mutex.enqueue().await })
    };
    (0..count).map(enter).collect()
}

/// The barriers and the listings that the server was asked for.
fn looks(server: &Server) -> (u64, u64) {
    let counters = server.counters();
    let of = |op| counters.requests_of(op);
    (of(OpCode::DELETE), of(OpCode::GET_CHILDREN))
}

/// Each attempt sent a barrier and a listing of its own, and received the whole queue: with 20,000
/// attempts, a server ended with `OutOfMemoryError`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_whose_creates_were_lost_together_look_for_their_nodes_together() {
    let server = server().await;
    let client = client(&server).await;
    // The directory is there, and the client is connected.
    let first = soon(Mutex::new(&client, PATH).unwrap().enqueue()).await;
    let mut tickets = vec![first.unwrap()];
    for round in 1..=3 {
        server.faults().delay_all(Duration::from_secs(60));
        let entering = enter(&client, MANY);
        until!(below(&server, PATH) == 1 + round * MANY);
        let before = looks(&server);
        server.faults().delay_all(Duration::ZERO);
        server.faults().cut_all();
        for ticket in entering {
            tickets.push(soon(ticket).await.unwrap().unwrap());
        }
        let after = looks(&server);
        let (barriers, listings) = (after.0 - before.0, after.1 - before.1);
        println!("{MANY} creates: {barriers} barriers, {listings} listings");
        // No attempt has created a second node.
        assert_eq!(below(&server, PATH), 1 + round * MANY);
        assert!((1..=3).contains(&barriers), "{barriers} barriers");
        // Who is among the first two when it goes on lists the queue: at random that is one of the first
        // two, then one in 2/3, 2/4, ..., which are 12 of 300, give or take 3.
        assert!(listings <= 30, "{listings} listings");
    }
}

/// CURATOR-559: retry loops ran inside other retry loops, so the attempts multiplied.
#[tokio::test]
async fn each_lost_create_is_repeated_once() {
    const CUTS: u32 = 5;
    let server = server().await;
    // Without a pause between connections.
    let servers = [&*server.connect_string(); 8].join(",");
    let client = Client::connect(&servers).await.unwrap();
    let mutex = Mutex::new(&client, PATH).unwrap();
    soon(mutex.lock()).await.unwrap().release().await.unwrap();
    for number in 1..=CUTS {
        let create = When::op(OpCode::CREATE2).nth(number);
        server.faults().cut_before(create);
    }
    let counters = || {
        let counters = server.counters();
        let creates = counters.requests_of(OpCode::CREATE2);
        (creates, counters.all_requests())
    };
    let before = counters();
    let _guard = soon(mutex.lock()).await.unwrap();
    let after = counters();
    assert_eq!(after.0 - before.0, u64::from(CUTS) + 1);
    // A cut also costs a barrier and a listing, and the listing behind the create if that was sent
    // separately.
    let requests = after.1 - before.1;
    assert!(requests <= 4 * u64::from(CUTS) + 2, "{requests} requests");
}
