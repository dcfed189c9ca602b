//! The room that a queue keeps when a burst is over.

use std::collections::VecDeque;

/// Frees what a queue does not need now, and would not need for a few elements more.
pub(crate) fn give_back<E>(queue: &mut VecDeque<E>) {
    queue.shrink_to(SPARE.max(queue.len()));
}

/// How many elements a queue keeps room for.
const SPARE: usize = 16;
