//! A session that goes on in another client.
//!
//! Not here: every order of what happens (`session/src/machine/tests/hand_over.rs`), locks that are
//! handed over (`recipes/tests/locks/hand_over.rs`).

use std::{sync::mpsc, thread};

use futures::executor::block_on;
use lockkeeper_proto::{CreateMode, ErrorCode, OpCode};
use lockkeeper_server::When;
use lockkeeper_session::{ErrorKind, SessionTicket};

use super::{
    servers::{builder, client, follow, server},
    waiting::{LONG, soon, until},
};

#[tokio::test]
async fn the_next_client_has_the_session_its_nodes_and_its_root() {
    let server = server().await;
    let old = client(&server).await;
    soon(old.create("/app", "", CreateMode::Persistent))
        .await
        .unwrap();
    let below = old.with_chroot("/app").unwrap();
    soon(below.create("/here", "", CreateMode::Ephemeral))
        .await
        .unwrap();
    let id = old.snapshot().session_id;
    let ticket = soon(below.hand_over()).await.unwrap();
    assert_eq!(ticket.session_id(), id);
    assert!(old.is_closed(), "all clones have ended");
    let sent = SessionTicket::from_bytes(&ticket.to_bytes()).unwrap();
    let new = soon(builder(&server).session(sent).connect())
        .await
        .unwrap();
    assert_eq!(new.snapshot().session_id, id);
    let node = soon(new.exists("/here")).await.unwrap();
    assert_eq!(node.unwrap().ephemeral_owner, id);
    soon(new.close()).await;
    assert_eq!(server.paths(), ["/app"]);
    let counters = server.counters();
    let closed = counters.requests_of(OpCode::CLOSE_SESSION);
    assert_eq!((closed, counters.expired), (1, 0), "the last one ends it");
}

#[tokio::test]
async fn a_server_before_3_6_refuses_and_the_client_goes_on() {
    let server = server().await;
    let client = client(&server).await;
    let listing = When::op(OpCode::GET_EPHEMERALS);
    server.faults().refuse(listing, ErrorCode::UNIMPLEMENTED);
    let refused = soon(client.clone().hand_over()).await.unwrap_err();
    let op = OpCode::GET_EPHEMERALS;
    assert_eq!(*refused.kind(), ErrorKind::Unsupported(op), "{refused}");
    soon(client.sync("/")).await.unwrap();
}

/// The wait for a server that may have a write ended at once, and began again without a pause: a
/// thread of the program was busy for a minute.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_closed_meanwhile_hands_nothing_over() {
    let server = server().await;
    let client = client(&server).await;
    server.faults().lose_reply(When::create());
    let lost = soon(client.create("/a", "", CreateMode::Persistent)).await;
    lost.unwrap_err();
    follow(&client, |now| now.connections == 2).await;
    let (sender, outcome) = mpsc::channel();
    let leaving = client.clone();
    thread::spawn(move || sender.send(block_on(leaving.hand_over())));
    let listed = || server.counters().requests_of(OpCode::GET_EPHEMERALS) == 1;
    until!(listed());
    soon(client.close()).await;
    let refused = tokio::task::spawn_blocking(move || outcome.recv_timeout(LONG));
    let refused = refused.await.unwrap().expect("a hang").unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::Closed, "{refused}");
}

/// Once, the next session was handed over, which has none of the nodes; the caller heard of no failure.
#[tokio::test]
async fn a_session_that_ends_meanwhile_is_not_handed_over() {
    let server = server().await;
    let client = client(&server).await;
    let id = client.snapshot().session_id;
    server.faults().lose_reply(When::create());
    let lost = soon(client.create("/a", "", CreateMode::Ephemeral)).await;
    lost.unwrap_err();
    follow(&client, |now| now.connections == 2).await;
    // It waits for a server that may have the create.
    let leaving = tokio::spawn(client.clone().hand_over());
    until!(server.counters().requests_of(OpCode::GET_EPHEMERALS) == 1);
    assert!(server.faults().expire(id));
    let refused = soon(leaving).await.unwrap().unwrap_err();
    assert!(refused.is_session_expired(), "{refused}");
    let now = follow(&client, |now| now.state.is_connected()).await;
    assert_ne!(now.session_id, id);
}
