//! Detects whether two holders were ever inside one lock at once.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the holders inside a lock. All holders are in one process, so one counter is enough.
#[derive(Debug, Default)]
pub struct Exclusion {
    inside: AtomicU64,
    violations: AtomicU64,
}

impl Exclusion {
    /// Enters and leaves the lock at once, like a holder without work.
    pub fn visit(&self) {
        if self.inside.fetch_add(1, Ordering::SeqCst) != 0 {
            self.violations.fetch_add(1, Ordering::SeqCst);
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    /// How often a holder found another holder inside.
    pub fn violations(&self) -> u64 {
        self.violations.load(Ordering::SeqCst)
    }
}
