//! Rows 60 to 70 and 73: wrong errors, leaked watches, wrong times, and reused names.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use lockkeeper::{
    Client, CreateMode, LockError, Mutex, RwLock, Version,
    error::{ErrorCode, Loss},
    locks::{Member, MultiLock},
    proto::OpCode,
};
use lockkeeper_server::When;

use crate::rig::{
    PATH, below, client, cut_off, delete, driven, idle, let_in, mutex, poll_once, queue, server,
    session, soon, until, until_other_session, until_queue_has,
};

/// CURATOR-211, -307: a reader lost its session while it listed the queue, so its own node was not
/// in the listing. Curator took the largest integer as its index and threw
/// `IndexOutOfBoundsException`. Here the reader learns that its session has expired.
#[tokio::test]
async fn row_60_a_reader_whose_session_expires_while_it_lists_gets_that_error() {
    let server = server().await;
    let client = client(&server).await;
    let lock = RwLock::new(&client, PATH).unwrap();
    let listing = When::op(OpCode::GET_CHILDREN);
    server.faults().cut_before(listing);
    let mut reading = pin!(lock.read());
    assert!(poll_once(reading.as_mut()).is_none());
    until_queue_has(&server, 1).await;
    idle(&client).await;
    let former = session(&client);
    server.faults().expire(former);
    until_other_session(&client, former).await;
    // The client lists again in the new session. The listing shows another contender, and not the
    // reader.
    let _other = mutex(&client).lock().await.unwrap();
    let error = soon(reading).await.unwrap_err();
    assert_eq!(error.loss(), Some(Loss::Expired));
}

/// CURATOR-107: waiters left `exists` watches on nodes that were gone already. These watches never
/// fired and piled up on the server. Here no watch is left after 4,000 acquisitions.
#[tokio::test]
async fn row_61_thousands_of_acquisitions_leave_no_watch() {
    const TURNS: usize = 1_000;
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    let mut tasks = Vec::new();
    for client in &clients {
        for _ in 0..2 {
            let mutex = mutex(client);
            tasks.push(tokio::spawn(async move {
                for _ in 0..TURNS {
                    mutex.lock().await.unwrap().release().await.unwrap();
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    until("no watch is left", async || server.report().watches == 0).await;
    assert!(clients.iter().all(|client| client.metrics().watches == 0));
    assert!(queue(&server).is_empty());
}

/// Curator leaves the watch on the predecessor when a wait times out: one watch for each attempt.
/// Here a cancelled wait removes its watches and its node.
#[tokio::test]
async fn row_62_ten_thousand_cancelled_waits_leave_no_node_and_no_watch() {
    let server = server().await;
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let guard = mutex(&holder).lock().await.unwrap();
    let contender = mutex(&waiter);
    let mut most = 0;
    for _ in 0..10_000 {
        drop(contender.enqueue().await.unwrap());
        most = most.max(server.report().watches);
    }
    assert!(most < 100, "{most} watches at a time");
    until("only the holder is left", async || {
        queue(&server) == [guard.path()]
    })
    .await;
    until("no watch is left", async || server.report().watches == 0).await;
    assert_eq!(waiter.metrics().watches, 0);
}

/// CURATOR-180, kazoo #563: the server may reap an empty container between any two requests of an
/// attempt. Those clients passed the "no node" error on to the caller. Here the attempt creates the
/// directory again.
#[tokio::test]
async fn row_63_a_directory_reaped_again_and_again_is_created_again() {
    let server = server().await;
    let client = client(&server).await;
    for number in 1..=5 {
        let reaped = When::op(OpCode::CREATE2).nth(number);
        server.faults().refuse(reaped, ErrorCode::NO_NODE);
    }
    delete(&client, PATH).await;
    let guard = soon(mutex(&client).lock()).await.unwrap();
    assert_eq!(server.faults().pending(), 0);
    guard.release().await.unwrap();
    // The attempt does not repeat this for ever: in the end the caller gets the server's error.
    for number in 1..=100 {
        let refused = When::op(OpCode::CREATE2).nth(number);
        server.faults().refuse(refused, ErrorCode::NO_NODE);
    }
    let error = soon(mutex(&client).lock()).await.unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("create2 /lock refused: no node (-101) ("),
        "{error}"
    );
}

/// Curator's multi-lock tries the remaining locks when one of them has thrown, and releases only
/// then. It also gives the whole timeout to each lock in turn. Here the first error stops the
/// attempt, and one deadline covers all locks.
#[tokio::test]
async fn row_64_a_member_that_fails_stops_the_rest() {
    let server = server().await;
    let client = client(&server).await;
    let paths = ["/lock/a", "/lock/b", "/lock/c"];
    let members = paths.map(|path| Mutex::new(&client, path).unwrap());
    let all = MultiLock::new(members.each_ref().map(Member::from)).unwrap();
    for path in paths {
        let mode = CreateMode::Persistent;
        client.create(path, "", mode).await.unwrap();
    }
    let refusal = When::op(OpCode::CREATE2).within("/lock/b");
    server.faults().refuse(refusal, ErrorCode::NO_AUTH);
    let creates = server.counters().requests_of(OpCode::CREATE2);
    let error = soon(all.lock()).await.unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("create2 /lock/b refused: not authorized (-102) ("),
        "{error}"
    );
    assert!(paths.iter().all(|path| below(&server, path).is_empty()));
    let tried = server.counters().requests_of(OpCode::CREATE2) - creates;
    assert_eq!(tried, 2, "the third lock is not tried");
    // Another guard holds the second lock. The time that the first lock took counts against the
    // same deadline.
    let guard = members[1].lock().await.unwrap();
    let wait = Duration::from_millis(100);
    let error = all.lock_timeout(wait).await.unwrap_err();
    let LockError::TimedOut { waited, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(waited, wait);
    guard.release().await.unwrap();
    until("the first lock is free again", async || {
        paths.iter().all(|path| below(&server, path).is_empty())
    })
    .await;
}

/// kazoo waits for the full timeout again after each wake-up, so contenders that leave ahead of a
/// waiter prolong its wait without limit. Here one deadline covers the whole wait.
#[tokio::test]
async fn row_65_a_timeout_does_not_restart_when_a_waiter_ahead_leaves() {
    let server = server().await;
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let _guard = mutex(&holder).lock().await.unwrap();
    let mut ahead = Vec::new();
    for _ in 0..20 {
        ahead.push(mutex(&holder).enqueue().await.unwrap());
    }
    let (wait, started) = (Duration::from_millis(200), Instant::now());
    let waiting = tokio::spawn({
        let mutex = mutex(&waiter);
        async move { mutex.lock_timeout(wait).await.map(drop) }
    });
    // The waiters ahead leave one by one. Each leaves before a timeout that restarted at the last
    // wake-up could end.
    while let Some(next) = ahead.pop() {
        tokio::time::sleep(wait / 2).await;
        if waiting.is_finished() {
            break;
        }
        drop(next);
    }
    let error = soon(waiting).await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::TimedOut { waited, .. } if waited == wait));
    // On any machine, however busy, the wait has ended before all 20 waiters have left.
    assert!(!ahead.is_empty(), "it took {:?}", started.elapsed());
}

/// CURATOR-337, -358: the leader left after Curator had listed the nodes and before it read the
/// leader's data. The caller got an error. Here the contender that left is missing from the answer.
#[tokio::test]
async fn row_67_a_contender_that_leaves_while_another_looks_is_left_out() {
    let server = server().await;
    let (holder, looker) = (client(&server).await, client(&server).await);
    let leaving = mutex(&holder).lock().await.unwrap();
    let staying = mutex(&holder).enqueue().await.unwrap();
    let listing = When::op(OpCode::GET_CHILDREN).of_session(session(&looker));
    let late = Duration::from_millis(50);
    server.faults().delay_reply(listing, late);
    let looking = tokio::spawn({
        let mutex = mutex(&looker);
        async move { mutex.participants().await.unwrap() }
    });
    until("they are listed", async || server.faults().pending() == 0).await;
    leaving.release().await.unwrap();
    let seen = soon(looking).await.unwrap();
    let paths: Vec<_> = seen.into_iter().map(|one| one.path).collect();
    assert_eq!(paths, [staying.path()]);
}

/// CURATOR-559: retry loops ran inside other retry loops, so the number of attempts multiplied.
/// Here each cut repeats the create once.
#[tokio::test]
async fn row_69_each_cut_repeats_the_request_once() {
    const CUTS: u32 = 5;
    let server = server().await;
    let client = client(&server).await;
    let creates = server.counters().requests_of(OpCode::CREATE2);
    for number in 1..=CUTS {
        let create = When::op(OpCode::CREATE2).nth(number);
        server.faults().cut_before(create);
    }
    let before = server.counters().all_requests();
    let guard = soon(mutex(&client).lock()).await.unwrap();
    let repeated = server.counters().requests_of(OpCode::CREATE2) - creates;
    assert_eq!(repeated, u64::from(CUTS) + 1);
    // A cut also costs a barrier and a listing, and the listing behind the create if that was sent
    // separately.
    let requests = server.counters().all_requests() - before;
    assert!(requests <= 4 * u64::from(CUTS) + 2, "{requests} requests");
    guard.release().await.unwrap();
}

/// CURATOR-688: the version of a node can overflow and become -1, which means "any version" in a
/// request. A conditional write that compared it never succeeded. Here a guard's requests do not
/// depend on the version of its node.
#[tokio::test]
async fn row_70_the_version_of_a_lock_node_does_not_matter() {
    let server = server().await;
    let (client, other) = (client(&server).await, client(&server).await);
    let guard = mutex(&client).lock().await.unwrap();
    for data in ["once", "twice"] {
        let any = Version::ANY;
        other.set_data(&guard.path(), data, any).await.unwrap();
    }
    guard.transaction().commit().await.unwrap();
    guard.release().await.unwrap();
}

/// kazoo uses one name for all nodes of a lock object. The reply to a delete was lost. The
/// directory was then deleted and created again, which restarted its numbers, and the next acquire
/// got the same path. The repeated delete removed this new node.
///
/// Here each attempt has a new name, so a late delete finds no node.
#[tokio::test]
async fn row_73_a_late_delete_removes_no_other_node() {
    let server = server().await;
    let (client, operator): (Client, Client) = (client(&server).await, client(&server).await);
    let mutex = mutex(&client);
    let guard = mutex.lock().await.unwrap();
    let former = guard.path();
    // The server applies the delete and the reply is lost. The client will send the delete again.
    server.faults().lose_reply(When::op(OpCode::DELETE));
    server.faults().refuse_handshakes(true);
    drop(guard);
    until_queue_has(&server, 0).await;
    until("the cut is noticed", async || {
        !client.snapshot().state.is_connected()
    })
    .await;
    delete(&operator, PATH).await;
    let guard = self::mutex(&operator).lock().await.unwrap();
    assert_eq!(
        guard.path()[guard.path().len() - 10..],
        former[former.len() - 10..]
    );
    let deletes = server.counters().requests_of(OpCode::DELETE);
    let_in(&server);
    until("the delete is sent again", async || {
        server.counters().requests_of(OpCode::DELETE) > deletes
    })
    .await;
    idle(&client).await;
    assert_eq!(queue(&server), [guard.path()]);
    // The same handle uses another name for its next attempt.
    let mut waiting = pin!(mutex.lock());
    assert!(driven(&client, waiting.as_mut()).await.is_none());
    guard.release().await.unwrap();
    assert_ne!(soon(waiting).await.unwrap().path(), former);
    cut_off(&server, &client).await;
}
