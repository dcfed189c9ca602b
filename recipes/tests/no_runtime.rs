//! Futures of the recipes on threads that have no runtime. Only the client's own task needs one.

use std::{
    thread,
    time::{Duration, Instant},
};

use futures::{executor::block_on, future::join};
use lockkeeper_recipes::{
    Election, LockError, Loss, MultiLock, Mutex, PlainMutex, ReentrantMutex, RwLock, Semaphore,
    inspect,
};
use lockkeeper_server::Server;
use lockkeeper_session::Client;
use tokio::runtime::Runtime;

const LONG: Duration = Duration::from_secs(3600);
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
        assert_eq!(block_on(inspect(other, "/reentrant")).unwrap().len(), 1);
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
        let held = block_on(next.lock_timeout(LONG)).unwrap();
        assert!(held.held_for() < LONG);

        let election = |client| Election::new(client, "/election").unwrap();
        let (elected, led) = (
            async { election(one).lead(async |_| 1).await.unwrap() },
            async { election(other).lead(async |_| 2).await.unwrap() },
        );
        let (first, second) = block_on(join(elected, led));
        assert_eq!((first.output, second.output), (Some(1), Some(2)));
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
