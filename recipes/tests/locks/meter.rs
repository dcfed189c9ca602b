//! One meter for many locks: what it counts.
//!
//! Not here: what each number means (`holds`, `releases`).

use crate::support::{
    client, server,
    waiting::{soon, until_another_session},
};
use lockkeeper_recipes::{
    Election, LockMeter, Mutex, PlainMutex, ReentrantMutex, RwLock, Semaphore,
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
