//! Rows 6, 8 and 13 to 18: two who hold it at the same time, for other reasons than a session that is over.

use std::{pin::pin, time::Duration};

use lockkeeper::{
    CreateMode, Guard, LockError, LockState, Loss, Member, MultiLock, Mutex, ReentrantMutex,
    RwLock, Semaphore, Version, revoke,
};

use crate::rig::{
    PATH, below, client, client_of, delete, driven, idle, line, mutex, poll_once, server, session,
    soon, until, until_line_has, until_other_session,
};

/// CURATOR-621, -276: the reader that a writer became stood behind a writer that was waiting, who then overtook it.
#[tokio::test]
async fn row_06_a_writer_that_becomes_a_reader_lets_readers_in_and_no_writer() {
    for has_reader in [false, true] {
        let server = server().await;
        let (one, two) = (client(&server).await, client(&server).await);
        let three = client(&server).await;
        let lock = |client| RwLock::new(client, PATH).unwrap();
        let writer = lock(&one).write().await.unwrap();
        let reader = if has_reader {
            Some(lock(&two).enqueue_read().await.unwrap())
        } else {
            None
        };
        let next = lock(&three);
        let mut next = pin!(next.write());
        assert!(driven(&three, next.as_mut()).await.is_none());
        let token = writer.fencing_token();
        let downgraded = writer.downgrade().await.unwrap();
        assert_eq!(
            (downgraded.fencing_token(), downgraded.state()),
            (token, LockState::Held)
        );
        assert!(driven(&three, next.as_mut()).await.is_none(), "overtaken");
        // A reader that was there before the next writer is let in, and kept waiting for; one that comes now is not.
        assert!(lock(&two).try_read().await.unwrap().is_none());
        if let Some(reader) = reader {
            let reader = soon(reader.wait()).await.unwrap();
            assert!(driven(&three, next.as_mut()).await.is_none());
            reader.release().await.unwrap();
            assert!(driven(&three, next.as_mut()).await.is_none());
        }
        downgraded.release().await.unwrap();
        let next = soon(next).await.unwrap();
        assert!(next.fencing_token() > token);
        next.release().await.unwrap();
        assert!(line(&server).is_empty());
    }
}

/// go-zk never looks whether its own node is there: a waiter whose node an operator had deleted was granted the lock
/// together with the next one. Here both deletions are told before the waiter runs again, its own first.
#[tokio::test]
async fn row_08_a_deletion_of_our_node_that_is_told_with_the_one_ahead_is_no_grant() {
    let server = server().await;
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let guard = mutex(&holder).lock().await.unwrap();
    let ticket = mutex(&waiter).enqueue().await.unwrap();
    let node = ticket.path();
    let mut waiting = pin!(ticket.wait());
    assert!(driven(&waiter, waiting.as_mut()).await.is_none());
    delete(&holder, &node).await;
    guard.release().await.unwrap();
    until("both are told", async || waiter.watch_count() == 0).await;
    let error = soon(waiting).await.unwrap_err();
    assert_eq!(error, LockError::Lost(Loss::Deleted));
}

/// The same for a waiter that was asked to leave first ([`revoke`](lockkeeper::revoke)): the request is told by the watch on
/// its node, which is spent with that. It was left again behind the next listing only; a deletion in between was not told
/// before the one ahead was, and the waiter was granted the lock without a node. Found by the model (`tests/model/`).
#[tokio::test]
async fn row_08_a_waiter_that_was_asked_to_leave_still_hears_of_its_end_in_time() {
    let server = server().await;
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let guard = mutex(&holder).lock().await.unwrap();
    let ticket = mutex(&waiter).enqueue().await.unwrap();
    let node = ticket.path();
    let mut waiting = pin!(ticket.wait());
    assert!(driven(&waiter, waiting.as_mut()).await.is_none());
    revoke(&holder, &node).await.unwrap();
    until("that is told", async || waiter.watch_count() == 1).await;
    // It lists the line again, and has not looked at the listing yet when both nodes go.
    assert!(poll_once(waiting.as_mut()).is_none());
    idle(&waiter).await;
    delete(&holder, &node).await;
    guard.release().await.unwrap();
    until("all is told that will be", async || {
        waiter.watch_count() == 0
    })
    .await;
    let error = soon(waiting).await.unwrap_err();
    assert_eq!(error, LockError::Lost(Loss::Deleted));
}

/// kazoo #213: whoever tried the semaphore without waiting took a lease outside its mutex.
#[tokio::test]
async fn row_13_tries_at_the_same_time_take_no_more_leases_than_there_are() {
    let server = server().await;
    let clients = [
        client(&server).await,
        client(&server).await,
        client(&server).await,
    ];
    let mut taken = 0;
    for _ in 0..30 {
        let [one, two, three] = clients.each_ref().map(|client| {
            let semaphore = Semaphore::new(client, PATH, 1).unwrap();
            async move { semaphore.try_acquire().await.unwrap() }
        });
        let (one, two, three) = tokio::join!(one, two, three);
        let leases: Vec<_> = [one, two, three].into_iter().flatten().collect();
        assert!(leases.len() <= 1, "{leases:?}");
        taken += leases.len();
        drop(leases);
        until("all are back", async || {
            below(&server, "/lock/locks").len() + below(&server, "/lock/leases").len() == 0
        })
        .await;
    }
    assert!(taken > 0);
}

/// kezhuw's client: a guard could be copied, and each copy deleted the node when it was dropped.
#[tokio::test]
async fn row_14_a_copy_of_a_guard_that_is_dropped_releases_nothing() {
    let server = server().await;
    let client = client(&server).await;
    let mutex = ReentrantMutex::new(&client, PATH).unwrap();
    // The guards of all other kinds cannot be copied at all: `contract`, `types`.
    let guard = mutex.lock("job").await.unwrap();
    drop(guard.clone());
    guard.clone().release().await.unwrap();
    idle(&client).await;
    assert_eq!(line(&server), [guard.path()]);
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    assert!(line(&server).is_empty());
}

/// ZooKeeper's own `WriteLock` names its nodes after the session: two of one session adopted one node.
#[tokio::test]
async fn row_15_two_contenders_of_one_session_have_two_nodes_and_one_holder() {
    let server = server().await;
    let client = client(&server).await;
    let (one, two) = (mutex(&client), mutex(&client));
    let guard = one.lock().await.unwrap();
    let mut waiting = pin!(two.lock());
    assert!(driven(&client, waiting.as_mut()).await.is_none());
    assert_eq!(line(&server).len(), 2);
    guard.release().await.unwrap();
    let guard = soon(waiting).await.unwrap();
    assert_eq!(line(&server), [guard.path()]);
}

/// etcd #11456: a waiter was granted the lock although its lease had run out while it waited. Here the process sleeps
/// when the holder leaves, and wakes when its own session is over.
#[tokio::test]
async fn row_16_a_waiter_that_slept_past_its_lease_is_not_granted_the_lock() {
    let server = server().await;
    let holder = client(&server).await;
    let waiter = client_of(&server, Duration::from_millis(600)).await;
    let guard = mutex(&holder).lock().await.unwrap();
    let mut waiting = pin!(mutex(&waiter).enqueue().await.unwrap().wait());
    assert!(driven(&waiter, waiting.as_mut()).await.is_none());
    let watches = waiter.watch_count();
    guard.release().await.unwrap();
    until("the event is there", async || {
        waiter.watch_count() < watches
    })
    .await;
    server.faults().stall_session(session(&waiter));
    until("the lease has run out", async || !waiter.lease().is_valid).await;
    let granted = poll_once(waiting.as_mut());
    assert!(!matches!(granted, Some(Ok(_))), "{granted:?}");
    until("the session is over", async || line(&server).is_empty()).await;
    server.faults().resume_session(session(&waiter));
    let error = match granted {
        Some(told) => told.unwrap_err(),
        None => soon(waiting).await.unwrap_err(),
    };
    assert_eq!(error, LockError::Lost(Loss::Expired));
}

/// The same where the listing that grants it was there before the sleep.
#[tokio::test]
async fn row_16_a_contender_that_slept_past_its_lease_is_not_granted_a_lease() {
    let server = server().await;
    let sleeper = client_of(&server, Duration::from_millis(600)).await;
    let semaphore = Semaphore::new(&sleeper, PATH, 1).unwrap();
    let mut waiting = pin!(semaphore.acquire());
    while below(&server, "/lock/leases").is_empty() {
        assert!(poll_once(waiting.as_mut()).is_none());
        idle(&sleeper).await;
    }
    let former = session(&sleeper);
    server.faults().stall_session(former);
    until("the lease has run out", async || !sleeper.lease().is_valid).await;
    let granted = poll_once(waiting.as_mut());
    assert!(!matches!(granted, Some(Ok(_))), "{granted:?}");
    until("the session is over", async || {
        below(&server, "/lock/leases").is_empty()
    })
    .await;
    server.faults().resume_session(former);
    let error = match granted {
        Some(told) => told.unwrap_err(),
        None => soon(waiting).await.unwrap_err(),
    };
    assert_eq!(error, LockError::Lost(Loss::Expired));
}

/// The same among several locks that are taken together: one of them is lost while the next one is waited for.
#[tokio::test]
async fn row_16_all_locks_that_are_taken_together_are_held_in_the_end() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let lock = |client, path| Mutex::new(client, path).unwrap();
    let both = [lock(&one, PATH), lock(&two, "/lock-2")];
    let both = MultiLock::new(both.each_ref().map(Member::from)).unwrap();
    let guard = lock(&two, "/lock-2").lock().await.unwrap();
    let mut waiting = pin!(both.lock());
    assert!(driven(&two, waiting.as_mut()).await.is_none());
    until_line_has(&server, 1).await;
    let former = session(&one);
    server.faults().expire(former);
    until_other_session(&one, former).await;
    guard.release().await.unwrap();
    let error = soon(waiting).await.unwrap_err();
    assert_eq!(error, LockError::Lost(Loss::Expired));
    until("the other one is free", async || {
        below(&server, "/lock-2").is_empty()
    })
    .await;
}

/// etcd #11457: any lock with a lease is held twice when a holder is paused, and only fencing helps. Here the holder does
/// not even look whether it is still valid.
#[tokio::test]
async fn row_17_a_paused_holder_cannot_write() {
    let server = server().await;
    let (paused, other) = (client(&server).await, client(&server).await);
    other
        .create(REGISTER, "", CreateMode::Persistent)
        .await
        .unwrap();
    let old = mutex(&paused).lock().await.unwrap();
    server.faults().stall_session(session(&paused));
    server.faults().expire(session(&paused));
    let new = soon(mutex(&other).lock()).await.unwrap();
    write(&new, "new").await.unwrap();
    server.faults().resume_session(session(&paused));
    soon(write(&old, "old")).await.unwrap_err();
    // Nor elsewhere, where the highest token so far is remembered.
    assert!(old.fencing_token() < new.fencing_token());
    let data = other.get_data(REGISTER).await.unwrap().data.unwrap();
    assert_eq!(data, "new");
}

const REGISTER: &str = "/register";

async fn write(guard: &Guard, text: &'static str) -> Result<(), LockError> {
    let writes = guard.transaction().set_data(REGISTER, text, Version::ANY);
    writes.commit().await.map(drop)
}

/// Curator GH-1290: any wake-up let one pass a barrier, that of a lost connection too.
#[tokio::test]
async fn row_18_a_connection_that_comes_and_goes_grants_nothing() {
    let server = server().await;
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let guard = mutex(&holder).lock().await.unwrap();
    let mut waiting = pin!(mutex(&waiter).enqueue().await.unwrap().wait());
    assert!(driven(&waiter, waiting.as_mut()).await.is_none());
    for connections in 2..5 {
        server.faults().cut(session(&waiter));
        until("it is back", async || {
            waiter.snapshot().connections == connections
        })
        .await;
        assert!(driven(&waiter, waiting.as_mut()).await.is_none());
    }
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    soon(waiting).await.unwrap().release().await.unwrap();
    until_line_has(&server, 0).await;
}
