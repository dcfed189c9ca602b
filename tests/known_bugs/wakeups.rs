//! Rows 38, 39, 41 and 43 to 47: which event wakes which waiters.

use std::{pin::pin, time::Duration};

use lockkeeper::{Client, RwLock, Semaphore, proto::OpCode};
use lockkeeper_server::{Server, When};

use crate::rig::{
    PATH, below, client_of, driven, idle, mutex, queue, server, session, soon, until,
    until_queue_has,
};

/// A client whose session is so long that a slow test writes no proof of its lease.
async fn client(server: &Server) -> Client {
    client_of(server, Duration::from_secs(60)).await
}

/// CURATOR-716, open: several waiters share one lock object. Each release wakes all of them, and
/// each lists the nodes and reads its predecessor again. 20 waiters needed 321 requests. Here a
/// release wakes one waiter.
#[tokio::test]
async fn row_38_waiters_on_one_handle_are_woken_one_by_one() {
    const WAITERS: u64 = 20;
    let server = server().await;
    let client = client(&server).await;
    let mutex = mutex(&client);
    let guard = mutex.lock().await.unwrap();
    let waiters: Vec<_> = (0..WAITERS)
        .map(|_| {
            let mutex = mutex.clone();
            tokio::spawn(async move { mutex.lock().await.unwrap().release().await.unwrap() })
        })
        .collect();
    until_queue_has(&server, waiters.len() + 1).await;
    idle(&client).await;
    let before = server.counters().all_requests();
    guard.release().await.unwrap();
    for waiter in waiters {
        soon(waiter).await.unwrap();
    }
    idle(&client).await;
    // Each waiter sends a delete for its own node. It also lists and watches once, while the waiter
    // before it holds the lock.
    let requests = server.counters().all_requests() - before;
    assert!(requests <= 1 + 3 * WAITERS, "{requests} requests");
}

/// Curator's readers all watch the first writer in the queue. Whenever it leaves, all of them list
/// the queue at the same time, even if another writer is still ahead of them. Here each reader
/// watches the last writer ahead of it. The deletion of that writer's node grants the lock without
/// another listing.
#[tokio::test]
async fn row_39_readers_are_granted_the_lock_without_another_listing() {
    const READERS: usize = 100;
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let writer = RwLock::new(&one, PATH).unwrap().write().await.unwrap();
    let lock = RwLock::new(&two, PATH).unwrap();
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let ticket = lock.enqueue_read().await.unwrap();
        readers.push(tokio::spawn(ticket.wait()));
    }
    let third = RwLock::new(&one, PATH).unwrap();
    let later = [third.enqueue_write().await, third.enqueue_write().await];
    idle(&one).await;
    idle(&two).await;
    let before = server.counters().all_requests();
    writer.release().await.unwrap();
    let mut guards = Vec::new();
    for reader in readers {
        guards.push(soon(reader).await.unwrap().unwrap());
    }
    let requests = server.counters().all_requests() - before;
    assert_eq!(requests, 1, "only the release is sent");
    assert_eq!(queue(&server).len(), READERS + later.len());
}

/// kazoo 7dd4c4c: a waiter watched the first contender instead of the nearest one. When a contender
/// ahead of it gave up, it took the deletion for a grant. Here the waiter then watches the holder.
#[tokio::test]
async fn row_41_a_waiter_behind_one_that_gives_up_then_waits_for_the_holder() {
    let server = server().await;
    let client = client(&server).await;
    let mutex = mutex(&client);
    let guard = mutex.lock().await.unwrap();
    let quitter = mutex.enqueue().await.unwrap();
    let mut waiting = pin!(mutex.enqueue().await.unwrap().wait());
    assert!(driven(&client, waiting.as_mut()).await.is_none());
    drop(quitter);
    until_queue_has(&server, 2).await;
    assert!(driven(&client, waiting.as_mut()).await.is_none());
    let before = server.counters().all_requests();
    guard.release().await.unwrap();
    let _guard = soon(waiting).await.unwrap();
    let requests = server.counters().all_requests() - before;
    assert_eq!(
        requests, 1,
        "only the release is sent: the waiter watches the holder"
    );
}

/// ZooKeeper's own `WriteLock` left its watch after the predecessor had been deleted. That watch
/// could never fire, and the waiter waited for ever. Here the waiter notices that the node is gone
/// and lists again.
#[tokio::test]
async fn row_43_a_predecessor_that_leaves_between_listing_and_watch_is_noticed() {
    let server = server().await;
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let guard = mutex(&holder).lock().await.unwrap();
    // The listing shows the holder. Its reply arrives after the holder has released.
    let listing = When::op(OpCode::GET_CHILDREN).of_session(session(&waiter));
    let late = Duration::from_millis(50);
    server.faults().delay_reply(listing, late);
    let waiting = tokio::spawn({
        let mutex = mutex(&waiter);
        async move { mutex.lock().await }
    });
    until("the holder is listed", async || {
        server.faults().pending() == 0
    })
    .await;
    guard.release().await.unwrap();
    let guard = soon(waiting).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// Curator's first semaphore watched only one of the holders. When another holder returned its
/// lease, the waiter slept on. Here any returned lease goes to the next waiter.
#[tokio::test]
async fn row_44_any_returned_lease_goes_to_the_next_waiter() {
    let server = server().await;
    let client = client(&server).await;
    let semaphore = Semaphore::new(&client, PATH, 3).unwrap();
    for index in 0..3 {
        let mut held = semaphore.acquire_many(3).await.unwrap();
        let mut waiting = pin!(semaphore.acquire());
        assert!(driven(&client, waiting.as_mut()).await.is_none());
        held.remove(index).release().await.unwrap();
        let guard = soon(waiting).await.unwrap();
        drop((guard, held));
        until("all leases are returned", async || {
            below(&server, "/lock/leases").is_empty()
        })
        .await;
    }
}

/// CURATOR-75: an operator raised the limit, and the waiters were not woken. Here the next waiter
/// gets a lease at once.
#[tokio::test]
async fn row_45_a_change_of_the_shared_limit_takes_effect_at_once() {
    let server = server().await;
    let client = client(&server).await;
    let semaphore = Semaphore::with_shared_limit(&client, PATH, "/limit").unwrap();
    semaphore.set_limit(1).await.unwrap();
    let data = client.get_data("/limit").await.unwrap().data.unwrap();
    assert_eq!(data, &[0, 0, 0, 1][..]);
    let held = semaphore.acquire().await.unwrap();
    let mut waiting = pin!(semaphore.acquire());
    assert!(driven(&client, waiting.as_mut()).await.is_none());
    semaphore.set_limit(2).await.unwrap();
    let second = soon(waiting).await.unwrap();
    // A lower limit takes no lease away and grants none.
    semaphore.set_limit(1).await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 0);
    assert!(held.is_valid() && second.is_valid());
    held.release().await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    second.release().await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_some());
}

/// CURATOR-495: a callback blocked the event thread, so the client could not reconnect.
/// CURATOR-527: according to the report, a waiter missed an event that arrived before it slept.
/// Here nobody polls the waiter until the event has arrived.
#[tokio::test]
async fn row_46_and_47_a_waiter_that_is_not_polled_blocks_nobody_and_misses_no_event() {
    let server = server().await;
    let client: Client = client(&server).await;
    let mutex = mutex(&client);
    let guard = mutex.lock().await.unwrap();
    let ticket = mutex.enqueue().await.unwrap();
    idle(&client).await;
    let (node, watches) = (ticket.path(), client.metrics().watches);
    guard.release().await.unwrap();
    until("the event has arrived", async || {
        client.metrics().watches < watches
    })
    .await;
    // The session serves other callers meanwhile.
    assert!(client.exists(&node).await.unwrap().is_some());
    let behind = mutex.enqueue().await.unwrap();
    let before = server.counters().all_requests();
    let guard = soon(ticket.wait()).await.unwrap();
    assert_eq!(server.counters().all_requests(), before);
    guard.release().await.unwrap();
    soon(behind.wait()).await.unwrap().release().await.unwrap();
}
