//! The mutex under faults at an exact moment: replies lost, connections cut, listings that lag, sessions that expire.
//!
//! The embedded server makes each fault on demand. Each test opens with the failure of another implementation that it is
//! about, where there is one.

use std::time::{Duration, Instant};

use futures::future::FutureExt;
use lockkeeper_proto::{CreateMode, OpCode, SessionId};
use lockkeeper_recipes::{Error, Guard, LockState, Loss, Mutex};
use lockkeeper_server::{Server, When};
use lockkeeper_session::Client;

const PATH: &str = "/lock";
const LONG: Duration = Duration::from_secs(30);

async fn server() -> Server {
    let builder = Server::builder()
        .tick_time(Duration::from_millis(50))
        .min_session_timeout(Duration::from_millis(100));
    let server = builder.start().await.unwrap();
    let client = client(&server).await;
    client
        .create(PATH, "", CreateMode::Persistent)
        .await
        .unwrap();
    client.close().await;
    server
}

async fn client(server: &Server) -> Client {
    client_of(server, Duration::from_secs(6)).await
}

async fn client_of(server: &Server, session_timeout: Duration) -> Client {
    let builder = Client::builder(&server.connect_string()).unwrap();
    builder
        .session_timeout(session_timeout)
        .connect()
        .await
        .unwrap()
}

fn mutex(client: &Client) -> Mutex {
    Mutex::new(client, PATH).unwrap()
}

fn session(client: &Client) -> SessionId {
    client.snapshot().session_id
}

/// The lock's nodes, as the server has them.
fn line(server: &Server) -> Vec<String> {
    let mut nodes = server.paths();
    nodes.retain(|path| path.starts_with("/lock/"));
    nodes
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.expect("a hang")
}

/// A create whose reply is lost has happened. It is found again by its name, and there is no second node.
#[tokio::test]
async fn a_create_whose_reply_is_lost_is_adopted() {
    let server = server().await;
    let client = client(&server).await;
    server.faults().lose_reply(When::op(OpCode::CREATE2));
    let guard = soon(mutex(&client).lock()).await.unwrap();
    assert_eq!(server.faults().pending(), 0);
    assert_eq!(line(&server), [guard.path()]);
    assert_eq!(
        server.counters().requests_of(OpCode::CREATE2),
        1 + 1,
        "the directory's and ours"
    );
    let node = client.exists(&guard.path()).await.unwrap().unwrap();
    assert_eq!(
        u64::try_from(node.czxid.0).unwrap(),
        guard.fencing_token().get()
    );
    guard.release().await.unwrap();
    assert_eq!(line(&server), [""; 0]);
}

/// A create that never arrived is sent again, under another name.
#[tokio::test]
async fn a_create_that_never_happened_is_made_anew() {
    let server = server().await;
    let client = client(&server).await;
    server.faults().cut_before(When::op(OpCode::CREATE2));
    let guard = soon(mutex(&client).lock()).await.unwrap();
    assert_eq!(line(&server), [guard.path()]);
    guard.release().await.unwrap();
}

/// Curator, kazoo, kezhuw's client and go-zk look for a lost create with a plain listing. A server that lags does not
/// show it; they create a second node and wait behind their own first one until the session ends.
#[tokio::test]
async fn a_lost_create_is_found_on_a_server_that_lags() {
    let server = server().await;
    let client = client(&server).await;
    server.faults().lose_reply(When::op(OpCode::CREATE2));
    server.faults().freeze_reads();
    let guard = soon(mutex(&client).lock()).await.unwrap();
    assert_eq!(line(&server), [guard.path()], "a second node of ours");
    server.faults().thaw();
    guard.release().await.unwrap();
    assert_eq!(line(&server), [""; 0]);
}

/// Several clients leave the node of an abandoned attempt behind when its create was under way, or its reply lost.
#[tokio::test]
async fn an_attempt_dropped_while_its_create_is_in_doubt_leaves_nothing() {
    let server = server().await;
    let client = client(&server).await;
    let faults = server.faults();
    for lose in [false, true] {
        if lose {
            faults.lose_reply(When::op(OpCode::CREATE2));
        } else {
            faults.delay_reply(When::op(OpCode::CREATE2), Duration::from_millis(50));
        }
        let before = server.counters().requests_of(OpCode::CREATE2);
        let contender = mutex(&client);
        let attempt = tokio::spawn(async move { contender.lock().await.map(drop) });
        until("the create arrives", || {
            server.counters().requests_of(OpCode::CREATE2) > before
        })
        .await;
        attempt.abort();
        until("the node is gone", || line(&server).is_empty()).await;
        // And stays so: nothing late creates it again.
        let guard = soon(mutex(&client).lock()).await.unwrap();
        assert_eq!(line(&server), [guard.path()]);
        guard.release().await.unwrap();
    }
}

/// Abandoned while the connection is down: the node is deleted when there is one again.
#[tokio::test]
async fn an_attempt_dropped_during_an_outage_is_cleaned_up_after_it() {
    let server = server().await;
    let client = client(&server).await;
    let guard = mutex(&client).lock().await.unwrap();
    server.faults().refuse_handshakes(true);
    server.faults().cut_all();
    until("the cut is noticed", || {
        !client.snapshot().state.is_connected()
    })
    .await;
    drop(guard);
    assert_eq!(line(&server).len(), 1);
    server.faults().refuse_handshakes(false);
    until("the node is gone", || line(&server).is_empty()).await;
}

/// Curator's release gives up its claim when the connection is lost, while the node stays: the next acquire waits behind it.
#[tokio::test]
async fn a_release_whose_reply_is_lost_is_a_release() {
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
        assert_eq!(line(&server), [""; 0]);
    }
    // A failed try that is cut off in its clean-up leaves nothing either.
    let holder = mutex(&client).lock().await.unwrap();
    let ticket = mutex(&client).enqueue().await.unwrap();
    server.faults().cut_before(When::op(OpCode::DELETE));
    drop(ticket);
    until("only the holder is left", || {
        line(&server) == [holder.path()]
    })
    .await;
}

/// A waiter keeps its place over a lost connection, and is woken by what happened meanwhile.
#[tokio::test]
async fn a_place_in_line_outlives_the_connection() {
    let server = server().await;
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let guard = mutex(&holder).lock().await.unwrap();
    let ticket = mutex(&waiter).enqueue().await.unwrap();
    let node = ticket.path();
    let waiting = tokio::spawn(ticket.wait());
    until("the waiter watches", || server.report().watches >= 2).await;
    server.faults().refuse_handshakes(true);
    server.faults().cut(session(&waiter));
    until("the cut is noticed", || {
        !waiter.snapshot().state.is_connected()
    })
    .await;
    guard.release().await.unwrap();
    server.faults().refuse_handshakes(false);
    let granted = soon(waiting).await.unwrap().unwrap();
    assert_eq!(granted.path(), node);
    assert_eq!(waiter.snapshot().connections, 2);
}

/// go-zk never looks whether its own node is there. Both deletions are told before the waiter runs again: ours first.
#[tokio::test]
async fn a_deletion_of_our_node_that_is_told_with_the_one_ahead_is_no_grant() {
    let server = server().await;
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let guard = mutex(&holder).lock().await.unwrap();
    let ticket = mutex(&waiter).enqueue().await.unwrap();
    let node = ticket.path();
    let mut waiting = std::pin::pin!(ticket.wait());
    assert!(waiting.as_mut().now_or_never().is_none());
    let any = lockkeeper_proto::Version::ANY;
    holder.delete(&node, any).await.unwrap();
    guard.release().await.unwrap();
    until("both are told", || waiter.watch_count() == 0).await;
    let error = soon(waiting).await.unwrap_err();
    assert_eq!(error, Error::Lost(Loss::Deleted));
}

/// After an outage the events of what was missed come in any order. The one about the node ahead must not be taken for
/// a grant when our own node has gone, too.
#[tokio::test]
async fn both_nodes_deleted_during_an_outage_are_no_grant() {
    let server = server().await;
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let guard = mutex(&holder).lock().await.unwrap();
    let ticket = mutex(&waiter).enqueue().await.unwrap();
    let node = ticket.path();
    let waiting = tokio::spawn(ticket.wait());
    until("the waiter watches", || server.report().watches >= 2).await;
    server.faults().refuse_handshakes(true);
    server.faults().cut(session(&waiter));
    until("the cut is noticed", || {
        !waiter.snapshot().state.is_connected()
    })
    .await;
    guard.release().await.unwrap();
    holder
        .delete(&node, lockkeeper_proto::Version::ANY)
        .await
        .unwrap();
    server.faults().refuse_handshakes(false);
    let error = soon(waiting).await.unwrap().unwrap_err();
    assert_eq!(error, Error::Lost(Loss::Deleted));
}

#[tokio::test]
async fn a_waiter_whose_session_expires_is_told_and_never_granted() {
    let server = server().await;
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let guard = mutex(&holder).lock().await.unwrap();
    let waiting = tokio::spawn(mutex(&waiter).enqueue().await.unwrap().wait());
    until("the waiter watches", || server.report().watches >= 2).await;
    server.faults().expire(session(&waiter));
    let error = soon(waiting).await.unwrap().unwrap_err();
    assert!(
        matches!(error, Error::Lost(Loss::Expired | Loss::Deleted)),
        "{error:?}"
    );
    // The client lives on with a new session, and the line is free of the old one.
    assert_eq!(line(&server), [guard.path()]);
    guard.release().await.unwrap();
    let guard = soon(mutex(&waiter).lock()).await.unwrap();
    guard.release().await.unwrap();
}

/// Curator and go-zk leave it to the user to listen for the loss of the connection; kazoo's lock says held for ever.
#[tokio::test]
async fn a_holder_that_hears_nothing_knows_before_anybody_else_is_granted_the_lock() {
    let server = server().await;
    let timeout = Duration::from_millis(900);
    let holder = client_of(&server, timeout).await;
    let other = client(&server).await;
    let guard = mutex(&holder).lock().await.unwrap();
    assert_eq!(guard.state(), LockState::Held);
    let lost = tokio::spawn({
        let lost = guard.lost();
        async move { (lost.await, Instant::now()) }
    });
    let waiting = tokio::spawn({
        let mutex = mutex(&other);
        async move { (mutex.lock().await.unwrap(), Instant::now()) }
    });
    until("two in line", || line(&server).len() == 2).await;
    server.faults().stall_session(session(&holder));
    let (cause, told) = soon(lost).await.unwrap();
    let (next, granted) = soon(waiting).await.unwrap();
    assert!(told < granted, "told {:?} after the grant", told - granted);
    assert!(matches!(cause, Loss::Elapsed | Loss::Expired), "{cause:?}");
    assert!(!guard.is_valid());
    assert!(next.fencing_token() > guard.fencing_token());
    server.faults().resume_session(session(&holder));
    until("the holder learns of the expiry", || {
        guard.state() == LockState::Lost(Loss::Expired)
    })
    .await;
    assert_eq!(
        guard.release().await.unwrap_err(),
        Error::Lost(Loss::Expired)
    );
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_holder_without_a_connection_is_suspended_and_holds_again_after_it() {
    let server = server().await;
    let client = client(&server).await;
    let guard = mutex(&client).lock().await.unwrap();
    server.faults().refuse_handshakes(true);
    server.faults().cut_all();
    until("the cut is noticed", || guard.state() != LockState::Held).await;
    let LockState::Suspended { until: end } = guard.state() else {
        panic!("{:?}", guard.state());
    };
    assert!(guard.is_valid() && end > Instant::now());
    assert_eq!(guard.valid_until(), Some(end));
    server.faults().refuse_handshakes(false);
    until("held again", || guard.state() == LockState::Held).await;
    assert!(guard.valid_until() > Some(end));
    guard.release().await.unwrap();
}

/// Curator's mutex accepts the dying node of its own expired session as the lowest one.
#[tokio::test]
async fn a_node_of_a_former_session_is_not_ours() {
    let server = server().await;
    let client = client(&server).await;
    let old = session(&client);
    server.faults().lose_reply(When::op(OpCode::CREATE2));
    server.faults().refuse_handshakes(true);
    let attempt = tokio::spawn({
        let mutex = mutex(&client);
        async move { mutex.lock().await }
    });
    until("the node is there", || !line(&server).is_empty()).await;
    let former = line(&server).remove(0);
    // Its session ends while the client is away; a server that lags still lists the node.
    server.faults().freeze_reads();
    server.faults().expire(old);
    server.faults().refuse_handshakes(false);
    until("there is a new session", || {
        ![SessionId::NONE, old].contains(&session(&client))
    })
    .await;
    server.faults().thaw();
    let guard = soon(attempt).await.unwrap().unwrap();
    assert_ne!(guard.path(), former);
    assert_eq!(line(&server), [guard.path()]);
    let owner = client
        .exists(&guard.path())
        .await
        .unwrap()
        .unwrap()
        .ephemeral_owner;
    assert_eq!(owner, session(&client));
    guard.release().await.unwrap();
}

/// Curator grants several contenders at once when the directory's counter sticks at 2^31-1.
#[tokio::test]
async fn numbers_near_their_end_are_refused_by_name_and_nothing_is_left() {
    let server = server().await;
    let client = client(&server).await;
    for next in [i32::MAX - 0xfffe, i32::MAX, i32::MIN] {
        assert!(server.faults().set_sequence(PATH, next));
        let error = soon(mutex(&client).lock()).await.unwrap_err();
        assert_eq!(
            error,
            Error::SequenceExhausted {
                path: PATH.to_owned()
            }
        );
        until("nothing is left", || line(&server).is_empty()).await;
    }
    assert!(server.faults().set_sequence(PATH, i32::MAX - 0xffff));
    soon(mutex(&client).lock())
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

/// A container that has emptied may be reaped between any two requests.
#[tokio::test]
async fn a_directory_that_vanishes_is_made_again() {
    let server = server().await;
    let client = client(&server).await;
    for _ in 0..20 {
        let guard = soon(mutex(&client).lock()).await.unwrap();
        let before = guard.fencing_token();
        guard.release().await.unwrap();
        client
            .delete(PATH, lockkeeper_proto::Version::ANY)
            .await
            .unwrap();
        let guard: Guard = soon(mutex(&client).lock()).await.unwrap();
        assert!(
            guard.fencing_token() > before,
            "tokens grow over incarnations"
        );
        guard.release().await.unwrap();
    }
}

/// What the ACL forbids is said by name, at once, and nothing is repeated.
#[tokio::test]
async fn a_refusal_is_an_error_that_names_the_path() {
    let server = server().await;
    let client = client(&server).await;
    server.faults().refuse(
        When::op(OpCode::CREATE2),
        lockkeeper_proto::ErrorCode::NO_AUTH,
    );
    let error = soon(mutex(&client).lock()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "create2 /lock refused: not authorized (-102)"
    );
}

#[tokio::test]
async fn ten_thousand_waits_that_are_given_up_leave_no_node_and_no_watch() {
    let server = server().await;
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let guard = mutex(&holder).lock().await.unwrap();
    let contender = mutex(&waiter);
    for _ in 0..10_000 {
        drop(contender.enqueue().await.unwrap());
    }
    until("only the holder is left", || {
        line(&server) == [guard.path()]
    })
    .await;
    until("no watch is left", || server.report().watches == 0).await;
    assert_eq!(waiter.watch_count(), 0);
}
