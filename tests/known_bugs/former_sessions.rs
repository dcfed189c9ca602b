//! Rows 1, 2, 5 and 7: a session is over, and its client does not know it yet.

use std::{pin::pin, time::Instant};

use lockkeeper::{
    Election,
    error::Loss,
    locks::{LockState, ReentrantMutex},
    proto::OpCode,
};
use lockkeeper_server::When;

use crate::rig::{
    PATH, client, clients, cut_off, delete, driven, idle, let_in, loss_of, mutex,
    outlive_its_session, queue, server, session, soon, until, until_created, until_other_session,
    until_queue_has,
};

/// CURATOR-604, open: the session expired after the create and before the listing. The new session
/// still listed the dying node of the old one, took this node for its own, and was granted the
/// lock. Here a node of a former session grants nothing.
#[tokio::test]
async fn row_01_a_node_of_a_former_session_grants_nothing() {
    let server = server().await;
    let [client, other] = clients(&server).await;
    // The server answers the create. The connection is cut before the server answers the listing.
    server.faults().cut_before(When::op(OpCode::GET_CHILDREN));
    let lock = mutex(&client);
    let mut attempt = pin!(lock.lock());
    let former = until_created(&server, &client, attempt.as_mut(), PATH).await;
    outlive_its_session(&server, &client, &former, &other).await;
    // The attempt goes on under another name, and waits behind the old node.
    while queue(&server).len() < 2 {
        assert!(driven(&client, attempt.as_mut()).await.is_none());
    }
    assert!(driven(&client, attempt.as_mut()).await.is_none());
    delete(&other, &former).await;
    soon(attempt).await.unwrap().release().await.unwrap();
}

/// CURATOR-620, -696: as row 1 for the leader latch. The ensemble was down for longer than the
/// session timeout, and the old node was still listed when it came back. The latch took this node
/// for its own and led. Here it waits behind that node.
#[tokio::test]
async fn row_02_a_node_of_a_former_session_makes_no_leader() {
    let server = server().await;
    let [client, other] = clients(&server).await;
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

/// The opposite case: after a short outage the holder still holds the lock. During the outage it is
/// only uncertain.
#[tokio::test]
async fn row_05_a_short_outage_suspends_the_holder_and_loses_nothing() {
    let server = server().await;
    let client = client(&server).await;
    let guard = mutex(&client).lock().await.unwrap();
    cut_off(&server, &client).await;
    let LockState::Suspended { until: end, .. } = guard.state() else {
        panic!("{:?}", guard.state());
    };
    assert!(guard.is_valid() && end > Instant::now());
    assert_eq!(guard.valid_until(), Some(end));
    let_in(&server);
    until!(guard.state() == LockState::Held && guard.valid_until() > Some(end));
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
    let former = session(&client);
    server.faults().expire_early(former);
    until_other_session(&client, former).await;
    assert!(!held.is_valid());
    assert_eq!(loss_of(mutex.lock("job")).await, Loss::Expired);
    assert!(mutex.try_lock("job").await.unwrap().is_none());
    drop(held);
    let held = soon(mutex.lock("job")).await.unwrap();
    held.release().await.unwrap();
}
