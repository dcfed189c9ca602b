//! Rows 19, 20, 22 to 24, 30, 32, 33: an attempt or hold has ended, but its node stays behind in a
//! live session. All later contenders wait for that node.

use std::{pin::pin, time::Duration};

use lockkeeper::{Client, CreateMode, LockError, proto::OpCode};
use lockkeeper_server::{Server, When};

use crate::rig::{
    PATH, below, client, cut_off, idle, let_in, mutex, poll_once, queue, server, session, soon,
    until, until_queue_has,
};

/// The node on the server that the client with a chroot sees as its root.
const CHROOT: &str = "/chroot";

/// A client with a chroot, and the lock's directory below it. The client's paths differ from the
/// server's.
async fn client_below_root(server: &Server) -> Client {
    let plain = client(server).await;
    for node in [CHROOT, "/chroot/lock"] {
        let mode = CreateMode::Persistent;
        plain.create(node, "", mode).await.unwrap();
    }
    let servers = format!("{}{CHROOT}", server.connect_string());
    Client::connect(&servers).await.unwrap()
}

/// Curator, kazoo, kezhuw's client and go-zk lose the reply to a create, reconnect, and look for
/// the node with a plain listing. A lagging server does not show the node yet. The client then
/// creates a second node and waits behind its own first one until the session ends.
///
/// Here the client looks behind a barrier, so it finds the first node.
#[tokio::test]
async fn row_19_a_create_with_a_lost_reply_is_found_on_a_lagging_server() {
    let server = server().await;
    let client = client(&server).await;
    server.faults().lose_reply(When::op(OpCode::CREATE2));
    server.faults().freeze_reads();
    let guard = soon(mutex(&client).lock()).await.unwrap();
    assert_eq!(queue(&server), [guard.path()], "there is a second node");
    server.faults().thaw();
    guard.release().await.unwrap();
    assert!(queue(&server).is_empty());
}

/// CURATOR-45: Curator gave up a create after its retries, but the server had applied it. Vitess,
/// PR 15757: the clean-up ran under the deadline that had just passed, so it did nothing. Both
/// nodes stayed behind.
///
/// Here the deadline passes during the outage that lost the reply. The client deletes the node
/// after the outage.
#[tokio::test]
async fn row_20_and_23_a_timed_out_attempt_deletes_its_node_after_the_outage() {
    let server = server().await;
    let client = client(&server).await;
    server.faults().lose_reply(When::op(OpCode::CREATE2));
    server.faults().refuse_handshakes(true);
    let wait = Duration::from_millis(50);
    let error = mutex(&client).lock_timeout(wait).await.unwrap_err();
    let expected = LockError::TimedOut {
        path: PATH.to_owned(),
        waited: wait,
        ahead: None,
    };
    assert_eq!(error, expected);
    assert_eq!(queue(&server).len(), 1);
    let_in(&server);
    until_queue_has(&server, 0).await;
    assert_eq!(client.snapshot().connections, 2);
}

/// CURATOR-205, -468: the first interrupt ended the attempt and started its clean-up. A second
/// interrupt ended the clean-up, and the node stayed behind. Here the client repeats the clean-up
/// until it has succeeded.
#[tokio::test]
async fn row_22_a_clean_up_is_never_given_up() {
    let server = server().await;
    let client = client(&server).await;
    let guard = mutex(&client).lock().await.unwrap();
    // The connection is cut twice at the delete. The caller drops the release after one poll.
    for number in 1..=2 {
        let delete = When::op(OpCode::DELETE).nth(number);
        server.faults().cut_before(delete);
    }
    {
        let mut releasing = pin!(guard.release());
        assert!(poll_once(releasing.as_mut()).is_none());
    }
    until_queue_has(&server, 0).await;
    assert_eq!(client.snapshot().connections, 3);
    assert_eq!(server.faults().pending(), 0);
}

/// The same for a release that begins during the outage, also if the caller drops it: the lock is
/// free after the reconnect.
#[tokio::test]
async fn row_24_a_release_during_an_outage_blocks_nobody_after_it() {
    let server = server().await;
    let client = client(&server).await;
    for is_dropped in [false, true] {
        let guard = mutex(&client).lock().await.unwrap();
        cut_off(&server, &client).await;
        let mut releasing = Box::pin(guard.release());
        assert!(poll_once(releasing.as_mut()).is_none());
        let again = tokio::spawn({
            let mutex = mutex(&client);
            async move { mutex.lock().await }
        });
        if is_dropped {
            drop(releasing);
            let_in(&server);
        } else {
            let_in(&server);
            soon(releasing).await.unwrap();
        }
        let guard = soon(again).await.unwrap().unwrap();
        assert_eq!(queue(&server), [guard.path()]);
        guard.release().await.unwrap();
    }
}

/// samuel/go-zookeeper #229: the connection was lost after the create and before the listing. The
/// caller got an error, and the client forgot the node. Here the attempt goes on with the same
/// node, or deletes it if the caller has dropped the attempt.
#[tokio::test]
async fn row_30_a_connection_lost_between_create_and_listing_causes_no_second_node() {
    let server = server().await;
    let client = client(&server).await;
    let creates = server.counters().requests_of(OpCode::CREATE2);
    for is_dropped in [false, true] {
        server
            .faults()
            .cut_before(When::op(OpCode::GET_CHILDREN).of_session(session(&client)));
        let lock = mutex(&client);
        let mut attempt = Box::pin(lock.lock());
        assert!(poll_once(attempt.as_mut()).is_none());
        until_queue_has(&server, 1).await;
        if is_dropped {
            drop(attempt);
        } else {
            let guard = soon(attempt).await.unwrap();
            guard.release().await.unwrap();
        }
        until_queue_has(&server, 0).await;
    }
    let now = server.counters().requests_of(OpCode::CREATE2);
    assert_eq!(now, creates + 2);
}

/// kezhuw's client: an attempt was dropped during its create. The clean-up deleted the bare name of
/// the node instead of its path. The server refused this, the client ignored the refusal, and the
/// node stayed behind.
///
/// Here the clean-up deletes the right path, also for a client with a chroot, whose paths differ
/// from the server's.
#[tokio::test]
async fn row_32_the_clean_up_deletes_the_node_by_its_full_path() {
    let server = server().await;
    let client = client_below_root(&server).await;
    let mutex = mutex(&client);
    let nodes = || below(&server, "/chroot/lock");
    for lose in [false, true] {
        let create = When::op(OpCode::CREATE2);
        if lose {
            server.faults().lose_reply(create);
        }
        let mut attempt = Box::pin(mutex.lock());
        assert!(poll_once(attempt.as_mut()).is_none());
        until("the create is applied", async || !nodes().is_empty()).await;
        drop(attempt);
        until("nothing is left", async || nodes().is_empty()).await;
        idle(&client).await;
    }
}

/// kezhuw's client, where contenders share one prefix: after a lost reply it compared this prefix
/// with whole paths. It did not find its node and failed with an error. Here the client finds the
/// node that it has created and adopts it. There is no second node.
#[tokio::test]
async fn row_33_a_create_whose_reply_is_lost_is_adopted() {
    let server = server().await;
    let (plain, below_root) = (client(&server).await, client_below_root(&server).await);
    let creates = || server.counters().requests_of(OpCode::CREATE2);
    for (client, chroot) in [(&plain, ""), (&below_root, CHROOT)] {
        let before = creates();
        server.faults().lose_reply(When::op(OpCode::CREATE2));
        let guard = soon(mutex(client).lock()).await.unwrap();
        assert_eq!(server.faults().pending(), 0);
        assert_eq!(creates(), before + 1);
        let queue = below(&server, &format!("{chroot}{PATH}"));
        assert_eq!(queue, [format!("{chroot}{}", guard.path())]);
        let node = client.exists(&guard.path()).await.unwrap().unwrap();
        let czxid = u64::try_from(node.czxid.0).unwrap();
        assert_eq!(czxid, guard.fencing_token().get());
        guard.release().await.unwrap();
    }
}
