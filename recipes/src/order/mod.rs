//! Who is ahead of whom, from the names of nodes.
//!
//! | file | what |
//! |---|---|
//! | `name` | node names and kinds of lock: written as Curator does, read as every client writes them |
//! | `rank` | who holds what, from one listing |
//! | `listing` | who may be ahead of whom since the last listing, as a pure value |

pub mod listing;
pub(crate) mod name;
pub mod rank;
