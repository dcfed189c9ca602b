//! Watches: who listens, what the server has, and what restores it after a reconnect.
//!
//! | file | what |
//! |---|---|
//! | `table` | the part: who listens to which path, and who hears of an event |
//! | `watched` | one path: who listens, what the server has, and what to ask of it |
//! | `arrivals` | of one connection: events that wait for the replies to requests that set watches |
//! | `batches` | `setWatches` requests |
//!
//! Servers before 3.9 keep one kind of watch for a path and connection: the last one that was
//! requested. So a path has one class of watches: one-shot, persistent, or recursive. A request for
//! a persistent watch beside another class is refused. A one-shot watch ends persistent ones, since
//! locks wait with it. Watches of other paths do not matter, also recursive ones above.
//!
//! What this part says to others goes through [`Tell`].

mod arrivals;
mod batches;
mod table;
mod watched;

pub(crate) use table::{Ask, PendingWatch, Tell, Watches};
