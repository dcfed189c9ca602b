//! Locks of an embedded server that is started again, with its default settings.
//!
//! Not here: each rule of such a server (`server/tests/serving/restart.rs`).

use std::time::{Duration, Instant};

use crate::support::{client, waiting::soon};
use lockkeeper_proto::{ErrorCode, OpCode};
use lockkeeper_recipes::{LockError, Mutex, Obstacle, PlainMutex, RwLock, Semaphore};
use lockkeeper_server::{Server, When};
use lockkeeper_session::Client;
use tokio::runtime::Builder;

/// Two holders: one that was cut off from the former server and relied on its lease, and one to
/// whom the new server granted the lock at once, with the same token.
#[test]
fn a_server_that_is_started_again_makes_no_second_holder() {
    let run = Builder::new_multi_thread().enable_all().build().unwrap();
    let longest = Duration::from_secs(2);
    let builder = Server::builder().max_session_timeout(longest);
    let server = run.block_on(builder.clone().start()).unwrap();
    // It stands still from here on, so its client learns of nothing.
    let paused = Builder::new_current_thread().enable_all().build().unwrap();
    let former = paused.block_on(async {
        let client = Client::connect(&server.connect_string()).await.unwrap();
        Mutex::new(&client, "/m").unwrap().lock().await.unwrap()
    });
    let address = server.local_addr();
    run.block_on(server.shutdown());
    run.block_on(async {
        let server = builder.listen(address).start().await.unwrap();
        let client = client(&server).await;
        let mutex = Mutex::new(&client, "/m").unwrap();
        let guard = soon(mutex.lock()).await.unwrap();
        assert!(!former.is_valid(), "two holders");
        assert!(guard.fencing_token() > former.fencing_token());
    });
}

/// A try repeats its request for a second, save the last pause: at most 640 ms.
const REPEATED: Duration = Duration::from_millis(300);

/// A try ends soon, and says which server throttles, and for how long at least.
#[track_caller]
fn ended_as_throttled<T>(began: Instant, at_least: Duration, tried: Result<T, LockError>) {
    let took = began.elapsed();
    assert!(took < Duration::from_millis(1500), "{took:?}");
    let Some(LockError::TimedOut { obstacle, .. }) = tried.err() else {
        panic!("it has not ended as throttled");
    };
    let Some(Obstacle::Throttled {
        server: Some(_),
        lasted,
        ..
    }) = obstacle.as_deref()
    else {
        panic!("another obstacle: {obstacle:?}");
    };
    assert!(at_least <= *lasted, "{lasted:?}");
}

/// It went on for a minute, as long as the server waited for the clients of a former one.
#[tokio::test]
async fn a_try_on_a_server_that_makes_no_locks_yet_ends_and_says_why() {
    let builder = Server::builder().no_ephemerals_for(Duration::from_secs(8));
    let server = builder.start().await.unwrap();
    let client = client(&server).await;
    let now = Instant::now;
    let (began, mutex) = (now(), Mutex::new(&client, "/m").unwrap());
    ended_as_throttled(began, REPEATED, mutex.try_lock().await);
    let (began, lock) = (now(), RwLock::new(&client, "/rw").unwrap());
    ended_as_throttled(began, REPEATED, lock.try_write().await);
    let (began, plain) = (now(), PlainMutex::new(&client, "/p").unwrap());
    ended_as_throttled(began, REPEATED, plain.try_lock().await);
    let (began, semaphore) = (now(), Semaphore::new(&client, "/s", 2).unwrap());
    ended_as_throttled(began, REPEATED, semaphore.try_acquire().await);
    let wait = Duration::from_millis(200);
    ended_as_throttled(now(), wait / 2, mutex.try_lock_for(wait).await);
    ended_as_throttled(now(), wait / 2, semaphore.try_acquire_for(wait).await);
    server.advance(Duration::from_secs(8));
    let _guard = mutex.try_lock().await.unwrap().unwrap();
    let late = mutex.try_lock_for(wait).await.unwrap_err();
    let LockError::TimedOut { obstacle, .. } = late else {
        panic!("{late}");
    };
    assert_eq!(obstacle, None, "the server throttles no more");
}

/// The listing behind the create is throttled: the node goes again.
#[tokio::test]
async fn a_try_whose_listings_are_throttled_ends_and_leaves_no_node() {
    let server = Server::start().await.unwrap();
    let client = client(&server).await;
    let mutex = Mutex::new(&client, "/m").unwrap();
    for number in 2..40 {
        let listing = When::op(OpCode::GET_CHILDREN).nth(number);
        server.faults().refuse(listing, ErrorCode::THROTTLED_OP);
    }
    ended_as_throttled(Instant::now(), REPEATED, mutex.try_lock().await);
    soon(async {
        while crate::support::below(&server, "/m") > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}
