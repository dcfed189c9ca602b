//! What the compiler promises: guards may go to any task, and nobody can release one twice.
//!
//! A guard is released by value, so whoever has released it has none; and it cannot be copied, so there was one only. The
//! one exception is the guard of a reentrant mutex, whose clones are counted.

use std::{future::Future, marker::PhantomData};

use lockkeeper::{
    Guard, Latch, LockError, MultiGuard, ReentrantGuard, SemaphoreTicket, Ticket, WriteGuard,
};

/// Answers by method resolution whether a type is `Clone`: the inherent method, which needs it, comes first.
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
        reason = "a method, as the one that it is preferred to"
    )]
    fn is_clone(&self) -> bool {
        true
    }
}

#[test]
fn what_releases_on_drop_cannot_be_copied() {
    assert!(!Probe::<Guard>(PhantomData).is_clone());
    assert!(!Probe::<WriteGuard>(PhantomData).is_clone());
    assert!(!Probe::<MultiGuard>(PhantomData).is_clone());
    assert!(!Probe::<Ticket>(PhantomData).is_clone());
    assert!(!Probe::<Ticket<WriteGuard>>(PhantomData).is_clone());
    assert!(!Probe::<SemaphoreTicket>(PhantomData).is_clone());
    assert!(!Probe::<Latch>(PhantomData).is_clone());
    assert!(Probe::<ReentrantGuard>(PhantomData).is_clone());
}

#[test]
fn a_release_takes_the_guard_away() {
    fn by_value<G, F: Future<Output = Result<(), LockError>> + Send>(_: impl Fn(G) -> F) {}
    by_value(Guard::release);
    by_value(WriteGuard::release);
    by_value(MultiGuard::release);
    by_value(ReentrantGuard::release);
}

#[test]
fn guards_and_tickets_may_go_to_any_task() {
    fn anywhere<T: Send + Sync + 'static>() {}
    anywhere::<Guard>();
    anywhere::<WriteGuard>();
    anywhere::<MultiGuard>();
    anywhere::<ReentrantGuard>();
    anywhere::<Ticket>();
    anywhere::<SemaphoreTicket>();
    anywhere::<Latch>();
}
