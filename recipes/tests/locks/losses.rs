//! What no lock may do after a loss, or when there is no capacity: work on, or leave nodes behind.
//!
//! Not here: the plain lock after its node is gone (`plain`), programs that end (`runtime_ends`).

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::Poll,
    thread,
    time::Duration,
};

use lockkeeper_proto::{CreateMode, ErrorCode, OpCode, SessionId, Version};
use lockkeeper_recipes::{
    Election, LockError, LockMeter, Loss, Member, MultiGuard, MultiLock, Mutex, PlainMutex, RwLock,
    Semaphore, inspect,
};
use lockkeeper_server::{Server, When};
use lockkeeper_session::Client;
use tokio::{sync::Notify, task::JoinHandle};

use crate::support::{
    below, client, server, server_and_two,
    waiting::{LONG, clock_ahead, idle, poll_once, soon, until, until_another_session},
};

/// The work may not go on when it is known that another contender may lead. Both are ready at the
/// same poll here.
#[tokio::test]
async fn a_leader_that_has_lost_the_lead_does_no_more_work() {
    let server = server().await;
    let leader = client(&server).await;
    let (go_on, is_late) = (Notify::new(), AtomicBool::new(false));
    let election = Election::new(&leader, "/e").unwrap();
    let mut leading = pin!(election.lead(async |_| {
        go_on.notified().await;
        is_late.store(true, Ordering::Relaxed);
        std::future::pending::<()>().await;
    }));
    let has_work = async {
        while below(&server, "/e") == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    tokio::select! {
        _ = &mut leading => panic!("it leads"),
        () = has_work => {}
    }
    let session = leader.snapshot().session_id;
    server.faults().expire_early(session);
    until!(leader.snapshot().session_id != session);
    go_on.notify_one();
    let lost = soon(leading).await.unwrap_err();
    assert_eq!(lost.loss(), Some(Loss::Expired));
    assert!(!is_late.load(Ordering::Relaxed), "work after the loss");
}

/// Longer than a lease of [`short_session`] lasts.
const PAUSE: Duration = Duration::from_millis(1200);

async fn short_session(server: &Server) -> Client {
    let builder = Client::builder(&server.connect_string()).unwrap();
    let short = builder.session_timeout(Duration::from_secs(1));
    short.connect().await.unwrap()
}

/// Gives way to the other branch of a `select`. No other task runs meanwhile, the client's neither.
async fn give_way() {
    let mut has_given_way = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_given_way, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// After the pause the work is polled before the client's task, whose timer tells of the end of the
/// lease. An earlier version then let the work take a step.
#[tokio::test]
async fn work_takes_no_step_when_its_thread_was_blocked_for_longer_than_the_lease() {
    let server = server().await;
    let leader = short_session(&server).await;
    let election = Election::new(&leader, "/e").unwrap();
    let led = election.lead(async |_| {
        give_way().await;
        thread::sleep(PAUSE);
        give_way().await;
    });
    assert_eq!(led.await.unwrap_err().loss(), Some(Loss::Elapsed));

    let mutex = Mutex::new(&short_session(&server).await, "/m").unwrap();
    let guard = mutex.lock().await.unwrap();
    let worked = guard.during(async {
        give_way().await;
        thread::sleep(PAUSE);
        give_way().await;
    });
    assert_eq!(worked.await.unwrap_err().loss(), Some(Loss::Elapsed));
}

#[tokio::test]
async fn the_first_limit_makes_the_nodes_above_it() {
    let server = server().await;
    let client = client(&server).await;
    let semaphore = Semaphore::with_shared_limit(&client, "/a/s", "/b/c/limit").unwrap();
    semaphore.set_limit(2).await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 2);
    // As Curator's `SharedCount` writes it.
    let limit = client.get_data("/b/c/limit").await.unwrap().data;
    assert_eq!(limit.as_deref(), Some(&[0, 0, 0, 2][..]));
}

/// A clean-up used to be refused when there was no capacity for its request, and then forgotten.
#[tokio::test]
async fn nodes_are_deleted_although_there_is_no_capacity_for_requests() {
    let server = server().await;
    let builder = Client::builder(&server.connect_string()).unwrap();
    let client = builder.max_outstanding(4).connect().await.unwrap();
    for is_released in [false, true] {
        let mut guards = Vec::new();
        for number in 0..40 {
            let mutex = Mutex::new(&client, &format!("/m/{number}")).unwrap();
            guards.push(soon(mutex.lock()).await.unwrap());
        }
        if is_released {
            let released = guards.into_iter().map(lockkeeper_recipes::Guard::release);
            for released in futures::future::join_all(released).await {
                released.unwrap();
            }
        } else {
            drop(guards);
        }
        let locks = || {
            (0..40)
                .map(|number| below(&server, &format!("/m/{number}")))
                .sum::<usize>()
        };
        until!(locks() == 0);
    }
}

/// It waited for ever, as the first waiter of the queue, and everybody behind it did, too.
#[tokio::test]
async fn asking_for_more_than_a_shared_limit_is_an_error_and_blocks_nobody() {
    let server = server().await;
    let (one, other) = (client(&server).await, client(&server).await);
    let semaphore = |client: &Client| Semaphore::with_shared_limit(client, "/s", "/limit").unwrap();
    let (mine, others) = (semaphore(&one), semaphore(&other));
    let over = |refused: LockError, numbers| {
        let LockError::OverLimit { asked, limit, .. } = refused else {
            panic!("{refused}");
        };
        assert_eq!((asked, limit), numbers);
    };
    let none = Semaphore::new(&one, "/s", 0);
    over(none.unwrap_err(), (1, 0));
    mine.set_limit(2).await.unwrap();
    let refused = soon(mine.acquire_many(3)).await.unwrap_err();
    over(refused, (3, 2));
    let refused = soon(mine.try_acquire_many(3)).await.unwrap_err();
    over(refused, (3, 2));
    assert_eq!(below(&server, "/s/locks"), 0, "it never queued");

    // The limit is lowered while it waits as the first one.
    let held = soon(others.acquire()).await.unwrap();
    let (mine, one_waits) = (mine.clone(), server.report().watches);
    let waiting = tokio::spawn(async move { mine.acquire_many(2).await });
    until!(server.report().watches > one_waits);
    let behind = soon(others.enqueue()).await.unwrap();
    assert_eq!(behind.position(), 1);
    others.set_limit(1).await.unwrap();
    over(soon(waiting).await.unwrap().unwrap_err(), (2, 1));
    held.release().await.unwrap();
    let next = soon(behind.wait()).await.unwrap();

    // A limit of 0, too.
    next.release().await.unwrap();
    others.set_limit(0).await.unwrap();
    let refused = soon(semaphore(&one).acquire()).await.unwrap_err();
    over(refused, (1, 0));
    others.set_limit(1).await.unwrap();
    drop(soon(others.acquire()).await.unwrap());
}

/// An earlier version waited on for the second lock, and was granted both, although other
/// contenders had held the first one meanwhile.
#[tokio::test]
async fn a_multi_lock_that_waits_is_told_of_the_deletion_of_a_lock_that_it_holds() {
    let server = server().await;
    let (one, other) = (client(&server).await, client(&server).await);
    let locks = ["/a", "/b"].map(|path| Mutex::new(&one, path).unwrap());
    let both = MultiLock::new(locks.each_ref().map(Member::from)).unwrap();
    let held = soon(Mutex::new(&other, "/b").unwrap().lock())
        .await
        .unwrap();
    let waiting = tokio::spawn(async move { both.lock().await });
    until!(below(&server, "/b") == 2);
    let first = inspect(&other, "/a").await.unwrap().remove(0);
    other.delete(&first.path, Version::ANY).await.unwrap();
    let error = soon(waiting).await.unwrap().unwrap_err();
    let lost = (Some(Loss::Deleted), Some("/a"));
    assert_eq!((error.loss(), error.path()), lost);
    until!(below(&server, "/b") == 1);
    held.release().await.unwrap();
}

/// Who has waited watches its node, so its guard and views know of a deletion before the next proof of
/// the lease, which comes seconds later.
#[tokio::test]
async fn a_guard_that_has_waited_is_told_of_a_deletion_at_once() {
    for asks_view in [true, false] {
        let (server, one, other) = server_and_two().await;
        let [first, second] = [&one, &other].map(|of| Mutex::new(of, "/a").unwrap());
        let held = soon(first.lock()).await.unwrap();
        let waiting = tokio::spawn(async move { second.lock().await });
        until!(below(&server, "/a") == 2 && other.metrics().watches > 0);
        held.release().await.unwrap();
        let guard = soon(waiting).await.unwrap().unwrap();
        let view = guard.view();
        assert!(guard.is_valid() && view.is_valid());
        one.delete(&guard.path(), Version::ANY).await.unwrap();
        // The event comes before the reply to a later request.
        other.exists("/").await.unwrap();
        let told = if asks_view {
            view.ensure_valid()
        } else {
            guard.ensure_valid()
        };
        assert_eq!(told.unwrap_err().loss(), Some(Loss::Deleted));
        assert!(!view.is_valid() && !guard.is_valid());
    }
}

/// A server that ends sessions on demand would otherwise break what each session promises, and tests
/// of programs would see two holders that no real server makes.
#[tokio::test]
async fn two_holders_are_never_valid_when_a_test_ends_the_session_of_one() {
    for round in 0..40 {
        let (server, one, other) = server_and_two().await;
        let [first, second] = [&one, &other].map(|of| Mutex::new(of, "/a").unwrap());
        let held = first.lock().await.unwrap();
        let next = tokio::spawn(async move {
            // The contender's own session may end, too.
            let guard = loop {
                match second.lock().await {
                    Ok(guard) => break guard,
                    Err(error) => assert_eq!(error.loss(), Some(Loss::Expired)),
                }
            };
            (guard, held.is_valid())
        });
        until!(below(&server, "/a") == 2);
        if round % 2 == 0 {
            assert!(server.faults().expire(one.snapshot().session_id));
        } else {
            server.advance(Duration::from_secs(60));
        }
        let (guard, was_valid) = soon(next).await.unwrap();
        assert!(!was_valid, "round {round}: {guard:?}");
    }
}

/// The session of the first lock ends while the second one is acquired.
#[tokio::test]
async fn a_multi_lock_is_not_granted_without_its_first_lock() {
    let (server, one, other) = server_and_two().await;
    let locks = [(&one, "/a"), (&other, "/b")].map(|(of, path)| Mutex::new(of, path).unwrap());
    let both = MultiLock::new(locks.each_ref().map(Member::from)).unwrap();
    let sessions = [&one, &other].map(|client| client.snapshot().session_id);
    server.faults().stall_session(sessions[1]);
    let trying = tokio::spawn(async move { both.try_lock().await });
    until!(other.metrics().outstanding() > 0);
    server.faults().expire_early(sessions[0]);
    until_another_session(&one, sessions[0]).await;
    server.faults().resume_session(sessions[1]);
    let error = soon(trying).await.unwrap().unwrap_err();
    let lost = (Some(Loss::Expired), Some("/a"));
    assert_eq!((error.loss(), error.path()), lost);
    until!(below(&server, "/b") == 0);
}

/// A client with capacity for so many requests, and by how many seconds its clock runs ahead. The
/// server's does not: the session lives.
async fn client_ahead(server: &Server, capacity: usize) -> (Client, Arc<AtomicU32>) {
    let (clock, ahead) = clock_ahead();
    let builder = Client::builder(&server.connect_string()).unwrap();
    let builder = builder.session_timeout(2 * LONG).clock(clock);
    let builder = builder.max_outstanding(capacity);
    (builder.connect().await.unwrap(), ahead)
}

/// Reads are answered, and no write proves anything.
fn refuse_proofs(server: &Server, session: SessionId) {
    for nth in 1..1000 {
        let proof = When::op(OpCode::MULTI).of_session(session).nth(nth);
        server.faults().refuse(proof, ErrorCode::THROTTLED_OP);
    }
}

/// A multi-lock of two clients that has the first lock, and waits for a silent server to get the second one. Nothing proves
/// the lease of the first client any more.
async fn first_of_two(
    server: &Server,
    one: &Client,
    other: &Client,
) -> JoinHandle<Result<Option<MultiGuard>, LockError>> {
    let locks = [(one, "/a"), (other, "/b")].map(|(of, path)| Mutex::new(of, path).unwrap());
    let both = MultiLock::new(locks.each_ref().map(Member::from)).unwrap();
    server.faults().stall_session(other.snapshot().session_id);
    let trying = tokio::spawn(async move { both.try_lock().await });
    until!(other.metrics().outstanding() > 0);
    refuse_proofs(server, one.snapshot().session_id);
    trying
}

async fn until_lease_ended(client: &Client, ahead: &AtomicU32) {
    until("the lease has ended", async || {
        ahead.fetch_add(1, Ordering::Relaxed);
        client.exists("/").await.unwrap();
        !client.lease().is_valid
    })
    .await;
}

/// The lease of the first lock ends while the second one is acquired.
#[tokio::test]
async fn a_multi_lock_is_not_granted_after_the_lease_of_its_first_lock() {
    let server = Server::start().await.unwrap();
    let ((one, ahead), other) = (client_ahead(&server, 100).await, client(&server).await);
    let trying = first_of_two(&server, &one, &other).await;
    until_lease_ended(&one, &ahead).await;
    server.faults().resume_session(other.snapshot().session_id);
    let error = soon(trying).await.unwrap().unwrap_err();
    let lost = (Some(Loss::Elapsed), Some("/a"));
    assert_eq!((error.loss(), error.path()), lost);
}

/// Each session of the call counted as an attempt that was given up.
#[tokio::test]
async fn a_call_for_a_plain_lock_is_one_attempt_in_all_its_sessions() {
    let server = Server::start().await.unwrap();
    let (one, ahead) = client_ahead(&server, 100).await;
    let meter = LockMeter::new("plain");
    let plain = PlainMutex::new(&one, "/p").unwrap().with_meter(&meter);
    let session = one.snapshot().session_id;
    one.create_all("/p", "", CreateMode::Persistent)
        .await
        .unwrap();
    refuse_proofs(&server, session);
    server.faults().refuse_handshakes(true);
    server.faults().lose_reply(When::create().within("/p"));
    let locking = tokio::spawn(async move { plain.lock().await });
    until!(below(&server, "/p") == 1 && !one.snapshot().state.is_connected());
    while one.lease().is_valid {
        ahead.fetch_add(1, Ordering::Relaxed);
    }
    server.faults().refuse_handshakes(false);
    // The node is found, and its lease is not proved.
    until!(meter.metrics().renewals == 1);
    server.faults().expire_early(session);
    let guard = soon(locking).await.unwrap().unwrap();
    let now = meter.metrics();
    assert_eq!((now.acquired, now.given_up, now.waiting), (1, 0, 0));
    guard.release().await.unwrap();
}

/// A guard has a quarter of the session timeout left of its lease, and so has each of several clients. Less of the first
/// one was left when the second one was granted.
#[tokio::test]
async fn a_multi_lock_is_granted_with_each_lease_renewed() {
    let server = Server::start().await.unwrap();
    let ((one, ahead), other) = (client_ahead(&server, 100).await, client(&server).await);
    let trying = first_of_two(&server, &one, &other).await;
    let is_short = || {
        let lease = one.lease();
        let left = lease
            .valid_until
            .unwrap()
            .saturating_duration_since(one.now());
        assert!(lease.is_valid);
        left < one.snapshot().session_timeout / 4
    };
    until("the lease is short", async || {
        ahead.fetch_add(1, Ordering::Relaxed);
        one.exists("/").await.unwrap();
        is_short()
    })
    .await;
    server.faults().resume_session(other.snapshot().session_id);
    until!(below(&server, "/b") == 1);
    idle(&other).await;
    assert!(is_short() && !trying.is_finished());
    server.faults().clear();
    let both = soon(trying).await.unwrap().unwrap().unwrap();
    assert!(both.is_valid() && !is_short());
    both.release().await.unwrap();
}

/// The lease of the first lock ends while the second one is waited for, and is renewed.
#[tokio::test]
async fn a_multi_lock_that_waits_outlives_a_lease_that_is_renewed() {
    let server = Server::start().await.unwrap();
    let (one, ahead) = client_ahead(&server, 100).await;
    let other = client(&server).await;
    let session = one.snapshot().session_id;
    let locks = [(&one, "/a"), (&other, "/b")].map(|(of, path)| Mutex::new(of, path).unwrap());
    let both = MultiLock::new(locks.each_ref().map(Member::from)).unwrap();
    let held = soon(locks[1].lock()).await.unwrap();
    let waiting = tokio::spawn(async move { both.lock().await });
    until!(below(&server, "/b") == 2);
    let first = other.get_children("/a").await.unwrap();
    refuse_proofs(&server, session);
    until_lease_ended(&one, &ahead).await;
    // It waits for a moment before it looks, and may look then at the end of a pause only.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished(), "it gives up");
    server.faults().clear();
    until!(one.lease().is_valid);
    held.release().await.unwrap();
    let both = soon(waiting).await.unwrap().unwrap();
    assert!(both.is_valid());
    let path = both.guards()[0].path();
    assert_eq!(path, format!("/a/{}", first[0]), "it has begun again");
    both.release().await.unwrap();
}

/// What asks about a node, or changes it, does so within the session of the node, also if it has
/// waited for capacity. It does not wait for the next session, in which the node of a plain lock
/// belongs to another contender, and which may be long in coming.
#[tokio::test]
async fn requests_about_a_node_end_with_its_session() {
    for way in 0..4 {
        let server = Server::start().await.unwrap();
        let (one, ahead) = client_ahead(&server, 1).await;
        let session = one.snapshot().session_id;
        let writer = RwLock::new(&one, "/rw").unwrap().write().await.unwrap();
        server.faults().refuse_handshakes(true);
        server.faults().cut(session);
        until!(!one.snapshot().state.is_connected());
        let request: Pin<Box<dyn Future<Output = _> + Send>> = match way {
            0 => Box::pin(async move { writer.confirm().await }),
            1 => Box::pin(async move { writer.set_data("late").await }),
            2 => Box::pin(async move { writer.data().await.map(drop) }),
            _ => Box::pin(async move { writer.downgrade().await.map(drop) }),
        };
        let (mut full, mut request) = (pin!(one.exists("/")), pin!(request));
        assert!(poll_once(full.as_mut()).is_none());
        assert!(poll_once(request.as_mut()).is_none(), "{way}");
        let timeout = one.snapshot().session_timeout;
        ahead.fetch_add(
            u32::try_from(2 * timeout.as_secs()).unwrap(),
            Ordering::Relaxed,
        );
        let told = soon(request).await.unwrap_err();
        assert_eq!(told.loss(), Some(Loss::Expired), "{way}");
    }
}

/// The limit is lowered between the count of a try and its permit. An earlier version then waited
/// for a permit.
#[tokio::test]
async fn a_try_never_waits_for_a_permit() {
    let server = server().await;
    let (holder, other) = (client(&server).await, client(&server).await);
    let semaphore = |client: &Client| Semaphore::with_shared_limit(client, "/s", "/limit").unwrap();
    let meter = LockMeter::new("tries");
    let (of_holder, tried) = (semaphore(&holder), semaphore(&other).with_meter(&meter));
    of_holder.set_limit(1).await.unwrap();
    let _permit = of_holder.acquire().await.unwrap();
    let mut refused = 0;
    'steps: for steps in 0.. {
        of_holder.set_limit(2).await.unwrap();
        let mut trying = pin!(tried.try_acquire());
        for _ in 0..steps {
            if poll_once(trying.as_mut()).is_some() {
                break 'steps;
            }
            idle(&other).await;
        }
        of_holder.set_limit(1).await.unwrap();
        let permit = soon(trying).await.unwrap();
        refused += u64::from(permit.is_none());
        drop(permit);
        until!(below(&server, "/s/leases") == 1 && below(&server, "/s/locks") == 0);
    }
    assert_eq!(meter.metrics().refused, refused);
}

/// An earlier version reserved memory for all of them at once, and panicked.
#[tokio::test]
async fn asking_for_any_number_of_permits_does_not_panic() {
    let server = server().await;
    let client = client(&server).await;
    let semaphore = Semaphore::new(&client, "/s", usize::MAX).unwrap();
    let wait = Duration::from_millis(20);
    let late = semaphore.try_acquire_many_for(usize::MAX, wait).await;
    assert!(matches!(late, Err(LockError::TimedOut { .. })), "{late:?}");
    until!(below(&server, "/s/leases") == 0);
}

/// Nothing says whether somebody is ahead. It is no matter of time, so the attempt does not wait.
#[tokio::test]
async fn a_contender_that_may_not_list_the_queue_hears_of_it_and_leaves_no_node() {
    let (server, client, _) = server_and_two().await;
    let mutex = Mutex::new(&client, "/m").unwrap();
    mutex.lock().await.unwrap().release().await.unwrap();
    let list = When::op(OpCode::GET_CHILDREN);
    server.faults().refuse(list, ErrorCode::NO_AUTH);
    let refused = soon(mutex.lock()).await;
    let LockError::Session(error) = refused.unwrap_err() else {
        panic!("the servers have refused it");
    };
    assert_eq!(error.code(), Some(ErrorCode::NO_AUTH));
    until!(below(&server, "/m") == 0);
}
