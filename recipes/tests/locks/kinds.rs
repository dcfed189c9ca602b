//! What each kind of lock promises in addition to the common contract: counting, re-entry, several
//! locks at once.

use std::time::Duration;

use futures::future::FutureExt;
use lockkeeper_proto::{CreateMode, ErrorCode, OpCode, Version};
use lockkeeper_recipes::{
    Election, Guard, LockError, Loss, Member, MultiLock, Mutex, Obstacle, PlainMutex,
    ReentrantMutex, RwLock, Semaphore, inspect,
};
use lockkeeper_server::When;
use lockkeeper_session::{Client, Effect, OpResult};
use tokio::time::Instant;

use crate::support::{
    below, client, server, server_and_two,
    waiting::{LONG, soon, until, until_another_session},
};

/// Once it printed three kilobytes of counters.
#[tokio::test]
async fn a_lock_is_printed_by_its_path() {
    let client = client(&server().await).await;
    let locks = [
        format!("{:?}", Mutex::new(&client, "/m").unwrap()),
        format!("{:?}", RwLock::new(&client, "/m").unwrap()),
        format!("{:?}", ReentrantMutex::new(&client, "/m").unwrap()),
        format!("{:?}", Election::new(&client, "/m").unwrap()),
    ];
    for lock in locks {
        assert!(lock.contains("\"/m\"") && lock.len() < 300, "{lock}");
    }
}

#[tokio::test]
async fn a_permit_whose_listing_was_refused_is_kept() {
    let server = server().await;
    let client = client(&server).await;
    let semaphore = Semaphore::new(&client, "/s", 2).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    let creates = || server.counters().requests_of(OpCode::CREATE2);
    let before = creates();
    let listing = When::op(OpCode::GET_CHILDREN2);
    server.faults().refuse(listing, ErrorCode::THROTTLED_OP);
    let _permit = soon(semaphore.acquire()).await.unwrap();
    assert_eq!((server.faults().pending(), creates() - before), (0, 2));
}

#[tokio::test]
async fn a_downgrade_whose_reply_is_lost_happens_once() {
    let server = server().await;
    let client = client(&server).await;
    let lock = RwLock::new(&client, "/rw").unwrap();
    for lose in [true, false] {
        let writer = lock.write().await.unwrap();
        let when = When::op(OpCode::MULTI);
        if lose {
            server.faults().lose_reply(when);
        } else {
            server.faults().cut_before(when);
        }
        let reader = soon(writer.downgrade()).await.unwrap();
        assert_eq!(below(&server, "/rw"), 1);
        reader.release().await.unwrap();
        assert_eq!(below(&server, "/rw"), 0);
        // If the future is dropped midway, both nodes are deleted.
        let writer = lock.write().await.unwrap();
        assert!(writer.downgrade().now_or_never().is_none());
        until!(below(&server, "/rw") == 0);
    }
}

#[tokio::test]
async fn a_semaphore_grants_at_most_its_limit_and_in_order() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let semaphore = |client: &Client| Semaphore::new(client, "/sem", 3).unwrap();
    let two_permits = semaphore(&one).acquire_many(2).await.unwrap();
    assert_eq!(semaphore(&two).available().await.unwrap(), 1);
    let last = semaphore(&two)
        .try_acquire()
        .await
        .unwrap()
        .expect("a free permit");
    assert!(semaphore(&one).try_acquire().await.unwrap().is_none());
    let error = semaphore(&two)
        .try_acquire_for(Duration::from_millis(50))
        .await
        .unwrap_err();
    assert!(matches!(error, LockError::TimedOut { .. }), "{error:?}");
    until!(below(&server, "/sem/locks") == 0);
    // `pair` wants two permits, and only one is free soon. `single` comes later and waits for its
    // turn, although one permit would be enough for it.
    let (pair, single) = (semaphore(&one), semaphore(&two));
    let pair = tokio::spawn(async move { pair.acquire_many(2).await });
    until!(below(&server, "/sem/locks") == 1);
    let single = tokio::spawn(async move { single.acquire().await });
    until!(below(&server, "/sem/locks") == 2);
    last.release().await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!single.is_finished() && !pair.is_finished());
    drop(two_permits);
    let pair = soon(pair).await.unwrap().unwrap();
    let single = soon(single).await.unwrap().unwrap();
    assert!(single.fencing_token() > pair[1].fencing_token());
    assert_eq!(inspect(&one, "/sem").await.unwrap().len(), 3);
    drop((pair, single));
    until!(below(&server, "/sem/leases") + below(&server, "/sem/locks") == 0);
    let requests = server.counters().all_requests();
    let error = semaphore(&one).acquire_many(4).await.unwrap_err();
    let over = "4 permits requested, but the limit is 3";
    assert_eq!(error.to_string(), over);
    let sent = server.counters().all_requests() - requests;
    assert_eq!(sent, 0, "an attempt over the limit sends nothing");
}

#[tokio::test]
async fn many_tasks_of_one_owner_share_its_hold() {
    let server = server().await;
    let client = client(&server).await;
    let mutex = ReentrantMutex::new(&client, "/re").unwrap();
    let locks = (0..10).map(|_| mutex.lock("job"));
    let mut guards = futures::future::try_join_all(locks).await.unwrap();
    assert_eq!((below(&server, "/re"), guards[0].holds()), (1, 10));
    let last = guards.pop().unwrap();
    drop(guards);
    client.sync("/").await.unwrap();
    assert_eq!((below(&server, "/re"), last.holds()), (1, 1));
    assert!(mutex.try_lock("another").await.unwrap().is_none());
    last.release().await.unwrap();
    assert_eq!(below(&server, "/re"), 0);
}

/// Curator counts a re-entry, and does not look whether the session still lives.
#[tokio::test]
async fn a_lost_lock_is_not_taken_again_by_its_owner() {
    let server = server().await;
    let client = client(&server).await;
    let mutex = ReentrantMutex::new(&client, "/re").unwrap();
    let held = mutex.lock("job").await.unwrap();
    let session = client.snapshot().session_id;
    server.faults().expire_early(session);
    until_another_session(&client, session).await;
    let again = mutex.lock("job").await.unwrap_err();
    assert_eq!(again.loss(), Some(Loss::Expired));
    assert!(mutex.try_lock("job").await.unwrap().is_none());
    drop(held);
    let held = soon(mutex.lock("job")).await.unwrap();
    held.release().await.unwrap();
}

/// Curator tries the other locks first, each with the whole timeout, and only then gives up.
#[tokio::test]
async fn a_lock_that_fails_stops_the_rest_of_a_multi_lock() {
    let server = server().await;
    let client = client(&server).await;
    let locks = ["/a", "/b", "/c"].map(|path| Mutex::new(&client, path).unwrap());
    let all = MultiLock::new(locks.each_ref().map(Member::from)).unwrap();
    all.lock().await.unwrap().release().await.unwrap();
    let refused = When::op(OpCode::CREATE2).within("/b");
    server.faults().refuse(refused, ErrorCode::NO_AUTH);
    let creates = || server.counters().requests_of(OpCode::CREATE2);
    let before = creates();
    let error = soon(all.lock()).await.unwrap_err().to_string();
    assert!(error.starts_with("create2 /b refused"), "{error}");
    assert_eq!(creates() - before, 2, "the third lock is not tried");
    assert_eq!(below(&server, "/a"), 0);
}

#[tokio::test]
async fn a_multi_lock_takes_all_or_none_and_in_one_order() {
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
    // The last lock is held by another client: the attempt releases the first two again.
    let last = Semaphore::new(&two, "/c", 1)
        .unwrap()
        .acquire()
        .await
        .unwrap();
    let error = all.try_lock_for(Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(error, LockError::TimedOut { path, .. } if path == "/c"));
    until!(below(&server, "/a") + below(&server, "/b") == 0);
    drop(last);
    // Two clients name the locks in opposite orders. They do not deadlock.
    let mut reversed = members(&two);
    reversed.reverse();
    let other = MultiLock::new(reversed).unwrap();
    let takes_turns = async |lock: &MultiLock| {
        for _ in 0..20 {
            lock.lock().await.unwrap().release().await.unwrap();
        }
    };
    let both = futures::future::join(takes_turns(&all), takes_turns(&other));
    let ended = tokio::time::timeout(LONG, both).await;
    assert!(ended.is_ok(), "a deadlock");
    let twice = [
        Member::from(&Mutex::new(&one, "/a").unwrap()),
        Member::from(&Mutex::new(&one, "/a").unwrap()),
    ];
    let refused = MultiLock::new(twice).unwrap_err();
    assert!(matches!(refused, LockError::SelfDeadlock { path, .. } if path == "/a"));
}

/// An earlier version granted such a ticket: the queue was empty when it entered. Its node was
/// deleted before it waited, and another client held the lock.
#[tokio::test]
async fn a_ticket_whose_node_was_deleted_before_the_wait_grants_nothing() {
    let server = server().await;
    let (client, other) = (client(&server).await, client(&server).await);
    let mutex = Mutex::new(&client, "/m").unwrap();
    let ticket = mutex.enqueue().await.unwrap();
    assert_eq!(ticket.position(), 0);
    other.delete(&ticket.path(), Version::ANY).await.unwrap();
    let overtaking = Mutex::new(&other, "/m").unwrap().lock().await.unwrap();
    // The event of the deletion arrives before this reply, which shows that the node is gone.
    assert_eq!(client.exists(&ticket.path()).await.unwrap(), None);
    let waited = soon(ticket.wait()).await;
    assert_eq!(waited.unwrap_err().loss(), Some(Loss::Deleted));
    overtaking.release().await.unwrap();
}

/// A program that shows the place of a waiter had to ask again and again.
#[tokio::test]
async fn a_ticket_tells_each_move_ahead_and_keeps_its_place() {
    let server = server().await;
    let (mut ahead, mut clients) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let client = client(&server).await;
        let mutex = Mutex::new(&client, "/m").unwrap();
        ahead.push(soon(mutex.enqueue()).await.unwrap());
        clients.push(client);
    }
    let mut last = ahead.pop().unwrap();
    let mut others = ahead.into_iter();
    let [first, second, third] = [(); 3].map(|()| others.next().unwrap());
    assert_eq!(last.position(), 3);
    for (leaves, left) in [(second, 2), (third, 1)] {
        let early = tokio::time::timeout(Duration::from_millis(100), last.moved());
        assert!(early.await.is_err());
        drop(leaves);
        assert_eq!(soon(last.moved()).await.unwrap(), left);
        assert_eq!(last.position(), left);
    }
    drop(first);
    for _ in 0..2 {
        assert_eq!(soon(last.moved()).await.unwrap(), 0);
    }
    assert_eq!(last.position(), 0);
    let guard = soon(last.wait()).await.unwrap();
    guard.release().await.unwrap();
}

/// Otherwise the one with the higher limit would be a holder too many for the others.
#[tokio::test]
async fn another_limit_is_refused_while_others_hold_permits() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let of = |client: &Client, limit| Semaphore::new(client, "/s", limit).unwrap();
    let (two_of_two, three) = (of(&one, 2), of(&two, 3));
    let held = two_of_two.acquire_many(2).await.unwrap();
    let read = When::op(OpCode::GET_DATA);
    server.faults().refuse(read, ErrorCode::THROTTLED_OP);
    let late = soon(three.acquire()).await.unwrap_err();
    assert_eq!(server.faults().pending(), 0);
    let other = "/s has the limit 2 while others hold permits, not 3";
    assert!(late.to_string().starts_with(other), "{late}");
    until!(below(&server, "/s/locks") + below(&server, "/s/leases") == 2);
    drop(held);
    until!(below(&server, "/s/leases") == 0);
    // The limit of those who come first counts, also when the directory is an older one.
    let three_of_three = soon(three.acquire_many(3)).await.unwrap();
    let late = soon(two_of_two.acquire()).await.unwrap_err();
    assert!(
        matches!(
            late,
            LockError::OtherLimit {
                limit: 2,
                theirs: 3,
                ..
            }
        ),
        "{late}"
    );
    drop(three_of_three);
    // Data that are not ours say nothing, and stay.
    until!(below(&server, "/s/leases") == 0);
    let set = one.set_data("/s/leases", "10.0.0.7", Version::ANY);
    set.await.unwrap();
    let _two = soon(two_of_two.acquire()).await.unwrap();
    let _three = soon(three.acquire()).await.unwrap();
    let data = one.get_data("/s/leases").await.unwrap().data;
    assert_eq!(data.as_deref(), Some(&b"10.0.0.7"[..]));
}

/// Somebody may change the data of the directory all the time.
#[tokio::test]
async fn a_limit_that_cannot_be_written_yet_is_written_after_a_pause() {
    let server = server().await;
    let client = client(&server).await;
    let made = client.create_all("/s/leases", "", CreateMode::Persistent);
    made.await.unwrap();
    for nth in 1..=4 {
        let changed = When::op(OpCode::SET_DATA).nth(nth);
        server.faults().refuse(changed, ErrorCode::BAD_VERSION);
    }
    let begin = Instant::now();
    let semaphore = Semaphore::new(&client, "/s", 2).unwrap();
    let _permit = soon(semaphore.acquire()).await.unwrap();
    assert_eq!(server.counters().requests_of(OpCode::SET_DATA), 5);
    // Four pauses, each twice as long as the last, of which up to half is left out.
    assert!(begin.elapsed() > Duration::from_millis(100));
}

/// Every method that takes a number of permits grants all of them or none.
#[tokio::test]
async fn several_permits_are_granted_together_or_not_at_all() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let semaphore = |client: &Client| Semaphore::new(client, "/s", 3).unwrap();
    let two_of_three = semaphore(&one).try_acquire_many(2).await.unwrap().unwrap();
    assert_eq!(two_of_three.len(), 2);
    assert!(semaphore(&two).try_acquire_many(2).await.unwrap().is_none());
    let wait = Duration::from_millis(50);
    let late = semaphore(&two).try_acquire_many_for(2, wait).await;
    let timed_out = "lock /s not acquired in 50 ms";
    assert_eq!(late.unwrap_err().to_string(), timed_out);
    let refused = semaphore(&two).try_acquire_many(4).await.unwrap_err();
    let never = "4 permits requested, but the limit is 3";
    assert_eq!(refused.to_string(), never);
    assert!(semaphore(&two).acquire_many(0).await.unwrap().is_empty());
    let none = semaphore(&two).try_acquire_many(0).await.unwrap();
    assert!(none.unwrap().is_empty());
    let fixed = semaphore(&two).set_limit(4).await.unwrap_err();
    assert!(matches!(fixed, LockError::FixedLimit { path, .. } if path == "/s"));
    drop(two_of_three);
    let all = semaphore(&two).try_acquire_many_for(3, LONG).await.unwrap();
    assert_eq!(all.len(), 3);
    assert_eq!(semaphore(&one).available().await.unwrap(), 0);
}

/// A transaction under several locks is applied only while all of them are held. `release_with`
/// also releases them in the same transaction.
#[tokio::test]
async fn a_transaction_under_several_locks_checks_each_of_them() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    one.create("/data", "0", CreateMode::Persistent)
        .await
        .unwrap();
    let mutex = Mutex::new(&one, "/a").unwrap();
    let lock = RwLock::new(&one, "/b").unwrap();
    let plain = PlainMutex::new(&one, "/c").unwrap();
    let members = || {
        [
            Member::from(&mutex),
            Member::write(&lock),
            Member::from(&plain),
        ]
    };
    let all = MultiLock::new(members()).unwrap();

    let held = all.lock().await.unwrap();
    let bad = held
        .transaction()
        .set_data("/data", "1", Version::ANY)
        .create("/data", "", CreateMode::Persistent);
    let (address, session) = (server.local_addr(), one.snapshot().session_id);
    let refused = bad.commit().await.unwrap_err();
    let text = format!(
        "transaction refused: operation 1: node exists (-110) ({address}, session {session})"
    );
    assert_eq!(refused.to_string(), text);
    assert_eq!(refused.effect(), Effect::NotApplied);
    let good = held.transaction().set_data("/data", "1", Version::ANY);
    assert_eq!(good.commit().await.unwrap().len(), 1);
    let results = held
        .release_with(|writes| writes.set_data("/data", "2", Version::ANY))
        .await
        .unwrap();
    assert_eq!(results.len(), 1);
    assert_eq!(
        below(&server, "/a") + below(&server, "/b") + below(&server, "/c"),
        0
    );

    for lost in 0..3 {
        let held = all.lock().await.unwrap();
        let node = held.guards()[lost].path();
        two.delete(&node, Version::ANY).await.unwrap();
        let late = held.transaction().set_data("/data", "3", Version::ANY);
        assert_eq!(late.commit().await.unwrap_err().loss(), Some(Loss::Deleted));
        let late = held.release_with(|writes| writes.set_data("/data", "4", Version::ANY));
        assert_eq!(late.await.unwrap_err().loss(), Some(Loss::Deleted));
        assert_eq!(one.get_data("/data").await.unwrap().data.unwrap(), "2");
        until!(below(&server, "/a") + below(&server, "/b") + below(&server, "/c") == 0);
    }

    let other = Mutex::new(&two, "/d").unwrap();
    let mixed = MultiLock::new(members().into_iter().chain([Member::from(&other)])).unwrap();
    let held = mixed.lock().await.unwrap();
    let several = held.transaction().set_data("/data", "5", Version::ANY);
    assert_eq!(several.commit().await, Err(LockError::SeveralSessions));
    let each = held
        .guards()
        .iter()
        .map(|guard| guard.valid_until().unwrap());
    let (first, last) = (each.clone().min().unwrap(), each.max().unwrap());
    assert!(first < last, "the permits of two clients");
    assert_eq!(held.valid_until(), Some(first));
    held.release().await.unwrap();
    let none = MultiLock::new([]).unwrap().lock().await.unwrap();
    assert_eq!(
        none.transaction().commit().await,
        Err(LockError::SeveralSessions)
    );
}

/// When a writer ahead leaves, the queue has to be listed. Until then nobody knows how many are ahead,
/// and 0 would say that it is our turn.
#[tokio::test]
async fn a_ticket_keeps_its_position_until_a_listing_says_another_one() {
    let (server, one, two) = server_and_two().await;
    let lock = |client: &Client| RwLock::new(client, "/rw").unwrap();
    let _holder = lock(&one).write().await.unwrap();
    let ahead = lock(&one).enqueue_write().await.unwrap();
    let mut ticket = lock(&two).enqueue_write().await.unwrap();
    assert_eq!(ticket.position(), 2);
    let listing = When::op(OpCode::GET_CHILDREN).of_session(two.snapshot().session_id);
    server.faults().delay_reply(listing, LONG);
    let listings = || server.counters().requests_of(OpCode::GET_CHILDREN);
    let before = listings();
    drop(ahead);
    let mut moved = Box::pin(ticket.moved());
    until!(moved.as_mut().now_or_never().is_none() && listings() > before);
    drop(moved);
    assert_eq!(ticket.position(), 2);
    server.faults().clear();
    server.faults().cut_all();
    assert_eq!(soon(ticket.moved()).await.unwrap(), 1);
}

/// In an earlier version one of two clients that set the first limit at the same time got a "node
/// exists" error.
#[tokio::test]
async fn several_clients_can_set_the_first_limit_at_the_same_time() {
    let server = server().await;
    let operators = [client(&server).await, client(&server).await];
    let semaphore =
        |client: &Client| Semaphore::with_shared_limit(client, "/sem", "/limit").unwrap();
    let (one, two) = (semaphore(&operators[0]), semaphore(&operators[1]));
    server.faults().delay_all(Duration::from_millis(20));
    let (first, second) = soon(async { tokio::join!(one.set_limit(1), two.set_limit(1)) }).await;
    assert_eq!((first, second), (Ok(()), Ok(())));
    assert_eq!(one.available().await.unwrap(), 1);
}

/// Once, the listing behind the last create was taken although it did not show a permit whose
/// create came after it. The caller was told that a permit was deleted, and that permit stayed
/// until the end of the session.
#[tokio::test]
async fn several_permits_are_taken_although_the_create_of_one_was_throttled() {
    let server = server().await;
    let client = client(&server).await;
    let semaphore = Semaphore::new(&client, "/s", 2).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    let first_permit = When::create().within("/s/leases");
    server
        .faults()
        .refuse(first_permit, ErrorCode::THROTTLED_OP);
    let permits = soon(semaphore.acquire_many(2)).await.unwrap();
    assert_eq!((permits.len(), server.faults().pending()), (2, 0));
    drop(permits);
    soon(semaphore.acquire_many(2)).await.unwrap();
}

/// Clients name one lock differently if they have different chroots.
#[tokio::test]
async fn a_multi_lock_orders_its_locks_by_what_the_servers_call_them() {
    let server = server().await;
    let (plain, at) = (client(&server).await, server.connect_string());
    let inside = Client::connect(&format!("{at}/b")).await.unwrap();
    let of = |client, path| Member::from(&Mutex::new(client, path).unwrap());
    let twice = MultiLock::new([of(&plain, "/b/m"), of(&inside, "/m")]);
    let refused = twice.unwrap_err();
    assert!(matches!(refused, LockError::SelfDeadlock { path, .. } if path == "/b/m"));
    let both = MultiLock::new([of(&inside, "/a"), of(&plain, "/b"), of(&plain, "/a")]);
    let held = both.unwrap().lock().await.unwrap();
    let paths = held.guards().iter().map(Guard::path);
    let order: Vec<_> = paths.map(|path| path[..3].to_owned()).collect();
    assert_eq!(order, ["/a/", "/b/", "/a/"]);
}

/// The obstacle is that of the lock that it waited for, and of its client. A lock below the path of
/// another one does not count.
#[tokio::test]
async fn a_multi_lock_that_is_late_names_what_was_in_its_own_way() {
    let (near, far) = (server().await, server().await);
    let (one, two) = (client(&near).await, client(&far).await);
    let (a, b) = (
        Mutex::new(&one, "/a").unwrap(),
        Mutex::new(&two, "/b").unwrap(),
    );
    let held = Mutex::new(&two, "/b").unwrap().lock().await.unwrap();
    let elsewhere = Mutex::new(&one, "/a/elsewhere").unwrap();
    let create = When::create().within("/a/elsewhere");
    for nth in 1..1000 {
        (near.faults()).refuse(create.clone().nth(nth), ErrorCode::THROTTLED_OP);
    }
    let pending = near.faults().pending();
    let throttled = tokio::spawn(async move { elsewhere.lock().await });
    until!(near.faults().pending() < pending - 1);
    let both = MultiLock::new([Member::from(&a), Member::from(&b)]).unwrap();
    // On a busy machine the first lock may take all the time.
    let late = async || loop {
        match both.try_lock_for(Duration::from_millis(300)).await {
            Err(LockError::TimedOut { path, obstacle, .. }) if path == "/b" => return obstacle,
            Err(LockError::TimedOut { path, .. }) => assert_eq!(path, "/a"),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(soon(late()).await, None);
    far.faults().close_port().await;
    far.faults().cut_all();
    until!(!two.snapshot().state.is_connected());
    let obstacle = soon(late()).await;
    let is_outage = matches!(obstacle.as_deref(), Some(Obstacle::Servers(_)));
    assert!(is_outage, "{obstacle:?}");
    throttled.abort();
    drop(held);
}

/// The paths of the other operations are those of the lock that comes first.
#[tokio::test]
async fn a_transaction_checks_and_releases_locks_of_handles_with_different_roots() {
    let server = server().await;
    let plain = client(&server).await;
    let below_root = |root| plain.with_chroot(root).unwrap();
    let (in_a, in_c) = (below_root("/a"), below_root("/c"));
    let of = |client, path| Member::from(&Mutex::new(client, path).unwrap());
    // In the order of their paths on the server, whose first handle names the nodes of the caller.
    let all = MultiLock::new([of(&in_a, "/m"), of(&plain, "/b"), of(&in_c, "/m")]).unwrap();
    let held = all.lock().await.unwrap();
    let create = |path| {
        let transaction = held.transaction();
        transaction
            .create(path, "", CreateMode::Persistent)
            .commit()
    };
    let created = create("/x").await.unwrap();
    assert!(matches!(&created[..], [OpResult::Created { path, .. }] if path == "/x"));
    assert!(plain.exists("/a/x").await.unwrap().is_some());
    let release = held.release_with(|writes| writes.delete("/x", Version::ANY));
    assert_eq!(release.await.unwrap().len(), 1);
    assert_eq!(plain.exists("/a/x").await.unwrap(), None);
    for lock in ["/a/m", "/b", "/c/m"] {
        assert_eq!(below(&server, lock), 0, "{lock}");
    }
    let held = all.lock().await.unwrap();
    let node = held.guards()[2].path();
    in_c.delete(&node, Version::ANY).await.unwrap();
    let late = held.transaction().create("/y", "", CreateMode::Persistent);
    assert_eq!(late.commit().await.unwrap_err().loss(), Some(Loss::Deleted));
}
