//! Rows 6, 8, 14, 16, 17 and 58: two contenders hold the lock at the same time, for other reasons than
//! an expired session.

use std::{future::Future, pin::pin, time::Duration};

use lockkeeper::{
    Client, CreateMode, Guard, LockError, RwLock, Semaphore, Version,
    error::Loss,
    locks::{LockState, ReentrantMutex, revoke},
};
use lockkeeper_server::Server;

use crate::rig::{
    PATH, Pair, client, client_of, clients, delete, driven, idle, loss_of, mutex, poll_once, queue,
    server, session, soon, until, until_created,
};

/// CURATOR-621, -276: a writer held the lock and a second writer waited. The first writer took the
/// read lock and then released the write lock. Its read node had a later number than the second
/// writer's node, so the second writer was granted the lock beside the reader. Here the reader
/// keeps the first writer's place.
#[tokio::test]
async fn row_06_a_downgraded_writer_admits_readers_and_no_writer() {
    for has_reader in [false, true] {
        let server = server().await;
        let [one, two, three] = clients(&server).await;
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
    until("the deletions are reported", async || {
        waiter.metrics().watches == 0
    })
    .await;
    assert_eq!(loss_of(pair.waiting).await, Loss::Deleted);
}

/// kezhuw's client: a guard could be cloned, and each clone deleted the node when it was dropped.
/// The other clones still counted as held. Netflix/curator #75: one thread used two lock objects on
/// the same path, and the second one waited for the first for ever.
///
/// Here an owner can take the lock again, others cannot, and only the last guard releases.
#[tokio::test]
async fn row_14_and_58_an_owner_may_take_the_lock_again_and_its_last_guard_releases() {
    let server = server().await;
    let client = client(&server).await;
    let mutex = ReentrantMutex::new(&client, PATH).unwrap();
    let outer = mutex.lock("job-1").await.unwrap();
    let requests = server.counters().all_requests();
    let inner = mutex.clone().lock("job-1").await.unwrap();
    // Only this kind of guard can be cloned. For the others see `contract`, `types`.
    drop(outer.clone());
    assert_eq!(
        (outer.holds(), inner.fencing_token()),
        (2, outer.fencing_token())
    );
    outer.clone().release().await.unwrap();
    outer.release().await.unwrap();
    idle(&client).await;
    let sent = server.counters().all_requests() - requests;
    assert_eq!(sent, 0, "neither a re-entry nor its end sends anything");
    assert_eq!(queue(&server), [inner.path()]);
    assert!(inner.is_valid());
    assert!(mutex.try_lock("job-2").await.unwrap().is_none());
    inner.release().await.unwrap();
    mutex.lock("job-2").await.unwrap().release().await.unwrap();
    assert!(queue(&server).is_empty());
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
    until("the event has arrived", async || {
        waiter.metrics().watches < watches
    })
    .await;
    assert_not_granted_after_a_sleep(&pair.server, waiter, pair.waiting).await;
}

/// The same for a contender whose listing, which grants it the lock, arrives before the sleep. It
/// enters again, in its next session.
#[tokio::test]
async fn row_16_a_contender_that_slept_past_its_session_gets_no_semaphore_lease() {
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
    until("the lease has run out", async || !sleeper.lease().is_valid).await;
    let early = poll_once(attempt.as_mut());
    assert!(!matches!(early, Some(Ok(_))), "{early:?}");
    until("the session is over", async || {
        !server.report().sessions.contains_key(&former)
    })
    .await;
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

/// etcd #11457: any lock with a lease can have two holders while one of them is paused. Only
/// fencing protects the data. Here the paused holder writes without checking its guard, and the
/// server refuses the write.
#[tokio::test]
async fn row_17_a_paused_holder_cannot_write() {
    let server = server().await;
    let [paused, other] = clients(&server).await;
    other
        .create(REGISTER, "", CreateMode::Persistent)
        .await
        .unwrap();
    let old = mutex(&paused).lock().await.unwrap();
    server.faults().stall_session(session(&paused));
    server.faults().expire_early(session(&paused));
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
