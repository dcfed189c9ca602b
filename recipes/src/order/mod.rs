//! Who is ahead of whom, from the names of nodes.
//!
//! | file | what |
//! |---|---|
//! | `name` | node names and kinds of lock: written as Curator does, read as every client writes them |
//! | `rank` | who holds what, from one listing |
//! | `listing` | what a listing proves to other contenders of the same client, as a pure value |
//! | `crowd` | what the contenders of one client know together |

pub mod crowd;
pub mod listing;
pub(crate) mod name;
pub mod rank;
