//! Rows 63, 64, 67, 69 and 73: wrong errors, too many requests, and reused names.

use std::{pin::pin, time::Duration};

use lockkeeper::{
    CreateMode, Mutex,
    error::ErrorCode,
    locks::{Member, MultiLock, inspect},
    proto::OpCode,
};
use lockkeeper_server::When;

use crate::rig::{
    PATH, below, client, clients, delete, driven, idle, let_in, mutex, queue, server, session,
    soon, until, until_queue_has,
};

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
    let error = soon(mutex(&client).lock()).await.unwrap_err().to_string();
    let told = "create2 /lock refused: no node (-101) (";
    assert!(error.starts_with(told), "{error}");
}

/// Curator's multi-lock tries the remaining locks when one of them has thrown, and releases only
/// then. Here the first error stops the attempt.
#[tokio::test]
async fn row_64_a_member_that_fails_stops_the_rest() {
    let server = server().await;
    let client = client(&server).await;
    let paths = ["/lock/a", "/lock/b", "/lock/c"];
    for path in paths {
        let mode = CreateMode::Persistent;
        client.create(path, "", mode).await.unwrap();
    }
    let members = paths.map(|path| Mutex::new(&client, path).unwrap());
    let all = MultiLock::new(members.each_ref().map(Member::from)).unwrap();
    let refusal = When::op(OpCode::CREATE2).within("/lock/b");
    server.faults().refuse(refusal, ErrorCode::NO_AUTH);
    let creates = server.counters().requests_of(OpCode::CREATE2);
    let error = soon(all.lock()).await.unwrap_err().to_string();
    let told = "create2 /lock/b refused: not authorized (-102) (";
    assert!(error.starts_with(told), "{error}");
    assert!(paths.iter().all(|path| below(&server, path).is_empty()));
    let tried = server.counters().requests_of(OpCode::CREATE2) - creates;
    assert_eq!(tried, 2, "the third lock is not tried");
}

/// CURATOR-337, -358: the leader left after Curator had listed the nodes and before it read the
/// leader's data. The caller got an error. Here the contender that left is missing from the answer.
#[tokio::test]
async fn row_67_a_contender_that_leaves_while_another_looks_is_left_out() {
    let server = server().await;
    let [holder, looker] = clients(&server).await;
    let leaving = mutex(&holder).lock().await.unwrap();
    let staying = mutex(&holder).enqueue().await.unwrap();
    let listing = When::op(OpCode::GET_CHILDREN).of_session(session(&looker));
    let late = Duration::from_millis(50);
    server.faults().delay_reply(listing, late);
    let looking = tokio::spawn(async move { inspect(&looker, PATH).await.unwrap() });
    until!(server.faults().pending() == 0);
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

/// kazoo uses one name for all nodes of a lock object. The reply to a delete was lost. The
/// directory was then deleted and created again, which restarted its numbers, and the next acquire
/// got the same path. The repeated delete removed this new node.
///
/// Here each attempt has a new name, so a late delete finds no node.
#[tokio::test]
async fn row_73_a_late_delete_removes_no_other_node() {
    let server = server().await;
    let [client, operator] = clients(&server).await;
    let mutex = mutex(&client);
    let guard = mutex.lock().await.unwrap();
    let former = guard.path();
    // The server applies the delete and the reply is lost. The client will send the delete again.
    server.faults().lose_reply(When::op(OpCode::DELETE));
    server.faults().refuse_handshakes(true);
    drop(guard);
    until_queue_has(&server, 0).await;
    until!(!client.snapshot().state.is_connected());
    delete(&operator, PATH).await;
    let guard = self::mutex(&operator).lock().await.unwrap();
    assert_eq!(
        guard.path()[guard.path().len() - 10..],
        former[former.len() - 10..]
    );
    let deletes = server.counters().requests_of(OpCode::DELETE);
    let_in(&server);
    until!(server.counters().requests_of(OpCode::DELETE) > deletes);
    idle(&client).await;
    assert_eq!(queue(&server), [guard.path()]);
    // The same handle uses another name for its next attempt.
    let mut waiting = pin!(mutex.lock());
    assert!(driven(&client, waiting.as_mut()).await.is_none());
    guard.release().await.unwrap();
    assert_ne!(soon(waiting).await.unwrap().path(), former);
}
