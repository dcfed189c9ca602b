//! One meter for many locks: what it counts.
//!
//! Not here: what each number means (`holds`, `releases`).

use std::time::Duration;

use crate::support::{
    below, client, server,
    waiting::{soon, until, until_another_session},
};
use lockkeeper_recipes::{
    Election, LockMeter, Loss, Member, MultiLock, Mutex, PlainMutex, ReentrantMutex, RwLock,
    Semaphore, break_lock,
};

#[tokio::test]
async fn each_kind_of_lock_counts_into_its_meter() {
    let server = server().await;
    let client = client(&server).await;
    let meter = LockMeter::new("all");
    let mutex = Mutex::new(&client, "/mutex").unwrap().with_meter(&meter);
    let plain = PlainMutex::new(&client, "/plain")
        .unwrap()
        .with_meter(&meter);
    let shared = RwLock::new(&client, "/rw").unwrap().with_meter(&meter);
    let limit = Semaphore::new(&client, "/semaphore", 2)
        .unwrap()
        .with_meter(&meter);
    let own = ReentrantMutex::new(&client, "/own")
        .unwrap()
        .with_meter(&meter);
    let election = Election::new(&client, "/election")
        .unwrap()
        .with_meter(&meter);

    let guards = [
        mutex.lock().await.unwrap(),
        plain.lock().await.unwrap(),
        shared.read().await.unwrap(),
        limit.acquire().await.unwrap(),
        election.elect().await.unwrap(),
    ];
    let reentrant = own.lock("a").await.unwrap();
    assert_eq!((meter.metrics().acquired, meter.metrics().held), (6, 6));
    assert!(shared.try_write().await.unwrap().is_none());
    assert_eq!(meter.metrics().refused, 1);
    let before = meter.metrics().requests;
    for guard in guards {
        guard.release().await.unwrap();
    }
    reentrant.release().await.unwrap();
    let after = meter.metrics();
    assert_eq!((after.held, after.waiting, after.hold.count()), (0, 0, 6));
    assert_eq!(after.requests, before + 6, "one delete for each");
}

#[tokio::test]
async fn an_attempt_waits_until_it_is_granted_or_dropped() {
    let server = server().await;
    let client = client(&server).await;
    let meter = LockMeter::new("one");
    let mutex = Mutex::new(&client, "/mutex").unwrap().with_meter(&meter);
    let now = || (meter.metrics().waiting, meter.metrics().held);
    let held = mutex.lock().await.unwrap();
    assert_eq!(now(), (0, 1));
    let (one, two) = (
        mutex.enqueue().await.unwrap(),
        mutex.enqueue().await.unwrap(),
    );
    assert_eq!(now(), (2, 1));
    drop(two);
    assert_eq!(now(), (1, 1));
    held.release().await.unwrap();
    let held = soon(one.wait()).await.unwrap();
    assert_eq!(now(), (0, 1));
    drop(held);
    assert_eq!(now(), (0, 0));
}

/// It counted as released, and no alert told of it.
#[tokio::test]
async fn a_lock_that_is_lost_before_its_guard_is_dropped_counts_as_lost() {
    let server = server().await;
    let client = client(&server).await;
    let meter = LockMeter::new("one");
    let mutex = Mutex::new(&client, "/mutex").unwrap().with_meter(&meter);
    drop(mutex.lock().await.unwrap());
    let guard = mutex.lock().await.unwrap();
    let session = client.snapshot().session_id;
    server.faults().expire_early(session);
    until_another_session(&client, session).await;
    drop(guard);
    assert_eq!(meter.metrics().lost, 1);
    let guard = mutex.lock().await.unwrap();
    client.close().await;
    drop(guard);
    assert_eq!(meter.metrics().lost, 1, "the program has given it up");
}

/// The caller was told of the loss, and no alert was.
#[tokio::test]
async fn a_lock_whose_loss_its_release_finds_counts_as_lost() {
    let server = server().await;
    let (client, operator) = (client(&server).await, client(&server).await);
    let meter = LockMeter::new("one");
    let mutex = Mutex::new(&client, "/mutex").unwrap().with_meter(&meter);
    for lost in 1..=2 {
        let guard = mutex.lock().await.unwrap();
        break_lock(&operator, &guard.path()).await.unwrap();
        let error = if lost == 1 {
            guard.release().await.unwrap_err()
        } else {
            guard.release_with(|nothing| nothing).await.unwrap_err()
        };
        assert_eq!(error.loss(), Some(Loss::Deleted));
        assert_eq!(meter.metrics().lost, lost);
    }
    assert_eq!(meter.metrics().held, 0);
}

#[tokio::test]
async fn locks_whose_session_ends_while_they_are_released_count_as_lost() {
    let server = server().await;
    let client = client(&server).await;
    let meter = LockMeter::new("both");
    let locks = ["/a", "/b"].map(|path| Mutex::new(&client, path).unwrap().with_meter(&meter));
    let both = MultiLock::new(locks.each_ref().map(Member::from)).unwrap();
    for lost in [2, 4] {
        let held = both.lock().await.unwrap();
        let session = client.snapshot().session_id;
        server.faults().refuse_handshakes(true);
        server.faults().cut(session);
        until!(!client.snapshot().state.is_connected());
        let releasing = tokio::spawn(async move {
            if lost == 2 {
                held.release().await
            } else {
                held.release_with(|nothing| nothing).await.map(drop)
            }
        });
        until!(client.metrics().outstanding() > 0);
        server.faults().expire_early(session);
        server.faults().refuse_handshakes(false);
        let error = soon(releasing).await.unwrap().unwrap_err();
        assert_eq!(error.loss(), Some(Loss::Expired));
        assert_eq!((meter.metrics().lost, meter.metrics().held), (lost, 0));
    }
}

/// Each session of the wait counted as an attempt of its own that was given up, and the waits of the last
/// one were those of a lock that is free.
#[tokio::test]
async fn a_call_for_permits_is_one_attempt_in_all_its_sessions() {
    const WAIT: Duration = Duration::from_millis(100);
    let server = server().await;
    let (client, other) = (client(&server).await, client(&server).await);
    let meter = LockMeter::new("permits");
    let semaphore = Semaphore::new(&client, "/s", 2).unwrap().with_meter(&meter);
    let held = Semaphore::new(&other, "/s", 2).unwrap();
    let held = held.acquire().await.unwrap();
    let acquiring = tokio::spawn(async move { semaphore.acquire_many(2).await });
    for _ in 0..2 {
        until!(below(&server, "/s/leases") == 3);
        tokio::time::sleep(WAIT).await;
        let session = client.snapshot().session_id;
        server.faults().expire_early(session);
        until_another_session(&client, session).await;
    }
    held.release().await.unwrap();
    let permits = soon(acquiring).await.unwrap().unwrap();
    let now = meter.metrics();
    assert_eq!((now.acquired, now.held, now.waiting), (2, 2, 0));
    assert_eq!((now.given_up, now.contended), (0, 1));
    assert_eq!(now.wait.count(), 2);
    assert!(now.wait.quantile(0.1) >= 2 * WAIT, "{:?}", now.wait);
    drop(permits);
    assert_eq!((meter.metrics().held, meter.metrics().lost), (0, 0));
}
