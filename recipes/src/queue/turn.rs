//! Whose turn it is, as a pure state machine: what a waiter in a queue does with listings and
//! events.
//!
//! A waiter watches the node just ahead of it, the one ahead of that, and its own, all with one
//! request. The second one is watched so that a deep queue is listed while its last holder still
//! holds. When everybody ahead in a listing is known to be gone, it is the waiter's turn, without
//! another request. Why that is sound: while our node exists its directory cannot be deleted, so
//! every later node gets a higher number, and the nodes ahead can only become fewer. So it does not
//! matter who has learned that one of them is gone, how, or on which connection.
//!
//! Two things are needed beside it:
//!
//! - Our own node still exists: its watch has not fired, and the server set it no later than that on
//!   a node ahead whose deletion was told on the same connection. Events of one connection come in
//!   the order of their transactions, so its event would have come first. Another task of this
//!   client may watch the other node already; so the client hands over no event before both watches
//!   are set. When the connection ends, the servers are asked for our node: events that make up for
//!   an outage come in any order, and the wait for watches to be set is over.
//! - The lease is good for a grant. A process that slept may see an old event after its session has
//!   expired.
//!
//! When a node ahead is gone and others may be ahead, these may have left as well. The waiter looks
//! at each of them if they are few, and lists the queue else. It never waits for the end of a node
//! that it does not watch.
//!
//! Not here: who is ahead of whom (`rank`), what a listing shows (`listing`), the node itself
//! (`node`), sending and waiting (`waiter`).

#![allow(
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "`tests/model` makes and matches all of it"
)]

use crate::{
    error::Loss,
    node::life::Facts,
    order::{
        listing::{Ahead, Listing},
        name::{Kind, may_be_ahead},
        rank::{Rank, rank_and_note},
    },
};

/// What a waiter does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<N> {
    /// List the queue, and hand the listing to [`Turn::listed`].
    List,
    /// Ask for each of these nodes whether it is there. When the servers have said it of all, call
    /// [`Turn::looked`]; else [`Turn::forget`].
    Look(Vec<N>),
    /// Watch these nodes, if any, all with one request, and no longer those that [`Turn::watches`]
    /// does not name.
    Watch(Vec<N>),
    /// Wait for an event.
    Wait,
    /// Ask whether our node is there, and wait until the lease is good for a grant. Then call
    /// [`Turn::confirmed`].
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
#[derive(Clone, Debug)]
pub struct Listed<N> {
    /// How many contenders are ahead.
    pub ahead: usize,
    /// The waiter, and the last ones of those for which it waits. Empty if there are none.
    pub near: Listing<N>,
    /// The nodes that may belong to another kind of lock. The turn comes only if none of them does.
    pub suspects: Vec<N>,
    /// Whether there are such nodes behind the waiter. It does not look at them, so that the listing
    /// proves nothing to who is behind it.
    pub is_mixed: bool,
}

/// Where a waiter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Standing {
    /// The queue has to be listed, whatever is known of it.
    Unknown,
    /// Behind whom the newest listing tells.
    Waiting,
    /// Nobody is ahead.
    First,
}

/// A waiter's turn in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Turn<N> {
    kind: Kind,
    standing: Standing,
    /// Whether our own node is watched. When the watch fires, it is set again at once.
    is_own_watched: bool,
    /// The connection on which that watch was first asked for, before any other one; 0 if it was not,
    /// or without a connection.
    watched_on: u64,
    /// The node just ahead, while its watch is set and has not fired.
    nearest: Option<N>,
    /// The node ahead of that one, likewise.
    second: Option<N>,
    /// Whether a node ahead has left, so that others may have left, too.
    may_have_left: bool,
}

impl<N: Clone + AsRef<str>> Turn<N> {
    /// A contender of this kind.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            standing: Standing::Waiting,
            is_own_watched: false,
            watched_on: 0,
            nearest: None,
            second: None,
            may_have_left: false,
        }
    }

    /// The node just ahead, if it is watched.
    pub fn nearest(&self) -> Option<&N> {
        self.nearest.as_ref()
    }

    /// Whether the queue has to be listed, whatever is known of it.
    pub fn is_unknown(&self) -> bool {
        self.standing == Standing::Unknown
    }

    /// Whether it is this contender's turn, or will be when one other contender leaves. Many
    /// readers are next at a time: they do not count.
    pub fn is_next<L>(&self, ahead: Option<Ahead<'_, L>>) -> bool {
        match self.standing {
            Standing::Unknown => false,
            Standing::Waiting => {
                self.kind != Kind::Read && ahead.is_some_and(|ahead| ahead.count() <= 1)
            }
            Standing::First => true,
        }
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
    pub fn renumber(&mut self, change: impl FnOnce(u64) -> u64) {
        self.watched_on = change(self.watched_on);
    }

    /// What to do next. Every event that has arrived must have been handed over. `ahead` comes from
    /// the newest listing of this client, `connection` is the present one, and each may be missing.
    /// `is_ours` tells of a node whether another contender of this client waits with it.
    ///
    /// # Errors
    /// The session is over.
    pub fn next<L: AsRef<str>>(
        &mut self,
        facts: &Facts,
        own: &N,
        ahead: Option<Ahead<'_, L>>,
        connection: Option<u64>,
        is_ours: impl FnOnce(&str) -> bool,
    ) -> Result<Next<N>, Loss>
    where
        N: for<'a> From<&'a L>,
    {
        let may_hold = facts.may_hold()?;
        if self.standing == Standing::Waiting {
            let Some(ahead) = ahead else {
                return Ok(Next::List);
            };
            if ahead.count() > 0 {
                return Ok(self.behind(own, ahead, connection, is_ours));
            }
            let is_present = connection.is_some_and(|now| now == self.watched_on);
            let is_told = self.nearest.is_none() && self.second.is_none();
            if !(is_present && is_told) {
                return Ok(Next::Renew);
            }
            self.standing = Standing::First;
        }
        Ok(match self.standing {
            Standing::Unknown => Next::List,
            _ if may_hold => Next::Grant,
            _ => Next::Renew,
        })
    }

    /// What to do while somebody is ahead.
    fn behind<L: AsRef<str>>(
        &mut self,
        own: &N,
        ahead: Ahead<'_, L>,
        connection: Option<u64>,
        is_ours: impl FnOnce(&str) -> bool,
    ) -> Next<N>
    where
        N: for<'a> From<&'a L>,
    {
        if self.may_have_left {
            let is_untold = |name: &&L| !self.watches_ahead((*name).as_ref());
            let untold = ahead.names().filter(is_untold);
            let count = untold.clone().count();
            if !ahead.is_complete() || !ahead.is_few(count) {
                return Next::List;
            }
            if count > 0 {
                return Next::Look(untold.map(N::from).collect());
            }
            self.may_have_left = false;
        }
        let mut names = ahead.names();
        let Some(nearest) = names.next() else {
            return Next::List;
        };
        // One of ours that waits is told of those ahead of it, and is asked for by itself.
        let second = names.next().filter(|_| !is_ours(nearest.as_ref()));
        let mut missing = Vec::with_capacity(3);
        if self.watch_own() {
            self.watched_on = connection.unwrap_or(0);
            missing.push(own.clone());
        }
        let [nearest, second] = [Some(nearest), second].map(|name| {
            let name = N::from(name?);
            if !self.watches_ahead(name.as_ref()) {
                missing.push(name.clone());
            }
            Some(name)
        });
        let former = [self.nearest.take(), self.second.take()];
        (self.nearest, self.second) = (nearest, second);
        let mut former = former.iter().flatten();
        // A watch that is of no use ends now.
        if missing.is_empty() && former.all(|name| self.watches_ahead(name.as_ref())) {
            return Next::Wait;
        }
        Next::Watch(missing)
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
        let (mut suspects, mut is_mixed) = (Vec::new(), false);
        let note = |child: &'a str, number| {
            if may_be_ahead(child, number) {
                suspects.push(child.into());
            } else {
                is_mixed |= may_be_ahead(child, i32::MAX);
            }
        };
        let (ahead, near) = match rank_and_note(self.kind, children, own.as_ref(), note) {
            Rank::First => {
                self.standing = Standing::First;
                (0, Listing::default())
            }
            Rank::Waiting {
                ahead,
                nearest,
                second,
                ..
            } => {
                self.standing = Standing::Waiting;
                let names = [second, Some(nearest)].into_iter().flatten();
                let left_out = ahead - names.clone().count();
                let names = names.map(N::from).chain([own.clone()]);
                (ahead, Listing::near(self.kind, left_out, names))
            }
            Rank::Gone => return Err(Out::Lost(Loss::Deleted)),
            Rank::Exhausted => return Err(Out::Exhausted),
        };
        self.may_have_left = false;
        Ok(Listed {
            ahead,
            near,
            suspects,
            is_mixed,
        })
    }

    /// The servers have said of each node of [`Next::Look`] whether it is there. The listing shows
    /// no more those that are not.
    pub fn looked(&mut self) {
        self.may_have_left = false;
    }

    /// Our node is there, as the servers have said after [`Next::Renew`].
    pub fn confirmed(&mut self) {
        self.standing = Standing::First;
    }

    /// There is a reason to list the queue.
    pub fn forget(&mut self) {
        self.standing = Standing::Unknown;
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

    /// A watch has fired: the node was deleted, or its data were changed. Returns whether our own
    /// node must be watched again now.
    ///
    /// # Errors
    /// Our own node was deleted.
    pub fn event(&mut self, node: &str, is_deleted: bool, own: &str) -> Result<bool, Out> {
        if node == own {
            if is_deleted {
                return Err(Out::Lost(Loss::Deleted));
            }
            // A change of the data means nothing here. But until our node is watched again, nobody
            // reports its deletion. So the watch comes first, and the listing behind it: if a node
            // is still ahead there, its deletion is reported after that of ours.
            self.standing = Standing::Unknown;
            return Ok(true);
        }
        for watched in [&mut self.nearest, &mut self.second] {
            if watched.take_if(|name| name.as_ref() == node).is_some() {
                self.may_have_left |= is_deleted;
            }
        }
        Ok(false)
    }
}
