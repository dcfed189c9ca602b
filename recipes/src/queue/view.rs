//! What the contenders of one client know together of one queue, so that a queue of many of them
//! costs few requests.
//!
//! They share the newest listing. When one of them learns that a node is gone, all know it. Of those
//! that wait only the first two ask the servers for anything: the others are behind them anyway. The
//! second one asks, too, so that its watches are set when the first one is granted.
//!
//! Not here: what a listing shows (`order::listing`), what a contender does (`turn`), sending
//! requests (`waiter`).

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    mem,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Poll, Waker},
};

use lockkeeper_proto::{SessionId, jute::Names};
use lockkeeper_session::{Client, sync::os::lock};

use super::turn::{self, Next, Turn};
use crate::{
    common::Common,
    error::Loss,
    node::life::Facts,
    order::{
        listing::{ListedName, Listing, place_of, search},
        name::{self, Kind},
        rank::SEQUENCE_LIMIT,
    },
};

/// So many contenders ask the servers: the first ones that wait.
pub const ACTIVE: usize = 2;
/// One of this many arrivals makes a listing, as a part of those that wait: the listings grow with
/// the queue, and become fewer.
const PART: usize = 4;

/// What one client knows of one queue.
#[derive(Debug, Default)]
pub struct View {
    /// How many contenders enter or wait.
    size: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How many contenders have begun to enter since the newest listing was asked for.
    unlisted: usize,
    /// Those that wait, by their places. Who is granted at once is never noted: that would cost
    /// every lock some time.
    waiting: VecDeque<(i64, Waiting)>,
    /// The session of those that wait.
    session: SessionId,
    listing: Listing<ListedName>,
}

#[derive(Debug)]
struct Waiting {
    name: Arc<str>,
    /// Wakes it when it becomes one of the first ones.
    waker: Option<Waker>,
}

impl AsRef<str> for Waiting {
    fn as_ref(&self) -> &str {
        &self.name
    }
}

impl State {
    /// Where the contender with this node is among those that wait.
    fn position(&self, name: &str) -> Option<usize> {
        search(&self.waiting, place_of(name)?, name).ok()
    }

    /// This node is gone. Returns who is to be woken for it.
    fn gone(&mut self, node: &str) -> Vec<Waker> {
        self.listing.gone(node);
        let waiting = self.position(node).map(|at| self.waiting.remove(at));
        self.woken(waiting.flatten())
    }

    /// The wakers of those that have become the first ones, and of these, which were removed.
    fn woken(&mut self, removed: impl IntoIterator<Item = (i64, Waiting)>) -> Vec<Waker> {
        if self.waiting.is_empty() {
            self.listing = Listing::default();
        }
        let removed = removed.into_iter().filter_map(|(_, waiting)| waiting.waker);
        let first = self.waiting.iter_mut().take(ACTIVE);
        let first = first.filter_map(|(_, waiting)| waiting.waker.take());
        removed.chain(first).collect()
    }
}

impl View {
    /// The view of the queue at this path. All locks of one kind there share it.
    pub(crate) fn at(client: &Client, server_path: &str, kind: Kind) -> Arc<Self> {
        Common::at(client, kind.name(), server_path)
    }

    /// A contender begins to enter. Returns whether it makes a listing behind its create.
    pub fn join(self: &Arc<Self>) -> (Place, bool) {
        let size = 1 + self.size.fetch_add(1, Ordering::Relaxed);
        let place = Place {
            view: self.clone(),
            own: None,
            rests: false,
            is_next: false,
        };
        if size <= PART {
            return (place, true);
        }
        let mut state = lock(&self.state);
        state.unlisted += 1;
        let lists = state.unlisted * PART >= size;
        if lists {
            state.unlisted = 0;
        }
        (place, lists)
    }

    /// Acts on what is known, and wakes those that `act` returns. Not under the lock: a waker may poll
    /// its contender, and drop others.
    fn wake(&self, act: impl FnOnce(&mut State) -> Vec<Waker>) {
        let woken = act(&mut lock(&self.state));
        woken.into_iter().for_each(Waker::wake);
    }
}

/// A contender among those of its client, until it is dropped: granted, or given up.
#[derive(Debug)]
pub struct Place {
    view: Arc<View>,
    /// Its node, once it waits.
    own: Option<Arc<str>>,
    /// Whether it asked for nothing when it last looked what to do.
    rests: bool,
    /// Whether it was its turn then, or would be when one other contender leaves.
    is_next: bool,
}

impl Place {
    /// The contender is of this session. Those of a former one are ahead of nobody: their nodes are gone,
    /// although the owners of tickets may not have looked since.
    pub(crate) fn in_session(&self, session: SessionId) {
        self.view.wake(|state| {
            if mem::replace(&mut state.session, session) == session {
                return Vec::new();
            }
            let former = mem::take(&mut state.waiting);
            state.woken(former)
        });
    }

    /// The contender waits, with this node.
    pub fn enter(&mut self, own: &Arc<str>) {
        let number = name::number(own).filter(|number| *number <= SEQUENCE_LIMIT);
        let (Some(_), None, Some(place)) = (number, &self.own, place_of(own)) else {
            return;
        };
        self.own = Some(own.clone());
        let mut state = lock(&self.view.state);
        let (Ok(position) | Err(position)) = search(&state.waiting, place, own);
        let waiting = Waiting {
            name: own.clone(),
            waker: None,
        };
        state.waiting.insert(position, (place, waiting));
    }

    /// The contender has listed the queue. The listing proves nothing to those behind it if nodes
    /// of other kinds of lock are there, too.
    pub fn listed(
        &self,
        kind: Kind,
        own: &Arc<str>,
        children: &Names,
        listed: &turn::Listed<Arc<str>>,
    ) {
        if self.own.is_none() {
            return;
        }
        self.view.wake(|state| {
            state.unlisted = 0;
            let position = state.position(own).filter(|_| state.waiting.len() > 1);
            let (Some(position), Some((_, last))) = (position, state.waiting.back()) else {
                state.listing = listed.near.map(|name| name.into());
                return Vec::new();
            };
            let last = if listed.is_mixed { own } else { &last.name };
            let shared = |name: &str| {
                let (_, waiting) = state.waiting.get(state.position(name)?)?;
                Some(waiting.name.clone())
            };
            let listing = Listing::all(kind, last, ListedName::all(children, shared));
            // Those ahead had their nodes before the listing was asked for.
            let mut gone = Vec::new();
            for at in (0..position).rev() {
                let waiting = state.waiting.get(at);
                if waiting.is_some_and(|(_, waiting)| !listing.shows(&waiting.name)) {
                    gone.extend(state.waiting.remove(at));
                }
            }
            state.listing = listing;
            state.woken(gone)
        });
    }

    /// This node is gone.
    pub fn gone(&self, node: &str) {
        self.view.wake(|state| state.gone(node));
    }

    /// What the contender does next, and how many are ahead.
    ///
    /// # Errors
    /// Its session is over.
    pub fn next(
        &mut self,
        turn: &mut Turn<Arc<str>>,
        facts: &Facts,
        own: &Arc<str>,
        connection: Option<u64>,
    ) -> Result<(Next<Arc<str>>, usize), Loss> {
        let state = &*lock(&self.view.state);
        let position = (self.own.as_ref()).filter(|_| state.waiting.len() > 1);
        let position = position.and_then(|own| state.position(own));
        let listed = state.listing.ahead(own);
        // One whose node is gone learns it from the servers.
        self.rests = !turn.is_unknown() && position.is_some_and(|position| position >= ACTIVE);
        let next = if self.rests {
            facts.may_hold()?;
            Next::Wait
        } else {
            let is_ours = |name: &str| state.waiting.len() > 1 && state.position(name).is_some();
            turn.next(facts, own, listed, connection, is_ours)?
        };
        self.is_next = turn.is_next(listed);
        let ahead = listed.map_or(0, |listed| listed.count());
        Ok((next, ahead.max(position.unwrap_or(0))))
    }

    /// Whether it was its turn when it last looked what to do, or will be when one other contender
    /// leaves.
    #[must_use]
    pub fn is_next(&self) -> bool {
        self.is_next
    }

    /// The one of ours just ahead, while it waits for that one and for nothing else.
    #[must_use]
    pub fn rests_behind(&self) -> Option<Arc<str>> {
        let own = self.own.as_ref().filter(|_| self.rests)?;
        let state = lock(&self.view.state);
        let ahead = state.position(own)?.checked_sub(1)?;
        Some(state.waiting.get(ahead)?.1.name.clone())
    }

    /// For one that rests: waits until it is one of the first ones. Else it waits for ever.
    pub fn wakes(&self) -> impl Future<Output = ()> {
        poll_fn(|cx| {
            let Some(own) = self.own.as_ref().filter(|_| self.rests) else {
                return Poll::Pending;
            };
            let waker = cx.waker().clone();
            let mut state = lock(&self.view.state);
            let position = state.position(own).filter(|position| *position >= ACTIVE);
            let waiting = position.and_then(|position| state.waiting.get_mut(position));
            let Some((_, waiting)) = waiting else {
                return Poll::Ready(());
            };
            let former = waiting.waker.replace(waker);
            drop(state);
            drop(former);
            Poll::Pending
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.view.size.fetch_sub(1, Ordering::Relaxed);
        if let Some(own) = self.own.take() {
            self.view.wake(|state| {
                let own = state.position(&own).and_then(|at| state.waiting.remove(at));
                state.woken(own)
            });
        }
    }
}
