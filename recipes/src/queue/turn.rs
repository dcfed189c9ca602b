//! Whose turn it is, as a pure state machine: what a waiter in a queue does with listings and
//! events.
//!
//! A waiter watches the node just ahead of it, the one ahead of that, and its own, all with one
//! request. The second one is watched so that a deep queue is listed while its last holder still
//! holds. When the last listing showed only one node ahead, the deletion of that node *is* the
//! grant, without another request. Why that is sound: while our node exists its directory cannot be
//! deleted, so every later node gets a higher number, and the nodes ahead can only become fewer. It
//! needs all of the following. Without one of them the queue is listed again.
//!
//! - The event is the deletion of that node.
//! - Our own node still exists: its watch, which the server set no later than the other one, has
//!   not fired. Events of one connection come in the order of their transactions, so its event
//!   would have come first. Another task of this client may watch the other node already; so the
//!   client hands over no event before both watches are set.
//! - The connection is the one on which the queue was listed, and so the watches were set on it.
//!   Events that make up for an outage come in any order. When it ends, so does the wait for
//!   watches to be set.
//! - The lease is good for a grant. A process that slept may see an old event after its session has
//!   expired.
//!
//! A contender may use a listing that another contender of the same client has made: when the
//! nearest node was deleted, under the same conditions. What such a listing proves is in `listing`.
//! If the client asked for it on the present connection, it replaces the contender's own. The
//! requests that make up for an outage went before it, and so did the one that set our watch again.
//! Or the contender may wait for another contender of the same client ahead. That needs none of the
//! conditions.
//!
//! Or such a listing shows that only a few may be ahead. Then the contender waits behind these, and
//! lists nothing while the connection is the one of its own listing. When all but the nearest one
//! are gone, which the contender may also learn by a look at each, the deletion of that one is the
//! grant, as after a listing of its own. A node that is gone stays gone, and later nodes have higher
//! numbers. So what a look proves does not depend on when it was made.
//!
//! Not here: who is ahead of whom (`rank`), the node itself (`node`), sending and waiting
//! (`waiter`).

#![allow(
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "`tests/model` makes and matches all of it"
)]

use crate::{
    error::Loss,
    node::life::Facts,
    order::{
        name::{Kind, may_be_ahead},
        rank::{Rank, rank_and_note},
    },
};

/// What a waiter does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// List the queue, and call [`Turn::asked`] when the request is sent.
    List,
    /// Wait for an event.
    Wait,
    /// Ask whether our node is there, and wait until the lease is good for a grant.
    Renew,
    /// The lock is ours.
    Grant,
}

/// Why a waiter has no turn any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Out {
    /// The node or its session is lost.
    Lost(Loss),
    /// The sequence numbers of the directory are used up, or one was given twice.
    Exhausted,
}

/// What a listing of the queue means for a waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<N> {
    /// How many contenders are ahead.
    pub ahead: usize,
    /// The nodes to watch now, all with one request.
    pub missing: Vec<N>,
    /// The nodes that may belong to another kind of lock. The turn comes only if none of them does.
    pub suspects: Vec<N>,
}

/// Where a waiter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Place {
    /// The queue has to be listed.
    Unknown,
    /// Nobody is ahead.
    First,
    /// Somebody is ahead.
    Behind {
        /// Whether the deletion of the nearest node is the grant.
        is_last: bool,
    },
    /// The nearest node was deleted, and others may be ahead.
    Left,
    /// The second node was deleted, and others may be ahead of the nearest one.
    Thinned,
}

/// A waiter's turn in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Turn<N> {
    kind: Kind,
    place: Place,
    /// The connection on which the last listing was asked for.
    connection: u64,
    /// Whether the watch on our own node is set and has not fired.
    is_own_watched: bool,
    /// The node just ahead, while its watch is set and has not fired.
    nearest: Option<N>,
    /// The node ahead of that one, likewise.
    second: Option<N>,
}

impl<N: Clone + AsRef<str>> Turn<N> {
    /// A contender of this kind.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            place: Place::Unknown,
            connection: 0,
            is_own_watched: false,
            nearest: None,
            second: None,
        }
    }

    /// The node just ahead, while its watch is set and has not fired.
    pub fn nearest(&self) -> Option<&N> {
        self.nearest.as_ref()
    }

    /// Whether this is the node just ahead.
    pub fn is_nearest(&self, node: &str) -> bool {
        self.nearest
            .as_ref()
            .is_some_and(|nearest| nearest.as_ref() == node)
    }

    /// A listing is asked for on this connection.
    pub fn asked(&mut self, connection: u64) {
        self.place = Place::Unknown;
        self.connection = connection;
    }

    /// Whether it is this contender's turn, or will be when one other contender leaves. Many
    /// readers are next at a time: they do not count.
    pub fn is_next(&self) -> bool {
        match self.place {
            Place::Unknown | Place::Left | Place::Thinned => false,
            Place::First => true,
            Place::Behind { is_last } => is_last && self.kind != Kind::Read,
        }
    }

    /// The connection on which the last listing was asked for.
    pub fn connection(&self) -> u64 {
        self.connection
    }

    /// Whether the last listing was asked for on this connection.
    pub fn is_on(&self, connection: u64) -> bool {
        self.connection == connection
    }

    /// Changes the names of the nodes ahead. The model counts states that differ only in names
    /// once.
    #[doc(hidden)]
    pub fn rename(&mut self, mut change: impl FnMut(&mut N)) {
        let ahead = [&mut self.nearest, &mut self.second];
        ahead.into_iter().flatten().for_each(&mut change);
    }

    /// Changes the number of the connection, likewise.
    #[doc(hidden)]
    pub fn renumber(&mut self, connection: u64) {
        self.connection = connection;
    }

    /// What to do next. Every event that has arrived must have been handed over.
    ///
    /// # Errors
    /// The session is over.
    pub fn next(&self, facts: &Facts) -> Result<Next, Loss> {
        let may_hold = facts.may_hold()?;
        Ok(match self.place {
            Place::First if may_hold => Next::Grant,
            Place::First => Next::Renew,
            Place::Unknown | Place::Left | Place::Thinned => Next::List,
            Place::Behind { .. } => Next::Wait,
        })
    }

    /// The queue was listed.
    ///
    /// # Errors
    /// Our node is gone, or the numbers are used up.
    pub fn listed<'a>(
        &mut self,
        children: impl IntoIterator<Item = &'a str>,
        own: &N,
    ) -> Result<Listed<N>, Out>
    where
        N: From<&'a str>,
    {
        let mut suspects = Vec::new();
        let note = |child: &'a str, number| {
            if may_be_ahead(child, number) {
                suspects.push(child.into());
            }
        };
        let (ahead, missing) = match rank_and_note(self.kind, children, own.as_ref(), note) {
            Rank::First => {
                self.first();
                (0, Vec::new())
            }
            Rank::Waiting {
                ahead,
                nearest,
                second,
                is_last,
            } => {
                self.place = Place::Behind { is_last };
                let second = second.map(N::from);
                (ahead, self.watch(own, nearest.into(), second))
            }
            Rank::Gone => return Err(Out::Lost(Loss::Deleted)),
            Rank::Exhausted => return Err(Out::Exhausted),
        };
        Ok(Listed {
            ahead,
            missing,
            suspects,
        })
    }

    /// Waits for this node, without a listing: others may be ahead, too. Returns the nodes to watch
    /// now, all with one request.
    pub fn follow(&mut self, own: &N, nearest: N) -> Vec<N> {
        self.place = Place::Behind { is_last: false };
        self.watch(own, nearest, None)
    }

    /// Waits behind these nodes, without a listing: nobody else is ahead. Returns the nodes to watch
    /// now, all with one request. `None` if the queue must be listed. `connection` is the present one,
    /// if there is one.
    pub fn narrow(&mut self, own: &N, ahead: &[N], connection: Option<u64>) -> Option<Vec<N>> {
        let (nearest, others) = ahead.split_last()?;
        let is_present = connection.is_some_and(|now| self.is_on(now));
        let may_narrow = is_present && (self.has_left() || self.has_thinned());
        may_narrow.then(|| {
            let is_last = others.is_empty();
            self.place = Place::Behind { is_last };
            self.watch(own, nearest.clone(), others.last().cloned())
        })
    }

    /// Whether the node ahead of the nearest one was deleted, and others may be ahead.
    pub fn has_thinned(&self) -> bool {
        self.place == Place::Thinned
    }

    /// Whether the node just ahead was deleted, and others may be ahead.
    pub fn has_left(&self) -> bool {
        self.place == Place::Left
    }

    /// Whether a listing that another contender of the same client asked for on the connection
    /// `listed_on` may prove that it is this contender's turn. `connection` is the present one, if
    /// there is one.
    pub fn may_be_first(&self, connection: Option<u64>, listed_on: u64) -> bool {
        let is_present = |now| self.is_on(now) || listed_on == now;
        self.has_left() && connection.is_some_and(is_present)
    }

    /// Nobody is ahead.
    pub fn first(&mut self) {
        self.place = Place::First;
        self.nearest = None;
        self.second = None;
    }

    /// Notes that these nodes are to be watched, and returns those that are not watched yet.
    fn watch(&mut self, own: &N, nearest: N, second: Option<N>) -> Vec<N> {
        let mut missing = Vec::with_capacity(3);
        missing.extend(self.watch_own().then(|| own.clone()));
        for node in [Some(&nearest), second.as_ref()].into_iter().flatten() {
            if !self.watches_ahead(node.as_ref()) {
                missing.push(node.clone());
            }
        }
        self.nearest = Some(nearest);
        self.second = second;
        missing
    }

    /// Notes that our own node is to be watched, if it is not. Returns whether its watch must be
    /// set now.
    pub fn watch_own(&mut self) -> bool {
        !std::mem::replace(&mut self.is_own_watched, true)
    }

    /// Whether the watch on this node is still of use.
    pub fn watches(&self, node: &str, own: &str) -> bool {
        (self.is_own_watched && node == own) || self.watches_ahead(node)
    }

    fn watches_ahead(&self, node: &str) -> bool {
        let mut ahead = [&self.nearest, &self.second].into_iter().flatten();
        ahead.any(|watched| watched.as_ref() == node)
    }

    /// A watch has fired: the node was deleted, or its data were changed. `connection` is the
    /// present one, if there is one. Returns whether our own node must be watched again now.
    ///
    /// # Errors
    /// Our own node was deleted.
    pub fn event(
        &mut self,
        node: &str,
        is_deleted: bool,
        own: &str,
        connection: Option<u64>,
    ) -> Result<bool, Out> {
        if node == own {
            self.is_own_watched = false;
            if is_deleted {
                return Err(Out::Lost(Loss::Deleted));
            }
            // A change of the data means nothing here. But until our node is watched again, nobody
            // reports its deletion. So the watch comes first, and the listing behind it: if a node
            // is still ahead there, its deletion is reported after that of ours.
            self.place = Place::Unknown;
            return Ok(self.watch_own());
        }
        if self.is_nearest(node) {
            self.nearest = None;
            let is_proof = is_deleted && connection.is_some_and(|now| self.is_on(now));
            self.place = match self.place {
                Place::Behind { is_last: true } if is_proof => Place::First,
                Place::Behind { is_last: false } | Place::Thinned if is_deleted => Place::Left,
                _ => Place::Unknown,
            };
        } else if self.watches_ahead(node) {
            self.second = None;
            self.place = match self.place {
                Place::First => Place::First,
                Place::Left if is_deleted => Place::Left,
                Place::Behind { is_last: false } if is_deleted => Place::Thinned,
                _ => Place::Unknown,
            };
        }
        Ok(false)
    }
}
