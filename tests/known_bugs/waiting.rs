//! Rows 35, 53, 55, 56, 58 and 59: what waiters live through, and what they do not.

use std::pin::pin;

use lockkeeper::{
    CreateMode, LockError, Loss, Member, MultiLock, Mutex, ReentrantMutex, RwLock, Semaphore,
};

use crate::{
    rig::{PATH, client, cut_off, delete, driven, let_in, line, mutex, server, session, soon},
    support::{Ensemble, on_both_arms},
};

/// kazoo #282: a waiter hung for ever when the connection had come and gone. zk-ruby #49: it came back with a second
/// node. Here it keeps its place, and is woken by what happened meanwhile.
#[tokio::test]
async fn row_35_and_53_a_place_in_line_outlives_the_connection() {
    let server = server().await;
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let guard = mutex(&holder).lock().await.unwrap();
    let ticket = mutex(&waiter).enqueue().await.unwrap();
    let node = ticket.path();
    let mut waiting = pin!(ticket.wait());
    assert!(driven(&waiter, waiting.as_mut()).await.is_none());
    cut_off(&server, &waiter).await;
    guard.release().await.unwrap();
    assert_eq!(line(&server), [&*node]);
    let_in(&server);
    let granted = soon(waiting).await.unwrap();
    assert_eq!(granted.path(), node);
    assert_eq!(waiter.snapshot().connections, 2);
    assert_eq!(line(&server), [node]);
}

/// twitter/commons #20: the expiry was an event without a path, and a filter dropped it: the waiter waited for ever.
#[tokio::test]
async fn row_55_a_waiter_whose_session_expires_is_told_and_never_granted() {
    let server = server().await;
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let guard = mutex(&holder).lock().await.unwrap();
    let mut waiting = pin!(mutex(&waiter).enqueue().await.unwrap().wait());
    assert!(driven(&waiter, waiting.as_mut()).await.is_none());
    server.faults().expire(session(&waiter));
    let error = soon(waiting).await.unwrap_err();
    assert!(
        matches!(error, LockError::Lost(Loss::Expired | Loss::Deleted)),
        "{error:?}"
    );
    // The client lives on with a new session, and the line is free of the old one.
    assert_eq!(line(&server), [guard.path()]);
    guard.release().await.unwrap();
    let guard = soon(mutex(&waiter).lock()).await.unwrap();
    guard.release().await.unwrap();
}

on_both_arms! {
    /// kezhuw #82: deletes in a transaction woke nobody.
    async fn row_56_a_release_in_a_transaction_wakes_the_next(ensemble: &Ensemble) {
        let path = ensemble.unique_path("multi");
        let register = format!("{path}-register");
        let (one, two) = (ensemble.client().await, ensemble.client().await);
        one.create(&register, "", CreateMode::Persistent).await.unwrap();
        let guard = Mutex::new(&one, &path).unwrap().lock().await.unwrap();
        let ticket = Mutex::new(&two, &path).unwrap().enqueue().await.unwrap();
        let mut waiting = pin!(ticket.wait());
        assert!(driven(&two, waiting.as_mut()).await.is_none());
        guard
            .release_with(|writes| writes.set_data(&register, "1", lockkeeper::Version::ANY))
            .await
            .unwrap();
        let guard = soon(waiting).await.unwrap();
        assert_eq!(one.get_data(&register).await.unwrap().data.unwrap(), "1");
        guard.release().await.unwrap();
    }
}

/// Netflix/curator #75: two lock objects of one thread on one path waited for each other.
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
    assert!(line(&server).is_empty());
}

/// The same among several locks that are taken together: whatever is there twice would wait for itself, or for somebody
/// who waits for it. A second lease may be the last one, and a writer may come between two readers.
#[tokio::test]
async fn row_58_nothing_can_be_taken_twice_together() {
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

/// After an outage the events of what was missed come in any order. The one about the node ahead must not be taken for
/// a grant when our own node has gone, too.
#[tokio::test]
async fn row_59_both_nodes_deleted_during_an_outage_are_no_grant() {
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
        assert_eq!(error, LockError::Lost(Loss::Deleted));
    }
}
