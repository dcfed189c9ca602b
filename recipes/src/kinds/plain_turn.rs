//! What a contender for the plain lock does next, as a pure state machine.
//!
//! The plain lock has one node with a fixed name, and no queue. A contender tries to create the
//! node. If another contender has it, it waits until something happens to that node, and tries
//! again.
//!
//! Not here: the node itself (`node`), sending and waiting (`plain`).

#![allow(
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "`tests/model` makes and matches all of it"
)]

use crate::{error::Loss, node::life::Facts};

/// What a contender does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Create the node, under a new identity.
    Create,
    /// Watch the node of the other contender, and wait for an event.
    Wait,
    /// Ask whether our node is there, and wait until the lease is good for a grant.
    Renew,
    /// The lock is ours.
    Grant,
}

/// A contender for the plain lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlainTurn {
    /// The node is to be created.
    #[default]
    Free,
    /// Another contender has the node.
    Taken,
    /// The node is ours.
    Ours,
}

impl PlainTurn {
    /// What to do next. `facts` count only for a node of ours.
    ///
    /// # Errors
    /// The session of our node is over.
    pub fn next(self, facts: &Facts) -> Result<Next, Loss> {
        Ok(match self {
            Self::Free => Next::Create,
            Self::Taken => Next::Wait,
            Self::Ours if facts.may_hold()? => Next::Grant,
            // What the client heard may be long over: the process may have slept.
            Self::Ours => Next::Renew,
        })
    }

    /// The create is answered: the node is ours, or another contender has it.
    pub fn created(&mut self, is_ours: bool) {
        *self = if is_ours { Self::Ours } else { Self::Taken };
    }

    /// Something has happened to the node of the other contender, or nobody can tell any more.
    pub fn event(&mut self) {
        *self = Self::Free;
    }
}
