//! Contenders at a server that lags: a listing of it does not show what a majority has.
//!
//! Not here: many creates that are lost together (`lost_creates`), ensembles in the contract
//! (`tests/contract`).

use lockkeeper_proto::{CreateMode, OpCode};
use lockkeeper_recipes::{Mutex, Semaphore};
use lockkeeper_server::{Cluster, Server, ServerId, When};
use lockkeeper_session::Client;

use crate::support::waiting::{soon, until};

const PATH: &str = "/lock";

/// A cluster with the lock's directory, its leader, and a follower.
async fn leader_and_follower() -> (Cluster, [ServerId; 2]) {
    let cluster = Cluster::start(3).await.unwrap();
    let servers = [cluster.leader().unwrap(), cluster.followers()[0]];
    let client = client_of(&cluster, &servers).await;
    let created = client.create(PATH, "", CreateMode::Persistent).await;
    created.unwrap();
    client.close().await;
    (cluster, servers)
}

/// A client that knows only these servers.
async fn client_of(cluster: &Cluster, servers: &[ServerId]) -> Client {
    let addresses = servers.iter().map(|it| cluster.connect_string_of(*it));
    let addresses: Vec<_> = addresses.collect();
    Client::connect(&addresses.join(",")).await.unwrap()
}

/// The nodes of contenders for the lock, or for the semaphore at its path.
fn lock_nodes(server: &Server) -> Vec<String> {
    let is_lock = |path: &String| {
        path.starts_with("/lock/") && !["/lock/leases", "/lock/locks"].contains(&&**path)
    };
    server.paths().into_iter().filter(is_lock).collect()
}

/// Curator, kazoo, kezhuw's client and go-zk lose the reply to a create, and look for the node with
/// a plain listing, which does not show the node yet. The client then waits behind its own first
/// node until the session ends. Here the client looks behind a barrier.
#[tokio::test]
async fn a_create_with_a_lost_reply_is_found_on_a_lagging_server() {
    let (cluster, [leader, lagging]) = leader_and_follower().await;
    // The client is connected to the leader. The other server is left for its next connection.
    cluster.refuse_clients(lagging).await;
    let client = client_of(&cluster, &[leader, lagging]).await;
    cluster.accept_clients(lagging).await.unwrap();
    cluster.refuse_clients(leader).await;
    cluster.lag(lagging);
    cluster.faults().lose_reply(When::op(OpCode::CREATE2));
    let mutex = Mutex::new(&client, PATH).unwrap();
    let locking = tokio::spawn(async move { mutex.lock().await });
    until!(cluster.counters().requests_of(OpCode::DELETE) > 0 || lock_nodes(&cluster).len() > 1);
    cluster.catch_up(lagging);
    let guard = soon(locking).await.unwrap().unwrap();
    // A second node would have the next number, and the first one would be deleted as a late one.
    let path = guard.path();
    assert_eq!(lock_nodes(&cluster), std::slice::from_ref(&path));
    assert!(path.ends_with("-0000000000"), "{path} is a second node");
    guard.release().await.unwrap();
    assert!(lock_nodes(&cluster).is_empty());
}

/// kazoo #732: a refused try lost its connection when it deleted its node. kazoo ignored that
/// error, and the node stayed behind. kazoo #429: a refused try at a semaphore left its node in the
/// queue.
#[tokio::test]
async fn a_try_whose_clean_up_is_cut_off_leaves_nothing() {
    for is_semaphore in [false, true] {
        let (server, [leader, lagging]) = leader_and_follower().await;
        let holder = client_of(&server, &[leader]).await;
        let client = client_of(&server, &[lagging]).await;
        let semaphore = |client: &Client| Semaphore::new(client, PATH, 1).unwrap();
        let mutex = |client: &Client| Mutex::new(client, PATH).unwrap();
        if is_semaphore {
            // The try finds its directories, although its server lags.
            let guard = semaphore(&holder).acquire().await.unwrap();
            guard.release().await.unwrap();
        }
        // The listing shows no contender, so the try creates a node. That node is not the first.
        server.lag(lagging);
        let delete = When::op(OpCode::DELETE).of_session(client.snapshot().session_id);
        server.faults().cut_before(delete);
        let guard = if is_semaphore {
            semaphore(&holder).acquire().await
        } else {
            mutex(&holder).lock().await
        };
        let guard = guard.unwrap();
        until!(lock_nodes(&server) == [guard.path()]);
        let (semaphore, mutex) = (semaphore(&client), mutex(&client));
        let trying = tokio::spawn(async move {
            if is_semaphore {
                semaphore.try_acquire().await
            } else {
                mutex.try_lock().await
            }
        });
        until!(lock_nodes(&server).len() == 2);
        server.catch_up(lagging);
        assert!(soon(trying).await.unwrap().unwrap().is_none());
        until!(server.faults().pending() == 0 && lock_nodes(&server) == [guard.path()]);
    }
}
