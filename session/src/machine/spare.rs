//! The capacity that a queue keeps when a burst is over.

use std::collections::VecDeque;

/// Frees what a queue does not need now, and would not need for a few elements more; all of it if the
/// queue is empty.
pub(crate) fn shrink<E>(queue: &mut VecDeque<E>) {
    if queue.is_empty() {
        *queue = VecDeque::new();
    }
    queue.shrink_to(SPARE.max(queue.len()));
}

/// How many elements a queue keeps capacity for.
const SPARE: usize = 16;
