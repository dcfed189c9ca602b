//! Events for watches whose request is not answered yet.
//!
//! Another listener of this client may have a watch on the same node already. Then an event can come before the server has set the
//! other watches of the request, and says nothing about their nodes. So the listeners of a request hear of events only when it
//! is answered, in the order of its paths.

use std::collections::BTreeMap;

use super::kind::WatchId;
use crate::machine::Event;

/// The events of one connection that came before the requests for their watches were answered.
#[derive(Debug, Default)]
pub(crate) struct EarlyEvents {
    /// The number of the last request that is answered. All watches of earlier ones are set.
    answered: u64,
    events: BTreeMap<(u64, WatchId), Event>,
}

impl EarlyEvents {
    /// All requests up to this number are answered. Returns the events that their listeners hear of now.
    pub(crate) fn answered(&mut self, request: u64) -> BTreeMap<(u64, WatchId), Event> {
        self.answered = self.answered.max(request);
        if self.events.is_empty() {
            return BTreeMap::new();
        }
        let later = self.events.split_off(&(self.answered + 1, WatchId(0)));
        std::mem::replace(&mut self.events, later)
    }

    /// The connection is over. Returns the events that are left.
    pub(crate) fn take(&mut self) -> BTreeMap<(u64, WatchId), Event> {
        std::mem::take(&mut self.events)
    }

    /// Whether the watches of this request are set.
    pub(crate) fn is_answered(&self, request: u64) -> bool {
        request <= self.answered
    }

    /// Keeps an event until the request for its watch is answered.
    pub(crate) fn keep(&mut self, request: u64, id: WatchId, event: Event) {
        self.events.insert((request, id), event);
    }
}
