//! What the compiler guarantees: guards can move to any task, and nobody can release one twice.
//!
//! `release` takes the guard by value, so its caller has no guard left. A guard cannot be cloned,
//! so there is only one. The exception is the guard of a reentrant mutex, whose clones are counted.

use std::{future::Future, marker::PhantomData};

use lockkeeper::{
    Guard, LockError,
    election::Latch,
    locks::{MultiGuard, ReentrantGuard, Ticket, WriteGuard},
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
}
