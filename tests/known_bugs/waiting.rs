//! Rows 18, 35, 39, 43 to 47, 53, 55, 59, 65 and 71: which events wake which waiters, also across
//! outages and expiries, and how long a waiter waits.

use std::{pin::pin, time::Duration};

use lockkeeper::{
    LockError, Mutex, RwLock, Semaphore,
    error::Loss,
    locks::{inspect, revoke},
    proto::OpCode,
};
use lockkeeper_server::When;

use crate::rig::{
    PATH, Pair, below, client_of, clients, cut_off, delete, driven, idle, let_in, loss_of, mutex,
    queue, server, session, soon, until,
};

/// So long that a slow test writes no proof of its lease.
const LONG_SESSION: Duration = Duration::from_secs(60);

/// In kazoo #282 the connection of a waiter was lost and came back, and the waiter hung for ever.
/// In zk-ruby #49 the waiter had a second node after the reconnect. Curator GH-1290: any wake-up
/// was taken for a grant, also the event of a lost connection.
///
/// Here the waiter keeps its node and waits on. Then the holder releases during an outage, and the
/// waiter is granted the lock after it.
#[tokio::test]
async fn row_18_and_35_and_53_a_waiter_keeps_its_place_across_reconnects() {
    let mut pair = Pair::new().await;
    for _ in 0..2 {
        cut_off(&pair.server, &pair.waiter).await;
        let_in(&pair.server);
        pair.still_waits().await;
    }
    cut_off(&pair.server, &pair.waiter).await;
    pair.guard.release().await.unwrap();
    assert_eq!(queue(&pair.server), [&*pair.node]);
    let_in(&pair.server);
    let granted = soon(pair.waiting).await.unwrap();
    assert_eq!(granted.path(), pair.node);
    assert_eq!(queue(&pair.server), [pair.node]);
}

/// Curator's readers all watch the first writer in the queue. Whenever it leaves, all of them list
/// the queue at the same time, even if another writer is still ahead of them. Here each reader
/// watches the last writer ahead of it. The deletion of that writer's node grants the lock without
/// another listing.
#[tokio::test]
async fn row_39_readers_are_granted_the_lock_without_another_listing() {
    const READERS: usize = 100;
    let server = server().await;
    let one = client_of(&server, LONG_SESSION).await;
    let two = client_of(&server, LONG_SESSION).await;
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

/// ZooKeeper's own `WriteLock` left its watch after the predecessor had been deleted. That watch
/// could never fire, and the waiter waited for ever. Here the waiter notices that the node is gone
/// and lists again.
#[tokio::test]
async fn row_43_a_predecessor_that_leaves_between_listing_and_watch_is_noticed() {
    let server = server().await;
    let [holder, waiter] = clients(&server).await;
    let guard = mutex(&holder).lock().await.unwrap();
    // The listing shows the holder. Its reply arrives after the holder has released.
    let listing = When::op(OpCode::GET_CHILDREN).of_session(session(&waiter));
    let late = Duration::from_millis(50);
    server.faults().delay_reply(listing, late);
    let mutex = mutex(&waiter);
    let waiting = tokio::spawn(async move { mutex.lock().await });
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
    let [client] = clients(&server).await;
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
    let [client] = clients(&server).await;
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
    let client = client_of(&server, LONG_SESSION).await;
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

/// twitter/commons #20: a session expiry is an event without a path. A filter for the path dropped
/// it, and the waiter waited for ever. Here the waiter gets an error.
#[tokio::test]
async fn row_55_a_waiter_whose_session_expires_gets_an_error_and_no_grant() {
    let pair = Pair::new().await;
    pair.server.faults().expire_early(session(&pair.waiter));
    let loss = loss_of(pair.waiting).await;
    assert!(matches!(loss, Loss::Expired | Loss::Deleted), "{loss:?}");
    // The client has a new session, and the old session's node has left the queue.
    assert_eq!(queue(&pair.server), [pair.guard.path()]);
    pair.guard.release().await.unwrap();
    let guard = soon(mutex(&pair.waiter).lock()).await.unwrap();
    guard.release().await.unwrap();
}

/// After an outage the events of that time arrive in any order. The event of the node ahead may
/// arrive first. The waiter must not take it for a grant if its own node was deleted, too.
#[tokio::test]
async fn row_59_a_waiter_whose_node_was_deleted_in_an_outage_is_not_granted_the_lock() {
    for _ in 0..5 {
        let pair = Pair::new().await;
        cut_off(&pair.server, &pair.waiter).await;
        pair.guard.release().await.unwrap();
        delete(&pair.holder, &pair.node).await;
        let_in(&pair.server);
        assert_eq!(loss_of(pair.waiting).await, Loss::Deleted);
    }
}

/// kazoo waits for the full timeout again after each wake-up, so contenders that leave ahead of a
/// waiter prolong its wait without limit. Here one deadline covers the whole wait.
#[tokio::test]
async fn row_65_a_timeout_does_not_restart_when_a_waiter_ahead_leaves() {
    let server = server().await;
    let [holder, waiter] = clients(&server).await;
    let _guard = mutex(&holder).lock().await.unwrap();
    let mut ahead = Vec::new();
    for _ in 0..20 {
        ahead.push(mutex(&holder).enqueue().await.unwrap());
    }
    let (mutex, wait) = (mutex(&waiter), Duration::from_millis(200));
    let waiting = tokio::spawn(async move { mutex.lock_timeout(wait).await.map(drop) });
    // The waiters ahead leave one by one. Each leaves before a timeout that restarted at the last
    // wake-up could end.
    while !waiting.is_finished() && ahead.pop().is_some() {
        tokio::time::sleep(wait / 2).await;
    }
    // On any machine, however busy, the wait has ended before all 20 waiters have left.
    assert!(!ahead.is_empty());
    let error = soon(waiting).await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::TimedOut { waited, .. } if waited == wait));
}

/// Curator's lock object forgets its revocation listener at the first release, so nobody could ask
/// the second holder to release. Here each hold can be revoked.
#[tokio::test]
async fn row_71_every_hold_can_be_revoked() {
    let server = server().await;
    let [holder, operator] = clients(&server).await;
    let mutex = Mutex::new(&holder, PATH).unwrap().with_data("host-1");
    for _ in 0..2 {
        let guard = mutex.lock().await.unwrap();
        let asked = tokio::spawn(guard.revoked());
        let contenders = inspect(&operator, PATH).await.unwrap();
        assert_eq!(contenders[0].data.as_deref(), Some(&b"host-1"[..]));
        revoke(&operator, &contenders[0].path).await.unwrap();
        soon(asked).await.unwrap();
        assert!(guard.is_valid(), "the holder decides when it releases");
        guard.release().await.unwrap();
    }
}
