//! Events that wait: for the watches of a former connection, and for watches whose request is not
//! answered yet.
//!
//! Another listener of this client may have a watch on the same node already. Then an event can
//! come before the server has set the other watches of the request, and says nothing about their
//! nodes. So the listeners of a request hear of events only when it is answered, in the order of
//! its paths.
//!
//! Not here: restoring watches (`restore`).

use std::{collections::VecDeque, mem};

use super::kind::WatchId;
use crate::machine::{Event, spare::give_back};

/// The watches that a new connection restores.
#[derive(Debug, Default)]
pub(crate) struct Restore {
    /// Requests that are not answered yet.
    pub(super) requests: usize,
    /// The events that came meanwhile.
    pub(super) events: Vec<Event>,
    /// How many events may come.
    pub(super) most: usize,
    /// How many bytes the paths of further events may have.
    pub(super) bytes_left: usize,
}

/// The requests of one connection that set watches and are not answered, and the events that came
/// for their listeners.
#[derive(Debug, Default)]
pub(crate) struct EarlyEvents {
    /// Oldest first.
    unanswered: VecDeque<Unanswered>,
    events: Vec<(WatchId, Event)>,
}

/// A request, and its first and its last listener.
#[derive(Debug)]
struct Unanswered {
    request: u64,
    first: WatchId,
    last: WatchId,
}

impl EarlyEvents {
    /// The request with this number will set the watches of these listeners.
    pub(crate) fn sent(&mut self, request: u64, listeners: &[WatchId]) {
        if let (Some(first), Some(last)) = (listeners.first(), listeners.last()) {
            self.unanswered.push_back(Unanswered {
                request,
                first: *first,
                last: *last,
            });
        }
    }

    /// Whether the request of this listener is not answered.
    pub(crate) fn is_early(&self, id: WatchId) -> bool {
        let index = self.unanswered.partition_point(|sent| sent.last < id);
        let sent = self.unanswered.get(index);
        sent.is_some_and(|sent| sent.first <= id)
    }

    /// Keeps an event until the request of its listener is answered.
    pub(crate) fn keep(&mut self, id: WatchId, event: Event) {
        self.events.push((id, event));
    }

    /// The request with this number is answered. Returns what its listeners hear of now.
    pub(crate) fn answered(&mut self, request: u64) -> Vec<(WatchId, Event)> {
        let answered = self
            .unanswered
            .partition_point(|sent| sent.request <= request);
        self.unanswered.drain(..answered);
        let next = self.unanswered.front().map(|next| next.first);
        let mut told = self.take();
        if let Some(next) = next {
            let later = told.partition_point(|(id, _)| *id < next);
            self.events = told.split_off(later);
        }
        told
    }

    /// Frees the room that a burst has left.
    pub(crate) fn give_back_room(&mut self) {
        give_back(&mut self.unanswered);
    }

    /// Everything that is left: the connection is over.
    pub(crate) fn take(&mut self) -> Vec<(WatchId, Event)> {
        let mut events = mem::take(&mut self.events);
        events.sort_unstable_by_key(|(id, _)| *id);
        events
    }
}
