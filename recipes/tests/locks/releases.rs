//! What `release` says, and what clean-ups do, when the servers do not simply delete the node: lost
//! replies, throttling, refusals.
//!
//! Not here: limits of holds (`holds`), a connection that is lost at any request
//! (`tests/contract/outage.rs`).

use std::time::{Duration, Instant};

use lockkeeper_proto::{ErrorCode, OpCode};
use lockkeeper_recipes::{Guard, LockError, LockMeter, Mutex, PlainMutex, Semaphore, break_lock};
use lockkeeper_server::{Server, When};
use lockkeeper_session::{Client, Effect, ErrorKind};

use crate::support::{
    below, server_and_two,
    waiting::{poll_once, soon, until},
};

/// The delete of this client.
fn delete(client: &Client) -> When {
    When::op(OpCode::DELETE).of_session(client.snapshot().session_id)
}

async fn lock(client: &Client, is_plain: bool) -> Guard {
    let locked = async {
        if is_plain {
            PlainMutex::new(client, "/plain")?.lock().await
        } else {
            Mutex::new(client, "/m")?.lock().await
        }
    };
    soon(locked).await.unwrap()
}

async fn is_unknown(guard: Guard) {
    let error = soon(guard.release()).await.unwrap_err();
    assert!(matches!(error, LockError::Session(_)), "{error:?}");
    assert_eq!(error.effect(), Effect::Unknown);
}

/// The client deletes its node, and the reply is lost. When it tries again, there is no node. Its
/// first delete may have been applied; or an operator deleted the node before, and another
/// contender has held the lock. It said `Ok` in both cases.
#[tokio::test]
async fn a_release_is_unknown_when_another_client_may_have_deleted_the_node() {
    let (server, one, other) = server_and_two().await;
    for is_plain in [false, true] {
        let guard = lock(&one, is_plain).await;
        server.faults().lose_reply(delete(&one));
        is_unknown(guard).await;
        // An operator breaks the lock, and another contender gets it.
        let guard = lock(&one, is_plain).await;
        break_lock(&other, &guard.path()).await.unwrap();
        let next = lock(&other, is_plain).await;
        server.faults().cut_before(delete(&one));
        is_unknown(guard).await;
        soon(next.release()).await.unwrap();
    }
}

/// The third delete finds the node: it was there until then.
///
/// CURATOR-205, -468, -678: an outage, or a second interrupt, ended the clean-up for good.
#[tokio::test]
async fn a_release_is_confirmed_when_the_repeated_delete_finds_the_node() {
    let (server, one, _) = server_and_two().await;
    for (is_plain, directory) in [(false, "/m"), (true, "/plain")] {
        for is_dropped in [false, true] {
            let guard = lock(&one, is_plain).await;
            for number in 1..=2 {
                server.faults().cut_before(delete(&one).nth(number));
            }
            let mut releasing = Box::pin(guard.release());
            assert!(poll_once(releasing.as_mut()).is_none());
            if is_dropped {
                drop(releasing);
            } else {
                soon(releasing).await.unwrap();
            }
            until_gone(&server, directory).await;
            assert_eq!(server.faults().pending(), 0);
        }
    }
}

/// How often a server throttles a request. The pauses after that are 20, 40, 80, 160 ms, of which
/// half may be left out.
const THROTTLED: u32 = 4;
const PAUSES: Duration = Duration::from_millis(150);

fn throttle(server: &Server, when: &When) {
    for number in 1..=THROTTLED {
        let when = when.clone().nth(number);
        server.faults().refuse(when, ErrorCode::THROTTLED_OP);
    }
}

async fn until_gone(server: &Server, directory: &str) {
    let below = format!("{directory}/");
    soon(async {
        while server.paths().iter().any(|path| path.starts_with(&below)) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// A server throttles because it has too much to do. It got each request again at once.
#[tokio::test]
async fn throttled_requests_are_repeated_with_pauses() {
    let (server, one, other) = server_and_two().await;
    let guard = lock(&one, false).await;
    throttle(&server, &delete(&one));
    let start = Instant::now();
    soon(guard.release()).await.unwrap();
    assert!(start.elapsed() >= PAUSES);
    assert_eq!(server.faults().pending(), 0);

    // The clean-up after a drop.
    let guard = lock(&one, false).await;
    throttle(&server, &delete(&one));
    let start = Instant::now();
    drop(guard);
    until_gone(&server, "/m").await;
    assert!(start.elapsed() >= PAUSES);

    // A waiter keeps its place.
    let guard = lock(&one, false).await;
    throttle(&server, &When::op(OpCode::GET_CHILDREN));
    let start = Instant::now();
    let ticket = soon(Mutex::new(&other, "/m").unwrap().enqueue()).await;
    assert!(start.elapsed() >= PAUSES);
    guard.release().await.unwrap();
    drop(soon(ticket.unwrap().wait()).await.unwrap());

    // The limit of a semaphore.
    let semaphore = Semaphore::with_shared_limit(&one, "/s", "/limit").unwrap();
    semaphore.set_limit(1).await.unwrap();
    throttle(&server, &When::op(OpCode::GET_DATA));
    let start = Instant::now();
    drop(soon(semaphore.acquire()).await.unwrap());
    assert!(start.elapsed() >= PAUSES);
}

/// The node stayed until the end of the session, and blocked everybody.
#[tokio::test]
async fn a_refused_delete_is_named_and_counted_and_repeated() {
    let (server, one, _) = server_and_two().await;
    let refuse = || {
        for number in 1..=3 {
            let when = delete(&one).nth(number);
            server.faults().refuse(when, ErrorCode::NO_AUTH);
        }
    };
    let meter = LockMeter::new("releases");
    let mutex = Mutex::new(&one, "/m").unwrap().with_meter(&meter);
    let guard = soon(mutex.lock()).await.unwrap();
    let node = guard.path();
    refuse();
    let error = soon(guard.release()).await.unwrap_err();
    assert_eq!(error.path(), Some(&*node), "{error}");
    assert_eq!(error.effect(), Effect::NotApplied);
    until_gone(&server, "/m").await;
    assert_eq!(meter.metrics().not_deleted, 1);
    assert_eq!(server.faults().pending(), 0);

    let guard = soon(mutex.lock()).await.unwrap();
    refuse();
    drop(guard);
    until_gone(&server, "/m").await;
    assert_eq!(meter.metrics().not_deleted, 2);
    soon(mutex.lock()).await.unwrap().release().await.unwrap();
}

/// The client looks for the node of a lost create in a listing that is longer than it accepts. An
/// earlier version repeated that without a pause, for ever.
#[tokio::test]
async fn a_look_for_a_lost_create_ends_when_the_listing_is_too_long() {
    let (server, other, _) = server_and_two().await;
    let crowd = Mutex::new(&other, "/m").unwrap();
    let ahead = (0..60).map(|_| crowd.enqueue());
    let ahead = futures::future::try_join_all(ahead).await.unwrap();
    let builder = Client::builder(&server.connect_string()).unwrap();
    let client = builder.frame_limit(1024).connect().await.unwrap();
    let create = When::create().of_session(client.snapshot().session_id);
    server.faults().lose_reply(create);
    let mutex = Mutex::new(&client, "/m").unwrap();
    let error = soon(mutex.lock()).await.unwrap_err();
    let LockError::Session(error) = error else {
        panic!("{error:?}");
    };
    assert!(
        matches!(error.kind(), ErrorKind::ReplyTooLarge { .. }),
        "{error:?}"
    );
    let listings = || server.counters().requests_of(OpCode::GET_CHILDREN);
    let before = listings();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(listings() - before < 20, "{}", listings() - before);
    // The clean-up goes on until it has found the node.
    drop(ahead);
    until!(below(&server, "/m") == 0);
}
