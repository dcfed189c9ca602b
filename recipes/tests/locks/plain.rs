//! The plain lock after its node is gone: no late delete hits the node of the next holder, which
//! has the same name.
//!
//! Not here: the general promises of the plain lock (`tests/contract/plain.rs`).

use std::{pin::pin, time::Duration};

use lockkeeper_proto::{OpCode, Version};
use lockkeeper_recipes::{LockState, Loss, PlainMutex, revoke};
use lockkeeper_server::When;
use lockkeeper_session::{Client, Effect};

use crate::support::{
    below, server_and_two,
    waiting::{idle, poll_once, soon, until},
};

const NODE: &str = "/p/lock";

fn lock(client: &Client) -> PlainMutex {
    PlainMutex::new(client, "/p").unwrap()
}

/// An operator deletes the node, the holder is told, and the next contender takes the lock.
#[tokio::test]
async fn a_holder_that_knows_of_its_loss_deletes_nothing() {
    let (_server, one, other) = server_and_two().await;
    for told_by in 0..3 {
        let former = lock(&one).lock().await.unwrap();
        if told_by == 0 {
            let lost = tokio::spawn(former.lost());
            one.exists("/").await.unwrap();
            other.delete(NODE, Version::ANY).await.unwrap();
            assert_eq!(soon(lost).await.unwrap(), Some(Loss::Deleted));
        } else {
            other.delete(NODE, Version::ANY).await.unwrap();
            let told = match told_by {
                1 => former.confirm().await,
                _ => former.transaction().commit().await.map(drop),
            };
            assert_eq!(told.unwrap_err().loss(), Some(Loss::Deleted));
        }
        let next = soon(lock(&other).lock()).await.unwrap();
        drop(former);
        one.sync("/").await.unwrap();
        assert_eq!(next.confirm().await, Ok(()), "{told_by}");
        next.release().await.unwrap();
    }
}

/// The node of the next holder has the same name.
#[tokio::test]
async fn the_node_of_the_next_holder_confirms_nothing() {
    let (_server, one, other) = server_and_two().await;
    let former = lock(&one).lock().await.unwrap();
    other.delete(NODE, Version::ANY).await.unwrap();
    let next = soon(lock(&other).lock()).await.unwrap();
    let told = former.confirm().await.unwrap_err();
    assert_eq!(told.loss(), Some(Loss::Deleted));
    assert_eq!(next.confirm().await, Ok(()));
}

/// The session ends after the reply to the delete was lost. A look in the next session would say
/// nothing about the node.
#[tokio::test]
async fn a_release_whose_session_has_ended_says_so() {
    let (server, one, _) = server_and_two().await;
    let held = lock(&one).lock().await.unwrap();
    let session = one.snapshot().session_id;
    server
        .faults()
        .lose_reply(When::op(OpCode::DELETE).of_session(session));
    server.faults().refuse_handshakes(true);
    let mut releasing = pin!(held.release());
    assert!(poll_once(releasing.as_mut()).is_none());
    until!(server.faults().pending() == 0 && !one.snapshot().state.is_connected());
    assert!(server.faults().expire_early(session));
    server.faults().refuse_handshakes(false);
    until!(one.snapshot().state.is_connected());
    let told = soon(releasing).await.unwrap_err();
    assert_eq!(told.loss(), Some(Loss::Expired));
}

/// The reply to a delete, or to a transaction that writes and releases, is lost, and another
/// contender takes the lock during the outage.
#[tokio::test]
async fn a_release_with_a_lost_reply_deletes_nothing_more() {
    for (way, op) in [
        ("drop", OpCode::DELETE),
        ("release", OpCode::DELETE),
        ("release_with", OpCode::MULTI),
    ] {
        let (server, one, other) = server_and_two().await;
        let former = lock(&one).lock().await.unwrap();
        let session = one.snapshot().session_id;
        server.faults().lose_reply(When::op(op).of_session(session));
        server.faults().refuse_handshakes(true);
        let releasing = tokio::spawn(async move {
            match way {
                "drop" => {
                    drop(former);
                    None
                }
                "release" => former.release().await.err(),
                _ => former.release_with(|writes| writes).await.err(),
            }
        });
        let next = soon(lock(&other).lock()).await.unwrap();
        server.faults().refuse_handshakes(false);
        let told = soon(releasing).await.unwrap();
        let told = told.map(|error| error.effect());
        assert_eq!(told, (way != "drop").then_some(Effect::Unknown), "{way}");
        soon(async {
            while one.sync("/").await.is_err() || one.metrics().outstanding() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(next.confirm().await, Ok(()), "{way}");
        assert_eq!(next.state(), LockState::Held);
        next.release().await.unwrap();
    }
}

/// The caller gives up before it has seen the reply to the transaction that releases, and another
/// contender has the lock already.
#[tokio::test]
async fn a_release_with_that_is_given_up_deletes_nothing_more() {
    let (server, one, other) = server_and_two().await;
    let former = lock(&one).lock().await.unwrap();
    let mut releasing = Box::pin(former.release_with(|writes| writes));
    assert!(poll_once(releasing.as_mut()).is_none());
    let next = soon(lock(&other).lock()).await.unwrap();
    let before = server.counters().requests_of(OpCode::DELETE);
    drop(releasing);
    until!(server.counters().requests_of(OpCode::DELETE) > before);
    idle(&one).await;
    assert_eq!(next.confirm().await, Ok(()));
    next.release().await.unwrap();
}

/// `revoke` replaces the data of the node, and with them the mark of the client. An earlier version
/// then took its own node for that of another holder, and left it behind.
#[tokio::test]
async fn a_revoked_holder_deletes_its_node_although_its_delete_was_lost() {
    let (server, one, other) = server_and_two().await;
    let delete = When::op(OpCode::DELETE).of_session(one.snapshot().session_id);
    for is_dropped in [false, true] {
        let held = lock(&one).lock().await.unwrap();
        revoke(&other, NODE).await.unwrap();
        server.faults().cut_before(delete.clone());
        if is_dropped {
            drop(held);
        } else {
            assert_eq!(soon(held.release()).await, Ok(()));
        }
        until!(below(&server, "/p") == 0);
        assert_eq!(server.faults().pending(), 0);
    }
}

/// The nodes of all holders have one name: a request to the next holder was taken for one to the former.
#[tokio::test]
async fn a_request_to_the_next_holder_is_none_to_the_former() {
    let (_server, one, other) = server_and_two().await;
    let former = lock(&one).lock().await.unwrap();
    let mut asked = pin!(former.revoked());
    assert!(poll_once(asked.as_mut()).is_none());
    former.limit_hold(Duration::ZERO);
    let next = soon(lock(&other).lock()).await.unwrap();
    revoke(&other, NODE).await.unwrap();
    soon(next.revoked()).await;
    let never = tokio::time::timeout(Duration::from_millis(300), asked).await;
    assert!(never.is_err(), "its lock is lost");
}
