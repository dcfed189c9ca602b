//! Calls on threads of a tokio runtime: errors, no panics, no waits.

use std::{
    thread,
    time::{Duration, Instant},
};

use futures::executor::block_on;
use lockkeeper_blocking::{
    Client, Election, Member, MultiLock, Mutex, PlainMutex, ReentrantMutex, RwLock, Semaphore,
    inspect,
};
use lockkeeper_proto::{AddWatchMode, Version};
use lockkeeper_recipes::{LockError, Loss};
use lockkeeper_session::Error;

use crate::{Ensemble, LONG};

const REFUSED: LockError = LockError::Session(Error::InsideRuntime);

#[test]
fn a_blocking_call_inside_a_runtime_is_an_error() {
    let ensemble = Ensemble::start();
    let client = ensemble.client();
    let mutex = Mutex::new(&client, "/mutex").unwrap();
    let rw = RwLock::new(&client, "/rw").unwrap();
    let all = MultiLock::new([Member::from(&mutex)]).unwrap();
    let (guard, writer) = (mutex.lock().unwrap(), rw.write().unwrap());
    let ticket = mutex.enqueue().unwrap();
    let mut watcher = client.add_watch("/", AddWatchMode::PERSISTENT).unwrap();
    let (_, one_shot) = client.exists_and_watch("/").unwrap();
    let before = ensemble.server.counters();

    ensemble.runtime.block_on(async {
        let again = Client::connect(&ensemble.servers());
        assert_eq!(again.unwrap_err(), Error::InsideRuntime);
        let lazy = Client::builder(&ensemble.servers()).unwrap().connect_lazy();
        assert_eq!(lazy.unwrap_err(), Error::InsideRuntime);
        assert_eq!(client.exists("/"), Err(Error::InsideRuntime));
        let write = client.transaction().delete("/a", Version::ANY);
        assert_eq!(write.commit(), Err(Error::InsideRuntime));
        assert_eq!(
            client.read_transaction().commit(),
            Err(Error::InsideRuntime)
        );
        assert_eq!(mutex.lock().unwrap_err(), REFUSED);
        assert_eq!(mutex.lock_timeout(LONG).unwrap_err(), REFUSED);
        assert_eq!(all.lock().unwrap_err(), REFUSED);
        let plain = PlainMutex::new(&client, "/plain").unwrap();
        assert_eq!(plain.try_lock().unwrap_err(), REFUSED);
        let semaphore = Semaphore::new(&client, "/semaphore", 1).unwrap();
        assert_eq!(semaphore.acquire().unwrap_err(), REFUSED);
        let reentrant = ReentrantMutex::new(&client, "/reentrant").unwrap();
        assert_eq!(reentrant.lock("a").unwrap_err(), REFUSED);
        let election = Election::new(&client, "/election").unwrap();
        assert_eq!(election.lead(|_| ()).unwrap_err(), REFUSED);
        assert_eq!(inspect(&client, "/mutex").unwrap_err(), REFUSED);
        assert_eq!(guard.confirm(), Err(REFUSED));
        assert_eq!(guard.transaction().commit(), Err(REFUSED));
        let mut lost = guard.lost();
        assert_eq!(lost.wait_timeout(LONG), Err(REFUSED));
        assert_eq!(lost.wait(), Err(REFUSED));
        assert_eq!(watcher.next(), Some(Err(Error::InsideRuntime)));
        assert_eq!(watcher.next_timeout(LONG), Err(Error::InsideRuntime));
        assert_eq!(one_shot.wait(), Err(Error::InsideRuntime));
        // What asks no server works.
        assert!(guard.is_valid() && !client.is_closed());
    });
    assert_eq!(ensemble.server.counters(), before, "nothing was sent");
    // `spawn_blocking` cannot be told from the others.
    let blocking = mutex.clone();
    let spawned = ensemble
        .runtime
        .spawn_blocking(move || blocking.try_lock().map(drop));
    assert_eq!(ensemble.runtime.block_on(spawned).unwrap(), Err(REFUSED));

    // What takes a value is given up: the release goes on in the background.
    ensemble.runtime.block_on(async {
        assert_eq!(ticket.wait().unwrap_err(), REFUSED);
        assert_eq!(guard.release(), Err(REFUSED));
        assert_eq!(writer.downgrade().unwrap_err(), REFUSED);
    });
    mutex.lock_timeout(LONG).unwrap().release().unwrap();
    rw.write_timeout(LONG).unwrap().release().unwrap();
}

/// The server does not answer: each drop that waits would take a second.
#[test]
fn a_drop_inside_a_runtime_does_not_wait() {
    let ensemble = Ensemble::start();
    let (client, other) = (ensemble.client(), ensemble.client());
    let semaphore = Semaphore::new(&client, "/semaphore", 30).unwrap();
    let guards = semaphore.acquire_many(30).unwrap();
    ensemble.server.faults().stall();
    let start = Instant::now();
    ensemble
        .runtime
        .block_on(async { drop((guards, semaphore, client)) });
    let waited = start.elapsed();
    assert!(waited < Duration::from_secs(15), "{waited:?}");
    ensemble.server.faults().resume();
    let semaphore = Semaphore::new(&other, "/semaphore", 30).unwrap();
    let guards = semaphore.acquire_many_timeout(30, LONG).unwrap();
    let closing = other.clone();
    ensemble.runtime.block_on(async { closing.close() });
    assert!(other.is_closed() && !guards[0].is_valid());
}

/// An executor without tokio uses the client on the background thread.
#[test]
fn the_async_client_of_a_blocking_one_needs_no_runtime() {
    let ensemble = Ensemble::start();
    let client = ensemble.client();
    let mutex = lockkeeper_recipes::Mutex::new(client.as_async(), "/mutex").unwrap();
    let guard = block_on(mutex.lock()).unwrap();
    assert!(
        Mutex::new(&client, "/mutex")
            .unwrap()
            .try_lock()
            .unwrap()
            .is_none()
    );
    block_on(guard.release()).unwrap();
}

/// The servers are away when the program starts, and come later.
#[test]
fn a_lazy_client_starts_without_a_server() {
    let ensemble = Ensemble::start();
    ensemble
        .runtime
        .block_on(ensemble.server.faults().close_port());
    let builder = Client::builder(&ensemble.servers()).unwrap();
    let client = builder.session_timeout(LONG).connect_lazy().unwrap();
    assert!(!client.snapshot().state.is_connected());
    ensemble
        .runtime
        .block_on(ensemble.server.faults().open_port())
        .unwrap();
    client.sync("/").unwrap();
    assert!(client.snapshot().state.is_connected());
    // The background thread belongs to this client, too: its drop closes the session.
    drop(client);
    assert!(ensemble.server.report().sessions.is_empty());
}

/// A client that runs in the program's runtime serves threads, too.
#[test]
fn an_async_client_is_used_by_threads() {
    let ensemble = Ensemble::start();
    let servers = ensemble.servers();
    let connecting = lockkeeper_session::Client::connect(&servers);
    let client = Client::from(ensemble.runtime.block_on(connecting).unwrap());
    let guard = Mutex::new(&client, "/mutex").unwrap().lock().unwrap();
    let lost = guard.lost();
    thread::scope(|scope| {
        scope.spawn(|| guard.client().sync("/").unwrap());
    });
    drop(guard);
    assert_eq!(lost.wait(), Ok(Loss::Deleted));
    drop(client);
}
