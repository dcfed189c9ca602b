//! Rows 38 to 47: who is woken by what, and how many are.

use std::{pin::pin, time::Duration};

use lockkeeper::{Client, RwLock, Semaphore, proto::OpCode};
use lockkeeper_server::When;

use crate::rig::{
    PATH, below, client, driven, idle, line, mutex, server, session, soon, until, until_line_has,
};

/// CURATOR-716, open: waiters that shared one lock object were all woken by each release, and each of them listed and
/// read again: 321 requests for 20 of them.
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
    until_line_has(&server, waiters.len() + 1).await;
    idle(&client).await;
    let before = server.counters().all_requests();
    guard.release().await.unwrap();
    for waiter in waiters {
        soon(waiter).await.unwrap();
    }
    idle(&client).await;
    // Each deletes its node, and lists and watches once while the one before it still holds.
    let requests = server.counters().all_requests() - before;
    assert!(requests <= 1 + 3 * WAITERS, "{requests} requests");
}

/// Curator's readers watch the first writer of the line, and all list it again whenever one of the writers leaves.
#[tokio::test]
async fn row_39_readers_are_let_in_without_another_look() {
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
    assert_eq!(requests, 1, "the release alone");
    assert_eq!(line(&server).len(), READERS + later.len());
}

/// kazoo #649: a reader waited for the writers behind it, too, and one of them for the reader.
#[tokio::test]
async fn row_40_a_reader_does_not_wait_for_a_writer_behind_it() {
    let server = server().await;
    let client = client(&server).await;
    let lock = RwLock::new(&client, PATH).unwrap();
    let writer = lock.write().await.unwrap();
    let reader = lock.enqueue_read().await.unwrap();
    let mut next = pin!(lock.enqueue_write().await.unwrap().wait());
    writer.release().await.unwrap();
    let reader = soon(reader.wait()).await.unwrap();
    assert!(driven(&client, next.as_mut()).await.is_none());
    reader.release().await.unwrap();
    soon(next).await.unwrap().release().await.unwrap();
}

/// kazoo 7dd4c4c: the first contender was watched instead of the nearest, and when the nearest had merely given up, that
/// was taken for a grant.
#[tokio::test]
async fn row_41_whoever_waits_behind_one_that_gives_up_waits_for_the_holder_then() {
    let server = server().await;
    let client = client(&server).await;
    let mutex = mutex(&client);
    let guard = mutex.lock().await.unwrap();
    let quitter = mutex.enqueue().await.unwrap();
    let mut waiting = pin!(mutex.enqueue().await.unwrap().wait());
    assert!(driven(&client, waiting.as_mut()).await.is_none());
    drop(quitter);
    until_line_has(&server, 2).await;
    assert!(driven(&client, waiting.as_mut()).await.is_none());
    let before = server.counters().all_requests();
    guard.release().await.unwrap();
    let _guard = soon(waiting).await.unwrap();
    let requests = server.counters().all_requests() - before;
    assert_eq!(requests, 1, "it watches the holder: the release alone");
}

/// go-zk #145: the search for the predecessor passed over the number 0, and the empty name was watched in a loop.
#[tokio::test]
async fn row_42_the_number_0_is_a_number() {
    let server = server().await;
    let client = client(&server).await;
    let mutex = mutex(&client);
    let guard = mutex.lock().await.unwrap();
    assert!(guard.path().ends_with("-lock-0000000000"));
    let ticket = mutex.enqueue().await.unwrap();
    assert_eq!(ticket.position(), 1);
    let mut waiting = pin!(ticket.wait());
    assert!(driven(&client, waiting.as_mut()).await.is_none());
    guard.release().await.unwrap();
    soon(waiting).await.unwrap().release().await.unwrap();
}

/// ZooKeeper's own `WriteLock` left its watch after the predecessor had gone, and waited for ever.
#[tokio::test]
async fn row_43_a_predecessor_that_leaves_between_the_listing_and_the_watch_is_missed_by_nobody() {
    let server = server().await;
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let guard = mutex(&holder).lock().await.unwrap();
    // The listing shows the holder, and arrives when it has left.
    let listing = When::op(OpCode::GET_CHILDREN).of_session(session(&waiter));
    let late = Duration::from_millis(50);
    server.faults().delay_reply(listing, late);
    let waiting = tokio::spawn({
        let mutex = mutex(&waiter);
        async move { mutex.lock().await }
    });
    until("it is listed", async || server.faults().pending() == 0).await;
    guard.release().await.unwrap();
    let guard = soon(waiting).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// Curator's first semaphore watched one holder only, and slept when another one left.
#[tokio::test]
async fn row_44_any_lease_that_comes_back_is_given_to_the_next() {
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
        until("all are back", async || {
            below(&server, "/lock/leases").is_empty()
        })
        .await;
    }
}

/// CURATOR-75: a raised limit did not wake those who waited.
#[tokio::test]
async fn row_45_a_shared_limit_holds_at_once_for_everybody() {
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
    // A lower limit takes nothing away, and lets nobody in.
    semaphore.set_limit(1).await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 0);
    assert!(held.is_valid() && second.is_valid());
    held.release().await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    second.release().await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_some());
}

/// CURATOR-495: a callback blocked the thread of the events, and with it the connection. CURATOR-527: an event that came
/// before the waiter slept was said to be missed. Here the waiter is busy elsewhere until it is all over.
#[tokio::test]
async fn row_46_and_47_a_waiter_that_does_not_listen_holds_nobody_up_and_misses_nothing() {
    let server = server().await;
    let client: Client = client(&server).await;
    let mutex = mutex(&client);
    let guard = mutex.lock().await.unwrap();
    let ticket = mutex.enqueue().await.unwrap();
    idle(&client).await;
    let (node, watches) = (ticket.path(), client.watch_count());
    guard.release().await.unwrap();
    until("the event is there", async || {
        client.watch_count() < watches
    })
    .await;
    // The session goes on meanwhile, for others.
    assert!(client.exists(&node).await.unwrap().is_some());
    let behind = mutex.enqueue().await.unwrap();
    let before = server.counters().all_requests();
    let guard = soon(ticket.wait()).await.unwrap();
    assert_eq!(server.counters().all_requests(), before);
    guard.release().await.unwrap();
    soon(behind.wait()).await.unwrap().release().await.unwrap();
}
