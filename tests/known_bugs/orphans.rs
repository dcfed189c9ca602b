//! Rows 19 to 24, 30, 32, 33: a node of an attempt or hold that is over stays behind in a session that lives, and everybody
//! waits for it.

use std::{pin::pin, time::Duration};

use lockkeeper::{Client, CreateMode, LockError, proto::OpCode};
use lockkeeper_server::{Server, When};

use crate::rig::{
    PATH, below, client, cut_off, idle, let_in, line, mutex, poll_once, server, session, soon,
    until, until_line_has,
};

/// What a client calls the root is this node of the server's.
const CHROOT: &str = "/chroot";

/// A client, and the lock's directory, with other paths than the server has for them.
async fn client_below_root(server: &Server) -> Client {
    let plain = client(server).await;
    for node in [CHROOT, "/chroot/lock"] {
        let mode = CreateMode::Persistent;
        plain.create(node, "", mode).await.unwrap();
    }
    let servers = format!("{}{CHROOT}", server.connect_string());
    Client::connect(&servers).await.unwrap()
}

/// Curator, kazoo, kezhuw's client and go-zk look for a lost create with a plain listing. A server that lags does not
/// show it: they create a second node and wait behind their own first one until the session ends.
#[tokio::test]
async fn row_19_a_lost_create_is_found_on_a_server_that_lags() {
    let server = server().await;
    let client = client(&server).await;
    server.faults().lose_reply(When::op(OpCode::CREATE2));
    server.faults().freeze_reads();
    let guard = soon(mutex(&client).lock()).await.unwrap();
    assert_eq!(line(&server), [guard.path()], "a second node of ours");
    server.faults().thaw();
    guard.release().await.unwrap();
    assert!(line(&server).is_empty());
}

/// CURATOR-45: the create was given up after its retries, and had happened. Vitess, PR 15757: the clean-up ran under the
/// deadline that had just passed, and did nothing. Here the deadline comes during the outage that lost the reply.
#[tokio::test]
async fn row_20_and_23_what_a_deadline_gives_up_in_an_outage_is_gone_after_it() {
    let server = server().await;
    let client = client(&server).await;
    server.faults().lose_reply(When::op(OpCode::CREATE2));
    server.faults().refuse_handshakes(true);
    let wait = Duration::from_millis(50);
    let error = mutex(&client).lock_timeout(wait).await.unwrap_err();
    let expected = LockError::TimedOut {
        waited: wait,
        ahead: None,
    };
    assert_eq!(error, expected);
    assert_eq!(line(&server).len(), 1);
    let_in(&server);
    until_line_has(&server, 0).await;
    assert_eq!(client.snapshot().connections, 2);
}

/// CURATOR-79, -62: an attempt that was interrupted while its create was under way forgot the node.
#[tokio::test]
async fn row_21_an_attempt_dropped_while_its_create_is_in_doubt_leaves_nothing() {
    let server = server().await;
    let client = client(&server).await;
    for lose in [false, true] {
        let create = When::op(OpCode::CREATE2);
        if lose {
            server.faults().lose_reply(create);
        } else {
            let unanswered = Duration::from_millis(50);
            server.faults().delay_reply(create, unanswered);
        }
        let contender = mutex(&client);
        let attempt = tokio::spawn(async move { contender.lock().await.map(drop) });
        until_line_has(&server, 1).await;
        attempt.abort();
        until_line_has(&server, 0).await;
        // And stays so: nothing late creates it again.
        let guard = soon(mutex(&client).lock()).await.unwrap();
        assert_eq!(line(&server), [guard.path()]);
        guard.release().await.unwrap();
    }
}

/// CURATOR-205, -468: a second interrupt hit the clean-up of the first, which gave up.
#[tokio::test]
async fn row_22_a_clean_up_is_given_up_by_nobody() {
    let server = server().await;
    let client = client(&server).await;
    let guard = mutex(&client).lock().await.unwrap();
    // Its delete is cut off, twice; and whoever waits for it goes away at once.
    for number in 1..=2 {
        let delete = When::op(OpCode::DELETE).nth(number);
        server.faults().cut_before(delete);
    }
    {
        let mut releasing = pin!(guard.release());
        assert!(poll_once(releasing.as_mut()).is_none());
    }
    until_line_has(&server, 0).await;
    assert_eq!(client.snapshot().connections, 3);
    assert_eq!(server.faults().pending(), 0);
}

/// CURATOR-678, open: a release gives up its claim when the connection is lost, while the node stays, and the next acquire
/// of the same client waits behind it.
#[tokio::test]
async fn row_24_a_release_whose_reply_is_lost_is_a_release() {
    let server = server().await;
    let client = client(&server).await;
    for lose in [true, false] {
        let guard = mutex(&client).lock().await.unwrap();
        let delete = When::op(OpCode::DELETE);
        if lose {
            server.faults().lose_reply(delete);
        } else {
            server.faults().cut_before(delete);
        }
        soon(guard.release()).await.unwrap();
        assert!(line(&server).is_empty());
    }
}

/// The same in an outage: dropped then, the lock is free when the connection is back, and can be had again.
#[tokio::test]
async fn row_24_a_release_in_an_outage_holds_nobody_up_after_it() {
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
        assert_eq!(line(&server), [guard.path()]);
        guard.release().await.unwrap();
    }
}

/// samuel/go-zookeeper #229: the listing after the create failed, the caller got its error, and the node was forgotten.
#[tokio::test]
async fn row_30_a_connection_lost_between_the_create_and_its_listing_costs_no_second_node() {
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
        until_line_has(&server, 1).await;
        if is_dropped {
            drop(attempt);
        } else {
            let guard = soon(attempt).await.unwrap();
            guard.release().await.unwrap();
        }
        until_line_has(&server, 0).await;
    }
    let now = server.counters().requests_of(OpCode::CREATE2);
    assert_eq!(now, creates + 2);
}

/// kezhuw's client: an attempt dropped during its create deleted the bare name of its node instead of its path, which
/// the server refused, unheard. Here the path has another name for the client, too.
#[tokio::test]
async fn row_32_the_clean_up_names_the_node_as_the_server_does() {
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

/// kezhuw's client: the look for a lost create compared names with whole paths and found nothing, where the prefix was
/// shared. A create whose reply is lost has happened: it is found again, and there is no second node.
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
        let line = below(&server, &format!("{chroot}{PATH}"));
        assert_eq!(line, [format!("{chroot}{}", guard.path())]);
        let node = client.exists(&guard.path()).await.unwrap().unwrap();
        let czxid = u64::try_from(node.czxid.0).unwrap();
        assert_eq!(czxid, guard.fencing_token().get());
        guard.release().await.unwrap();
    }
}
