//! Watches: who listens, what the server has, and what restores it after a reconnect.
//!
//! | file | what |
//! |---|---|
//! | `kind` | the five kinds of watch, and the id of a listener |
//! | `table` | who listens to which path, and who receives an event |
//! | `path_watches` | the watches of one path, and what to ask of the server when a listener goes |
//! | `server_watches` | the persistent watches that the server has for this connection |
//! | `batches` | `setWatches` requests, cut by length |
//! | `persistent` | persistent watches in the machine |

pub(super) mod batches;
pub(super) mod kind;
pub(super) mod path_watches;
pub(super) mod persistent;
pub(super) mod server_watches;
pub(super) mod table;
