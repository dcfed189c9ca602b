//! Lock nodes: created once and for certain, deleted for certain.
//!
//! | file | what |
//! |---|---|
//! | `life` | what to do next about a node, as a pure state machine |
//! | `identity` | what identifies a node before its name is known, its directory, and the requests about both |
//! | `look` | the look for nodes whose creates were lost, shared by the attempts of a client |
//! | `late` | nodes that appear although a look has not found them |
//! | `task` | identity and life of a node: what its owner asks of it, sending the requests, and going on without an owner |
//! | `lock_node` | the owner: watches, the lease, and what happens when the owner goes |

pub(crate) mod identity;
pub(crate) mod late;
pub mod life;
pub(crate) mod lock_node;
mod look;
mod task;

pub(crate) use task::owner::session_loss;
