//! The operations in the table of costs, each called in the way a user would call it.
//!
//! Not here: counting and the table (`costs`).

use std::pin::pin;

use futures::TryFutureExt as _;
use lockkeeper::{
    Client, CreateMode, Election, Mutex, RwLock, Semaphore,
    locks::{Member, MultiLock, PlainMutex, ReentrantMutex, WriteGuard},
};

use crate::{
    costs::{Bench, PATH, SEMAPHORE},
    support::waiting::{driven, idle},
};

pub(crate) async fn plain_mutexes(bench: &mut Bench) {
    let (client, other) = (bench.client.clone(), bench.other.clone());
    let mutex = |client: &Client| PlainMutex::new(client, PATH).unwrap();
    let guard = bench
        .ok("`PlainMutex::lock`, free", mutex(&client).lock())
        .await;
    bench.ok("its `release`", guard.release()).await;
    let rival = mutex(&other).lock().await.unwrap();
    bench
        .refused("`PlainMutex::try_lock`, held", mutex(&client).try_lock())
        .await;
    let lock = mutex(&client);
    bench
        .handed_over(
            "`PlainMutex::lock`, held: until it waits",
            "and when it is released: for each waiter",
            rival,
            lock.lock(),
        )
        .await;
}

pub(crate) async fn mutexes(bench: &mut Bench) {
    let (client, other) = (bench.client.clone(), bench.other.clone());
    let mutex = |client: &Client| Mutex::new(client, PATH).unwrap();
    let guard = bench.ok("`Mutex::lock`, free", mutex(&client).lock()).await;
    bench.ok("`release`", guard.release()).await;
    let guard = mutex(&client).lock().await.unwrap();
    let dropped = async { drop(guard) };
    bench
        .measure("a guard dropped; nobody waits", dropped)
        .await;
    let guard = mutex(&client).lock().await.unwrap();
    let writing =
        guard.release_with(|writes| writes.create("/result", "42", CreateMode::Persistent));
    bench.ok("`release_with` a write", writing).await;
    let missing = Mutex::new(&client, "/a/b").unwrap();
    // The first two requests find that the path is missing. Then one request for each level, and
    // the same two again.
    let guard = bench
        .ok("`Mutex::lock`, free, 2 levels missing", missing.lock())
        .await;
    guard.release().await.unwrap();

    let rival = mutex(&other).lock().await.unwrap();
    let tried = mutex(&client);
    bench
        .refused("`Mutex::try_lock`, held", tried.try_lock())
        .await;
    let lock = mutex(&client);
    bench
        .handed_over(
            "`Mutex::lock`, held: until it waits",
            "and when it is handed over: until it is held",
            rival,
            lock.lock(),
        )
        .await;

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
    let reader = bench.ok("`RwLock::read`, free", lock.read()).await;
    reader.release().await.unwrap();
    let writer = bench.ok("`RwLock::write`, free", lock.write()).await;
    let reader = bench
        .ok("`WriteGuard::downgrade`", writer.downgrade())
        .await;
    reader.release().await.unwrap();
    let writer = rival.write().await.unwrap().into_guard();
    bench
        .refused("`RwLock::try_read`, a writer holds", lock.try_read())
        .await;
    bench
        .handed_over(
            "`RwLock::read`, a writer holds: until it waits",
            "and when it is handed over",
            writer,
            lock.read(),
        )
        .await;
    let reader = rival.read().await.unwrap();
    bench
        .refused("`RwLock::try_write`, a reader holds", lock.try_write())
        .await;
    bench
        .handed_over(
            "`RwLock::write`, a reader holds: until it waits",
            "and when it is handed over",
            reader,
            lock.write().map_ok(WriteGuard::into_guard),
        )
        .await;
    // This writer may become a reader, so the end of its node does not prove that nobody is ahead.
    let writer = rival.write().await.unwrap().into_guard();
    bench
        .handed_over(
            "`RwLock::write`, a writer holds: until it waits",
            "and when it is handed over",
            writer,
            lock.write().map_ok(WriteGuard::into_guard),
        )
        .await;
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
    let permit = bench
        .ok("`Semaphore::acquire`, free", semaphore.acquire())
        .await;
    bench.ok("its `release`", permit.release()).await;
    let permit = bench
        .measure("`Semaphore::try_acquire`, free", semaphore.try_acquire())
        .await;
    permit.unwrap().unwrap().release().await.unwrap();
    let held = rival.acquire().await.unwrap();
    idle(&other).await;
    bench
        .refused(
            "`Semaphore::try_acquire`, none free",
            semaphore.try_acquire(),
        )
        .await;
    bench
        .handed_over(
            "`Semaphore::acquire`, none free: until it waits",
            "and when a permit comes back",
            held,
            semaphore.acquire(),
        )
        .await;
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
        .ok("`ReentrantMutex::lock`, free", mutex.lock("owner"))
        .await;
    let again = bench
        .ok("and again by its owner", mutex.lock("owner"))
        .await;
    bench.ok("the inner `release`", again.release()).await;
    bench.ok("the outer one", first.release()).await;
    let election = Election::new(&client, PATH).unwrap();
    let latch = election.latch();
    // The leader watches its own node, so it learns when it is deleted.
    bench
        .ok("`Latch::elected`, nobody leads", latch.elected())
        .await;
    bench
        .measure("a latch dropped", async { drop(latch) })
        .await;
}

pub(crate) async fn several_locks(bench: &mut Bench) {
    let (client, other) = (bench.client.clone(), bench.other.clone());
    let both = |client: &Client| [PATH, "/second"].map(|path| Mutex::new(client, path).unwrap());
    let several = MultiLock::new(both(&client).each_ref().map(Member::from)).unwrap();
    let held = bench
        .ok("`MultiLock::lock` of 2 mutexes, free", several.lock())
        .await;
    bench.ok("its `release`", held.release()).await;
    let held = several.lock().await.unwrap();
    let writing =
        held.release_with(|writes| writes.create("/results", "42", CreateMode::Persistent));
    bench.ok("its `release_with` a write", writing).await;
    let [first, second] = both(&other);
    let guard = first.lock().await.unwrap();
    bench
        .refused(
            "`MultiLock::try_lock`, the first one held",
            several.try_lock(),
        )
        .await;
    guard.release().await.unwrap();
    let guard = second.lock().await.unwrap();
    bench
        .refused(
            "`MultiLock::try_lock`, the second one held",
            several.try_lock(),
        )
        .await;
    guard.release().await.unwrap();
}
