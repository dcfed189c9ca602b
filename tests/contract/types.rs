//! What the compiler guarantees: guards can move to any task, and nobody can release one twice.
//!
//! `release` takes the guard by value, so its caller has no guard left. A guard cannot be cloned,
//! so there is only one. The exception is the guard of a reentrant mutex, whose clones are counted.

use std::{future::Future, marker::PhantomData, rc::Rc, time::Duration};

use lockkeeper::{
    Client, Election, Guard, LockError, Mutex, RwLock, Semaphore,
    election::Latch,
    locks::{
        GuardView, MultiGuard, MultiLock, PlainMutex, ReentrantGuard, ReentrantMutex, Ticket,
        WriteGuard,
    },
};

/// Tells by method resolution whether a type is `Clone`: the inherent method needs `Clone` and goes
/// before the trait's.
struct Probe<T>(PhantomData<T>);

trait Otherwise {
    fn is_clone(&self) -> bool {
        false
    }
}

impl<T> Otherwise for Probe<T> {}

impl<T: Clone> Probe<T> {
    #[allow(
        clippy::unused_self,
        reason = "a method like that of `Otherwise`, which it is preferred to"
    )]
    fn is_clone(&self) -> bool {
        true
    }
}

#[test]
fn types_that_release_on_drop_cannot_be_cloned() {
    assert!(!Probe::<Guard>(PhantomData).is_clone());
    assert!(!Probe::<WriteGuard>(PhantomData).is_clone());
    assert!(!Probe::<MultiGuard>(PhantomData).is_clone());
    assert!(!Probe::<Ticket>(PhantomData).is_clone());
    assert!(!Probe::<Ticket<WriteGuard>>(PhantomData).is_clone());
    assert!(!Probe::<Latch>(PhantomData).is_clone());
    assert!(Probe::<ReentrantGuard>(PhantomData).is_clone());
}

#[test]
fn a_release_consumes_the_guard() {
    fn by_value<G, F: Future<Output = Result<(), LockError>> + Send>(_: impl Fn(G) -> F) {}
    by_value(Guard::release);
    by_value(WriteGuard::release);
    by_value(MultiGuard::release);
    by_value(ReentrantGuard::release);
}

#[test]
fn guards_and_tickets_can_move_to_any_task() {
    fn anywhere<T: Send + Sync + 'static>() {}
    anywhere::<Guard>();
    anywhere::<WriteGuard>();
    anywhere::<MultiGuard>();
    anywhere::<ReentrantGuard>();
    anywhere::<Ticket>();
    anywhere::<Latch>();
    anywhere::<GuardView>();
}

/// Compiled, and never called: these futures can be spawned. What the work returns may be held
/// across an await; what the shutdown returns, here a value that is not `Send`, must not be.
#[allow(dead_code, reason = "the compiler checks it")]
fn futures_can_move_to_any_task(
    client: &Client,
    guard: &Guard,
    ticket: Ticket,
    (mutex, rw_lock, semaphore): (&Mutex, &RwLock, &Semaphore),
    (plain, reentrant, multi): (&PlainMutex, &ReentrantMutex, &MultiLock),
    election: &Election,
) {
    fn spawned<F: Future + Send>(_: F) {}
    let wait = Duration::ZERO;
    spawned(client.ensure_path("/a"));
    spawned(client.delete_all("/a"));
    spawned(mutex.lock());
    spawned(mutex.try_lock());
    spawned(mutex.with(async |_: &Guard| ()));
    spawned(rw_lock.read());
    spawned(rw_lock.write());
    spawned(semaphore.acquire());
    spawned(plain.lock());
    spawned(reentrant.lock("owner"));
    spawned(multi.lock());
    spawned(ticket.wait());
    spawned(guard.confirm());
    spawned(guard.lost());
    spawned(guard.during(async {}));
    spawned(guard.view().lost());
    spawned(election.elect());
    spawned(election.lead(async |_: &Guard| ()));
    spawned(election.lead_until(async { Rc::new(()) }, wait, async |_: &Guard| ()));
}
