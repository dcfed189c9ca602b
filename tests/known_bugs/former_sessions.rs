//! Rows 1 to 5 and 7: a session is over, and its client does not know it yet.

use std::{pin::pin, time::Instant};

use lockkeeper::{
    Election, Semaphore,
    error::Loss,
    locks::{LockState, ReentrantMutex},
    proto::OpCode,
};
use lockkeeper_server::When;

use crate::rig::{
    PATH, below, client, cut_off, delete, driven, idle, let_in, mutex, outlive_its_session,
    poll_once, queue, server, session, soon, until, until_queue_has,
};

/// CURATOR-604, open: the session expired after the create and before the listing. The new session
/// still listed the dying node of the old one, took this node for its own, and was granted the
/// lock. Here a node of a former session grants nothing.
#[tokio::test]
async fn row_01_a_node_of_a_former_session_grants_nothing() {
    let server = server().await;
    let (client, other) = (client(&server).await, client(&server).await);
    // The server answers the create. The connection is cut before the server answers the listing.
    server.faults().cut_before(When::op(OpCode::GET_CHILDREN));
    let lock = mutex(&client);
    let mut attempt = pin!(lock.lock());
    assert!(poll_once(attempt.as_mut()).is_none());
    until_queue_has(&server, 1).await;
    idle(&client).await;
    let former = queue(&server).remove(0);
    outlive_its_session(&server, &client, &former, &other).await;
    let error = soon(attempt).await.unwrap_err();
    assert_eq!(error.loss(), Some(Loss::Expired));
    // The next attempt uses another name and waits behind the old node.
    let mut ticket = pin!(mutex(&client).enqueue().await.unwrap().wait());
    assert_eq!(queue(&server).len(), 2);
    assert!(driven(&client, ticket.as_mut()).await.is_none());
    delete(&other, &former).await;
    soon(ticket).await.unwrap().release().await.unwrap();
}

/// The same for a lease of a semaphore.
#[tokio::test]
async fn row_01_a_lease_of_a_former_session_grants_nothing() {
    let server = server().await;
    let (client, other) = (client(&server).await, client(&server).await);
    let semaphore = Semaphore::new(&client, PATH, 1).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    let listing = When::op(OpCode::GET_CHILDREN).within("/lock/leases");
    server.faults().cut_before(listing);
    let mut attempt = pin!(semaphore.acquire());
    // The client sends its requests without being polled. The attempt enters the queue and creates
    // the lease, and is not polled after that.
    while below(&server, "/lock/leases").is_empty() {
        assert!(poll_once(attempt.as_mut()).is_none());
        idle(&client).await;
    }
    let former = below(&server, "/lock/leases").remove(0);
    outlive_its_session(&server, &client, &former, &other).await;
    let error = soon(attempt).await.unwrap_err();
    assert_eq!(error.loss(), Some(Loss::Expired));
    assert_eq!(below(&server, "/lock/leases"), [former]);
}

/// CURATOR-620, -696: the same for the leader latch. The ensemble was down for longer than the
/// session timeout, and the old node was still listed when it came back. The latch took this node
/// for its own and led. Here it waits behind that node.
#[tokio::test]
async fn row_02_a_node_of_a_former_session_makes_no_leader() {
    let server = server().await;
    let (client, other) = (client(&server).await, client(&server).await);
    let latch = Election::new(&client, PATH).unwrap().latch();
    let token = soon(latch.elected()).await.unwrap();
    let former = queue(&server).remove(0);
    outlive_its_session(&server, &client, &former, &other).await;
    until_queue_has(&server, 2).await;
    idle(&client).await;
    assert!(!latch.is_leader());
    delete(&other, &former).await;
    assert!(soon(latch.elected()).await.unwrap() > token);
}

/// CURATOR-498: the reply to a create was lost. Curator looked for the node, found it, and adopted
/// it, although its session was about to end. Here the new session does not adopt a node of the old
/// one: it creates another node and waits.
#[tokio::test]
async fn row_03_a_node_created_in_a_former_session_is_not_adopted() {
    let server = server().await;
    let (client, other) = (client(&server).await, client(&server).await);
    server.faults().lose_reply(When::op(OpCode::CREATE2));
    let lock = mutex(&client);
    let mut attempt = pin!(lock.lock());
    assert!(poll_once(attempt.as_mut()).is_none());
    until_queue_has(&server, 1).await;
    idle(&client).await;
    let former = queue(&server).remove(0);
    outlive_its_session(&server, &client, &former, &other).await;
    assert!(driven(&client, attempt.as_mut()).await.is_none());
    until_queue_has(&server, 2).await;
    delete(&other, &former).await;
    let guard = soon(attempt).await.unwrap();
    assert_ne!(guard.path(), former);
    let node = client.exists(&guard.path()).await.unwrap().unwrap();
    assert_eq!(node.ephemeral_owner, session(&client));
}

/// CURATOR-652, -653: two contenders reconnected at the same time. Their resets and listings
/// overlapped, and each compared a listing with a node name that had changed meanwhile. They ended
/// with different leaders. Here both keep their nodes and their places.
#[tokio::test]
async fn row_04_contenders_that_reconnect_together_do_not_change_places() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let first = Election::new(&one, PATH).unwrap().latch();
    let token = soon(first.elected()).await.unwrap();
    let second = Election::new(&two, PATH).unwrap().latch();
    until_queue_has(&server, 2).await;
    let (nodes, creates) = (
        queue(&server),
        server.counters().requests_of(OpCode::CREATE2),
    );
    for round in 2..5 {
        server.faults().cut_all();
        until("both have reconnected", async || {
            [&one, &two].map(|client| client.snapshot().connections) == [round; 2]
        })
        .await;
        idle(&one).await;
        idle(&two).await;
        assert_eq!((first.token(), second.token()), (Some(token), None));
    }
    assert_eq!(queue(&server), nodes);
    assert_eq!(server.counters().requests_of(OpCode::CREATE2), creates);
}

/// The opposite case: after a short outage the holder still holds the lock. During the outage it is
/// only uncertain.
#[tokio::test]
async fn row_05_a_short_outage_suspends_the_holder_and_loses_nothing() {
    let server = server().await;
    let client = client(&server).await;
    let guard = mutex(&client).lock().await.unwrap();
    cut_off(&server, &client).await;
    let LockState::Suspended { until: end } = guard.state() else {
        panic!("{:?}", guard.state());
    };
    assert!(guard.is_valid() && end > Instant::now());
    assert_eq!(guard.valid_until(), Some(end));
    let_in(&server);
    until("held again", async || guard.state() == LockState::Held).await;
    until("the lease goes on", async || {
        guard.valid_until() > Some(end)
    })
    .await;
    guard.release().await.unwrap();
}

/// Curator increments its counter at a re-entry and does not check whether the session still lives.
/// Here a re-entry after a loss is an error.
#[tokio::test]
async fn row_07_a_lost_lock_cannot_be_taken_again_by_its_owner() {
    let server = server().await;
    let client = client(&server).await;
    let mutex = ReentrantMutex::new(&client, PATH).unwrap();
    let held = mutex.lock("job").await.unwrap();
    server.faults().expire(session(&client));
    until("the expiry is noticed", async || !held.is_valid()).await;
    until("there is a new session", async || {
        client.snapshot().state.is_connected()
    })
    .await;
    let error = mutex.lock("job").await.unwrap_err();
    assert_eq!(error.loss(), Some(Loss::Expired));
    assert!(mutex.try_lock("job").await.unwrap().is_none());
    drop(held);
    let held = soon(mutex.lock("job")).await.unwrap();
    held.release().await.unwrap();
}
