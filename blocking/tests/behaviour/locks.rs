//! Each kind of lock: acquisition, tries, timeouts, contention of threads.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use lockkeeper_blocking::{
    Client, Election, Guard, Latch, Member, MultiGuard, MultiLock, Mutex, PersistentWatcher,
    PlainMutex, ReadTransaction, ReentrantGuard, ReentrantMutex, RwLock, Semaphore, Ticket,
    Transaction, Watcher, WriteGuard, break_lock, inspect,
};
use lockkeeper_recipes::{LockError, LockMeter, Loss};

use crate::{Ensemble, LONG, SHORT};

fn timed_out<T>(result: Result<T, LockError>) -> bool {
    result.is_err_and(|error| error.is_timeout())
}

/// Any thread may use them at the same time.
const _: () = {
    const fn shared<T: Send + Sync + 'static>() {}
    shared::<(Client, Mutex, PlainMutex, RwLock)>();
    shared::<(Semaphore, ReentrantMutex, MultiLock, Election, Latch)>();
    shared::<(Guard, WriteGuard, ReentrantGuard, MultiGuard, Ticket)>();
    shared::<(Watcher, PersistentWatcher, Transaction, ReadTransaction)>();
};

/// Threads of one client, and threads of several.
#[test]
fn many_threads_never_hold_a_mutex_together() {
    const THREADS: u32 = 8;
    const ROUNDS: u32 = 10;
    let ensemble = Ensemble::start();
    let shared = ensemble.client();
    let (holders, rounds) = (AtomicU32::new(0), AtomicU32::new(0));
    let contend = |client: &Client| {
        let mutex = Mutex::new(client, "/mutex").unwrap();
        let mut last = None;
        for _ in 0..ROUNDS {
            let guard = mutex.lock().unwrap();
            assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
            assert!(guard.is_valid() && last < Some(guard.fencing_token()));
            last = Some(guard.fencing_token());
            // Not atomic: an increment is lost if two threads are here.
            let before = rounds.load(Ordering::SeqCst);
            thread::yield_now();
            rounds.store(before + 1, Ordering::SeqCst);
            holders.fetch_sub(1, Ordering::SeqCst);
            if before % 2 == 0 {
                guard.release().unwrap();
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..THREADS / 2 {
            scope.spawn(|| contend(&shared));
            scope.spawn(|| contend(&ensemble.client()));
        }
    });
    assert_eq!(rounds.load(Ordering::SeqCst), THREADS * ROUNDS);
    let mutex = Mutex::new(&shared, "/mutex").unwrap();
    assert!(mutex.participants().unwrap().is_empty());
}

#[test]
fn a_mutex_has_tries_timeouts_and_tickets() {
    let ensemble = Ensemble::start();
    let (one, other) = (ensemble.client(), ensemble.client());
    let mutex = Mutex::new(&one, "/mutex").unwrap().with_data("one");
    let waiting = Mutex::new(&other, "/mutex").unwrap();
    assert_eq!((mutex.path(), mutex.metrics().acquired), ("/mutex", 0));

    let held = mutex.try_lock().unwrap().expect("it is free");
    assert!(waiting.try_lock().unwrap().is_none());
    assert!(timed_out(waiting.lock_timeout(SHORT)));
    let ticket = waiting.enqueue().unwrap();
    assert_eq!(ticket.position(), 1);
    let queue = inspect(&one, "/mutex").unwrap();
    assert!(queue.len() == 2 && queue[0].holds);
    assert_eq!(queue[0].participant.data.as_deref(), Some(&b"one"[..]));
    held.release().unwrap();
    let held = ticket.wait().unwrap();
    break_lock(&one, &held.path()).unwrap();
    assert_eq!(held.release().unwrap_err().loss(), Some(Loss::Deleted));
    // A ticket that is dropped leaves the queue.
    let held = mutex.lock_timeout(LONG).unwrap();
    drop(waiting.enqueue().unwrap());
    let last = waiting.enqueue().unwrap();
    held.release().unwrap();
    last.wait().unwrap().release().unwrap();
}

#[test]
fn a_plain_mutex_and_a_reentrant_one() {
    let ensemble = Ensemble::start();
    let (one, other) = (ensemble.client(), ensemble.client());
    let plain = PlainMutex::new(&one, "/plain").unwrap().with_data("me");
    let held = plain.lock().unwrap();
    let waiting = PlainMutex::new(&other, "/plain").unwrap();
    assert!(waiting.try_lock().unwrap().is_none());
    assert!(timed_out(waiting.lock_timeout(SHORT)));
    let holder = waiting.holder().unwrap().expect("a holder");
    assert_eq!(holder.data.as_deref(), Some(&b"me"[..]));
    held.release().unwrap();
    waiting.lock().unwrap().release().unwrap();

    let reentrant = ReentrantMutex::new(&one, "/reentrant").unwrap();
    let first = reentrant.lock("a").unwrap();
    let second = reentrant.try_lock("a").unwrap().expect("its owner has it");
    let third = second.clone();
    assert_eq!(third.holds(), 3);
    assert!(timed_out(reentrant.lock_timeout("b", SHORT)));
    first.release().unwrap();
    drop(second);
    assert!(reentrant.try_lock("b").unwrap().is_none());
    // The last guard: its drop waits for the release.
    drop(third);
    assert!(reentrant.try_lock("b").unwrap().is_some());
    assert_eq!(reentrant.mutex().path(), "/reentrant");
}

#[test]
fn a_read_write_lock_is_shared_and_downgraded() {
    let ensemble = Ensemble::start();
    let (one, other) = (ensemble.client(), ensemble.client());
    let (lock, second) = (
        RwLock::new(&one, "/rw").unwrap(),
        RwLock::new(&other, "/rw").unwrap(),
    );
    let readers = (lock.read().unwrap(), second.try_read().unwrap().unwrap());
    assert!(second.try_write().unwrap().is_none());
    assert!(timed_out(second.write_timeout(SHORT)));
    readers.0.release().unwrap();
    readers.1.release().unwrap();
    let ticket = second.enqueue_write().unwrap();
    let writer = ticket.wait().unwrap();
    assert!(lock.try_read().unwrap().is_none());
    assert!(timed_out(lock.read_timeout(SHORT)));
    let token = writer.fencing_token();
    let reader = writer.downgrade().unwrap();
    assert_eq!(reader.fencing_token(), token);
    let both = lock.enqueue_read().unwrap().wait().unwrap();
    assert_eq!(lock.participants().unwrap().len(), 2);
    drop((reader, both));
    let writer = lock.write().unwrap();
    writer.into_guard().release().unwrap();
}

#[test]
fn a_semaphore_has_leases_and_a_limit() {
    let ensemble = Ensemble::start();
    let (one, other) = (ensemble.client(), ensemble.client());
    let semaphore = Semaphore::with_shared_limit(&one, "/semaphore", "/limit").unwrap();
    semaphore.set_limit(2).unwrap();
    let waiting = Semaphore::with_shared_limit(&other, "/semaphore", "/limit").unwrap();
    let leases = semaphore.acquire_many(2).unwrap();
    assert_eq!(semaphore.holders().unwrap().len(), 2);
    assert_eq!(semaphore.available().unwrap(), 0);
    assert!(waiting.try_acquire().unwrap().is_none());
    assert!(timed_out(waiting.acquire_timeout(SHORT)));
    assert!(timed_out(waiting.acquire_many_timeout(2, SHORT)));
    let ticket = waiting.enqueue().unwrap();
    assert_eq!(
        (ticket.position(), waiting.waiters().unwrap().len()),
        (0, 1)
    );
    drop(leases);
    let lease = ticket.wait().unwrap();
    assert_eq!(semaphore.available().unwrap(), 1);
    assert!(semaphore.try_acquire_many(2).unwrap().is_none());
    lease.release().unwrap();
    let fixed = Semaphore::new(&one, "/fixed", 1).unwrap().with_data("me");
    assert!(matches!(
        fixed.set_limit(2),
        Err(LockError::FixedLimit { .. })
    ));
    fixed.acquire().unwrap().release().unwrap();
}

#[test]
fn a_multi_lock_takes_all_or_none_also_of_two_clients() {
    let ensemble = Ensemble::start();
    let (one, other) = (ensemble.client(), ensemble.client());
    let (mutex, plain) = (
        Mutex::new(&one, "/a").unwrap(),
        PlainMutex::new(&other, "/b").unwrap(),
    );
    let (rw, semaphore) = (
        RwLock::new(&one, "/c").unwrap(),
        Semaphore::new(&one, "/d", 1).unwrap(),
    );
    let members: [Member; 4] = [
        (&mutex).into(),
        (&plain).into(),
        Member::write(&rw),
        (&semaphore).into(),
    ];
    let all = MultiLock::new(members).unwrap();
    let held = all.lock().unwrap();
    assert!(held.is_valid() && held.guards().len() == 4);
    assert!(mutex.try_lock().unwrap().is_none() && rw.try_read().unwrap().is_none());
    held.release().unwrap();
    let reading = rw.read().unwrap();
    assert!(all.try_lock().unwrap().is_none());
    assert!(timed_out(all.lock_timeout(SHORT)));
    assert!(
        mutex.try_lock().unwrap().is_some(),
        "it gave back the first"
    );
    drop(reading);
    // Dropped: all are free at once.
    drop(all.lock_timeout(LONG).unwrap());
    let free = MultiLock::new([Member::read(&rw), (&mutex).into()]).unwrap();
    assert!(free.try_lock().unwrap().is_some());
    let twice = MultiLock::new([Member::read(&rw), Member::write(&rw)]);
    assert!(matches!(twice, Err(LockError::SelfDeadlock { .. })));
}

#[test]
fn an_election_has_one_leader() {
    let ensemble = Ensemble::start();
    let (one, other) = (ensemble.client(), ensemble.client());
    let election = Election::new(&one, "/election").unwrap().with_id("one");
    let rival = Election::new(&other, "/election").unwrap();
    let led = election.lead(|guard| {
        assert_eq!(rival.participants().unwrap().len(), 1);
        assert!(timed_out(rival.elect_timeout(SHORT)));
        guard.fencing_token()
    });
    let led = led.unwrap();
    assert_eq!(led.loss, None);
    let lost = election.lead(|guard| break_lock(&other, &guard.path()).unwrap());
    assert_eq!(lost.unwrap().loss, Some(Loss::Deleted));

    let latch = rival.latch();
    let token = latch.elected().unwrap();
    assert!(token > led.output && latch.is_leader() && latch.token() == Some(token));
    let waiting = election.latch();
    assert_eq!(waiting.elected_timeout(SHORT).unwrap(), None);
    drop(latch);
    assert!(waiting.elected_timeout(LONG).unwrap() > Some(token));
    drop(waiting);
    election.elect().unwrap().release().unwrap();
}

#[test]
fn a_meter_counts_for_each_kind_of_lock() {
    let ensemble = Ensemble::start();
    let client = ensemble.client();
    let meter = LockMeter::new("all");
    let mutex = Mutex::new(&client, "/mutex").unwrap();
    let plain = PlainMutex::new(&client, "/plain").unwrap();
    let shared = RwLock::new(&client, "/rw").unwrap();
    let limit = Semaphore::new(&client, "/semaphore", 2).unwrap();
    let own = ReentrantMutex::new(&client, "/own").unwrap();
    let election = Election::new(&client, "/election").unwrap();
    let guards = [
        mutex.with_meter(&meter).lock().unwrap(),
        plain.with_meter(&meter).lock().unwrap(),
        shared.with_meter(&meter).read().unwrap(),
        limit.with_meter(&meter).acquire().unwrap(),
        election.with_meter(&meter).elect().unwrap(),
    ];
    let reentrant = own.with_meter(&meter).lock("a").unwrap();
    assert_eq!(meter.metrics().held, 6);
    drop((guards, reentrant));
    assert_eq!(meter.metrics().hold.count(), 6);
}
