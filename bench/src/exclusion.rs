//! Whether two holders of one lock were ever inside at once.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts those inside. All holders are in one process, so that a counter sees them all.
#[derive(Debug, Default)]
pub struct Exclusion {
    inside: AtomicU64,
    violations: AtomicU64,
}

impl Exclusion {
    /// Goes in and out again, as a holder that has nothing to do.
    pub fn visit(&self) {
        if self.inside.fetch_add(1, Ordering::SeqCst) != 0 {
            self.violations.fetch_add(1, Ordering::SeqCst);
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    /// How often somebody found somebody else inside.
    pub fn violations(&self) -> u64 {
        self.violations.load(Ordering::SeqCst)
    }
}
