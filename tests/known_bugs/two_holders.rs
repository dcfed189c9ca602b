//! Rows 8 and 16: two contenders hold the lock at the same time, for other reasons than
//! an expired session.

use std::{future::Future, pin::pin, time::Duration};

use lockkeeper::{Client, Guard, LockError, Semaphore, error::Loss, locks::revoke};
use lockkeeper_server::Server;

use crate::rig::{
    PATH, Pair, client_of, delete, idle, loss_of, poll_once, server, session, soon, until,
    until_created,
};

/// go-zk never checks that its own node is still there. An operator deleted the node of a waiter.
/// When the holder released, go-zk granted the lock to this waiter, and another client held it too.
///
/// An earlier version of this library failed here for a waiter that was asked to leave before
/// ([`revoke`](lockkeeper::locks::revoke)):
///
/// - The request changes the waiter's node. The watch on that node reports it and is spent.
/// - The waiter left a new watch only after its next listing. Its node was deleted before that.
/// - The waiter learned that the node ahead was deleted before it learned of its own, and was
///   granted the lock without a node.
///
/// Now the waiter leaves its own watch first and lists after that. Found by the model
/// (`tests/model/`).
#[tokio::test]
async fn row_08_a_revoked_waiter_still_learns_in_time_that_its_node_is_deleted() {
    let mut pair = Pair::new().await;
    revoke(&pair.holder, &pair.node).await.unwrap();
    pair.until_watches(1).await;
    // The waiter lists the queue again. Both nodes are deleted before it has looked at the reply.
    assert!(poll_once(pair.waiting.as_mut()).is_none());
    idle(&pair.waiter).await;
    delete(&pair.holder, &pair.node).await;
    let waiter = pair.waiter.clone();
    pair.guard.release().await.unwrap();
    until!(waiter.metrics().watches == 0);
    assert_eq!(loss_of(pair.waiting).await, Loss::Deleted);
}

/// etcd #11456: a waiter was granted the lock although its lease had run out while it waited. Here
/// the waiter's process sleeps when the holder releases. It wakes after its own session has
/// expired, and gets an error.
#[tokio::test]
async fn row_16_a_waiter_that_slept_past_its_lease_is_not_granted_the_lock() {
    let server = server().await;
    let waiter = client_of(&server, SHORT).await;
    let pair = Pair::with(server, waiter).await;
    let watches = pair.waiter.metrics().watches;
    pair.guard.release().await.unwrap();
    let waiter = &pair.waiter;
    until!(waiter.metrics().watches < watches);
    assert_not_granted_after_a_sleep(&pair.server, waiter, pair.waiting).await;
}

/// etcd #11456, for a contender whose listing, which grants it the lock, arrives before the sleep.
/// It enters again, in its next session.
#[tokio::test]
async fn row_16_a_contender_that_slept_past_its_session_gets_no_semaphore_permit() {
    let server = server().await;
    let sleeper = client_of(&server, SHORT).await;
    let semaphore = Semaphore::new(&sleeper, PATH, 1).unwrap();
    let mut waiting = Box::pin(semaphore.acquire());
    until_created(&server, &sleeper, waiting.as_mut(), "/lock/leases").await;
    assert_not_granted_after_a_sleep(&server, &sleeper, waiting).await;
}

const SHORT: Duration = Duration::from_millis(600);

/// Nobody polls the attempt until the lease of its client has run out, and then its session.
async fn assert_not_granted_after_a_sleep(
    server: &Server,
    sleeper: &Client,
    attempt: impl Future<Output = Result<Guard, LockError>>,
) {
    let mut attempt = pin!(attempt);
    let former = session(sleeper);
    server.faults().stall_session(former);
    until!(!sleeper.lease().is_valid);
    let early = poll_once(attempt.as_mut());
    assert!(!matches!(early, Some(Ok(_))), "{early:?}");
    until!(!server.report().sessions.contains_key(&former));
    server.faults().resume_session(former);
    let told = match early {
        Some(told) => told,
        None => soon(attempt).await,
    };
    match told {
        Ok(guard) => assert!(guard.is_valid() && session(sleeper) != former),
        Err(error) => assert_eq!(error.loss(), Some(Loss::Expired)),
    }
}
