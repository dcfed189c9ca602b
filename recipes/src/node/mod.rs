//! Lock nodes: created once and for certain, deleted for certain.
//!
//! | file | what |
//! |---|---|
//! | `life` | what to do next about a node, as a pure state machine |
//! | `identity` | what identifies a node before its name is known, and the requests about it |
//! | `look` | the look for nodes whose creates were lost, shared by the attempts of a client |
//! | `task` | sending these requests, and going on without a caller |
//! | `lock_node` | a node with its owner: its watches, and what happens when the owner goes |
//! | `directory` | the directory of a lock, and requests about it |

pub(crate) mod directory;
pub(crate) mod identity;
pub mod life;
pub(crate) mod lock_node;
mod look;
mod task;
