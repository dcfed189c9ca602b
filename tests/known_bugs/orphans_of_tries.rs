//! Rows 25 to 29: nodes that stay behind after semaphore attempts, tries, expired sessions and
//! closed clients.

use std::{collections::HashSet, pin::pin, time::Duration};

use lockkeeper::{Client, Semaphore, error::ErrorCode, proto::OpCode};
use lockkeeper_server::{Server, When};

use crate::rig::{
    PATH, below, client, driven, idle, mutex, poll_once, queue, server, session, soon, until,
    until_other_session,
};

fn semaphore(client: &Client) -> Semaphore {
    Semaphore::new(client, PATH, 1).unwrap()
}

fn leases(server: &Server) -> usize {
    below(server, "/lock/leases").len()
}

fn heads(server: &Server) -> usize {
    below(server, "/lock/locks").len()
}

/// CURATOR-315, -335, -462: an attempt had created its lease. Then its listing failed, or its wait
/// was interrupted. The lease was never returned. Here the attempt deletes its lease and its node
/// in the queue.
#[tokio::test]
async fn row_25_an_attempt_that_fails_after_it_created_its_lease_returns_the_lease() {
    let server = server().await;
    let (holder, client) = (client(&server).await, client(&server).await);
    let held = semaphore(&holder).acquire().await.unwrap();
    // Round 1 refuses the first listing, and round 2 the listing that leaves the watch. In round 3
    // the caller drops the wait.
    for number in 1..=3 {
        let listing = When::op(OpCode::GET_CHILDREN).within("/lock/leases");
        let refused = ErrorCode::NO_AUTH;
        let listing = listing.of_session(session(&client)).nth(number);
        server.faults().refuse(listing, refused);
        let semaphore = semaphore(&client);
        let mut waiting = Box::pin(semaphore.acquire());
        let outcome = driven(&client, waiting.as_mut()).await;
        match outcome {
            Some(refused) => drop(refused.unwrap_err()),
            None => assert_eq!((leases(&server), heads(&server)), (2, 1)),
        }
        drop(waiting);
        until("the holder is alone", async || {
            (leases(&server), heads(&server)) == (1, 0)
        })
        .await;
        server.faults().clear();
    }
    held.release().await.unwrap();
    let lease = soon(semaphore(&client).acquire()).await.unwrap();
    lease.release().await.unwrap();
}

/// CURATOR-48: an attempt failed when its session ended during the create. CURATOR-190: the prefix
/// of the name grew with each retry. CURATOR-489: a missing prefix gave all clients the same name.
///
/// Here the attempt goes on in the new session, and each retry has a new name of the same length.
#[tokio::test]
async fn row_26_each_retry_uses_a_new_name_of_the_same_length() {
    let server = server().await;
    let client = client(&server).await;
    let lock = mutex(&client);
    let mut attempt = pin!(lock.lock());
    // The name that the client asked for. The server appended ten digits.
    let name = |path: &str| path[..path.len() - 10].to_owned();
    let mut names = HashSet::new();
    for _ in 0..4 {
        server.faults().lose_reply(When::op(OpCode::CREATE2));
        while queue(&server).is_empty() {
            assert!(poll_once(attempt.as_mut()).is_none());
            idle(&client).await;
        }
        names.insert(name(&queue(&server)[0]));
        let old = session(&client);
        server.faults().expire(old);
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
    let (holder, looker) = (client(&server).await, client(&server).await);
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
    let report = server.report();
    assert_eq!(report.sessions.len(), 2, "{report:?}");
    assert_eq!(looker.get_children(PATH).await.unwrap().len(), 1);
}

/// kazoo #732: a refused try lost its connection when it deleted its node. kazoo ignored that
/// error, and the node stayed behind. Here the client repeats the delete.
#[tokio::test]
async fn row_28_a_try_whose_clean_up_is_cut_off_leaves_nothing() {
    let server = server().await;
    let (holder, client) = (client(&server).await, client(&server).await);
    // The client's server lags: the listing shows no contender, so the try creates a node. That
    // node is not the first.
    server.faults().freeze_reads();
    let guard = mutex(&holder).lock().await.unwrap();
    let delete = When::op(OpCode::DELETE).of_session(session(&client));
    server.faults().cut_before(delete);
    assert!(mutex(&client).try_lock().await.unwrap().is_none());
    server.faults().thaw();
    until("the clean-up is cut off and repeated", async || {
        server.faults().pending() == 0 && queue(&server) == [guard.path()]
    })
    .await;
    let creates = server.counters().requests_of(OpCode::CREATE2);
    assert_eq!(
        creates, 3,
        "one for the directory, one for the holder, one for the refused try"
    );
}

/// kazoo #429: a refused try at a semaphore left its node in the queue. Here the node is deleted,
/// even if the connection is lost at the delete.
#[tokio::test]
async fn row_29_a_refused_semaphore_try_leaves_no_node_in_the_queue() {
    let server = server().await;
    let (holder, client) = (client(&server).await, client(&server).await);
    server.faults().freeze_reads();
    let held = semaphore(&holder).acquire().await.unwrap();
    let delete = When::op(OpCode::DELETE).of_session(session(&client));
    server.faults().cut_before(delete);
    assert!(semaphore(&client).try_acquire().await.unwrap().is_none());
    server.faults().thaw();
    until("the clean-up is cut off and repeated", async || {
        server.faults().pending() == 0 && heads(&server) == 0
    })
    .await;
    assert_eq!(leases(&server), 1);
    held.release().await.unwrap();
}
