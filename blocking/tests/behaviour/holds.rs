//! What a guard offers, and the loss of a lock.

use std::{thread, time::Duration};

use lockkeeper_blocking::{Client, Member, MultiLock, Mutex, revoke};
use lockkeeper_proto::{CreateMode, Version};
use lockkeeper_recipes::{LockState, Loss};
use lockkeeper_session::OpResult;

use crate::{Ensemble, LONG, SHORT};

/// The server expires the session of a holder: a thread that waits for the loss is told, and the next one gets the lock.
#[test]
fn a_holder_learns_that_its_session_has_expired() {
    let ensemble = Ensemble::start();
    let (client, other) = (ensemble.client(), ensemble.client());
    let guard = Mutex::new(&client, "/mutex").unwrap().lock().unwrap();
    assert_eq!(guard.state(), LockState::Held);
    let mut lost = guard.lost();
    assert_eq!(lost.wait_timeout(SHORT).unwrap(), None);
    let told = thread::spawn(move || lost.wait());
    ensemble
        .server
        .faults()
        .expire(client.snapshot().session_id);
    // The server may report the end of the node before the end of the session.
    let reason = told.join().unwrap().unwrap();
    assert!(
        matches!(reason, Loss::Expired | Loss::Deleted),
        "{reason:?}"
    );
    assert!(!guard.is_valid() && guard.valid_until().is_none());
    let next = Mutex::new(&other, "/mutex").unwrap().lock_timeout(LONG);
    assert!(next.unwrap().is_valid());
    assert!(guard.confirm().unwrap_err().is_lost());
    assert!(guard.release().unwrap_err().is_lost());
}

/// The lease ends by the client's own clock, while the server does not answer.
#[test]
fn a_holder_is_told_when_its_lease_ends() {
    let ensemble = Ensemble::start();
    let builder = Client::builder(&ensemble.servers()).unwrap();
    let timeout = Duration::from_secs(4);
    let client = builder.session_timeout(timeout).connect().unwrap();
    let guard = Mutex::new(&client, "/mutex").unwrap().lock().unwrap();
    let mut lost = guard.lost();
    ensemble.server.faults().stall();
    assert_eq!(lost.wait_timeout(LONG).unwrap(), Some(Loss::Elapsed));
    // Told once, it goes on telling.
    assert_eq!(lost.wait_timeout(SHORT).unwrap(), Some(Loss::Elapsed));
    assert_eq!(lost.wait().unwrap(), Loss::Elapsed);
    ensemble.server.faults().resume();
}

#[test]
fn a_wait_for_the_loss_ends_with_the_release() {
    let ensemble = Ensemble::start();
    let client = ensemble.client();
    let mutex = Mutex::new(&client, "/mutex").unwrap();
    let guard = mutex.lock().unwrap();
    let lost = guard.lost();
    let told = thread::spawn(move || lost.wait());
    guard.release().unwrap();
    assert_eq!(told.join().unwrap(), Ok(Loss::Deleted));
    let all = MultiLock::new([Member::from(&mutex)]).unwrap();
    let held = all.lock().unwrap();
    let lost = held.lost();
    client.clone().close();
    assert_eq!(lost.wait(), Ok(Loss::Closed));
    assert!(held.valid_until().is_none());
    assert_eq!(held.state(), LockState::Lost(Loss::Closed));
    assert_eq!(held.release().unwrap_err().loss(), Some(Loss::Closed));
}

#[test]
fn a_holder_writes_under_its_lock_and_is_asked_to_release_it() {
    let ensemble = Ensemble::start();
    let (client, other) = (ensemble.client(), ensemble.client());
    client.create("/data", "0", CreateMode::Persistent).unwrap();
    let mutex = Mutex::new(&client, "/mutex").unwrap();
    let guard = mutex.lock().unwrap();
    guard.confirm().unwrap();
    assert!(guard.held_for() < LONG && guard.headroom() > 1_000_000);
    assert_eq!(
        guard.client().snapshot().session_id,
        client.snapshot().session_id
    );
    let written = guard
        .transaction()
        .set_data("/data", "1", Version(0))
        .commit();
    assert!(matches!(written.as_deref(), Ok([OpResult::DataSet(_)])));

    let mut revoked = guard.revoked();
    assert_eq!(revoked.wait_timeout(SHORT).unwrap(), None);
    revoke(&other, &guard.path()).unwrap();
    assert_eq!(revoked.wait_timeout(LONG).unwrap(), Some(()));
    let written = guard.release_with(|all| all.set_data("/data", "2", Version(1)));
    assert_eq!(written.unwrap().len(), 1);
    assert_eq!(other.get_data("/data").unwrap().data.unwrap(), "2");

    let both = MultiLock::new([Member::from(&mutex)]).unwrap();
    let held = both.lock().unwrap();
    held.transaction()
        .check("/data", Version(2))
        .commit()
        .unwrap();
    let written = held.release_with(|all| all.delete("/data", Version(2)));
    assert_eq!(written.unwrap(), [OpResult::Deleted]);

    let guard = mutex.lock().unwrap();
    guard.limit_hold(SHORT);
    assert_eq!(guard.lost().wait(), Ok(Loss::Overdue));
    let late = guard
        .transaction()
        .create("/late", "", CreateMode::Persistent);
    assert_eq!(late.commit().unwrap_err().loss(), Some(Loss::Overdue));
}
