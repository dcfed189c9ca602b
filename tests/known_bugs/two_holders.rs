//! Rows 6, 8, 13, 14 and 16 to 18: two contenders hold the lock at the same time, for other reasons
//! than an expired session.

use std::{pin::pin, time::Duration};

use lockkeeper::{
    CreateMode, Guard, LockError, RwLock, Semaphore, Version,
    error::Loss,
    locks::{LockState, ReentrantMutex, revoke},
};

use crate::rig::{
    PATH, below, client, client_of, delete, driven, idle, mutex, poll_once, queue, server, session,
    soon, until, until_queue_has,
};

/// CURATOR-621, -276: a writer held the lock and a second writer waited. The first writer took the
/// read lock and then released the write lock. Its read node had a later number than the second
/// writer's node, so the second writer was granted the lock beside the reader. Here the reader
/// keeps the first writer's place.
#[tokio::test]
async fn row_06_a_downgraded_writer_admits_readers_and_no_writer() {
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
        assert!(
            driven(&three, next.as_mut()).await.is_none(),
            "the second writer overtook"
        );
        // A reader that waited before the second writer is granted the lock, and the second writer
        // waits for it too. A reader that comes now is refused.
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
        assert!(queue(&server).is_empty());
    }
}

/// go-zk never checks that its own node is still there. An operator deleted the node of a waiter.
/// When the holder released, go-zk granted the lock to this waiter, and another client held it too.
///
/// Here both events, first that of its own node, arrive before the waiter runs again. The waiter
/// gets the error that its node was deleted.
#[tokio::test]
async fn row_08_a_waiter_whose_own_node_is_deleted_too_is_not_granted_the_lock() {
    let server = server().await;
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let guard = mutex(&holder).lock().await.unwrap();
    let ticket = mutex(&waiter).enqueue().await.unwrap();
    let node = ticket.path();
    let mut waiting = pin!(ticket.wait());
    assert!(driven(&waiter, waiting.as_mut()).await.is_none());
    delete(&holder, &node).await;
    guard.release().await.unwrap();
    until("both deletions are reported", async || {
        waiter.metrics().watches == 0
    })
    .await;
    let error = soon(waiting).await.unwrap_err();
    assert_eq!(error.loss(), Some(Loss::Deleted));
}

/// The same for a waiter that was asked to leave before ([`revoke`](lockkeeper::locks::revoke)). An
/// earlier version of this library failed here:
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
    let server = server().await;
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let guard = mutex(&holder).lock().await.unwrap();
    let ticket = mutex(&waiter).enqueue().await.unwrap();
    let node = ticket.path();
    let mut waiting = pin!(ticket.wait());
    assert!(driven(&waiter, waiting.as_mut()).await.is_none());
    revoke(&holder, &node).await.unwrap();
    until("the revocation is reported", async || {
        waiter.metrics().watches == 1
    })
    .await;
    // The waiter lists the queue again. Both nodes are deleted before it has looked at the reply.
    assert!(poll_once(waiting.as_mut()).is_none());
    idle(&waiter).await;
    delete(&holder, &node).await;
    guard.release().await.unwrap();
    until("the deletions are reported", async || {
        waiter.metrics().watches == 0
    })
    .await;
    let error = soon(waiting).await.unwrap_err();
    assert_eq!(error.loss(), Some(Loss::Deleted));
}

/// kazoo #213: a try at the semaphore took a lease without the semaphore's mutex, so several tries
/// could succeed together.
#[tokio::test]
async fn row_13_concurrent_tries_take_no_more_leases_than_the_limit() {
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
        until("all leases are returned", async || {
            below(&server, "/lock/locks").len() + below(&server, "/lock/leases").len() == 0
        })
        .await;
    }
    assert!(taken > 0);
}

/// kezhuw's client: a guard could be cloned, and each clone deleted the node when it was dropped.
/// The other clones still counted as held. Here only the last clone releases.
#[tokio::test]
async fn row_14_dropping_a_clone_of_a_guard_releases_nothing() {
    let server = server().await;
    let client = client(&server).await;
    let mutex = ReentrantMutex::new(&client, PATH).unwrap();
    // Only this kind of guard can be cloned. For the others see `contract`, `types`.
    let guard = mutex.lock("job").await.unwrap();
    drop(guard.clone());
    guard.clone().release().await.unwrap();
    idle(&client).await;
    assert_eq!(queue(&server), [guard.path()]);
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    assert!(queue(&server).is_empty());
}

/// etcd #11456: a waiter was granted the lock although its lease had run out while it waited. Here
/// the waiter's process sleeps when the holder releases. It wakes after its own session has
/// expired, and gets an error.
#[tokio::test]
async fn row_16_a_waiter_that_slept_past_its_lease_is_not_granted_the_lock() {
    let server = server().await;
    let holder = client(&server).await;
    let waiter = client_of(&server, Duration::from_millis(600)).await;
    let guard = mutex(&holder).lock().await.unwrap();
    let mut waiting = pin!(mutex(&waiter).enqueue().await.unwrap().wait());
    assert!(driven(&waiter, waiting.as_mut()).await.is_none());
    let watches = waiter.metrics().watches;
    guard.release().await.unwrap();
    until("the event has arrived", async || {
        waiter.metrics().watches < watches
    })
    .await;
    server.faults().stall_session(session(&waiter));
    until("the lease has run out", async || !waiter.lease().is_valid).await;
    let granted = poll_once(waiting.as_mut());
    assert!(!matches!(granted, Some(Ok(_))), "{granted:?}");
    until("the session is over", async || queue(&server).is_empty()).await;
    server.faults().resume_session(session(&waiter));
    let error = match granted {
        Some(told) => told.unwrap_err(),
        None => soon(waiting).await.unwrap_err(),
    };
    assert_eq!(error.loss(), Some(Loss::Expired));
}

/// The same for a contender whose listing, which grants it the lock, arrives before the sleep.
#[tokio::test]
async fn row_16_a_contender_that_slept_past_its_session_gets_no_semaphore_lease() {
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
    assert_eq!(error.loss(), Some(Loss::Expired));
}

/// etcd #11457: any lock with a lease can have two holders while one of them is paused. Only
/// fencing protects the data. Here the paused holder writes without checking its guard, and the
/// server refuses the write.
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
    // A store outside ZooKeeper that remembers the highest token would refuse the old holder, too.
    assert!(old.fencing_token() < new.fencing_token());
    let data = other.get_data(REGISTER).await.unwrap().data.unwrap();
    assert_eq!(data, "new");
}

const REGISTER: &str = "/register";

async fn write(guard: &Guard, text: &'static str) -> Result<(), LockError> {
    let writes = guard.transaction().set_data(REGISTER, text, Version::ANY);
    writes.commit().await.map(drop)
}

/// Curator GH-1290: any wake-up let a waiter pass the double barrier, also the event of a lost
/// connection. Here a waiter that reconnects keeps waiting.
#[tokio::test]
async fn row_18_a_reconnect_grants_nothing() {
    let server = server().await;
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let guard = mutex(&holder).lock().await.unwrap();
    let mut waiting = pin!(mutex(&waiter).enqueue().await.unwrap().wait());
    assert!(driven(&waiter, waiting.as_mut()).await.is_none());
    for connections in 2..5 {
        server.faults().cut(session(&waiter));
        until("the connection is back", async || {
            waiter.snapshot().connections == connections
        })
        .await;
        assert!(driven(&waiter, waiting.as_mut()).await.is_none());
    }
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    soon(waiting).await.unwrap().release().await.unwrap();
    until_queue_has(&server, 0).await;
}
