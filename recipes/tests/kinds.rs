//! What each kind of lock promises besides the contract of all: sharing, counting, re-entry, leadership.

use std::time::{Duration, Instant};

use futures::future::FutureExt;
use lockkeeper_proto::CreateMode;
use lockkeeper_recipes::{
    Election, Error, Leadership, LockState, Loss, Member, MultiLock, Mutex, ReentrantMutex, RwLock,
    Semaphore, break_lock, revoke,
};
use lockkeeper_server::Server;
use lockkeeper_session::Client;

const LONG: Duration = Duration::from_secs(30);

async fn server() -> Server {
    let builder = Server::builder().tick_time(Duration::from_millis(50));
    builder.start().await.unwrap()
}

async fn client(server: &Server) -> Client {
    Client::connect(&server.connect_string()).await.unwrap()
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.expect("a hang")
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Nodes below a path, as the server has them.
fn below(server: &Server, path: &str) -> usize {
    let prefix = format!("{path}/");
    let paths = server.paths();
    paths
        .iter()
        .filter(|path| path.starts_with(&prefix))
        .count()
}

#[tokio::test]
async fn readers_share_and_a_writer_waits_for_all_of_them() {
    let server = server().await;
    let (one, two, three) = (
        client(&server).await,
        client(&server).await,
        client(&server).await,
    );
    let lock = |client: &Client| RwLock::new(client, "/rw").unwrap();
    let (first, second) = (
        lock(&one).read().await.unwrap(),
        lock(&two).read().await.unwrap(),
    );
    assert!(lock(&three).try_write().await.unwrap().is_none());
    let writer = lock(&three).enqueue_write().await.unwrap();
    assert_eq!(writer.position(), 2);
    // A reader behind a writer waits for it: readers do not starve writers.
    let behind = lock(&one).enqueue_read().await.unwrap();
    assert_eq!(behind.position(), 1);
    assert!(lock(&one).try_read().await.unwrap().is_none());
    let mut writing = std::pin::pin!(writer.wait());
    first.release().await.unwrap();
    assert!(writing.as_mut().now_or_never().is_none());
    second.release().await.unwrap();
    let writer = soon(writing).await.unwrap();
    let mut reading = std::pin::pin!(behind.wait());
    assert!(reading.as_mut().now_or_never().is_none());
    writer.release().await.unwrap();
    soon(reading).await.unwrap().release().await.unwrap();
    assert_eq!(below(&server, "/rw"), 0);
}

/// Curator: the reader that a writer became stood behind a writer that was waiting, who then overtook it.
#[tokio::test]
async fn a_writer_that_becomes_a_reader_lets_readers_in_and_no_writer() {
    let server = server().await;
    let (one, two, three) = (
        client(&server).await,
        client(&server).await,
        client(&server).await,
    );
    let lock = |client: &Client| RwLock::new(client, "/rw").unwrap();
    let writer = lock(&one).write().await.unwrap();
    let reader = lock(&two).enqueue_read().await.unwrap();
    let next = lock(&three).enqueue_write().await.unwrap();
    let token = writer.fencing_token();
    let downgraded = writer.downgrade().await.unwrap();
    assert_eq!(
        (downgraded.fencing_token(), downgraded.state()),
        (token, LockState::Held)
    );
    let second = soon(reader.wait()).await.unwrap();
    let mut writing = std::pin::pin!(next.wait());
    assert!(
        tokio::time::timeout(Duration::from_millis(100), &mut writing)
            .await
            .is_err()
    );
    second.release().await.unwrap();
    assert!(
        tokio::time::timeout(Duration::from_millis(100), &mut writing)
            .await
            .is_err()
    );
    downgraded.release().await.unwrap();
    let next = soon(writing).await.unwrap();
    assert!(next.fencing_token() > token);
    next.release().await.unwrap();
    assert_eq!(below(&server, "/rw"), 0);
}

#[tokio::test]
async fn a_downgrade_whose_reply_is_lost_has_happened_once() {
    use lockkeeper_proto::OpCode;
    use lockkeeper_server::When;
    let server = server().await;
    let client = client(&server).await;
    let lock = RwLock::new(&client, "/rw").unwrap();
    for lose in [true, false] {
        let writer = lock.write().await.unwrap();
        let when = When::op(OpCode::MULTI);
        if lose {
            server.faults().lose_reply(when)
        } else {
            server.faults().cut_before(when)
        };
        let reader = soon(writer.downgrade()).await.unwrap();
        assert_eq!(below(&server, "/rw"), 1);
        reader.release().await.unwrap();
        assert_eq!(below(&server, "/rw"), 0);
        // Dropped in the middle, neither node stays.
        let writer = lock.write().await.unwrap();
        assert!(writer.downgrade().now_or_never().is_none());
        until("nothing is left", || below(&server, "/rw") == 0).await;
    }
}

#[tokio::test]
async fn a_semaphore_lets_so_many_in_and_no_more() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let semaphore = |client: &Client| Semaphore::new(client, "/sem", 3).unwrap();
    let two_leases = semaphore(&one).acquire_many(2).await.unwrap();
    assert_eq!(semaphore(&two).available().await.unwrap(), 1);
    let last = semaphore(&two)
        .try_acquire()
        .await
        .unwrap()
        .expect("a free lease");
    assert!(semaphore(&one).try_acquire().await.unwrap().is_none());
    let error = semaphore(&two)
        .acquire_timeout(Duration::from_millis(50))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error:?}");
    until("it has left the line", || below(&server, "/sem/locks") == 0).await;
    // Two more are wanted, and one that comes later waits its turn although there would be room for it.
    let (pair, single) = (semaphore(&one), semaphore(&two));
    let pair = tokio::spawn(async move { pair.acquire_many(2).await });
    until("the pair is at the head", || {
        below(&server, "/sem/locks") == 1
    })
    .await;
    let single = tokio::spawn(async move { single.acquire().await });
    until("the single is behind it", || {
        below(&server, "/sem/locks") == 2
    })
    .await;
    last.release().await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!single.is_finished() && !pair.is_finished());
    drop(two_leases);
    let pair = soon(pair).await.unwrap().unwrap();
    let single = soon(single).await.unwrap().unwrap();
    assert!(single.fencing_token() > pair[1].fencing_token());
    assert_eq!(semaphore(&one).holders().await.unwrap().len(), 3);
    drop((pair, single));
    until("nothing is left", || {
        below(&server, "/sem/leases") + below(&server, "/sem/locks") == 0
    })
    .await;
    let error = semaphore(&one).acquire_many(4).await.unwrap_err();
    assert_eq!(error, Error::OverLimit { asked: 4, limit: 3 });
}

/// Curator: a raised limit did not wake those who waited.
#[tokio::test]
async fn a_shared_limit_holds_at_once_for_everybody() {
    let server = server().await;
    let client = client(&server).await;
    let semaphore = Semaphore::with_shared_limit(&client, "/sem", "/limit").unwrap();
    semaphore.set_limit(1).await.unwrap();
    let data = client.get_data("/limit").await.unwrap().data.unwrap();
    assert_eq!(data, &[0, 0, 0, 1][..]);
    let held = semaphore.acquire().await.unwrap();
    let waiting = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire().await }
    });
    until("one waits", || below(&server, "/sem/leases") == 2).await;
    semaphore.set_limit(2).await.unwrap();
    let second = soon(waiting).await.unwrap().unwrap();
    // A lower limit takes nothing away, and lets nobody in.
    semaphore.set_limit(1).await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 0);
    assert!(held.is_valid() && second.is_valid());
    held.release().await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    second.release().await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn whoever_waits_for_a_lease_and_loses_its_node_is_told_and_never_granted() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let semaphore = |client: &Client| Semaphore::new(client, "/sem", 1).unwrap();
    let held = semaphore(&one).acquire().await.unwrap();
    let waiting = semaphore(&two);
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    until("it waits", || below(&server, "/sem/leases") == 2).await;
    let nodes = server.paths();
    let held_path = held.path();
    let node = nodes
        .iter()
        .find(|path| path.starts_with("/sem/leases/") && **path != held_path);
    break_lock(&one, node.unwrap()).await.unwrap();
    held.release().await.unwrap();
    assert_eq!(
        soon(waiting).await.unwrap().unwrap_err(),
        Error::Lost(Loss::Deleted)
    );
    until("nothing is left", || {
        below(&server, "/sem/leases") + below(&server, "/sem/locks") == 0
    })
    .await;
}

#[tokio::test]
async fn a_mutex_and_a_read_write_lock_on_one_path_exclude_each_other() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (mutex, lock) = (
        Mutex::new(&one, "/m").unwrap(),
        RwLock::new(&two, "/m").unwrap(),
    );
    let guard = mutex.lock().await.unwrap();
    assert!(lock.try_read().await.unwrap().is_none());
    assert!(lock.try_write().await.unwrap().is_none());
    let reader = lock.enqueue_read().await.unwrap();
    guard.release().await.unwrap();
    let reader = soon(reader.wait()).await.unwrap();
    assert!(mutex.try_lock().await.unwrap().is_none());
    assert!(lock.try_read().await.unwrap().is_some());
    reader.release().await.unwrap();
}

/// Curator: a lease whose owner gave up after it was created was never returned.
#[tokio::test]
async fn a_semaphore_that_is_given_up_at_any_moment_keeps_no_lease() {
    let server = server().await;
    let client = client(&server).await;
    let semaphore = Semaphore::new(&client, "/sem", 1).unwrap();
    let held = semaphore.acquire().await.unwrap();
    for millis in 0..15 {
        let wait = Duration::from_micros(millis * 200);
        let _ = semaphore.acquire_timeout(wait).await;
    }
    until("only the holder is left", || {
        below(&server, "/sem/leases") == 1
    })
    .await;
    until("nobody waits", || below(&server, "/sem/locks") == 0).await;
    held.release().await.unwrap();
    soon(semaphore.acquire())
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test]
async fn an_owner_may_take_the_lock_again_and_others_may_not() {
    let server = server().await;
    let client = client(&server).await;
    let mutex = ReentrantMutex::new(&client, "/re").unwrap();
    let outer = mutex.lock("job-1").await.unwrap();
    let requests = server.counters().all_requests();
    let inner = mutex.lock("job-1").await.unwrap();
    assert_eq!(
        server.counters().all_requests(),
        requests,
        "re-entry sends nothing"
    );
    assert_eq!(
        (outer.holds(), inner.fencing_token()),
        (2, outer.fencing_token())
    );
    assert!(mutex.try_lock("job-2").await.unwrap().is_none());
    outer.release().await.unwrap();
    assert!(mutex.try_lock("job-2").await.unwrap().is_none());
    assert!(mutex.try_lock("job-1").await.unwrap().is_some());
    inner.release().await.unwrap();
    let other = mutex.lock("job-2").await.unwrap();
    other.release().await.unwrap();
    assert_eq!(below(&server, "/re"), 0);
}

/// Curator counts a re-entry up without looking whether the session still lives.
#[tokio::test]
async fn a_lost_lock_cannot_be_taken_again_by_its_owner() {
    let server = server().await;
    let client = client(&server).await;
    let mutex = ReentrantMutex::new(&client, "/re").unwrap();
    let held = mutex.lock("job").await.unwrap();
    server.faults().expire(client.snapshot().session_id);
    until("the expiry is noticed", || !held.is_valid()).await;
    until("there is a new session", || {
        client.snapshot().state.is_connected()
    })
    .await;
    assert!(matches!(
        mutex.lock("job").await.unwrap_err(),
        Error::Lost(_)
    ));
    assert!(mutex.try_lock("job").await.unwrap().is_none());
    drop(held);
    soon(mutex.lock("job"))
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test]
async fn many_tasks_of_one_owner_share_its_hold() {
    let server = server().await;
    let client = client(&server).await;
    let mutex = ReentrantMutex::new(&client, "/re").unwrap();
    let locks = (0..10).map(|_| mutex.lock("job"));
    let guards: Vec<_> = futures::future::join_all(locks)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(below(&server, "/re"), 1);
    assert_eq!(guards[0].holds(), 10);
    drop(guards);
    until("it is released", || below(&server, "/re") == 0).await;
}

#[tokio::test]
async fn several_locks_are_taken_all_or_none_and_in_one_order() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let members = |client: &Client| {
        let rw = RwLock::new(client, "/b").unwrap();
        [
            Member::from(&Semaphore::new(client, "/c", 1).unwrap()),
            Member::from(&Mutex::new(client, "/a").unwrap()),
            Member::write(&rw),
        ]
    };
    let all = MultiLock::new(members(&one)).unwrap();
    let held = all.lock().await.unwrap();
    let paths: Vec<_> = held
        .guards()
        .iter()
        .map(lockkeeper_recipes::Guard::path)
        .collect();
    assert!(
        paths[0].starts_with("/a/") && paths[1].starts_with("/b/") && paths[2].starts_with("/c/")
    );
    assert!(held.is_valid() && held.valid_until().is_some());
    assert!(
        MultiLock::new(members(&two))
            .unwrap()
            .try_lock()
            .await
            .unwrap()
            .is_none()
    );
    held.release().await.unwrap();
    // The last one is taken: the first two are let go of again.
    let last = Semaphore::new(&two, "/c", 1)
        .unwrap()
        .acquire()
        .await
        .unwrap();
    let error = all
        .lock_timeout(Duration::from_millis(100))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }));
    until("nothing of it is left", || {
        below(&server, "/a") + below(&server, "/b") == 0
    })
    .await;
    drop(last);
    // Two who name them in opposite orders do not wait for each other for ever.
    let mut reversed = members(&two);
    reversed.reverse();
    let other = MultiLock::new(reversed).unwrap();
    for _ in 0..5 {
        let both = futures::future::join(all.lock(), async {
            other.lock().await.unwrap().release().await.unwrap();
        });
        let release = async {
            let (held, ()) = both.await;
            held.unwrap().release().await.unwrap();
        };
        // One of the two holds while the other waits: the holder must let go for both to end.
        drop(tokio::time::timeout(Duration::from_millis(50), release).await);
    }
    let twice = [
        Member::from(&Mutex::new(&one, "/a").unwrap()),
        Member::from(&Mutex::new(&one, "/a").unwrap()),
    ];
    assert_eq!(
        MultiLock::new(twice).unwrap_err(),
        Error::SelfDeadlock {
            path: "/a".to_owned()
        }
    );
}

/// Curator's multi-lock goes on to the next lock when one has thrown.
#[tokio::test]
async fn a_member_that_fails_stops_the_rest() {
    use lockkeeper_proto::{ErrorCode, OpCode};
    use lockkeeper_server::When;
    let server = server().await;
    let client = client(&server).await;
    let mutex = |path: &str| Member::from(&Mutex::new(&client, path).unwrap());
    for path in ["/a", "/b", "/c"] {
        client
            .create(path, "", CreateMode::Persistent)
            .await
            .unwrap();
    }
    let all = MultiLock::new([mutex("/a"), mutex("/b"), mutex("/c")]).unwrap();
    let refusal = When::op(OpCode::CREATE2).within("/b");
    server.faults().refuse(refusal, ErrorCode::NO_AUTH);
    let error = soon(all.lock()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "create2 /b refused: not authorized (-102)"
    );
    assert_eq!((below(&server, "/a"), below(&server, "/c")), (0, 0));
}

#[tokio::test]
async fn every_holder_can_be_asked_to_let_go() {
    let server = server().await;
    let (holder, operator) = (client(&server).await, client(&server).await);
    let mutex = Mutex::new(&holder, "/m").unwrap().with_data("host-1");
    // Twice: Curator forgot the listener with the first release.
    for _ in 0..2 {
        let guard = mutex.lock().await.unwrap();
        let asked = tokio::spawn(guard.revoked());
        let participants = Mutex::new(&operator, "/m")
            .unwrap()
            .participants()
            .await
            .unwrap();
        assert_eq!(participants[0].data.as_deref(), Some(&b"host-1"[..]));
        revoke(&operator, &participants[0].path).await.unwrap();
        soon(asked).await.unwrap();
        assert!(guard.is_valid(), "it is up to the holder");
        guard.release().await.unwrap();
    }
    let guard = mutex.lock().await.unwrap();
    let lost = tokio::spawn(guard.lost());
    break_lock(&operator, &guard.path()).await.unwrap();
    assert_eq!(soon(lost).await.unwrap(), Loss::Deleted);
}

#[tokio::test]
async fn a_waiter_that_is_asked_to_let_go_keeps_its_place_unharmed() {
    let server = server().await;
    let client = client(&server).await;
    let mutex = Mutex::new(&client, "/m").unwrap();
    let guard = mutex.lock().await.unwrap();
    let ticket = mutex.enqueue().await.unwrap();
    let path = ticket.path();
    let waiting = tokio::spawn(ticket.wait());
    for _ in 0..3 {
        revoke(&client, &path).await.unwrap();
        revoke(&client, &guard.path()).await.unwrap();
    }
    guard.release().await.unwrap();
    soon(waiting)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test]
async fn one_leads_and_the_next_one_follows_when_it_cannot_any_more() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let election =
        |client: &Client, id: &'static str| Election::new(client, "/e").unwrap().with_id(id);
    let first = election(&one, "one").latch();
    let token = soon(first.elected()).await.unwrap();
    let second = election(&two, "two").latch();
    let standing = election(&two, "two");
    loop {
        let ids: Vec<_> = standing
            .participants()
            .await
            .unwrap()
            .into_iter()
            .filter_map(|p| p.data)
            .collect();
        if ids == ["one", "two"] {
            break;
        }
    }
    assert!(first.is_leader() && !second.is_leader());
    // The leader's session ends: it knows, and the other one leads; the first one stands again.
    let mut changes = first.changes();
    server.faults().expire(one.snapshot().session_id);
    soon(changes.wait_for(|now| *now == Leadership::Follower))
        .await
        .unwrap();
    let next = soon(second.elected()).await.unwrap();
    assert!(next > token && !first.is_leader());
    drop(second);
    let again = soon(first.elected()).await.unwrap();
    assert!(again > next);
}

#[tokio::test]
async fn work_is_dropped_when_the_lead_is_lost_and_the_lead_is_given_up_with_the_work() {
    let server = server().await;
    let client = client(&server).await;
    let election = Election::new(&client, "/e").unwrap();
    let term = election
        .lead(async |guard| guard.fencing_token())
        .await
        .unwrap();
    assert!(term.output.is_some() && term.loss.is_none());
    assert_eq!(below(&server, "/e"), 0);
    let session = client.snapshot().session_id;
    let term = soon(election.lead(async |_| {
        server.faults().expire(session);
        std::future::pending::<()>().await;
    }))
    .await
    .unwrap();
    assert_eq!(term.output, None);
    assert!(term.loss.is_some());
}
