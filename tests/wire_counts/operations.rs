//! The operations in the table of costs, each called in the way a user would call it.
//!
//! Not here: counting and the table (`costs`).

use std::pin::pin;

use lockkeeper::{
    Client, CreateMode, Election, Mutex, RwLock, Semaphore,
    locks::{Member, MultiLock, PlainMutex, ReentrantMutex},
};

use crate::{
    costs::{Bench, PATH, SEMAPHORE},
    support::waiting::{driven, idle},
};

pub(crate) async fn plain_mutexes(bench: &mut Bench) {
    let (client, other) = (bench.client.clone(), bench.other.clone());
    let mutex = |client: &Client| PlainMutex::new(client, PATH).unwrap();
    let guard = bench
        .measure("`PlainMutex::lock`, free", mutex(&client).lock())
        .await
        .unwrap();
    bench
        .measure("its `release`", guard.release())
        .await
        .unwrap();
    let rival = mutex(&other).lock().await.unwrap();
    let refused = bench
        .measure("`PlainMutex::try_lock`, held", mutex(&client).try_lock())
        .await;
    assert!(refused.unwrap().is_none());
    let lock = mutex(&client);
    let guard = bench
        .measure_waiting(
            [
                "`PlainMutex::lock`, held: until it waits",
                "and when it is released: for each waiter",
            ],
            vec![rival],
            lock.lock(),
        )
        .await
        .unwrap();
    guard.release().await.unwrap();
}

pub(crate) async fn mutexes(bench: &mut Bench) {
    let (client, other) = (bench.client.clone(), bench.other.clone());
    let mutex = |client: &Client| Mutex::new(client, PATH).unwrap();
    let guard = bench
        .measure("`Mutex::lock`, free", mutex(&client).lock())
        .await
        .unwrap();
    bench.measure("`release`", guard.release()).await.unwrap();
    let guard = mutex(&client).lock().await.unwrap();
    let dropped = async { drop(guard) };
    bench
        .measure("a guard dropped; nobody waits", dropped)
        .await;
    let guard = mutex(&client).lock().await.unwrap();
    let writing =
        guard.release_with(|writes| writes.create("/result", "42", CreateMode::Persistent));
    bench
        .measure("`release_with` a write", writing)
        .await
        .unwrap();
    let missing = Mutex::new(&client, "/a/b").unwrap();
    // The first two requests find that the path is missing. Then one request for each level, and
    // the same two again.
    let guard = bench
        .measure("`Mutex::lock`, free, 2 levels missing", missing.lock())
        .await
        .unwrap();
    guard.release().await.unwrap();

    let rival = mutex(&other).lock().await.unwrap();
    let tried = mutex(&client);
    let refused = bench
        .measure("`Mutex::try_lock`, held", tried.try_lock())
        .await;
    assert!(refused.unwrap().is_none());
    let lock = mutex(&client);
    let guard = bench
        .measure_waiting(
            [
                "`Mutex::lock`, held: until it waits",
                "and when it is handed over: until it is held",
            ],
            vec![rival],
            lock.lock(),
        )
        .await
        .unwrap();
    guard.release().await.unwrap();

    let tried = bench
        .measure("`Mutex::try_lock`, free", tried.try_lock())
        .await;
    tried.unwrap().unwrap().release().await.unwrap();
    let rival = mutex(&other).lock().await.unwrap();
    let ticket = lock.enqueue().await.unwrap();
    idle(&client).await;
    let leaving = async { drop(ticket) };
    bench
        .measure("a place in the queue given up", leaving)
        .await;
    rival.release().await.unwrap();
}

/// In a deep queue each waiter lists once more, while its predecessor still holds the lock.
pub(crate) async fn deep_queue(bench: &mut Bench) {
    const AHEAD: usize = 5;
    let (client, other) = (bench.client.clone(), bench.other.clone());
    let ahead = Mutex::new(&other, PATH).unwrap();
    let mut held = vec![ahead.lock().await.unwrap()];
    let mut tickets = Vec::new();
    for _ in 1..AHEAD {
        tickets.push(ahead.enqueue().await.unwrap());
    }
    bench.tally.clear();
    let lock = Mutex::new(&client, PATH).unwrap();
    let mut waiting = pin!(lock.lock());
    assert!(driven(&client, waiting.as_mut()).await.is_none());
    for ticket in tickets {
        held.pop();
        held.push(ticket.wait().await.unwrap());
        assert!(driven(&client, waiting.as_mut()).await.is_none());
    }
    let operation = "`Mutex::lock`, 5 ahead: until the last of them holds";
    bench.note(operation);
    let handed_over = async {
        drop(held);
        waiting.await.unwrap()
    };
    let operation = "and when it is handed over";
    let guard = bench.measure(operation, handed_over).await;
    guard.release().await.unwrap();
}

pub(crate) async fn read_write_locks(bench: &mut Bench) {
    let (client, other) = (bench.client.clone(), bench.other.clone());
    let lock = RwLock::new(&client, PATH).unwrap();
    let rival = RwLock::new(&other, PATH).unwrap();
    let reader = bench
        .measure("`RwLock::read`, free", lock.read())
        .await
        .unwrap();
    reader.release().await.unwrap();
    let writer = bench
        .measure("`RwLock::write`, free", lock.write())
        .await
        .unwrap();
    let reader = bench
        .measure("`WriteGuard::downgrade`", writer.downgrade())
        .await
        .unwrap();
    reader.release().await.unwrap();
    let writer = rival.write().await.unwrap().into_guard();
    let refused = bench
        .measure("`RwLock::try_read`, a writer holds", lock.try_read())
        .await;
    assert!(refused.unwrap().is_none());
    let reader = bench
        .measure_waiting(
            [
                "`RwLock::read`, a writer holds: until it waits",
                "and when it is handed over",
            ],
            vec![writer],
            lock.read(),
        )
        .await
        .unwrap();
    reader.release().await.unwrap();
    let reader = rival.read().await.unwrap();
    let refused = bench
        .measure("`RwLock::try_write`, a reader holds", lock.try_write())
        .await;
    assert!(refused.unwrap().is_none());
    let writer = bench
        .measure_waiting(
            [
                "`RwLock::write`, a reader holds: until it waits",
                "and when it is handed over",
            ],
            vec![reader],
            lock.write(),
        )
        .await
        .unwrap();
    writer.release().await.unwrap();
    // This writer may become a reader, so the end of its node does not prove that nobody is ahead.
    let writer = rival.write().await.unwrap().into_guard();
    let writer = bench
        .measure_waiting(
            [
                "`RwLock::write`, a writer holds: until it waits",
                "and when it is handed over",
            ],
            vec![writer],
            lock.write(),
        )
        .await
        .unwrap();
    writer.release().await.unwrap();
}

pub(crate) async fn semaphores(bench: &mut Bench) {
    let (client, other) = (bench.client.clone(), bench.other.clone());
    let semaphore = Semaphore::new(&client, SEMAPHORE, 1).unwrap();
    let rival = Semaphore::new(&other, SEMAPHORE, 1).unwrap();
    // It looks once whether another kind of lock is used at its path.
    let operation = "`Semaphore::acquire`, free, the first of this `Semaphore`";
    let first = bench.measure(operation, semaphore.acquire()).await;
    first.unwrap().release().await.unwrap();
    // The caller waits for two round trips. A third write gives up the place in the queue.
    let lease = bench
        .measure("`Semaphore::acquire`, free", semaphore.acquire())
        .await
        .unwrap();
    bench
        .measure("its `release`", lease.release())
        .await
        .unwrap();
    let lease = bench
        .measure("`Semaphore::try_acquire`, free", semaphore.try_acquire())
        .await;
    lease.unwrap().unwrap().release().await.unwrap();
    let held = rival.acquire().await.unwrap();
    idle(&other).await;
    let refused = bench
        .measure(
            "`Semaphore::try_acquire`, none free",
            semaphore.try_acquire(),
        )
        .await;
    assert!(refused.unwrap().is_none());
    let lease = bench
        .measure_waiting(
            [
                "`Semaphore::acquire`, none free: until it waits",
                "and when a lease comes back",
            ],
            vec![held],
            semaphore.acquire(),
        )
        .await
        .unwrap();
    lease.release().await.unwrap();
}

/// A node with its parents: one more round trip when parents are missing, however many.
pub(crate) async fn nodes(bench: &mut Bench) {
    let client = bench.client.clone();
    let mode = CreateMode::Persistent;
    let create = client.create_all("/new", "", mode);
    let created = bench.measure("`Client::create_all`, the parent exists", create);
    created.await.unwrap();
    let create = client.create_all("/new/a/b/c", "", mode);
    let created = bench.measure("`Client::create_all`, 2 levels missing", create);
    created.await.unwrap();
}

pub(crate) async fn owners_and_leaders(bench: &mut Bench) {
    let client = bench.client.clone();
    let mutex = ReentrantMutex::new(&client, PATH).unwrap();
    let first = bench
        .measure("`ReentrantMutex::lock`, free", mutex.lock("owner"))
        .await
        .unwrap();
    let again = bench
        .measure("and again by its owner", mutex.lock("owner"))
        .await
        .unwrap();
    bench
        .measure("the inner `release`", again.release())
        .await
        .unwrap();
    bench
        .measure("the outer one", first.release())
        .await
        .unwrap();
    let election = Election::new(&client, PATH).unwrap();
    let latch = election.latch();
    // The leader watches its own node, so it learns when it is deleted.
    bench
        .measure("`Latch::elected`, nobody leads", latch.elected())
        .await
        .unwrap();
    bench
        .measure("a latch dropped", async { drop(latch) })
        .await;
}

pub(crate) async fn several_locks(bench: &mut Bench) {
    let (client, other) = (bench.client.clone(), bench.other.clone());
    let both = |client: &Client| [PATH, "/second"].map(|path| Mutex::new(client, path).unwrap());
    let several = MultiLock::new(both(&client).each_ref().map(Member::from)).unwrap();
    let held = bench
        .measure("`MultiLock::lock` of 2 mutexes, free", several.lock())
        .await
        .unwrap();
    bench
        .measure("its `release`", held.release())
        .await
        .unwrap();
    let held = several.lock().await.unwrap();
    let writing =
        held.release_with(|writes| writes.create("/results", "42", CreateMode::Persistent));
    bench
        .measure("its `release_with` a write", writing)
        .await
        .unwrap();
    let [first, second] = both(&other);
    let guard = first.lock().await.unwrap();
    let refused = bench
        .measure(
            "`MultiLock::try_lock`, the first one held",
            several.try_lock(),
        )
        .await;
    assert!(refused.unwrap().is_none());
    guard.release().await.unwrap();
    let guard = second.lock().await.unwrap();
    let refused = bench
        .measure(
            "`MultiLock::try_lock`, the second one held",
            several.try_lock(),
        )
        .await;
    assert!(refused.unwrap().is_none());
    guard.release().await.unwrap();
}
