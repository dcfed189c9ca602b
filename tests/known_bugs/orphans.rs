//! Rows 19, 20, 22 to 24, 26 to 29, 32 and 33: an attempt or hold has ended, but its node stays
//! behind in a live session. All later contenders wait for that node.

use std::{collections::HashSet, pin::pin, time::Duration};

use lockkeeper::{Client, CreateMode, LockError, Semaphore, error::Obstacle, proto::OpCode};
use lockkeeper_server::{Server, When};

use crate::rig::{
    PATH, below, client, clients, cut_off, idle, let_in, mutex, poll_once, queue, server, session,
    soon, until, until_created, until_other_session, until_queue_has,
};

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
    assert_eq!((error.path(), error.loss()), (Some(PATH), None));
    let LockError::TimedOut {
        waited,
        ahead: None,
        obstacle: Some(obstacle),
        ..
    } = error
    else {
        panic!("{error:?}");
    };
    assert_eq!(waited, wait);
    assert!(matches!(*obstacle, Obstacle::Servers(_)), "{obstacle:?}");
    until_queue_has(&server, 1).await;
    let_in(&server);
    until_queue_has(&server, 0).await;
    assert_eq!(client.snapshot().connections, 2);
}

/// CURATOR-205, -468: an interrupt ended an attempt and started its clean-up. A second interrupt
/// ended the clean-up. CURATOR-678: a release lost its connection. Both nodes stayed behind.
///
/// Here the client repeats the delete until it has succeeded, however often the connection is lost,
/// and also if the caller drops the release.
#[tokio::test]
async fn row_22_and_24_a_release_in_an_outage_is_never_given_up() {
    let server = server().await;
    let client = client(&server).await;
    for is_dropped in [false, true] {
        let guard = mutex(&client).lock().await.unwrap();
        cut_off(&server, &client).await;
        for number in 1..=2 {
            let delete = When::op(OpCode::DELETE).nth(number);
            server.faults().cut_before(delete);
        }
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
        assert_eq!(server.faults().pending(), 0);
        guard.release().await.unwrap();
    }
}

/// CURATOR-48: an attempt failed when its session ended during the create. CURATOR-190: the prefix
/// of the name grew with each retry. CURATOR-489: a missing prefix gave all clients the same name.
/// CURATOR-498: the node of the session that ended was adopted.
///
/// Here the attempt goes on in the new session, and each retry has a new name of the same length.
#[tokio::test]
async fn row_03_and_26_each_retry_in_a_new_session_has_a_new_name_of_the_same_length() {
    let server = server().await;
    let client = client(&server).await;
    let lock = mutex(&client);
    let mut attempt = pin!(lock.lock());
    // The name that the client asked for. The server appended ten digits.
    let name = |path: &str| path[..path.len() - 10].to_owned();
    let mut names = HashSet::new();
    for _ in 0..4 {
        server.faults().lose_reply(When::op(OpCode::CREATE2));
        let node = until_created(&server, &client, attempt.as_mut(), PATH).await;
        names.insert(name(&node));
        let old = session(&client);
        server.faults().expire_early(old);
        until_other_session(&client, old).await;
    }
    let guard = soon(attempt).await.unwrap();
    names.insert(name(&guard.path()));
    assert_eq!(names.len(), 5, "{names:?}");
    assert_eq!(queue(&server), [guard.path()]);
    let lengths: HashSet<_> = names.iter().map(String::len).collect();
    assert_eq!(lengths.len(), 1);
    let owner = client.exists(&guard.path()).await.unwrap().unwrap();
    assert_eq!(owner.ephemeral_owner, session(&client));
}

/// CURATOR-3: the lock was closed while its watch handler ran. The handler then created the next
/// node. Here no node is left when the client is closed during any request of an attempt.
#[tokio::test]
async fn row_27_no_node_is_created_after_the_client_is_closed() {
    let server = server().await;
    let holder = client(&server).await;
    let guard = mutex(&holder).lock().await.unwrap();
    for number in 1.. {
        let closing = client(&server).await;
        let unanswered = When::any().of_session(session(&closing)).nth(number);
        let delay = Duration::from_millis(20);
        server.faults().delay_reply(unanswered, delay);
        let attempt = tokio::spawn({
            let mutex = mutex(&closing);
            async move { mutex.lock().await.map(drop) }
        });
        let met = until("the server has the request", async || {
            server.faults().pending() == 0
        });
        let is_met = tokio::select! {
            () = met => true,
            () = idle(&closing) => false,
        };
        closing.close().await;
        soon(attempt).await.unwrap().unwrap_err();
        assert_eq!(queue(&server), [guard.path()]);
        server.faults().clear();
        if !is_met {
            assert!(number > 3, "the attempt waits after {number} requests");
            break;
        }
    }
    assert_eq!(server.report().sessions.len(), 1, "only the holder is left");
}

/// kazoo #732: a refused try lost its connection when it deleted its node. kazoo ignored that
/// error, and the node stayed behind. kazoo #429: a refused try at a semaphore left its node in the
/// queue. Here the client repeats the delete.
#[tokio::test]
async fn row_28_and_29_a_try_whose_clean_up_is_cut_off_leaves_nothing() {
    for is_semaphore in [false, true] {
        let server = server().await;
        let [holder, client] = clients(&server).await;
        let semaphore = |client: &Client| Semaphore::new(client, PATH, 1).unwrap();
        // The client's server lags: the listing shows no contender, so the try creates a node. That
        // node is not the first.
        server.faults().freeze_reads();
        let delete = When::op(OpCode::DELETE).of_session(session(&client));
        server.faults().cut_before(delete);
        let (guard, tried) = if is_semaphore {
            let guard = semaphore(&holder).acquire().await;
            (guard, semaphore(&client).try_acquire().await)
        } else {
            let guard = mutex(&holder).lock().await;
            (guard, mutex(&client).try_lock().await)
        };
        let guard = guard.unwrap();
        assert!(tried.unwrap().is_none());
        server.faults().thaw();
        until("the clean-up is cut off and repeated", async || {
            let directories = ["/lock/leases", "/lock/locks"];
            let nodes = queue(&server);
            let nodes = nodes.iter().filter(|node| !directories.contains(&&***node));
            server.faults().pending() == 0 && nodes.eq([&guard.path()])
        })
        .await;
    }
}

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

/// kezhuw's client: an attempt was dropped during its create. The clean-up deleted the bare name of
/// the node instead of its path. The server refused this, the client ignored the refusal, and the
/// node stayed behind. After a lost reply, where contenders share one prefix, it compared this
/// prefix with whole paths. It did not find its node and failed with an error.
///
/// Here the client finds the node that it has created. It adopts it, and there is no second node;
/// or it deletes it if the caller has dropped the attempt.
#[tokio::test]
async fn row_32_and_33_a_create_whose_reply_is_lost_is_adopted_or_deleted() {
    let server = server().await;
    let (plain, below_root) = (client(&server).await, client_below_root(&server).await);
    let creates = || server.counters().requests_of(OpCode::CREATE2);
    for (client, chroot) in [(&plain, ""), (&below_root, CHROOT)] {
        let nodes = || below(&server, &format!("{chroot}{PATH}"));
        let mutex = mutex(client);
        for loses in [false, true] {
            if loses {
                server.faults().lose_reply(When::op(OpCode::CREATE2));
            }
            let mut attempt = Box::pin(mutex.lock());
            assert!(poll_once(attempt.as_mut()).is_none());
            until("the create is applied", async || !nodes().is_empty()).await;
            drop(attempt);
            until("nothing is left", async || nodes().is_empty()).await;
            idle(client).await;
        }
        let before = creates();
        server.faults().lose_reply(When::op(OpCode::CREATE2));
        let guard = soon(mutex.lock()).await.unwrap();
        assert_eq!((creates(), server.faults().pending()), (before + 1, 0));
        assert_eq!(nodes(), [format!("{chroot}{}", guard.path())]);
        let node = client.exists(&guard.path()).await.unwrap().unwrap();
        let czxid = u64::try_from(node.czxid.0).unwrap();
        assert_eq!(czxid, guard.fencing_token().get());
        guard.release().await.unwrap();
    }
}
