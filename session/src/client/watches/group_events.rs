//! The queue of events of a group of watches.
//!
//! Not here: the group, which asks for them (`group`).

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
};

use lockkeeper_proto::EventType;

use crate::{
    Error,
    machine::{Event, WatchId},
};

/// The queue. The driver fills it, and the group takes from it.
#[derive(Debug, Default)]
pub(crate) struct GroupEvents(Mutex<Inner>);

#[derive(Debug, Default)]
pub(super) struct Inner {
    /// The watches that have not fired, with the names of their nodes in the directory.
    pub(super) watches: Vec<(WatchId, Arc<str>)>,
    fired: VecDeque<(WatchId, Result<Event, Error>)>,
    pub(super) waker: Option<Waker>,
}

/// An event of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupEvent {
    /// The name of the node in its directory.
    pub name: Arc<str>,
    /// What happened to it.
    pub event_type: EventType,
}

impl GroupEvents {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, id: WatchId, result: Result<Event, Error>) {
        let waker = {
            let mut inner = self.lock();
            inner.fired.push_back((id, result));
            inner.waker.take()
        };
        // Not under the lock: the waiter may run at once, and take it.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Inner {
    /// The next event of a watch that was not given up.
    pub(super) fn pop(&mut self) -> Option<Result<GroupEvent, Error>> {
        while let Some((id, result)) = self.fired.pop_front() {
            let Some(at) = self.watches.iter().position(|(watch, _)| *watch == id) else {
                continue;
            };
            let (_, name) = self.watches.swap_remove(at);
            return Some(result.map(|Event { event_type, .. }| GroupEvent { name, event_type }));
        }
        None
    }
}
