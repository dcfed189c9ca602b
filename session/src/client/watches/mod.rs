//! Watches of a client: reads that leave a watch, persistent watches, and the watchers that receive
//! their events.
//!
//! | file | what |
//! |---|---|
//! | `one_shot` | reads that leave a one-shot watch, and the future of its event |
//! | `persistent` | persistent watches, the stream of their events, and removing watches |
//! | `group` | one-shot watches of several nodes, and their one queue of events |
//! | `event_queue` | the events that wait for a slow listener |

pub(super) mod event_queue;
pub(super) mod group;
pub(super) mod one_shot;
pub(super) mod persistent;
