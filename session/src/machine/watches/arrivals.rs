//! Events on one connection that wait: for the watches of a former connection, and for watches
//! whose request is not answered yet.
//!
//! Until the last request that restores watches is answered, all events are kept back, so that no
//! listener acts on one of several changes that happened while there was no connection.
//!
//! Another listener of this client may have a watch on the same node already. Then an event can
//! come before the server has set the other watches of the request, and says nothing about their
//! nodes. So the listeners of a request hear of events only when it is answered, in the order of
//! its paths.

use std::{collections::VecDeque, mem};

use super::Tell;
use crate::machine::{Event, WatchId, spare::shrink};

/// How many events may be kept back while watches are restored.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    pub(super) events: usize,
    /// The bytes of their paths.
    pub(super) bytes: usize,
}

/// The events that wait, and what they wait for.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Requests that restore watches and are not answered.
    restoring: usize,
    kept_back: Vec<Event>,
    left: Bounds,
    /// Requests that set new watches and are not answered, oldest first.
    unanswered: VecDeque<Unanswered>,
    /// What came for their listeners, in the order of these.
    early: Vec<(WatchId, Event)>,
}

/// A request, and its first and its last listener.
#[derive(Debug)]
struct Unanswered {
    request: u64,
    first: WatchId,
    last: WatchId,
}

impl Arrivals {
    /// A new connection, on which so many requests restore watches.
    pub(super) fn new(requests: usize, bounds: Bounds) -> Self {
        Self {
            restoring: requests,
            left: bounds,
            ..Self::default()
        }
    }

    /// An event has come. Returns it if its listeners hear of it now.
    ///
    /// # Errors
    /// There are more events than a correct server may send.
    pub(super) fn event(&mut self, event: Event) -> Result<Option<Event>, usize> {
        if self.restoring == 0 {
            return Ok(Some(event));
        }
        let (events, bytes) = (self.left.events, self.left.bytes);
        if self.kept_back.len() > events || event.path.len() > bytes {
            return Err(events);
        }
        self.left.bytes -= event.path.len();
        self.kept_back.push(event);
        Ok(None)
    }

    /// A request that restores watches is answered. After the last one, returns what was kept back.
    pub(super) fn restored(&mut self) -> Option<Vec<Event>> {
        self.restoring = self.restoring.saturating_sub(1);
        (self.restoring == 0).then(|| mem::take(&mut self.kept_back))
    }

    /// The request with this number will set the watches of these listeners.
    pub(super) fn sent(&mut self, request: u64, listeners: &[WatchId]) {
        if let (Some(first), Some(last)) = (listeners.first(), listeners.last()) {
            self.unanswered.push_back(Unanswered {
                request,
                first: *first,
                last: *last,
            });
        }
    }

    /// Keeps an event if the request of its listener is not answered, and else returns it.
    pub(super) fn keep_early(&mut self, id: WatchId, event: Event) -> Option<Event> {
        let index = self.unanswered.partition_point(|sent| sent.last < id);
        let sent = self.unanswered.get(index);
        if sent.is_some_and(|sent| sent.first <= id) {
            // Mostly it is the last one.
            let place = self.early.partition_point(|(other, _)| *other <= id);
            self.early.insert(place, (id, event));
            return None;
        }
        Some(event)
    }

    /// The request with this number, which sets watches, is answered. Its listeners hear of the
    /// events that came before.
    pub(super) fn answered(&mut self, request: u64, out: &mut dyn Tell) {
        let answered = self
            .unanswered
            .partition_point(|sent| sent.request <= request);
        self.unanswered.drain(..answered);
        let next = self.unanswered.front().map(|next| next.first);
        let told = self
            .early
            .partition_point(|(id, _)| next.is_none_or(|next| *id < next));
        let later = self.early.split_off(told);
        let told = mem::replace(&mut self.early, later);
        for (id, event) in told {
            out.tell(id, Ok(event));
        }
    }

    /// Frees the capacity that a burst has left.
    pub(super) fn shrink_to_fit(&mut self) {
        shrink(&mut self.unanswered);
    }

    /// Everything that came early.
    pub(super) fn take_early(&mut self) -> Vec<(WatchId, Event)> {
        mem::take(&mut self.early)
    }
}
