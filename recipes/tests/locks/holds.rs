//! Holds: their time limit, how they end, and what the metrics count.

use std::{
    future::{Future as _, poll_fn},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use lockkeeper_proto::{Acl, CreateMode, ErrorCode, OpCode, Perms, Version, WatcherType};
use lockkeeper_recipes::{
    Guard, LockError, LockMeter, LockState, Loss, Mutex, PlainMutex, RwLock, Semaphore,
    rank::SEQUENCE_LIMIT, revoke,
};
use lockkeeper_server::{Server, When};
use lockkeeper_session::{Client, Snapshot, State};

use crate::support::{
    below,
    waiting::{LONG, clock_ahead, soon, until},
};

async fn server_and_client() -> (Server, Client) {
    let server = Server::start().await.unwrap();
    let client = Client::connect(&server.connect_string()).await.unwrap();
    (server, client)
}

async fn until_watched(server: &Server) {
    until!(server.report().watches > 0);
}

/// A stuck holder would block all others for as long as its session lives.
#[tokio::test]
async fn a_lock_held_for_too_long_is_released_and_its_holder_is_told() {
    let (_server, client) = server_and_client().await;
    let meter = LockMeter::new("holds");
    let mutex = Mutex::new(&client, "/m").unwrap().with_meter(&meter);
    let stuck = mutex.lock().await.unwrap();
    stuck.limit_hold(Duration::from_millis(50));
    let lost = tokio::spawn(stuck.lost());
    let next = soon(mutex.lock()).await.unwrap();
    assert_eq!(soon(lost).await.unwrap(), Some(Loss::Overdue));
    assert_eq!(stuck.state(), LockState::Lost(Loss::Overdue));
    let refused = stuck.transaction().commit().await;
    assert_eq!(refused.unwrap_err().loss(), Some(Loss::Overdue));
    let late = stuck.release().await.unwrap_err();
    assert_eq!(late.loss(), Some(Loss::Overdue));
    assert_eq!(next.state(), LockState::Held);
    assert_eq!(meter.metrics().lost, 1);
}

/// All holders of a plain lock use the same node name, so a second delete would end the next hold.
#[tokio::test]
async fn an_overdue_holder_does_not_delete_the_node_of_the_next_holder() {
    let (server, client) = server_and_client().await;
    let other = Client::connect(&server.connect_string()).await.unwrap();
    for way in 0..4 {
        let stuck = PlainMutex::new(&client, "/p").unwrap();
        let stuck = stuck.lock().await.unwrap();
        stuck.limit_hold(Duration::ZERO);
        assert_eq!(soon(stuck.lost()).await, Some(Loss::Overdue));
        // The next holder may be of the same session: tasks of one session exclude each other, too.
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
        let overdue = Some(Loss::Overdue);
        assert!(
            refused.is_none_or(|refused| refused.loss() == overdue),
            "{way}"
        );
        // After this reply the server has handled everything that the former holder has sent.
        client.sync("/").await.unwrap();
        held.release().await.unwrap();
    }
}

#[tokio::test]
async fn the_hold_limit_of_a_writer_still_applies_after_a_downgrade() {
    let (server, client) = server_and_client().await;
    let lock = RwLock::new(&client, "/rw").unwrap();
    let writer = lock.write().await.unwrap();
    writer.limit_hold(Duration::from_secs(1));
    let reader = writer.downgrade().await.unwrap();
    assert_eq!(soon(reader.lost()).await, Some(Loss::Overdue));
    soon(lock.write()).await.unwrap().release().await.unwrap();
    assert_eq!(server.report().nodes, 1, "only the directory is left");
}

#[tokio::test]
async fn a_release_cancels_the_hold_limit_and_a_new_limit_replaces_it() {
    let (server, client) = server_and_client().await;
    let mutex = Mutex::new(&client, "/m").unwrap();
    let guard = mutex.lock().await.unwrap();
    guard.limit_hold(Duration::from_millis(1));
    guard.limit_hold(LONG);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    assert_eq!(server.report().nodes, 1, "only the directory is left");
}

#[tokio::test]
async fn the_metrics_count_attempts_holds_and_requests() {
    let (server, client) = server_and_client().await;
    let meter = LockMeter::new("holds");
    let mutex = Mutex::new(&client, "/m").unwrap().with_meter(&meter);
    let held = mutex.lock().await.unwrap();
    assert!(mutex.clone().try_lock().await.unwrap().is_none());
    assert!(
        mutex
            .try_lock_for(Duration::from_millis(500))
            .await
            .is_err()
    );
    let ticket = mutex.enqueue().await.unwrap();
    held.release().await.unwrap();
    let second = soon(ticket.wait()).await.unwrap();
    server.faults().expire_early(client.snapshot().session_id);
    let loss = soon(second.lost()).await;
    assert!(
        matches!(loss, Some(Loss::Expired | Loss::Deleted)),
        "{loss:?}"
    );
    drop(second);
    let metrics = meter.metrics();
    assert_eq!((metrics.acquired, metrics.contended), (2, 2));
    assert_eq!((metrics.refused, metrics.given_up, metrics.lost), (1, 1, 1));
    assert_eq!((metrics.wait.count(), metrics.hold.count()), (2, 2));
    assert!(metrics.hold.quantile(1.0) >= Duration::from_millis(20));
    assert_eq!(metrics.hand_over.count(), 1);
    // The first acquisition: create and listing without a directory, create of the directory,
    // create, listing. Its release: one delete.
    let (first, tried) = (5 + 1, 1);
    // Create, listing, watches, delete. The delete of the lost lock is counted if the holder was
    // not told that the node is gone, but it is not sent.
    let (timed_out, second) = (4, 3 + u64::from(loss == Some(Loss::Expired)));
    assert_eq!(metrics.requests, first + tried + timed_out + second);
    assert_eq!(metrics.listings, 5);
    assert_eq!(metrics.cleaned_up, 0);

    let meter = LockMeter::new("permits");
    let semaphore = Semaphore::new(&client, "/s", 1).unwrap().with_meter(&meter);
    let permit = soon(semaphore.acquire()).await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    permit.release().await.unwrap();
    let metrics = meter.metrics();
    assert_eq!((metrics.acquired, metrics.refused, metrics.lost), (1, 1, 0));
}

/// The timers of the runtime stand still while a computer sleeps.
#[tokio::test]
async fn a_holder_whose_computer_has_slept_is_told_of_the_end_of_its_lease() {
    let server = Server::start().await.unwrap();
    let (clock, ahead) = clock_ahead();
    let client = Client::builder(&server.connect_string()).unwrap();
    let client = client.clock(clock).session_timeout(LONG + LONG / 3);
    let client = client.connect().await.unwrap();
    let guard = Mutex::new(&client, "/m").unwrap().lock().await.unwrap();
    let lost = tokio::spawn(guard.lost());
    tokio::time::sleep(Duration::from_millis(50)).await;
    ahead.store(3600, Ordering::Relaxed);
    // Longer than it may take, and shorter than the lease.
    let how = soon(lost).await.unwrap();
    assert!(
        matches!(how, Some(Loss::Elapsed | Loss::Expired)),
        "{how:?}"
    );
}

/// The lock is only less sure while there is no connection.
#[tokio::test]
async fn a_short_outage_suspends_the_holder_and_loses_nothing() {
    let (server, client) = server_and_client().await;
    let guard = Mutex::new(&client, "/m").unwrap().lock().await.unwrap();
    server.faults().refuse_handshakes(true);
    server.faults().cut(client.snapshot().session_id);
    until!(!client.snapshot().state.is_connected());
    let LockState::Suspended { until: end, .. } = guard.state() else {
        panic!("{:?}", guard.state());
    };
    assert!(guard.is_valid() && end > Instant::now());
    assert_eq!(guard.valid_until(), Some(end));
    server.faults().refuse_handshakes(false);
    until!(guard.state() == LockState::Held && guard.valid_until() > Some(end));
    guard.release().await.unwrap();
}

/// The watch of `lost` ends with the first event, whatever it is.
#[tokio::test]
async fn a_holder_is_told_of_the_deletion_of_its_node_after_a_change_of_its_data() {
    let (server, client) = server_and_client().await;
    let operator = Client::connect(&server.connect_string()).await.unwrap();
    let guard = Mutex::new(&client, "/m").unwrap().lock().await.unwrap();
    let lost = tokio::spawn(guard.lost());
    for _ in 0..3 {
        until_watched(&server).await;
        let changed = operator.set_data(&guard.path(), "", Version::ANY).await;
        changed.unwrap();
    }
    until_watched(&server).await;
    operator.delete(&guard.path(), Version::ANY).await.unwrap();
    // Without the watch it would be told when its session ends.
    assert_eq!(soon(lost).await.unwrap(), Some(Loss::Deleted));
}

#[tokio::test]
async fn a_released_lock_is_not_counted_as_lost() {
    let (server, client) = server_and_client().await;
    let meter = LockMeter::new("holds");
    let mutex = Mutex::new(&client, "/m").unwrap().with_meter(&meter);
    let guard = mutex.lock().await.unwrap();
    let lost = tokio::spawn(guard.lost());
    until_watched(&server).await;
    drop(guard);
    assert_eq!(soon(lost).await.unwrap(), None);
    assert_eq!(meter.metrics().lost, 0);
}

/// The compiler asks the future of `with` whether it may move between threads.
#[tokio::test]
async fn work_under_a_lock_ends_with_its_output_or_with_the_loss() {
    let (server, client) = server_and_client().await;
    let mutex = Mutex::new(&client, "/m").unwrap();
    let other = mutex.clone();
    let work = async move |guard: &Guard| {
        guard.ensure_valid().unwrap();
        other.try_lock().await.unwrap().is_none()
    };
    let spawned = mutex.clone();
    let ended = tokio::spawn(async move { spawned.with(work).await });
    assert_eq!(soon(ended).await.unwrap(), Ok(true));
    assert_eq!(below(&server, "/m"), 0, "it is released");

    let overdue = |error: &LockError| {
        assert_eq!(
            (error.loss(), error.path()),
            (Some(Loss::Overdue), Some("/m"))
        );
    };
    let ended = mutex.with(async |guard| {
        guard.limit_hold(Duration::ZERO);
        std::future::pending::<()>().await;
    });
    overdue(&soon(ended).await.unwrap_err());
    let guard = mutex.lock().await.unwrap();
    assert_eq!(guard.during(async { 7 }).await, Ok(7));
    assert_eq!(guard.lock_path(), "/m");
    guard.limit_hold(Duration::ZERO);
    soon(guard.lost()).await;
    overdue(&guard.ensure_valid().unwrap_err());
    // The lock is not held until the end of the work.
    let ended = mutex.with(async |guard| {
        client.delete(&guard.path(), Version::ANY).await.unwrap();
    });
    assert_eq!(ended.await.unwrap_err().loss(), Some(Loss::Deleted));
}

#[tokio::test]
async fn a_guard_knows_how_many_sequence_numbers_are_left() {
    let (server, client) = server_and_client().await;
    let mutex = Mutex::new(&client, "/m").unwrap();
    let guard = mutex.lock().await.unwrap();
    assert_eq!(guard.headroom(), u32::try_from(SEQUENCE_LIMIT).unwrap());
    guard.release().await.unwrap();
    assert!(server.faults().set_sequence("/m", SEQUENCE_LIMIT - 3));
    assert_eq!(mutex.lock().await.unwrap().headroom(), 3);
}

/// kazoo #606, #730: negative numbers were compared as text, so each new candidate was elected at
/// once. go-zk, PR 65, took the minus sign for the dash before the number, returned an error, and
/// left its node behind.
#[tokio::test]
async fn contenders_without_a_number_are_refused_and_leave_nothing() {
    let (server, client) = server_and_client().await;
    let (mutex, lock) = (Mutex::new(&client, "/m"), RwLock::new(&client, "/m"));
    let (mutex, lock) = (mutex.unwrap(), lock.unwrap());
    for (path, mode) in [
        ("/m", CreateMode::Persistent),
        ("/m/x-lock--2147483648", CreateMode::Ephemeral),
    ] {
        client.create(path, "", mode).await.unwrap();
    }
    for next in [7, i32::MAX, i32::MIN + 2] {
        assert!(server.faults().set_sequence("/m", next));
        for refused in [
            soon(mutex.lock()).await.map(drop),
            soon(lock.read()).await.map(drop),
            soon(lock.write()).await.map(drop),
        ] {
            let error = refused.unwrap_err();
            assert!(
                matches!(&error, LockError::SequenceExhausted { path, .. } if path == "/m"),
                "{error}"
            );
        }
        // The other node is that of a contender.
        assert!(mutex.try_lock().await.unwrap().is_none());
        until!(below(&server, "/m") == 1);
    }
}

/// A delete that the server has throttled was not applied. If the node is missing when the delete
/// is repeated, another client has deleted it. The release must not report that the lock was held
/// until now.
#[tokio::test]
async fn a_throttled_release_of_a_deleted_node_reports_the_loss() {
    let (server, client) = server_and_client().await;
    let operator = Client::connect(&server.connect_string()).await.unwrap();
    let guard = Mutex::new(&client, "/m").unwrap().lock().await.unwrap();
    let delete = When::op(OpCode::DELETE).of_session(client.snapshot().session_id);
    server.faults().refuse(delete, ErrorCode::THROTTLED_OP);
    operator.delete(&guard.path(), Version::ANY).await.unwrap();
    let released = guard.release().await;
    assert_eq!(released.unwrap_err().loss(), Some(Loss::Deleted));
    assert_eq!(server.faults().pending(), 0);
}

/// The server never accepted the holder's watch, so the client took it for a server without that
/// operation. The holder then asked for its watch in a loop without a pause.
#[tokio::test]
async fn a_holder_without_a_watch_does_not_spin_and_learns_of_the_loss_later() {
    const TIMES: u32 = 8;
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
    let (begin, looks) = (Instant::now(), Arc::new(AtomicU32::new(0)));
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
    tokio::time::sleep(Duration::from_millis(300)).await;
    // Ten in a second while this server sets no watch: on a busy machine that takes long.
    let most = 200 + 20 * begin.elapsed().as_secs();
    assert!(u64::from(looks.load(Ordering::Relaxed)) < most, "{looks:?}");
    assert!(guard.is_valid());
    // The client tries an operation that it took for unknown again on the second connection after
    // that.
    for more in 2..=3 {
        server.faults().cut_all();
        until(&connected(more + u64::from(TIMES))).await;
        client.sync("/").await.unwrap();
    }
    client.delete(&guard.path(), Version::ANY).await.unwrap();
    assert_eq!(soon(lost).await.unwrap(), Some(Loss::Deleted));
}

/// Other code of the program ends all watches of the node. The holder was then told of nothing
/// until the next connection.
#[tokio::test]
async fn a_holder_whose_watch_was_removed_watches_again() {
    let (server, client) = server_and_client().await;
    let guard = Mutex::new(&client, "/lock").unwrap().lock().await.unwrap();
    let lost = tokio::spawn(guard.lost());
    until_watched(&server).await;
    let removed = client.remove_watches(&guard.path(), WatcherType::ANY);
    assert!(removed.unwrap() > 0);
    client.delete(&guard.path(), Version::ANY).await.unwrap();
    assert_eq!(soon(lost).await.unwrap(), Some(Loss::Deleted));
}

/// The transaction deletes the writer's node, which the future watches. An earlier version took
/// that for the loss of the hold.
#[tokio::test]
async fn a_downgrade_is_no_loss_for_who_watches_the_writer() {
    let (server, client) = server_and_client().await;
    let meter = LockMeter::new("holds");
    let lock = RwLock::new(&client, "/rw").unwrap().with_meter(&meter);
    let writer = lock.write().await.unwrap();
    let lost = tokio::spawn(writer.lost());
    until_watched(&server).await;
    let reader = writer.downgrade().await.unwrap();
    assert_eq!(soon(lost).await.unwrap(), None);
    assert_eq!(reader.state(), LockState::Held);
    reader.release().await.unwrap();
    assert_eq!(meter.metrics().lost, 0);
}

#[tokio::test]
async fn a_hold_limit_that_passes_during_a_downgrade_applies() {
    let (server, client) = server_and_client().await;
    let meter = LockMeter::new("holds");
    let lock = RwLock::new(&client, "/rw").unwrap().with_meter(&meter);
    let writer = lock.write().await.unwrap();
    let _lost = tokio::spawn(writer.lost());
    until_watched(&server).await;
    writer.limit_hold(Duration::from_millis(50));
    let late = Duration::from_millis(200);
    server.faults().delay_reply(When::op(OpCode::MULTI), late);
    let loss = match writer.downgrade().await {
        Ok(reader) => soon(reader.lost()).await,
        // On a slow machine it passes before.
        Err(error) => error.loss(),
    };
    assert_eq!(loss, Some(Loss::Overdue));
    soon(lock.write()).await.unwrap().release().await.unwrap();
    assert_eq!(meter.metrics().lost, 1);
}

/// The writer's node is gone: the downgrade fails, and that is a loss.
#[tokio::test]
async fn a_downgrade_that_finds_no_node_counts_as_a_loss() {
    let (_server, client) = server_and_client().await;
    let meter = LockMeter::new("holds");
    let lock = RwLock::new(&client, "/rw").unwrap().with_meter(&meter);
    let writer = lock.write().await.unwrap();
    client.delete(&writer.path(), Version::ANY).await.unwrap();
    let error = writer.downgrade().await.unwrap_err();
    assert_eq!(error.loss(), Some(Loss::Deleted));
    assert_eq!(meter.metrics().lost, 1);
}

/// It waited for ever, without a watch.
#[tokio::test]
async fn a_holder_whose_watch_was_removed_hears_a_request_to_release() {
    let (_server, client) = server_and_client().await;
    let mutex = Mutex::new(&client, "/m").unwrap();
    let guard = mutex.lock().await.unwrap();
    let asked = tokio::spawn(guard.revoked());
    until!(client.remove_watches(&guard.path(), WatcherType::DATA) == Ok(1));
    revoke(&client, &guard.path()).await.unwrap();
    soon(asked).await.unwrap();
}

/// Its connection was lost while it looked.
#[tokio::test]
async fn a_holder_whose_look_for_a_request_failed_looks_again() {
    let (server, client) = server_and_client().await;
    let guard = Mutex::new(&client, "/m").unwrap().lock().await.unwrap();
    server.faults().lose_reply(When::op(OpCode::GET_DATA));
    let asked = tokio::spawn(guard.revoked());
    until!(server.faults().pending() == 0);
    until!(revoke(&client, &guard.path()).await.is_ok());
    soon(asked).await.unwrap();
}

/// The future goes on, and asks nothing more.
#[tokio::test]
async fn a_holder_whose_node_is_gone_does_not_look_for_a_request_again() {
    let (server, client) = server_and_client().await;
    let guard = Mutex::new(&client, "/m").unwrap().lock().await.unwrap();
    let asked = tokio::spawn(guard.revoked());
    let looks = || server.counters().requests_of(OpCode::GET_DATA);
    until!(looks() == 1);
    client.delete(&guard.path(), Version::ANY).await.unwrap();
    until!(looks() == 2);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((looks(), asked.is_finished()), (2, false));
}

/// A server says whether one may read a node only if the node is there.
#[tokio::test]
async fn a_holder_that_may_not_read_its_node_holds_the_lock() {
    let (server, client) = server_and_client().await;
    let guard = Mutex::new(&client, "/m").unwrap().lock().await.unwrap();
    let check = When::op(OpCode::MULTI);
    server.faults().refuse(check, ErrorCode::NO_AUTH);
    assert_eq!(guard.confirm().await, Ok(()));
    assert_eq!(server.faults().pending(), 0);
}

/// A server checks a node for who may read it.
#[tokio::test]
async fn a_transaction_whose_check_is_refused_says_so_and_the_lock_is_held() {
    let (_server, client) = server_and_client().await;
    let create = client.create("/m", "", CreateMode::Persistent);
    create.await.unwrap();
    let unread = Acl::new(Perms::WRITE | Perms::DELETE, "world", "anyone");
    let mutex = Mutex::new(&client, "/m").unwrap().with_acl(vec![unread]);
    let guard = mutex.lock().await.unwrap();
    let write = guard
        .transaction()
        .create("/a", "", CreateMode::Persistent)
        .commit();
    let error = write.await.unwrap_err();
    assert_eq!(error.loss(), None, "{error}");
    let error = error.to_string();
    assert!(error.contains("not authorized"), "{error}");
    assert!(guard.is_valid());
}
