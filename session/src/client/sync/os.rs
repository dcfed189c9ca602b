//! Locks, atomics and threads: those of the system, or, to explore the orders of their steps, those
//! of `shuttle` (`schedules`).

#[cfg(not(shuttle))]
pub use std::{
    sync::{Mutex, MutexGuard, PoisonError, atomic},
    thread,
};

#[cfg(shuttle)]
pub use shuttle::{
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread,
};
#[cfg(shuttle)]
pub use std::sync::PoisonError;

/// Takes a lock. What this project does under its locks does not panic, and if it did, the others
/// would still need what the lock guards.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
