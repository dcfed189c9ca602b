//! Rows 35, 53, 55, 58 and 59: waiters across outages and expiries, and waiters that wait for
//! themselves.

use std::pin::pin;

use lockkeeper::{
    LockError, RwLock, Semaphore,
    error::Loss,
    locks::{Member, MultiLock, ReentrantMutex},
};

use crate::rig::{
    PATH, client, cut_off, delete, driven, let_in, mutex, queue, server, session, soon,
};

/// In kazoo #282 the connection of a waiter was lost and came back, and the waiter hung for ever.
/// In zk-ruby #49 the waiter had a second node after the reconnect. Here the waiter keeps its node.
/// The holder releases during the outage, and the waiter is granted the lock after it.
#[tokio::test]
async fn row_35_and_53_a_waiter_keeps_its_place_across_a_reconnect() {
    let server = server().await;
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let guard = mutex(&holder).lock().await.unwrap();
    let ticket = mutex(&waiter).enqueue().await.unwrap();
    let node = ticket.path();
    let mut waiting = pin!(ticket.wait());
    assert!(driven(&waiter, waiting.as_mut()).await.is_none());
    cut_off(&server, &waiter).await;
    guard.release().await.unwrap();
    assert_eq!(queue(&server), [&*node]);
    let_in(&server);
    let granted = soon(waiting).await.unwrap();
    assert_eq!(granted.path(), node);
    assert_eq!(waiter.snapshot().connections, 2);
    assert_eq!(queue(&server), [node]);
}

/// twitter/commons #20: a session expiry is an event without a path. A filter for the path dropped
/// it, and the waiter waited for ever. Here the waiter gets an error.
#[tokio::test]
async fn row_55_a_waiter_whose_session_expires_gets_an_error_and_no_grant() {
    let server = server().await;
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let guard = mutex(&holder).lock().await.unwrap();
    let mut waiting = pin!(mutex(&waiter).enqueue().await.unwrap().wait());
    assert!(driven(&waiter, waiting.as_mut()).await.is_none());
    server.faults().expire(session(&waiter));
    let error = soon(waiting).await.unwrap_err();
    assert!(
        matches!(error.loss(), Some(Loss::Expired | Loss::Deleted)),
        "{error:?}"
    );
    // The client has a new session, and the old session's node has left the queue.
    assert_eq!(queue(&server), [guard.path()]);
    guard.release().await.unwrap();
    let guard = soon(mutex(&waiter).lock()).await.unwrap();
    guard.release().await.unwrap();
}

/// Netflix/curator #75: one thread used two lock objects on the same path. The second one waited
/// for the first for ever. Here an owner can take the lock again.
#[tokio::test]
async fn row_58_an_owner_may_take_the_lock_again_and_others_may_not() {
    let server = server().await;
    let client = client(&server).await;
    let mutex = ReentrantMutex::new(&client, PATH).unwrap();
    let outer = mutex.lock("job-1").await.unwrap();
    let requests = server.counters().all_requests();
    let inner = mutex.clone().lock("job-1").await.unwrap();
    let sent = server.counters().all_requests() - requests;
    assert_eq!(sent, 0, "re-entry sends nothing");
    assert_eq!(
        (outer.holds(), inner.fencing_token()),
        (2, outer.fencing_token())
    );
    assert!(mutex.try_lock("job-2").await.unwrap().is_none());
    outer.release().await.unwrap();
    assert!(mutex.try_lock("job-2").await.unwrap().is_none());
    assert!(mutex.try_lock("job-1").await.unwrap().is_some());
    inner.release().await.unwrap();
    let other = mutex.lock("job-2").await.unwrap();
    other.release().await.unwrap();
    assert!(queue(&server).is_empty());
}

/// The same for a multi-lock. A member that appears twice would wait for itself or for another
/// waiter. The second of two leases may be the last one, and a writer may queue between two
/// readers.
#[tokio::test]
async fn row_58_a_multi_lock_refuses_the_same_lock_twice() {
    let server = server().await;
    let client = client(&server).await;
    let lock = RwLock::new(&client, PATH).unwrap();
    let semaphore = Semaphore::new(&client, PATH, 2).unwrap();
    for twice in [
        [Member::from(&mutex(&client)), Member::from(&mutex(&client))],
        [Member::read(&lock), Member::write(&lock)],
        [Member::read(&lock), Member::read(&lock)],
        [Member::from(&semaphore), Member::from(&semaphore)],
    ] {
        let path = PATH.to_owned();
        let error = MultiLock::new(twice).unwrap_err();
        assert_eq!(error, LockError::SelfDeadlock { path });
    }
}

/// After an outage the events of that time arrive in any order. The event of the node ahead may
/// arrive first. The waiter must not take it for a grant if its own node was deleted, too.
#[tokio::test]
async fn row_59_a_waiter_whose_node_was_deleted_in_an_outage_is_not_granted_the_lock() {
    for _ in 0..5 {
        let server = server().await;
        let (holder, waiter) = (client(&server).await, client(&server).await);
        let guard = mutex(&holder).lock().await.unwrap();
        let ticket = mutex(&waiter).enqueue().await.unwrap();
        let node = ticket.path();
        let mut waiting = pin!(ticket.wait());
        assert!(driven(&waiter, waiting.as_mut()).await.is_none());
        cut_off(&server, &waiter).await;
        guard.release().await.unwrap();
        delete(&holder, &node).await;
        let_in(&server);
        let error = soon(waiting).await.unwrap_err();
        assert_eq!(error.loss(), Some(Loss::Deleted));
    }
}
