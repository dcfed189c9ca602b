//! Requests made together share one write.

use std::time::Duration;

use lockkeeper_proto::{CreateMode, ErrorCode, OpCode, Version};
use lockkeeper_server::When;
use lockkeeper_session::{AsRaw, Client, Effect};
use lockkeeper_test_support::peer::sync;

use super::{
    counting::Tally,
    servers::{builder, client, server},
    waiting::{soon, until},
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

/// A transaction has at most 256 deletes, and is never longer than servers take.
#[tokio::test]
async fn a_tree_is_deleted_in_transactions_that_servers_take() {
    let server = server().await;
    for (longest, transactions) in [(1 << 20, 2), (1000, 8), (30, 0)] {
        let tally = Tally::default();
        let builder = builder(&server).connector(tally.connector());
        let deleter = soon(builder.max_request(longest).connect()).await.unwrap();
        let maker = client(&server).await;
        for number in 0..300 {
            maker
                .ensure_path(&format!("/t/n{number:03}"))
                .await
                .unwrap();
        }
        soon(deleter.delete_all("/t")).await.unwrap();
        assert_eq!(maker.exists("/t").await.unwrap(), None);
        let sent = tally.writes().concat();
        let times = |op| sent.iter().filter(|it| **it == op).count();
        // The first delete is that of the node itself.
        let singles = if transactions == 0 { 302 } else { 1 };
        assert_eq!(
            (times(OpCode::MULTI), times(OpCode::DELETE)),
            (transactions, singles)
        );
    }
}

/// The error of a later request said that nothing had changed.
#[tokio::test]
async fn a_tree_that_is_deleted_in_part_is_not_said_to_be_unchanged() {
    for (transaction, effect, nodes) in [(1, Effect::NotApplied, 4), (2, Effect::Unknown, 2)] {
        let server = server().await;
        let maker = client(&server).await;
        for path in ["/t/a", "/t/b", "/t/c"] {
            maker.ensure_path(path).await.unwrap();
        }
        // Room for two nodes in each transaction.
        let deleter = builder(&server).max_request(64).connect();
        let deleter = soon(deleter).await.unwrap();
        let refused = When::op(OpCode::MULTI).nth(transaction);
        server.faults().refuse(refused, ErrorCode::THROTTLED_OP);
        let error = soon(deleter.delete_all("/t")).await.unwrap_err();
        assert_eq!((error.effect(), server.paths().len()), (effect, nodes));
        soon(deleter.delete_all("/t")).await.unwrap();
        assert_eq!(server.paths(), [""; 0]);
    }
}

#[tokio::test]
async fn a_node_of_a_tree_that_another_client_has_deleted_is_no_error() {
    let server = server().await;
    let [deleter, other] = [client(&server).await, client(&server).await];
    for path in ["/t/a", "/t/b"] {
        other.ensure_path(path).await.unwrap();
    }
    let listing = When::op(OpCode::GET_CHILDREN).within("/t/a");
    let faults = server.faults();
    faults.delay_reply(listing, Duration::from_millis(500));
    let done = tokio::spawn(async move { deleter.delete_all("/t").await });
    until("the tree is listed", async || faults.pending() == 0).await;
    other.delete("/t/b", Version::ANY).await.unwrap();
    soon(done).await.unwrap().unwrap();
    assert_eq!(other.exists("/t").await.unwrap(), None);
}

/// After the client has listed the tree, one node goes, and one comes.
#[tokio::test]
async fn a_tree_that_changes_is_listed_again() {
    let server = server().await;
    let (deleter, tally) = counted(&server).await;
    let other = client(&server).await;
    for path in ["/t/a", "/t/b"] {
        other.ensure_path(path).await.unwrap();
    }
    let listing = When::op(OpCode::GET_CHILDREN).within("/t/a");
    server
        .faults()
        .delay_reply(listing, Duration::from_millis(500));
    let deleting = deleter.clone();
    let done = tokio::spawn(async move { deleting.delete_all("/t").await });
    until("the tree is listed", async || {
        server.faults().pending() == 0
    })
    .await;
    other.delete("/t/b", Version::ANY).await.unwrap();
    other.ensure_path("/t/a/new").await.unwrap();
    soon(done).await.unwrap().unwrap();
    assert_eq!(other.exists("/t").await.unwrap(), None);
    let [delete, list, multi] = [OpCode::DELETE, OpCode::GET_CHILDREN, OpCode::MULTI];
    let first = [
        delete,
        OpCode::SYNC,
        list,
        list,
        list,
        multi,
        delete,
        delete,
        delete,
    ];
    let second = [OpCode::SYNC, list, list, list, multi];
    assert_eq!(tally.writes().concat(), [&first[..], &second].concat());
}
