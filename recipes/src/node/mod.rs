//! Lock nodes: created once and for certain, deleted for certain.
//!
//! | file | what |
//! |---|---|
//! | `life` | what to do next about a node, as a pure state machine |
//! | `identity` | what identifies a node before its name is known, its directory, and the requests about both |
//! | `look` | the look for nodes whose creates were lost, shared by the attempts of a client |
//! | `task` | sending these requests, and going on without a caller |
//! | `lock_node` | a node with its owner: its watches, and what happens when the owner goes |

pub(crate) mod identity;
pub mod life;
pub(crate) mod lock_node;
mod look;
mod task;
