//! What the first waiter of a semaphore does next, as a pure state machine.
//!
//! Only the first waiter of the queue creates permits and counts them. It holds its place in the
//! queue until it has what it wants. So nobody who waits for several permits is overtaken, or
//! blocked by another waiter that holds some of its own.
//!
//! Not here: creating the permits (`node`), waiting in the queue (`queue`), sending and waiting
//! (`first_waiter`).

#![allow(
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "`tests/model` makes and matches all of it"
)]

use crate::{error::Loss, node::life::Facts, order::rank};

/// What the waiter does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// List the permits, with a watch.
    List,
    /// Read the limit, with a watch if it can change.
    ReadLimit,
    /// Wait for a change of the permits or of the limit, or for the loss of the place in the queue.
    Wait,
    /// Ask whether our permits are there, and wait until the session's lease is good for a grant.
    Renew,
    /// The permits are ours.
    Grant,
}

/// Why a waiter gets no permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Out {
    /// One of its permits was deleted, or the session is over.
    Lost(Loss),
    /// It asks for more permits than the limit. As the first waiter, it would block everybody
    /// behind it.
    OverLimit,
}

/// A waiter that has created its permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PermitTurn {
    /// The permits are to be listed.
    #[default]
    Unknown,
    /// The permits were listed; the limit is to be read. The order matters: permits can only become
    /// fewer meanwhile, since only the first waiter adds some. So there was room when the limit was
    /// this. The other way round, the limit could have been lowered in between.
    Listed {
        /// Whether the listing set a watch.
        is_watched: bool,
    },
    /// There is room.
    Room,
    /// There is no room.
    Full {
        /// Whether the listing set a watch.
        is_watched: bool,
    },
}

impl PermitTurn {
    /// What to do next.
    ///
    /// # Errors
    /// The session of the permits is over.
    pub fn next(&self, facts: &Facts) -> Result<Next, Loss> {
        let may_hold = facts.may_hold()?;
        Ok(match self {
            Self::Room if may_hold => Next::Grant,
            Self::Room => Next::Renew,
            Self::Unknown | Self::Full { is_watched: false } => Next::List,
            Self::Listed { .. } => Next::ReadLimit,
            Self::Full { is_watched: true } => Next::Wait,
        })
    }

    /// The permits were listed.
    pub fn listed(&mut self, is_watched: bool) {
        *self = Self::Listed { is_watched };
    }

    /// The limit was read, after this listing.
    ///
    /// # Errors
    /// One of our permits is not listed: it was deleted. Or the limit is lower than their number.
    pub fn counted<'a>(
        &mut self,
        permits: impl IntoIterator<Item = &'a str> + Clone,
        own: impl IntoIterator<Item = &'a str> + Clone,
        limit: usize,
    ) -> Result<(), Out> {
        let is_listed = |permit: &str| permits.clone().into_iter().any(|child| child == permit);
        let asked = own.clone().into_iter().count();
        if !own.into_iter().all(is_listed) {
            return Err(Out::Lost(Loss::Deleted));
        }
        if asked > limit {
            return Err(Out::OverLimit);
        }
        let is_watched = matches!(self, Self::Listed { is_watched: true });
        *self = if rank::permits(permits) <= limit {
            Self::Room
        } else {
            Self::Full { is_watched }
        };
        Ok(())
    }

    /// The permits or the limit may have changed.
    pub fn changed(&mut self) {
        *self = Self::Unknown;
    }
}
