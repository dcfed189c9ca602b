//! The budget of an ensemble in `docs/guide/runbook.md`, each row at one point: what sessions,
//! holders and waiters send in a hundred seconds, and what lock nodes add to a server.
//!
//! Time is tokio's, and paused. Not here: the requests of each operation (`costs`).

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use futures::future::join_all;
use lockkeeper::{Client, Guard, Mutex, client::Clock, proto::OpCode};
use lockkeeper_server::Server;
use tokio::time::{Instant, sleep};

use crate::{
    counting::Tally,
    servers::{Members, ensemble},
    support::waiting::driven,
};

/// `T` of the document's table.
const TIMEOUT: Duration = Duration::from_secs(10);
const PERIOD: Duration = Duration::from_secs(100);
/// The length, the number of the request, and the operation.
const PING_BYTES: u64 = 12;

async fn client(server: &Server) -> (Client, Tally) {
    let tally = Tally::default();
    let builder = Client::builder(&server.connect_string()).unwrap();
    let clock = Clock::new(|| Instant::now().into_std());
    let builder = builder.session_timeout(TIMEOUT).clock(clock);
    let client = builder.connector(tally.connector()).connect().await;
    (client.unwrap(), tally)
}

/// The pings and the other requests of a hundred seconds, after a pause.
async fn sent(client: &Client, tally: &Tally) -> (u64, Vec<OpCode>) {
    sleep(TIMEOUT).await;
    tally.clear();
    let before = client.metrics().bytes_sent;
    sleep(PERIOD).await;
    let bytes = client.metrics().bytes_sent - before;
    (bytes / PING_BYTES, tally.writes().concat())
}

async fn locked(client: &Client, path: &str) -> Guard {
    Mutex::new(client, path).unwrap().lock().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_sends_a_ping_every_sixth_of_its_timeout_and_no_write() {
    let server = Server::start().await.unwrap();
    let (client, tally) = client(&server).await;
    let (pings, others) = sent(&client, &tally).await;
    assert!((59..=61).contains(&pings), "{pings} pings");
    assert_eq!(others, []);
}

#[tokio::test(start_paused = true)]
async fn a_holder_writes_four_times_in_a_timeout_however_many_locks_it_holds() {
    for locks in [1, 10] {
        let server = Server::start().await.unwrap();
        let (client, tally) = client(&server).await;
        let paths: Vec<_> = (0..locks).map(|it| format!("/locks/{it}")).collect();
        let held = join_all(paths.iter().map(|path| locked(&client, path))).await;
        let (_, others) = sent(&client, &tally).await;
        let (writes, syncs): (Vec<OpCode>, Vec<OpCode>) =
            others.iter().partition(|op| **op == OpCode::MULTI);
        assert!(syncs.iter().all(|op| *op == OpCode::SYNC), "{others:?}");
        for count in [writes.len(), syncs.len()] {
            assert!((38..=42).contains(&count), "{locks} locks: {others:?}");
        }
        drop(held);
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_long_behind_the_next_one_writes_once_a_timeout() {
    let server = Server::start().await.unwrap();
    let (holder, _) = client(&server).await;
    let (next, _) = client(&server).await;
    let (waiter, tally) = client(&server).await;
    let held = locked(&holder, "/locks/a").await;
    let mutex = Mutex::new(&next, "/locks/a").unwrap();
    let ahead = mutex.enqueue().await.unwrap();
    let mutex = Mutex::new(&waiter, "/locks/a").unwrap();
    let mut waiting = Box::pin(mutex.lock());
    assert!(driven(&waiter, waiting.as_mut()).await.is_none());
    let (_, others) = tokio::select! {
        _ = waiting => unreachable!("the lock is held"),
        sent = sent(&waiter, &tally) => sent,
    };
    assert!((9..=11).contains(&others.len()), "{others:?}");
    assert!(others.iter().all(|op| *op == OpCode::MULTI), "{others:?}");
    drop((held, ahead));
}

/// The number of nodes of a server, and the bytes of their paths and data.
fn memory(server: &str) -> [usize; 2] {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.write_all(b"mntr").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    ["zk_znode_count\t", "zk_approximate_data_size\t"].map(|name| {
        let number = answer.lines().find_map(|line| line.strip_prefix(name));
        number.expect(&answer).parse().unwrap()
    })
}

/// A hundred lock nodes add their paths and their data to a server, and nothing else that it counts.
async fn a_lock_node_adds_its_path_and_its_data(servers: &str, server: &str) {
    const COUNT: usize = 100;
    let client = Client::connect(servers).await.unwrap();
    let mutex = Mutex::new(&client, "/budget").unwrap();
    mutex.lock().await.unwrap().release().await.unwrap();
    let before = memory(server);
    let mut tickets = Vec::new();
    for _ in 0..COUNT {
        tickets.push(mutex.enqueue().await.unwrap());
    }
    client.sync("/").await.unwrap();
    let mut bytes = 0;
    let nodes = client.get_children("/budget").await.unwrap();
    for node in &nodes {
        let path = format!("/budget/{node}");
        let data = client.get_data(&path).await.unwrap().data;
        bytes += path.len() + data.map_or(0, |data| data.len());
    }
    let after = memory(server);
    assert_eq!(nodes.len(), COUNT);
    assert_eq!(after, [before[0] + COUNT, before[1] + bytes]);
    drop(tickets);
    client.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_server_counts_the_path_and_the_data_of_a_lock_node() {
    let server = Server::start().await.unwrap();
    let servers = server.connect_string();
    a_lock_node_adds_its_path_and_its_data(&servers, &servers).await;
}

#[test]
#[ignore = "needs three real ZooKeepers: tests/run.sh"]
fn needs_ensemble_a_real_server_counts_the_path_and_the_data_of_a_lock_node() {
    let ensemble = ensemble(Members::Fixed);
    let servers = ensemble.as_ref().expect("started");
    let leader = servers.address(servers.leader()).to_string();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(a_lock_node_adds_its_path_and_its_data(&leader, &leader));
}
