//! What the contenders of one client in one queue know together, so that a crowd of them does not
//! list the queue for each.
//!
//! A contender of a crowd needs no listing when it enters: it waits for a contender of the same
//! client ahead of it. When that one has left, the newest listing of any of them may prove that
//! nobody is ahead.
//!
//! Not here: what a listing proves (`listing`), when it may be used (`queue::turn`), sending
//! requests (`queue::waiter`).

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use lockkeeper_proto::jute::Names;
use lockkeeper_session::{Client, sync::os::lock};

use super::{
    listing::{Listed, Listing},
    name::{self, Kind},
    rank::SEQUENCE_LIMIT,
};
use crate::common::Common;

/// One of this many arrivals makes a listing, as a part of the crowd: the listings grow with the
/// crowd, and become fewer.
const PART: usize = 4;

/// The contenders of one client in one queue.
#[derive(Debug, Default)]
pub struct Crowd {
    /// How many contenders have entered or are entering.
    size: AtomicUsize,
    /// Whether one of them entered when there was no other. Its node is not noted: that would cost
    /// every lock some time.
    has_lone: AtomicBool,
    state: Mutex<State>,
}

/// What a crowd knows. A few contenders are no crowd: each of them lists the queue when it enters.
#[derive(Debug, Default)]
struct State {
    /// How many contenders have begun to enter since the newest listing was asked for.
    unlisted: usize,
    /// The nodes of those that have entered, by their numbers.
    entered: VecDeque<(i32, Arc<str>)>,
    /// The newest listing.
    listed: Listing<Listed>,
}

impl State {
    /// How many contenders of this client have lower numbers.
    fn index(&self, number: i32) -> usize {
        self.entered.partition_point(|(other, _)| *other < number)
    }

    /// This name, if it is that of a contender of this client.
    fn noted(&self, name: &str) -> Option<Arc<str>> {
        let (_, own) = self.entered.get(self.index(name::number(name)?))?;
        (**own == *name).then(|| own.clone())
    }

    /// The index of the last one of them.
    fn last_ahead_of(&self, number: i32) -> Option<usize> {
        self.index(number).checked_sub(1)
    }
}

impl Crowd {
    /// The crowd at this path. All locks of one kind there share it.
    pub(crate) fn at(client: &Client, server_path: &str, kind: Kind) -> Arc<Self> {
        Common::at(client, kind.name(), server_path)
    }

    /// A contender begins to enter. Returns whether it makes a listing behind its create.
    pub fn join(self: &Arc<Self>) -> (Member, bool) {
        let size = 1 + self.size.fetch_add(1, Ordering::Relaxed);
        let member = Member {
            crowd: self.clone(),
            place: Place::Unknown,
        };
        if size <= PART {
            return (member, true);
        }
        let mut state = lock(&self.state);
        state.unlisted += 1;
        let lists = state.unlisted * PART >= size;
        if lists {
            state.unlisted = 0;
        }
        (member, lists)
    }

    /// Whether there are more than this many.
    fn is_above(&self, size: usize) -> bool {
        self.size.load(Ordering::Relaxed) > size
    }
}

/// A contender in a crowd, until it is dropped.
#[derive(Debug)]
pub struct Member {
    crowd: Arc<Crowd>,
    place: Place,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// It has not entered.
    Unknown,
    /// It entered when there was no other.
    Lone,
    /// The number of its node is noted.
    Noted(i32),
}

impl Member {
    /// The contender has entered. Returns the node of the last one ahead that is known, and how
    /// many are ahead. Those are the contenders of this client, or those in the newest listing if
    /// there are more.
    pub fn entered(&mut self, own: &Arc<str>) -> Option<(Arc<str>, usize)> {
        if !self.crowd.is_above(1) {
            self.place = Place::Lone;
            self.crowd.has_lone.store(true, Ordering::Relaxed);
            return None;
        }
        let number = name::number(own).filter(|number| *number <= SEQUENCE_LIMIT)?;
        self.place = Place::Noted(number);
        let mut state = lock(&self.crowd.state);
        let index = state.index(number);
        state.entered.insert(index, (number, own.clone()));
        self.ahead(&state, index.checked_sub(1)?, number)
    }

    /// The nodes just ahead have left, from the lowest of these numbers to the highest. Returns the
    /// same as `entered`, for another node.
    ///
    /// It is behind or ahead of all of them: one that is noted here, but gone, is not waited for
    /// twice.
    #[must_use]
    pub fn left(&self, (lowest, highest): (i32, i32)) -> Option<(Arc<str>, usize)> {
        // A few list the queue: then the next deletion may be the grant.
        let Place::Noted(own) = self.place else {
            return None;
        };
        self.crowd.is_above(PART).then_some(())?;
        let state = lock(&self.crowd.state);
        let last = state.last_ahead_of(own)?;
        if state
            .entered
            .get(last)
            .is_some_and(|(last, _)| *last > highest)
        {
            return self.ahead(&state, last, own);
        }
        self.ahead(&state, state.last_ahead_of(lowest)?, own)
    }

    /// The node at this index, and how many are ahead of ours.
    fn ahead(&self, state: &State, index: usize, own: i32) -> Option<(Arc<str>, usize)> {
        let (_, node) = state.entered.get(index)?;
        let ahead = index + 1 + usize::from(self.crowd.has_lone.load(Ordering::Relaxed));
        Some((node.clone(), state.listed.ahead(own).max(ahead)))
    }

    /// The queue was listed. The listing was asked for on this connection.
    pub fn listed(&self, kind: Kind, connection: u64, children: &Names) {
        if self.crowd.is_above(PART) {
            let mut state = lock(&self.crowd.state);
            state.unlisted = 0;
            let children = Listed::all(children, |name| state.noted(name));
            state.listed = Listing::new(kind, connection, children);
        }
    }

    /// A watch on this node has fired: the node was deleted, or its data were changed.
    pub fn event(&self, node: &str, is_deleted: bool) {
        if self.crowd.is_above(PART) {
            lock(&self.crowd.state).listed.event(node, is_deleted);
        }
    }

    /// Whether the newest listing proves that nobody is ahead of this contender, if it may use a
    /// listing that was asked for on that connection.
    pub fn is_first(&self, own: &str, may_use: impl Fn(u64) -> bool) -> bool {
        let listed = &lock(&self.crowd.state).listed;
        may_use(listed.connection()) && listed.is_first(own)
    }

    /// The few that may be ahead of this contender, if the newest listing tells.
    #[must_use]
    pub fn few_ahead(&self, own: &str) -> Option<Vec<Arc<str>>> {
        let is_kept = self.crowd.is_above(PART);
        let few = is_kept.then(|| lock(&self.crowd.state).listed.few_ahead(own))??;
        Some(few.iter().map(|name| name.as_ref().into()).collect())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if matches!(self.place, Place::Lone) {
            self.crowd.has_lone.store(false, Ordering::Relaxed);
        }
        self.crowd.size.fetch_sub(1, Ordering::Relaxed);
        let Place::Noted(number) = self.place else {
            return;
        };
        let mut state = lock(&self.crowd.state);
        let index = state.index(number);
        state.entered.remove(index);
        if state.entered.is_empty() {
            state.listed = Listing::default();
        }
    }
}
