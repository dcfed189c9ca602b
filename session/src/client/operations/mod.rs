//! The operations of ZooKeeper: one method of the client for each.
//!
//! | file | what |
//! |---|---|
//! | `nodes` | creating, reading, changing and deleting nodes |
//! | `create_all` | creating a node with its parents |
//! | `delete_all` | deleting a node with everything below it |
//! | `children` | children, descendants, the session's ephemeral nodes |
//! | `acl` | access control lists and identities |
//! | `ensemble` | `sync`, the configuration of the ensemble |
//! | `transaction` | several writes, all or none |
//! | `multi_read` | several reads at once |
//! | `reply` | from the reply to a request to the result of its method |

mod acl;
mod children;
mod create_all;
mod delete_all;
mod ensemble;
pub(super) mod multi_read;
mod nodes;
pub(super) mod reply;
pub(super) mod transaction;
