//! Requests made together share one write.

use lockkeeper_proto::{CreateMode, ErrorCode, OpCode};
use lockkeeper_server::When;
use lockkeeper_session::Client;
use lockkeeper_test_support::peer::sync;

use super::{
    counting::Tally,
    servers::{builder, client, server},
    waiting::soon,
};

async fn counted(server: &lockkeeper_server::Server) -> (Client, Tally) {
    let tally = Tally::default();
    let builder = builder(server).connector(tally.connector());
    let client = soon(builder.connect()).await.unwrap();
    assert!(tally.writes().is_empty(), "the handshake is one write");
    (client, tally)
}

/// The driver may run on another thread between the two requests. Both enter the queue under one
/// lock, so they share a write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_requests_submitted_together_are_one_write_on_several_threads() {
    let server = server().await;
    let (client, tally) = counted(&server).await;
    for _ in 0..200 {
        tally.clear();
        let both = [sync("/"), sync("/")].map(Into::into);
        let [first, second] = client.raw().submit(both);
        soon(first).await.unwrap();
        soon(second).await.unwrap();
        assert_eq!(tally.writes(), [[OpCode::SYNC; 2]]);
    }
}

#[tokio::test]
async fn methods_polled_together_share_a_write() {
    let server = server().await;
    let (client, tally) = counted(&server).await;
    let (first, second, third) = soon(async {
        tokio::join!(
            client.get_children("/"),
            client.exists("/zookeeper"),
            client.sync("/")
        )
    })
    .await;
    assert!(first.is_ok() && second.is_ok() && third.is_ok());
    let all = [OpCode::GET_CHILDREN, OpCode::EXISTS, OpCode::SYNC];
    assert_eq!(tally.writes(), [all]);
}

/// A request is sent at the first poll of its future, and not before.
#[tokio::test]
async fn a_future_that_is_not_polled_sends_nothing() {
    let server = server().await;
    let (client, tally) = counted(&server).await;
    let never = client.get_data("/");
    soon(client.sync("/")).await.unwrap();
    drop(never);
    soon(client.sync("/")).await.unwrap();
    assert_eq!(tally.writes().concat(), [OpCode::SYNC; 2]);
}

/// Another client deletes a parent between its creation and that of the node.
#[tokio::test]
async fn a_parent_that_vanishes_is_created_again() {
    let server = server().await;
    let (client, tally) = counted(&server).await;
    let create_all = async |path: &str, vanishes: u32| {
        for time in 1..=vanishes {
            let when = When::create().within(path).nth(time);
            server.faults().refuse(when, ErrorCode::NO_NODE);
        }
        tally.clear();
        client.create_all(path, "", CreateMode::Persistent).await
    };
    assert_eq!(create_all("/a/b", 3).await.unwrap().path, "/a/b");
    assert_eq!(tally.writes().len(), 4);
    // Not for ever.
    assert!(create_all("/a/c", 20).await.unwrap_err().is_no_node());
    assert_eq!(tally.writes().len(), 11);
}

/// Another client creates the node after this one has looked for it.
#[tokio::test]
async fn a_path_that_another_client_creates_meanwhile_is_no_error() {
    let server = server().await;
    let client = client(&server).await;
    let faults = server.faults();
    faults.refuse(When::create().within("/a"), ErrorCode::NODE_EXISTS);
    client.ensure_path("/a").await.unwrap();
    assert_eq!(faults.pending(), 0);
}
