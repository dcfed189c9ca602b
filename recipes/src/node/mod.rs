//! Lock nodes: created once and for certain, deleted for certain.
//!
//! | file | what |
//! |---|---|
//! | `life` | what to do next about a node, as a pure state machine |
//! | `directory` | the settings, client and meter of a lock, and the requests about its directory |
//! | `identity` | what identifies a node before its name is known, and the requests about it |
//! | `scan` | the scan for nodes whose creates were lost, shared by the attempts of a client |
//! | `late` | nodes that appear although a scan has not found them |
//! | `task` | identity and life of a node: what its owner asks of it, sending the requests, and going on without an owner |
//! | `lock_node` | the owner: watches, the lease, and what happens when the owner goes |

pub(crate) mod directory;
pub(crate) mod identity;
pub(crate) mod late;
pub mod life;
pub(crate) mod lock_node;
mod scan;
mod task;

pub(crate) use task::owner::session_loss;
