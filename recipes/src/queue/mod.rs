//! The queue of a lock: everybody who wants the lock has a node in its directory.
//!
//! | file | what |
//! |---|---|
//! | `lock_queue` | what all kinds of lock share: entering the queue, trying, a place as a ticket |
//! | `waiter` | a contender in a queue: lists, watches and waits |
//! | `turn` | what listings and events mean for a waiter, as a pure state machine |
//! | `view` | what the contenders of one client know together of one queue |
//! | `stall` | long waits: whether the node ahead is still there |
//! | `timeout` | waiting no longer than the caller wants |
//! | `other_kinds` | nodes of another kind of lock in the same directory |

pub(crate) mod lock_queue;
pub(crate) mod other_kinds;
pub(crate) mod stall;
pub(crate) mod timeout;
pub mod turn;
pub mod view;
pub(crate) mod waiter;
