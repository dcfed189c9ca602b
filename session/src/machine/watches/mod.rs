//! Watches: who listens, what the server has, and what restores it after a reconnect.
//!
//! | file | what |
//! |---|---|
//! | `kind` | the five kinds of watch, and the id of a listener |
//! | `table` | who listens to which path, and who receives an event |
//! | `path_watches` | the watches of one path, and what to ask of the server when a listener goes |
//! | `server_watches` | the persistent watches that the server has for this connection |
//! | `server_requests` | what the machine asks of the server: set these watches, remove those |
//! | `early` | events that wait for the replies to requests that set watches |
//! | `batches` | `setWatches` requests, cut by length |
//! | `restore` | restoring watches on a new connection |

pub(crate) mod batches;
pub(crate) mod early;
pub(crate) mod kind;
pub(crate) mod path_watches;
mod restore;
pub(crate) mod server_requests;
pub(crate) mod server_watches;
pub(crate) mod table;
