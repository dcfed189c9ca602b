//! Rows 1 to 5 and 7: a session that is over, and who does not know it.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use lockkeeper::{Election, LockError, LockState, Loss, ReentrantMutex, Semaphore, proto::OpCode};
use lockkeeper_server::When;

use crate::rig::{
    PATH, below, client, client_of, cut_off, delete, driven, idle, let_in, line, mutex,
    outlive_its_session, poll_once, server, session, soon, until, until_line_has,
};

/// CURATOR-604, open: after an expiry the new session still lists the dying node of the old one, and takes it for its own
/// lowest node.
#[tokio::test]
async fn row_01_a_node_of_a_former_session_grants_nothing() {
    let server = server().await;
    let (client, other) = (client(&server).await, client(&server).await);
    // The create is answered; the connection is cut before the listing is.
    server.faults().cut_before(When::op(OpCode::GET_CHILDREN));
    let lock = mutex(&client);
    let mut attempt = pin!(lock.lock());
    assert!(poll_once(attempt.as_mut()).is_none());
    until_line_has(&server, 1).await;
    idle(&client).await;
    let former = line(&server).remove(0);
    outlive_its_session(&server, &client, &former, &other).await;
    let error = soon(attempt).await.unwrap_err();
    assert_eq!(error, LockError::Lost(Loss::Expired));
    // The next attempt has another name, and waits.
    let mut ticket = pin!(mutex(&client).enqueue().await.unwrap().wait());
    assert_eq!(line(&server).len(), 2);
    assert!(driven(&client, ticket.as_mut()).await.is_none());
    delete(&other, &former).await;
    soon(ticket).await.unwrap().release().await.unwrap();
}

/// The same where the lock is a lease of a semaphore.
#[tokio::test]
async fn row_01_a_lease_of_a_former_session_grants_nothing() {
    let server = server().await;
    let (client, other) = (client(&server).await, client(&server).await);
    let semaphore = Semaphore::new(&client, PATH, 1).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    let listing = When::op(OpCode::GET_CHILDREN).within("/lock/leases");
    server.faults().cut_before(listing);
    let mut attempt = pin!(semaphore.acquire());
    // Its clients' requests are driven by themselves: it takes the head of the line, then the lease, and is left there.
    while below(&server, "/lock/leases").is_empty() {
        assert!(poll_once(attempt.as_mut()).is_none());
        idle(&client).await;
    }
    let former = below(&server, "/lock/leases").remove(0);
    outlive_its_session(&server, &client, &former, &other).await;
    let error = soon(attempt).await.unwrap_err();
    assert_eq!(error, LockError::Lost(Loss::Expired));
    assert_eq!(below(&server, "/lock/leases"), [former]);
}

/// CURATOR-620, -696: the same for the leader latch. The cluster was away for longer than the session, and came back with
/// the old node still listed.
#[tokio::test]
async fn row_02_a_node_of_a_former_session_makes_no_leader() {
    let server = server().await;
    let (client, other) = (client(&server).await, client(&server).await);
    let latch = Election::new(&client, PATH).unwrap().latch();
    let token = soon(latch.elected()).await.unwrap();
    let former = line(&server).remove(0);
    outlive_its_session(&server, &client, &former, &other).await;
    until_line_has(&server, 2).await;
    idle(&client).await;
    assert!(!latch.is_leader());
    delete(&other, &former).await;
    assert!(soon(latch.elected()).await.unwrap() > token);
}

/// CURATOR-498: the look for a lost create found a node of a session that was ending, and adopted it.
#[tokio::test]
async fn row_03_a_lost_create_of_a_former_session_is_not_adopted() {
    let server = server().await;
    let (client, other) = (client(&server).await, client(&server).await);
    server.faults().lose_reply(When::op(OpCode::CREATE2));
    let lock = mutex(&client);
    let mut attempt = pin!(lock.lock());
    assert!(poll_once(attempt.as_mut()).is_none());
    until_line_has(&server, 1).await;
    idle(&client).await;
    let former = line(&server).remove(0);
    outlive_its_session(&server, &client, &former, &other).await;
    assert!(driven(&client, attempt.as_mut()).await.is_none());
    until_line_has(&server, 2).await;
    delete(&other, &former).await;
    let guard = soon(attempt).await.unwrap();
    assert_ne!(guard.path(), former);
    let node = client.exists(&guard.path()).await.unwrap().unwrap();
    assert_eq!(node.ephemeral_owner, session(&client));
}

/// CURATOR-652, -653: resets and reconnects of two contenders ran into each other, until each had the other's idea of who
/// leads.
#[tokio::test]
async fn row_04_contenders_that_reconnect_together_do_not_change_places() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let first = Election::new(&one, PATH).unwrap().latch();
    let token = soon(first.elected()).await.unwrap();
    let second = Election::new(&two, PATH).unwrap().latch();
    until_line_has(&server, 2).await;
    let (nodes, creates) = (
        line(&server),
        server.counters().requests_of(OpCode::CREATE2),
    );
    for round in 2..5 {
        server.faults().cut_all();
        until("both are back", async || {
            [&one, &two].map(|client| client.snapshot().connections) == [round; 2]
        })
        .await;
        idle(&one).await;
        idle(&two).await;
        assert_eq!((first.token(), second.token()), (Some(token), None));
    }
    assert_eq!(line(&server), nodes);
    assert_eq!(server.counters().requests_of(OpCode::CREATE2), creates);
}

/// CURATOR-206, kazoo #2: a holder is not told that its session has expired, and kazoo's lock says held for ever.
#[tokio::test]
async fn row_05_a_holder_that_hears_nothing_knows_before_anybody_else_is_granted_the_lock() {
    let server = server().await;
    let holder = client_of(&server, Duration::from_millis(900)).await;
    let other = client(&server).await;
    let guard = mutex(&holder).lock().await.unwrap();
    assert_eq!(guard.state(), LockState::Held);
    let told = tokio::spawn({
        let lost = guard.lost();
        async move { (lost.await, Instant::now()) }
    });
    let granted = tokio::spawn({
        let mutex = mutex(&other);
        async move { (mutex.lock().await.unwrap(), Instant::now()) }
    });
    until_line_has(&server, 2).await;
    server.faults().stall_session(session(&holder));
    let (cause, told) = soon(told).await.unwrap();
    assert!(!guard.is_valid());
    let (next, granted) = soon(granted).await.unwrap();
    assert!(told < granted, "told {:?} after the grant", told - granted);
    assert_eq!(cause, Loss::Elapsed);
    assert!(!guard.is_valid());
    assert!(next.fencing_token() > guard.fencing_token());
    server.faults().resume_session(session(&holder));
    until("the holder learns of the expiry", async || {
        guard.state() == LockState::Lost(Loss::Expired)
    })
    .await;
    let error = guard.release().await.unwrap_err();
    assert_eq!(error, LockError::Lost(Loss::Expired));
    next.release().await.unwrap();
}

/// The other half of it: a short outage costs nothing but certainty, for a while.
#[tokio::test]
async fn row_05_a_holder_without_a_connection_is_suspended_and_holds_again_after_it() {
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
    assert!(guard.valid_until() > Some(end));
    guard.release().await.unwrap();
}

/// Curator counts a re-entry up without a look whether the session still lives.
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
    assert_eq!(error, LockError::Lost(Loss::Expired));
    assert!(mutex.try_lock("job").await.unwrap().is_none());
    drop(held);
    let held = soon(mutex.lock("job")).await.unwrap();
    held.release().await.unwrap();
}
