//! What a drop has done when it returns.

use std::{
    thread,
    time::{Duration, Instant},
};

use lockkeeper_blocking::{Member, MultiLock, Mutex, RwLock};

use crate::{Ensemble, LONG};

/// A drop waits for at most a second. A loaded machine takes longer, but not nearly as long as a session timeout.
const BOUNDED: Duration = Duration::from_secs(20);

/// No wait, no retry: the drop has returned, so the server has no node of a lock.
#[test]
fn a_dropped_guard_is_released_when_the_drop_returns() {
    let ensemble = Ensemble::start();
    let client = ensemble.client();
    let (mutex, rw) = (
        Mutex::new(&client, "/mutex").unwrap(),
        RwLock::new(&client, "/rw").unwrap(),
    );
    let is_free = || {
        let paths = ensemble.server.paths();
        !paths.iter().any(|path| path.contains("_c_"))
    };
    let all = MultiLock::new([Member::from(&mutex), Member::write(&rw)]).unwrap();
    for _ in 0..20 {
        let guard = mutex.lock().unwrap();
        assert!(!is_free());
        drop(guard);
        assert!(is_free());
        drop(rw.write().unwrap());
        assert!(is_free());
        drop(all.lock().unwrap());
        assert!(is_free());
    }
    // Also when it is dropped by a panic.
    let panicked = thread::scope(|scope| {
        let holder = scope.spawn(|| {
            let _guard = mutex.lock().unwrap();
            panic!("on purpose");
        });
        holder.join()
    });
    assert!(panicked.is_err() && is_free());
}

/// The next contender waits for the drop, not for the session timeout of a minute.
#[test]
fn a_waiting_thread_gets_the_lock_of_a_dropped_guard() {
    let ensemble = Ensemble::start();
    let (client, other) = (ensemble.client(), ensemble.client());
    let guard = Mutex::new(&client, "/mutex").unwrap().lock().unwrap();
    let ticket = Mutex::new(&other, "/mutex").unwrap().enqueue().unwrap();
    let waiting = thread::spawn(move || ticket.wait().map(|guard| guard.is_valid()));
    let start = Instant::now();
    drop(guard);
    assert_eq!(waiting.join().unwrap(), Ok(true));
    assert!(start.elapsed() < BOUNDED);
}

#[test]
fn a_drop_does_not_wait_for_a_server_that_does_not_answer() {
    let ensemble = Ensemble::start();
    let client = ensemble.client();
    let mutex = Mutex::new(&client, "/mutex").unwrap();
    let guard = mutex.lock().unwrap();
    ensemble.server.faults().stall();
    let start = Instant::now();
    drop(guard);
    assert!(
        start.elapsed() >= Duration::from_secs(1),
        "it gave up early"
    );
    // The client goes on with the release.
    ensemble.server.faults().resume();
    mutex.lock_timeout(LONG).unwrap().release().unwrap();
    ensemble.server.faults().stall();
    drop((mutex, client));
    assert!(start.elapsed() < BOUNDED);
    ensemble.server.faults().resume();
}

/// The session is gone when the last handle was dropped, whatever that handle is: a guard here.
#[test]
fn the_last_handle_closes_the_session() {
    let ensemble = Ensemble::start();
    let sessions = || ensemble.server.report().sessions;
    for _ in 0..20 {
        let client = ensemble.client();
        let session = client.snapshot().session_id;
        let mutex = Mutex::new(&client, "/mutex").unwrap();
        let guard = mutex.lock().unwrap();
        drop((client, mutex));
        assert!(sessions().contains_key(&session) && guard.is_valid());
        drop(guard);
        assert!(!sessions().contains_key(&session));
    }
}

#[test]
fn close_ends_the_session_of_all_clones() {
    let ensemble = Ensemble::start();
    let client = ensemble.client();
    let clone = client.with_deadline(LONG);
    client.close();
    assert!(clone.is_closed() && ensemble.server.report().sessions.is_empty());
    assert!(clone.exists("/").is_err());
}
