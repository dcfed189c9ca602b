//! Rows 3, 19, 22, 24 and 26 to 29: an attempt or hold has ended, but its node stays
//! behind in a live session. All later contenders wait for that node.

use std::{collections::HashSet, pin::pin, time::Duration};

use lockkeeper::{Client, CreateMode, Semaphore, proto::OpCode};
use lockkeeper_server::{Cluster, Server, ServerId, When};

use crate::rig::{
    PATH, client, cut_off, idle, let_in, mutex, poll_once, queue, server, session, soon, until,
    until_created, until_other_session,
};

/// Curator, kazoo, kezhuw's client and go-zk lose the reply to a create, reconnect, and look for
/// the node with a plain listing. A lagging server does not show the node yet. The client then
/// creates a second node and waits behind its own first one until the session ends.
///
/// Here the client looks behind a barrier, so it finds the first node when the server has caught up.
#[tokio::test]
async fn row_19_a_create_with_a_lost_reply_is_found_on_a_lagging_server() {
    let (cluster, [leader, lagging]) = leader_and_follower().await;
    // The client is connected to the leader. The other server is left for its next connection.
    cluster.refuse_clients(lagging).await;
    let client = client_of(&cluster, &[leader, lagging]).await;
    cluster.accept_clients(lagging).await.unwrap();
    cluster.refuse_clients(leader).await;
    cluster.lag(lagging);
    cluster.faults().lose_reply(When::op(OpCode::CREATE2));
    let locking = tokio::spawn({
        let mutex = mutex(&client);
        async move { mutex.lock().await }
    });
    until("the client looks for its node", async || {
        let barriers = cluster.counters().requests_of(OpCode::DELETE);
        barriers > 0 || queue(&cluster).len() > 1
    })
    .await;
    cluster.catch_up(lagging);
    let guard = soon(locking).await.unwrap().unwrap();
    assert_eq!(queue(&cluster), [guard.path()], "there is a second node");
    // A second node would have the next number, and the first one would be deleted as a late one.
    let path = guard.path();
    assert!(path.ends_with("-0000000000"), "{path} is a second node");
    guard.release().await.unwrap();
    assert!(queue(&cluster).is_empty());
}

/// CURATOR-205, -468: an interrupt ended an attempt and started its clean-up. A second interrupt
/// ended the clean-up. CURATOR-678: a release lost its connection. Both nodes stayed behind.
///
/// Here the client repeats the delete until it has succeeded, however often the connection is lost,
/// and also if the caller drops the release.
#[tokio::test]
async fn row_22_and_24_a_release_in_an_outage_is_never_given_up() {
    let server = server().await;
    let client = client(&server).await;
    for is_dropped in [false, true] {
        let guard = mutex(&client).lock().await.unwrap();
        cut_off(&server, &client).await;
        for number in 1..=2 {
            let delete = When::op(OpCode::DELETE).nth(number);
            server.faults().cut_before(delete);
        }
        let mut releasing = Box::pin(guard.release());
        assert!(poll_once(releasing.as_mut()).is_none());
        let again = tokio::spawn({
            let mutex = mutex(&client);
            async move { mutex.lock().await }
        });
        if is_dropped {
            drop(releasing);
            let_in(&server);
        } else {
            let_in(&server);
            soon(releasing).await.unwrap();
        }
        let guard = soon(again).await.unwrap().unwrap();
        assert_eq!(queue(&server), [guard.path()]);
        assert_eq!(server.faults().pending(), 0);
        guard.release().await.unwrap();
    }
}

/// CURATOR-48: an attempt failed when its session ended during the create. CURATOR-190: the prefix
/// of the name grew with each retry. CURATOR-489: a missing prefix gave all clients the same name.
/// CURATOR-498: the node of the session that ended was adopted.
///
/// Here the attempt goes on in the new session, and each retry has a new name of the same length.
#[tokio::test]
async fn row_03_and_26_each_retry_in_a_new_session_has_a_new_name_of_the_same_length() {
    let server = server().await;
    let client = client(&server).await;
    let lock = mutex(&client);
    let mut attempt = pin!(lock.lock());
    // The name that the client asked for. The server appended ten digits.
    let name = |path: &str| path[..path.len() - 10].to_owned();
    let mut names = HashSet::new();
    for _ in 0..4 {
        server.faults().lose_reply(When::op(OpCode::CREATE2));
        let node = until_created(&server, &client, attempt.as_mut(), PATH).await;
        names.insert(name(&node));
        let old = session(&client);
        server.faults().expire_early(old);
        until_other_session(&client, old).await;
    }
    let guard = soon(attempt).await.unwrap();
    names.insert(name(&guard.path()));
    assert_eq!(names.len(), 5, "{names:?}");
    assert_eq!(queue(&server), [guard.path()]);
    let lengths: HashSet<_> = names.iter().map(String::len).collect();
    assert_eq!(lengths.len(), 1);
    let owner = client.exists(&guard.path()).await.unwrap().unwrap();
    assert_eq!(owner.ephemeral_owner, session(&client));
}

/// CURATOR-3: the lock was closed while its watch handler ran. The handler then created the next
/// node. Here no node is left when the client is closed during any request of an attempt.
#[tokio::test]
async fn row_27_no_node_is_created_after_the_client_is_closed() {
    let server = server().await;
    let holder = client(&server).await;
    let guard = mutex(&holder).lock().await.unwrap();
    for number in 1.. {
        let closing = client(&server).await;
        let unanswered = When::any().of_session(session(&closing)).nth(number);
        let delay = Duration::from_millis(20);
        server.faults().delay_reply(unanswered, delay);
        let attempt = tokio::spawn({
            let mutex = mutex(&closing);
            async move { mutex.lock().await.map(drop) }
        });
        let met = until("the server has the request", async || {
            server.faults().pending() == 0
        });
        let is_met = tokio::select! {
            () = met => true,
            () = idle(&closing) => false,
        };
        closing.close().await;
        soon(attempt).await.unwrap().unwrap_err();
        assert_eq!(queue(&server), [guard.path()]);
        server.faults().clear();
        if !is_met {
            assert!(number > 3, "the attempt waits after {number} requests");
            break;
        }
    }
    assert_eq!(server.report().sessions.len(), 1, "only the holder is left");
}

/// kazoo #732: a refused try lost its connection when it deleted its node. kazoo ignored that
/// error, and the node stayed behind. kazoo #429: a refused try at a semaphore left its node in the
/// queue. Here the client repeats the delete.
#[tokio::test]
async fn row_28_and_29_a_try_whose_clean_up_is_cut_off_leaves_nothing() {
    for is_semaphore in [false, true] {
        let (server, [leader, lagging]) = leader_and_follower().await;
        let holder = client_of(&server, &[leader]).await;
        let client = client_of(&server, &[lagging]).await;
        let semaphore = |client: &Client| Semaphore::new(client, PATH, 1).unwrap();
        if is_semaphore {
            // The try finds its directories, although its server lags.
            let guard = semaphore(&holder).acquire().await.unwrap();
            guard.release().await.unwrap();
        }
        // The client's server lags: the listing shows no contender, so the try creates a node. That
        // node is not the first.
        server.lag(lagging);
        let delete = When::op(OpCode::DELETE).of_session(session(&client));
        server.faults().cut_before(delete);
        let guard = if is_semaphore {
            semaphore(&holder).acquire().await
        } else {
            mutex(&holder).lock().await
        };
        let guard = guard.unwrap();
        until!(lock_nodes(&server) == [guard.path()]);
        let trying = tokio::spawn({
            let (semaphore, mutex) = (semaphore(&client), mutex(&client));
            async move {
                if is_semaphore {
                    semaphore.try_acquire().await
                } else {
                    mutex.try_lock().await
                }
            }
        });
        until!(lock_nodes(&server).len() == 2);
        server.catch_up(lagging);
        assert!(soon(trying).await.unwrap().unwrap().is_none());
        until("the clean-up is cut off and repeated", async || {
            server.faults().pending() == 0 && lock_nodes(&server) == [guard.path()]
        })
        .await;
    }
}

/// A cluster with the lock's directory, its leader, and a follower.
async fn leader_and_follower() -> (Cluster, [ServerId; 2]) {
    let cluster = Cluster::start(3).await.unwrap();
    let servers = [cluster.leader().unwrap(), cluster.followers()[0]];
    let client = client_of(&cluster, &servers).await;
    client
        .create(PATH, "", CreateMode::Persistent)
        .await
        .unwrap();
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
    let mut nodes = queue(server);
    nodes.retain(|node| !["/lock/leases", "/lock/locks"].contains(&&**node));
    nodes
}
