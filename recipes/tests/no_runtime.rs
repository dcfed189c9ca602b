//! Futures of the recipes on threads that have no runtime. Only the client's own task needs one.
//!
//! Not here: the futures of requests and of watches (`session/tests/client/no_runtime.rs`).

use std::{
    thread,
    time::{Duration, Instant},
};

use futures::{executor::block_on, future::join};
use lockkeeper_recipes::{
    Election, LockError, Loss, MultiLock, Mutex, PlainMutex, ReentrantMutex, RwLock, Semaphore,
    break_lock, inspect, revoke,
};
use lockkeeper_server::Server;
use lockkeeper_session::Client;
use tokio::runtime::Runtime;

const LONG: Duration = Duration::from_secs(3600);
/// Long enough for any step on a busy machine.
const GENEROUS: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(20);

/// A server and a client that have a runtime, for a thread that has none.
fn far_from_a_runtime(test: impl FnOnce(&Client, &Client) + Send) {
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(Server::start()).unwrap();
    let connect = || runtime.block_on(Client::connect(&server.connect_string()));
    let (one, other) = (connect().unwrap(), connect().unwrap());
    thread::scope(|scope| {
        scope.spawn(|| test(&one, &other));
    });
}

fn timed_out<T>(result: Result<T, LockError>) -> bool {
    result.is_err_and(|error| error.is_timeout())
}

#[test]
fn every_lock_is_taken_and_every_wait_ends_at_its_limit() {
    far_from_a_runtime(|one, other| {
        let mutex = |client| Mutex::new(client, "/mutex").unwrap();
        let plain = |client| PlainMutex::new(client, "/plain").unwrap();
        let semaphore = |client| Semaphore::new(client, "/semaphore", 1).unwrap();
        let rw_lock = |client| RwLock::new(client, "/rw").unwrap();
        let reentrant = |client| ReentrantMutex::new(client, "/reentrant").unwrap();
        let multi = |client| {
            let members = [(&mutex(client)).into(), (&plain(client)).into()];
            MultiLock::new(members).unwrap()
        };

        let held = block_on(multi(one).lock_timeout(LONG)).unwrap();
        assert!(timed_out(block_on(mutex(other).lock_timeout(SHORT))));
        assert!(timed_out(block_on(plain(other).lock_timeout(SHORT))));
        assert!(timed_out(block_on(multi(other).lock_timeout(SHORT))));
        block_on(held.release()).unwrap();

        let held = block_on(semaphore(one).acquire_timeout(LONG)).unwrap();
        assert!(timed_out(block_on(semaphore(other).acquire_timeout(SHORT))));
        block_on(held.release()).unwrap();

        let held = block_on(rw_lock(one).write_timeout(LONG)).unwrap();
        assert!(timed_out(block_on(rw_lock(other).read_timeout(SHORT))));
        let read = block_on(held.downgrade()).unwrap();
        let shared = block_on(rw_lock(other).read()).unwrap();
        block_on(shared.release()).unwrap();
        block_on(read.release()).unwrap();

        let first = reentrant(one);
        let held = block_on(first.lock("a")).unwrap();
        assert!(timed_out(block_on(first.lock_timeout("b", SHORT))));
        // The client deletes the node of the abandoned attempt in the background.
        let limit = Instant::now() + GENEROUS;
        while block_on(inspect(other, "/reentrant")).unwrap().len() > 1 {
            assert!(Instant::now() < limit, "the node is still there");
        }
        block_on(held.release()).unwrap();
    });
}

#[test]
fn a_holder_is_told_of_its_limit_and_a_leader_leads() {
    far_from_a_runtime(|one, other| {
        let held = block_on(Mutex::new(one, "/limited").unwrap().lock()).unwrap();
        held.limit_hold(SHORT);
        assert_eq!(block_on(held.lost()), Loss::Overdue);
        let next = Mutex::new(other, "/limited").unwrap();
        drop(block_on(next.lock_timeout(LONG)).unwrap());

        let election = |client| Election::new(client, "/election").unwrap();
        let (elected, led) = (
            async { election(one).lead(async |_| 1).await.unwrap() },
            async { election(other).lead(async |_| 2).await.unwrap() },
        );
        let (first, second) = block_on(join(elected, led));
        assert_eq!((first, second), (1, 2));
    });
}

/// What `every_lock_is_taken_and_every_wait_ends_at_its_limit` leaves out: tries, places in the
/// queue, and lists.
#[test]
fn every_try_every_ticket_and_every_list_ends() {
    far_from_a_runtime(|one, other| {
        let mutex = |client| Mutex::new(client, "/mutex").unwrap();
        let plain = |client| PlainMutex::new(client, "/plain").unwrap();
        let rw_lock = |client| RwLock::new(client, "/rw").unwrap();
        let reentrant = |client| ReentrantMutex::new(client, "/reentrant").unwrap();
        let multi = |client| MultiLock::new([(&mutex(client)).into()]).unwrap();
        let all = async {
            let held = mutex(one).enqueue().await?.wait().await?;
            assert!(mutex(other).try_lock().await?.is_none());
            assert!(multi(other).try_lock().await?.is_none());
            assert_eq!(inspect(other, "/mutex").await?.len(), 1);
            held.release().await?;
            multi(one).lock().await?.release().await?;

            let held = plain(one).lock().await?;
            assert!(plain(other).try_lock().await?.is_none());
            assert_eq!(inspect(other, "/plain").await?.len(), 1);
            held.release().await?;
            assert!(reentrant(one).try_lock("a").await?.is_some());

            let held = rw_lock(one).enqueue_write().await?.wait().await?;
            assert!(rw_lock(other).try_read().await?.is_none());
            assert!(rw_lock(other).try_write().await?.is_none());
            held.release_with(|transaction| transaction).await?;
            let held = rw_lock(one).enqueue_read().await?.wait().await?;
            assert_eq!(inspect(other, "/rw").await?.len(), 1);
            held.release().await?;
            rw_lock(other).write().await?.release().await?;

            let semaphore = Semaphore::with_shared_limit(one, "/semaphore", "/limit").unwrap();
            semaphore.set_limit(2).await?;
            assert_eq!(semaphore.acquire_many(2).await?.len(), 2);
            let held = semaphore.acquire_many_timeout(2, LONG).await?;
            assert_eq!(semaphore.available().await?, 0);
            assert_eq!(inspect(other, "/semaphore").await?.len(), 2);
            assert!(semaphore.try_acquire().await?.is_none());
            assert!(semaphore.try_acquire_many(2).await?.is_none());
            drop(held);
            semaphore.enqueue().await?.wait().await?.release().await?;
            semaphore.acquire().await?.release().await
        };
        block_on(all).unwrap();
    });
}

#[test]
fn every_request_of_a_holder_is_answered_and_every_election_ends() {
    far_from_a_runtime(|one, other| {
        let all = async {
            let held = Mutex::new(one, "/mutex").unwrap().lock().await?;
            held.confirm().await?;
            held.set_data("here").await?;
            assert_eq!(held.data().await?.unwrap(), "here");
            held.transaction().commit().await?;
            let ((), asked) = join(held.revoked(), revoke(other, &held.path())).await;
            asked?;
            let (loss, broken) = join(held.lost(), break_lock(other, &held.path())).await;
            broken?;
            assert_eq!(loss, Loss::Deleted);
            let member = Mutex::new(one, "/mutex").unwrap();
            let held = MultiLock::new([(&member).into()])?
                .lock_timeout(LONG)
                .await?;
            let released = held.lost();
            held.release_with(|transaction| transaction).await?;
            assert_eq!(released.await, Loss::Released);

            let election = |client| Election::new(client, "/election").unwrap();
            let leader = election(one).elect().await?;
            assert_eq!(inspect(other, "/election").await?.len(), 1);
            assert!(timed_out(election(other).elect_timeout(SHORT).await));
            let waiting = election(other);
            assert!(
                waiting
                    .lead_until(async {}, LONG, async |_| ())
                    .await?
                    .is_none()
            );
            let latch = waiting.latch();
            leader.release().await?;
            latch.elected().await
        };
        block_on(all).unwrap();
    });
}

/// The timers of a client end with it: a wait for something else does not go on without its limit.
#[test]
fn a_wait_with_a_limit_ends_with_the_client() {
    far_from_a_runtime(|one, _| {
        let mutex = ReentrantMutex::new(one, "/reentrant").unwrap();
        let held = block_on(mutex.lock("a")).unwrap();
        let start = Instant::now();
        let waits = mutex.lock_timeout("b", LONG);
        let (waited, ()) = block_on(join(waits, one.clone().close()));
        assert!(waited.is_err_and(|error| error.loss() == Some(Loss::Closed)));
        assert!(start.elapsed() < LONG);
        drop(held);
    });
}
