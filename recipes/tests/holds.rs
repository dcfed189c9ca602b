//! How a hold is watched: its length, its end, and what is counted of it.

use std::{
    future::{Future as _, poll_fn},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use lockkeeper_proto::{ErrorCode, OpCode, Version};
use lockkeeper_recipes::{
    Error, LockState, Loss, Mutex, PlainMutex, RwLock, Semaphore, rank::SEQUENCE_LIMIT,
};
use lockkeeper_server::{Server, When};
use lockkeeper_session::{Client, Snapshot, State};

const LONG: Duration = Duration::from_secs(30);

async fn server_and_client() -> (Server, Client) {
    let server = Server::start().await.unwrap();
    let client = Client::connect(&server.connect_string()).await.unwrap();
    (server, client)
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.expect("a hang")
}

/// A holder that is stuck holds everybody up for as long as its session lives.
#[tokio::test]
async fn a_lock_held_for_too_long_is_given_up_by_force_and_its_holder_told() {
    let (_server, client) = server_and_client().await;
    let mutex = Mutex::new(&client, "/m").unwrap();
    let stuck = mutex.lock().await.unwrap();
    stuck.limit_hold(Duration::from_millis(50));
    let lost = tokio::spawn(stuck.lost());
    let next = soon(mutex.lock()).await.unwrap();
    assert_eq!(soon(lost).await.unwrap(), Loss::Overdue);
    assert_eq!(stuck.state(), LockState::Lost(Loss::Overdue));
    assert!(stuck.held_for() >= Duration::from_millis(50));
    let refused = stuck.transaction().commit().await;
    assert_eq!(refused.unwrap_err(), Error::Lost(Loss::Overdue));
    assert_eq!(
        stuck.release().await.unwrap_err(),
        Error::Lost(Loss::Overdue)
    );
    assert_eq!(next.state(), LockState::Held);
    assert_eq!(mutex.metrics().lost, 1);
}

/// The node of a lock without a line has everybody's name: a second delete would end the hold of whoever is next.
#[tokio::test]
async fn a_lock_given_up_by_force_is_not_taken_from_the_next_holder() {
    let (server, client) = server_and_client().await;
    let other = Client::connect(&server.connect_string()).await.unwrap();
    for way in 0..4 {
        let stuck = PlainMutex::new(&client, "/p").unwrap();
        let stuck = stuck.lock().await.unwrap();
        stuck.limit_hold(Duration::ZERO);
        assert_eq!(soon(stuck.lost()).await, Loss::Overdue);
        // Of the same session, too: its tasks are others to each other.
        let next = if way % 2 == 0 { &client } else { &other };
        let next = PlainMutex::new(next, "/p").unwrap();
        let held = soon(next.lock()).await.unwrap();
        let refused = match way {
            0 => {
                drop(stuck);
                None
            }
            1 => {
                let written = stuck.transaction().commit().await;
                drop(stuck);
                written.err()
            }
            2 => stuck.release_with(|nothing| nothing).await.err(),
            _ => stuck.release().await.err(),
        };
        let overdue = Error::Lost(Loss::Overdue);
        assert!(refused.is_none_or(|refused| refused == overdue), "{way}");
        // Whatever the one before has sent is answered by then.
        client.sync("/").await.unwrap();
        held.release().await.unwrap();
    }
}

#[tokio::test]
async fn the_limit_of_a_writer_ends_the_reader_that_it_became() {
    let (server, client) = server_and_client().await;
    let lock = RwLock::new(&client, "/rw").unwrap();
    let writer = lock.write().await.unwrap();
    writer.limit_hold(Duration::from_millis(100));
    let reader = writer.downgrade().await.unwrap();
    assert_eq!(soon(reader.lost()).await, Loss::Overdue);
    soon(lock.write()).await.unwrap().release().await.unwrap();
    assert_eq!(server.report().nodes, 1, "the directory alone");
}

#[tokio::test]
async fn a_limit_is_called_off_by_the_release_and_replaced_by_another() {
    let (server, client) = server_and_client().await;
    let mutex = Mutex::new(&client, "/m").unwrap();
    let guard = mutex.lock().await.unwrap();
    guard.limit_hold(Duration::from_millis(1));
    guard.limit_hold(LONG);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    assert_eq!(server.report().nodes, 1, "the directory alone");
}

#[tokio::test]
async fn what_a_lock_costs_is_counted() {
    let (server, client) = server_and_client().await;
    let mutex = Mutex::new(&client, "/m").unwrap();
    let held = mutex.lock().await.unwrap();
    assert!(mutex.clone().try_lock().await.unwrap().is_none());
    assert!(mutex.lock_timeout(Duration::from_millis(20)).await.is_err());
    let ticket = mutex.enqueue().await.unwrap();
    held.release().await.unwrap();
    let second = soon(ticket.wait()).await.unwrap();
    server.faults().expire(client.snapshot().session_id);
    let loss = soon(second.lost()).await;
    assert!(matches!(loss, Loss::Expired | Loss::Deleted), "{loss:?}");
    drop(second);
    let metrics = mutex.metrics();
    assert_eq!((metrics.acquired, metrics.contended), (2, 2));
    assert_eq!((metrics.refused, metrics.given_up, metrics.lost), (1, 1, 1));
    assert_eq!((metrics.wait.count(), metrics.hold.count()), (2, 2));
    assert!(metrics.hold.quantile(1.0) >= Duration::from_millis(20));
    assert_eq!(metrics.hand_over.count(), 1);
    // The first one with its directory: create, listing, create of the directory, create, listing; and its release.
    let (first, tried) = (5 + 1, 1);
    // Create, listing, watches, delete; the last one of the lost lock is not sent any more.
    let (timed_out, second) = (4, 4);
    assert_eq!(metrics.requests, first + tried + timed_out + second);
    assert_eq!(metrics.listings, 5);
    assert_eq!(metrics.cleaned_up, 0);

    let semaphore = Semaphore::new(&client, "/s", 1).unwrap();
    let lease = soon(semaphore.acquire()).await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    lease.release().await.unwrap();
    let metrics = semaphore.metrics();
    assert_eq!((metrics.acquired, metrics.refused, metrics.lost), (1, 1, 0));
}

#[tokio::test]
async fn a_holder_knows_how_many_numbers_are_left() {
    let (server, client) = server_and_client().await;
    let mutex = Mutex::new(&client, "/m").unwrap();
    let guard = mutex.lock().await.unwrap();
    assert_eq!(guard.headroom(), u32::try_from(SEQUENCE_LIMIT).unwrap());
    guard.release().await.unwrap();
    assert!(server.faults().set_sequence("/m", SEQUENCE_LIMIT - 3));
    assert_eq!(mutex.lock().await.unwrap().headroom(), 3);
}

/// A delete that the server has put off was not applied: a node that is missing after it was deleted by somebody else, and the
/// release must not say that the lock was held until now.
#[tokio::test]
async fn a_release_that_was_put_off_is_not_taken_for_one_that_was_lost() {
    let (server, client) = server_and_client().await;
    let operator = Client::connect(&server.connect_string()).await.unwrap();
    let guard = Mutex::new(&client, "/m").unwrap().lock().await.unwrap();
    let delete = When::op(OpCode::DELETE).of_session(client.snapshot().session_id);
    server.faults().refuse(delete, ErrorCode::THROTTLED_OP);
    operator.delete(&guard.path(), Version::ANY).await.unwrap();
    let released = guard.release().await;
    assert_eq!(released, Err(Error::Lost(Loss::Deleted)));
    assert_eq!(server.faults().pending(), 0);
}

/// A holder asked for its watch again and again, without a pause, on a server that was taken for one that has none.
#[tokio::test]
async fn a_holder_to_whom_no_watch_is_left_is_in_no_hurry_and_hears_of_its_end_from_the_next_server()
 {
    const TIMES: u32 = 9;
    let (server, client) = server_and_client().await;
    let mut snapshots = client.snapshots();
    let mut until = async |so: &dyn Fn(&Snapshot) -> bool| {
        drop(soon(snapshots.wait_for(so)).await.unwrap());
    };
    let guard = Mutex::new(&client, "/lock").unwrap().lock().await.unwrap();
    for number in 1..=TIMES {
        let watch = When::op(OpCode::SET_WATCHES).nth(number);
        server.faults().cut_before(watch);
    }
    let looks = Arc::new(AtomicU32::new(0));
    let (counted, mut lost) = (looks.clone(), Box::pin(guard.lost()));
    let lost = tokio::spawn(poll_fn(move |cx| {
        counted.fetch_add(1, Ordering::Relaxed);
        lost.as_mut().poll(cx)
    }));
    let connected = |at_least: u64| {
        move |now: &Snapshot| now.state == State::Connected && now.connections >= at_least
    };
    until(&connected(1 + u64::from(TIMES))).await;
    client.sync("/").await.unwrap();
    assert_eq!(server.faults().pending(), 0);
    assert!(looks.load(Ordering::Relaxed) < 200, "{looks:?}");
    assert!(guard.is_valid());
    // What was taken for unknown is asked for again on the next connection but one.
    for more in 2..=3 {
        server.faults().cut_all();
        until(&connected(more + u64::from(TIMES))).await;
        client.sync("/").await.unwrap();
    }
    client.delete(&guard.path(), Version::ANY).await.unwrap();
    assert_eq!(soon(lost).await.unwrap(), Loss::Deleted);
}
