//! Rows 45 to 47, 65 and 71: which events wake which waiters, also across
//! outages and expiries, and how long a waiter waits.

use std::{pin::pin, time::Duration};

use lockkeeper::{
    LockError, Mutex, Semaphore,
    locks::{inspect, revoke},
};

use crate::rig::{PATH, client_of, clients, driven, idle, mutex, server, soon, until};

/// So long that a slow test writes no proof of its lease.
const LONG_SESSION: Duration = Duration::from_secs(60);

/// CURATOR-75: an operator raised the limit, and the waiters were not woken. Here the next waiter
/// gets a permit at once.
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
    // A lower limit takes no permit away and grants none.
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
    until!(client.metrics().watches < watches);
    // The session serves other callers meanwhile.
    assert!(client.exists(&node).await.unwrap().is_some());
    let behind = mutex.enqueue().await.unwrap();
    let before = server.counters().all_requests();
    let guard = soon(ticket.wait()).await.unwrap();
    assert_eq!(server.counters().all_requests(), before);
    guard.release().await.unwrap();
    soon(behind.wait()).await.unwrap().release().await.unwrap();
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
    let waiting = tokio::spawn(async move { mutex.try_lock_for(wait).await.map(drop) });
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
