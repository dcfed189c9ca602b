//! Watches of a client: reads that leave a watch, persistent watches, and the watchers that receive
//! their events.
//!
//! | file | what |
//! |---|---|
//! | `one_shot` | reads that leave a one-shot watch |
//! | `watcher` | the future of the event of a one-shot watch |
//! | `persistent` | persistent watches, and removing watches |
//! | `persistent_watcher` | the stream of the events of a persistent watch |
//! | `group` | one-shot watches of several nodes, and their one queue of events |
//! | `event_queue` | the events that wait for a slow listener |

pub(super) mod event_queue;
pub(super) mod group;
mod one_shot;
mod persistent;
pub(super) mod persistent_watcher;
pub(super) mod watcher;
