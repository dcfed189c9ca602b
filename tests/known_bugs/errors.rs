//! Rows 60 to 70 and 73: wrong errors, leaks, and time.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use lockkeeper::{
    Client, CreateMode, ErrorCode, LockError, Loss, Member, MultiLock, Mutex, RwLock, Version,
    proto::OpCode,
};
use lockkeeper_server::When;

use crate::rig::{
    PATH, below, client, cut_off, delete, driven, idle, let_in, line, mutex, poll_once, server,
    session, soon, until, until_line_has, until_other_session,
};

/// CURATOR-211, -307: who was not in the listing took itself for the last one in it, and an index went out of bounds.
#[tokio::test]
async fn row_60_a_reader_whose_session_ends_while_it_lists_is_told_so() {
    let server = server().await;
    let client = client(&server).await;
    let lock = RwLock::new(&client, PATH).unwrap();
    let listing = When::op(OpCode::GET_CHILDREN);
    server.faults().cut_before(listing);
    let mut reading = pin!(lock.read());
    assert!(poll_once(reading.as_mut()).is_none());
    until_line_has(&server, 1).await;
    idle(&client).await;
    let former = session(&client);
    server.faults().expire(former);
    until_other_session(&client, former).await;
    // It lists in the new session: somebody else is there, and it is not.
    let _other = mutex(&client).lock().await.unwrap();
    let error = soon(reading).await.unwrap_err();
    assert_eq!(error, LockError::Lost(Loss::Expired));
}

/// CURATOR-107: watches on nodes that did not exist any more piled up on the server.
#[tokio::test]
async fn row_61_thousands_of_turns_leave_no_watch() {
    const TURNS: usize = 1_000;
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    let mut tasks = Vec::new();
    for client in &clients {
        for _ in 0..2 {
            let mutex = mutex(client);
            tasks.push(tokio::spawn(async move {
                for _ in 0..TURNS {
                    mutex.lock().await.unwrap().release().await.unwrap();
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    until("no watch is left", async || server.report().watches == 0).await;
    assert!(clients.iter().all(|client| client.watch_count() == 0));
    assert!(line(&server).is_empty());
}

/// Curator's timeout left the watch on the predecessor, one for each attempt.
#[tokio::test]
async fn row_62_ten_thousand_waits_that_are_given_up_leave_no_node_and_no_watch() {
    let server = server().await;
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let guard = mutex(&holder).lock().await.unwrap();
    let contender = mutex(&waiter);
    let mut most = 0;
    for _ in 0..10_000 {
        drop(contender.enqueue().await.unwrap());
        most = most.max(server.report().watches);
    }
    assert!(most < 100, "{most} watches at a time");
    until("only the holder is left", async || {
        line(&server) == [guard.path()]
    })
    .await;
    until("no watch is left", async || server.report().watches == 0).await;
    assert_eq!(waiter.watch_count(), 0);
}

/// CURATOR-180, kazoo #563: a container that is empty may be reaped between any two requests, and the error came through.
#[tokio::test]
async fn row_63_a_directory_that_vanishes_again_and_again_is_made_again() {
    let server = server().await;
    let client = client(&server).await;
    for number in 1..=5 {
        let reaped = When::op(OpCode::CREATE2).nth(number);
        server.faults().refuse(reaped, ErrorCode::NO_NODE);
    }
    delete(&client, PATH).await;
    let guard = soon(mutex(&client).lock()).await.unwrap();
    assert_eq!(server.faults().pending(), 0);
    guard.release().await.unwrap();
    // Not for ever: that a path cannot be made is told.
    for number in 1..=100 {
        let refused = When::op(OpCode::CREATE2).nth(number);
        server.faults().refuse(refused, ErrorCode::NO_NODE);
    }
    let error = soon(mutex(&client).lock()).await.unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("create2 /lock refused: no node (-101) ("),
        "{error}"
    );
}

/// Curator's multi-lock goes on to the next lock when one has thrown, and gives each of them the whole time.
#[tokio::test]
async fn row_64_a_member_that_fails_stops_the_rest() {
    let server = server().await;
    let client = client(&server).await;
    let paths = ["/lock/a", "/lock/b", "/lock/c"];
    let members = paths.map(|path| Mutex::new(&client, path).unwrap());
    let all = MultiLock::new(members.each_ref().map(Member::from)).unwrap();
    for path in paths {
        let mode = CreateMode::Persistent;
        client.create(path, "", mode).await.unwrap();
    }
    let refusal = When::op(OpCode::CREATE2).within("/lock/b");
    server.faults().refuse(refusal, ErrorCode::NO_AUTH);
    let creates = server.counters().requests_of(OpCode::CREATE2);
    let error = soon(all.lock()).await.unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("create2 /lock/b refused: not authorized (-102) ("),
        "{error}"
    );
    assert!(paths.iter().all(|path| below(&server, path).is_empty()));
    let tried = server.counters().requests_of(OpCode::CREATE2) - creates;
    assert_eq!(tried, 2, "the third is not tried");
    // The second one is held: the time that the first one took is gone.
    let guard = members[1].lock().await.unwrap();
    let wait = Duration::from_millis(100);
    let error = all.lock_timeout(wait).await.unwrap_err();
    let LockError::TimedOut { waited, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(waited, wait);
    guard.release().await.unwrap();
    until("the first one is free again", async || {
        paths.iter().all(|path| below(&server, path).is_empty())
    })
    .await;
}

/// kazoo begins the wait anew, with the whole time, whenever it wakes up.
#[tokio::test]
async fn row_65_a_wait_does_not_begin_anew_when_somebody_ahead_leaves() {
    let server = server().await;
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let _guard = mutex(&holder).lock().await.unwrap();
    let mut ahead = Vec::new();
    for _ in 0..20 {
        ahead.push(mutex(&holder).enqueue().await.unwrap());
    }
    let (wait, started) = (Duration::from_millis(200), Instant::now());
    let waiting = tokio::spawn({
        let mutex = mutex(&waiter);
        async move { mutex.lock_timeout(wait).await.map(drop) }
    });
    // Those ahead leave one by one, each well before the time of a wait that began anew would be over.
    while let Some(next) = ahead.pop() {
        tokio::time::sleep(wait / 2).await;
        if waiting.is_finished() {
            break;
        }
        drop(next);
    }
    let error = soon(waiting).await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::TimedOut { waited, .. } if waited == wait));
    // As long as that many waits would be, it cannot have lasted, however busy the machine is.
    assert!(!ahead.is_empty(), "it took {:?}", started.elapsed());
}

/// CURATOR-337, -358: the leader left between the listing and the read of its data, and that was an error.
#[tokio::test]
async fn row_67_who_leaves_while_we_look_is_left_out() {
    let server = server().await;
    let (holder, looker) = (client(&server).await, client(&server).await);
    let leaving = mutex(&holder).lock().await.unwrap();
    let staying = mutex(&holder).enqueue().await.unwrap();
    let listing = When::op(OpCode::GET_CHILDREN).of_session(session(&looker));
    let late = Duration::from_millis(50);
    server.faults().delay_reply(listing, late);
    let looking = tokio::spawn({
        let mutex = mutex(&looker);
        async move { mutex.participants().await.unwrap() }
    });
    until("they are listed", async || server.faults().pending() == 0).await;
    leaving.release().await.unwrap();
    let seen = soon(looking).await.unwrap();
    let paths: Vec<_> = seen.into_iter().map(|one| one.path).collect();
    assert_eq!(paths, [staying.path()]);
}

/// CURATOR-559: repetitions within repetitions.
#[tokio::test]
async fn row_69_a_request_that_is_cut_off_is_sent_once_more_and_no_more() {
    const CUTS: u32 = 5;
    let server = server().await;
    let client = client(&server).await;
    let creates = server.counters().requests_of(OpCode::CREATE2);
    for number in 1..=CUTS {
        let create = When::op(OpCode::CREATE2).nth(number);
        server.faults().cut_before(create);
    }
    let before = server.counters().all_requests();
    let guard = soon(mutex(&client).lock()).await.unwrap();
    let repeated = server.counters().requests_of(OpCode::CREATE2) - creates;
    assert_eq!(repeated, u64::from(CUTS) + 1);
    // Each time a barrier and a listing besides; and the listing behind the create that was cut off, when that was sent alone.
    let requests = server.counters().all_requests() - before;
    assert!(requests <= 4 * u64::from(CUTS) + 2, "{requests} requests");
    guard.release().await.unwrap();
}

/// CURATOR-688: versions run over, and -1 is one of them: whoever compared them never succeeded.
#[tokio::test]
async fn row_70_the_version_of_a_lock_node_does_not_matter() {
    let server = server().await;
    let (client, other) = (client(&server).await, client(&server).await);
    let guard = mutex(&client).lock().await.unwrap();
    for data in ["once", "twice"] {
        let any = Version::ANY;
        other.set_data(&guard.path(), data, any).await.unwrap();
    }
    guard.transaction().commit().await.unwrap();
    guard.release().await.unwrap();
}

/// kazoo names the nodes of one lock object alike for ever: once the directory had been made anew, and its numbers with
/// it, a late delete of the former node hit the new one.
#[tokio::test]
async fn row_73_a_late_delete_hits_nobody_else() {
    let server = server().await;
    let (client, operator): (Client, Client) = (client(&server).await, client(&server).await);
    let mutex = mutex(&client);
    let guard = mutex.lock().await.unwrap();
    let former = guard.path();
    // The delete is applied and its reply lost. It will be sent again.
    server.faults().lose_reply(When::op(OpCode::DELETE));
    server.faults().refuse_handshakes(true);
    drop(guard);
    until_line_has(&server, 0).await;
    until("the cut is noticed", async || {
        !client.snapshot().state.is_connected()
    })
    .await;
    delete(&operator, PATH).await;
    let guard = self::mutex(&operator).lock().await.unwrap();
    assert_eq!(
        guard.path()[guard.path().len() - 10..],
        former[former.len() - 10..]
    );
    let deletes = server.counters().requests_of(OpCode::DELETE);
    let_in(&server);
    until("it is sent again", async || {
        server.counters().requests_of(OpCode::DELETE) > deletes
    })
    .await;
    idle(&client).await;
    assert_eq!(line(&server), [guard.path()]);
    // The same handle has another name the next time.
    let mut waiting = pin!(mutex.lock());
    assert!(driven(&client, waiting.as_mut()).await.is_none());
    guard.release().await.unwrap();
    assert_ne!(soon(waiting).await.unwrap().path(), former);
    cut_off(&server, &client).await;
}
