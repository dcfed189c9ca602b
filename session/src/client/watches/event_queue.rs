//! The bounded queue of events between a persistent watch and its listener.
//!
//! Rule for a slow listener: the queue keeps the oldest events, up to its capacity. When it is
//! full, it only counts further events. The count stands in the queue where the events would have
//! been. So the listener learns of every loss. The queue is also full when the paths of its events
//! are very long.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use lockkeeper_proto::EventType;

use crate::{
    Error,
    machine::{Event, Notice},
};

/// What happened to a watched node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchedEvent {
    /// What happened.
    pub event_type: EventType,
    /// The path of the node, as this client names it.
    pub path: String,
}

/// One item of the stream of a persistent watch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchNotice {
    /// The event of one change.
    Event(WatchedEvent),
    /// Events are missing at this point. Read again everything that the watch covers.
    Missed(Missed),
}

/// Why events are missing at one point of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missed {
    /// How many events came while the queue was full, because the listener was too slow.
    pub dropped: u64,
    /// Whether the client has reconnected. Servers do not report to a persistent watch what
    /// happened between two connections: there may have been many changes or none.
    pub reconnected: bool,
}

/// The queue. The driver fills it, and the listener takes from it.
#[derive(Debug)]
pub(crate) struct EventQueue {
    capacity: usize,
    waiting: Mutex<Waiting>,
}

/// The bytes of paths that a queue keeps for each event of its capacity: longer than nearly all
/// paths, so that a server cannot fill the memory.
const PATH_BYTES: usize = 1024;

#[derive(Debug, Default)]
struct Waiting {
    /// At most `capacity` events, and one [`Item::Missed`] after them.
    items: VecDeque<Item>,
    /// The length of the paths of these events.
    bytes: usize,
    end: Option<Error>,
    has_ended: bool,
    waker: Option<Waker>,
}

#[derive(Debug, PartialEq, Eq)]
enum Item {
    Event(Event),
    Missed(Missed),
}

impl EventQueue {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            waiting: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, notice: Notice) {
        let mut waiting = self.lock();
        let most = self.capacity.saturating_mul(PATH_BYTES);
        let is_full = |event: &Event| {
            // A path that is longer than all of it goes alone.
            waiting.items.len() >= self.capacity
                || (waiting.bytes > 0 && waiting.bytes + event.path.len() > most)
        };
        match notice {
            Notice::Event(event) if !is_full(&event) => {
                waiting.bytes += event.path.len();
                waiting.items.push_back(Item::Event(event));
            }
            Notice::Event(_) => waiting.gap().dropped += 1,
            Notice::Reconnected => waiting.gap().reconnected = true,
        }
        wake(waiting);
    }

    pub(crate) fn end(&self, error: Error) {
        let mut waiting = self.lock();
        waiting.end = Some(error);
        waiting.has_ended = true;
        wake(waiting);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.lock().has_ended
    }

    /// The next notice. `named` converts the path of its event.
    pub(crate) fn poll(
        &self,
        cx: &Context<'_>,
        named: impl FnOnce(String) -> String,
    ) -> Poll<Option<Result<WatchNotice, Error>>> {
        let mut waiting = self.lock();
        if let Some(item) = waiting.items.pop_front() {
            return Poll::Ready(Some(Ok(match item {
                Item::Missed(missed) => WatchNotice::Missed(missed),
                Item::Event(Event { event_type, path }) => {
                    waiting.bytes = waiting.bytes.saturating_sub(path.len());
                    WatchNotice::Event(WatchedEvent {
                        event_type,
                        path: named(path),
                    })
                }
            })));
        }
        if let Some(error) = waiting.end.take() {
            return Poll::Ready(Some(Err(error)));
        }
        if waiting.has_ended {
            return Poll::Ready(None);
        }
        waiting.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Waiting {
    /// The gap at the end of the queue. Adds one if the last item is an event.
    fn gap(&mut self) -> &mut Missed {
        if !matches!(self.items.back(), Some(Item::Missed(_))) {
            self.items.push_back(Item::Missed(Missed::default()));
        }
        match self.items.back_mut() {
            Some(Item::Missed(missed)) => missed,
            _ => unreachable!("it was just put there"),
        }
    }
}

/// Wakes the listener, not under the lock: it may run at once, and take it.
fn wake(mut waiting: MutexGuard<'_, Waiting>) {
    let waker = waiting.waker.take();
    drop(waiting);
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lockkeeper_proto::EventType;

    use super::*;

    /// A listener that looks at the queue when it is woken.
    struct Looks(Arc<EventQueue>);

    impl std::task::Wake for Looks {
        fn wake(self: Arc<Self>) {
            assert!(self.0.waiting.try_lock().is_ok(), "woken under the lock");
        }
    }

    #[test]
    fn a_listener_is_not_woken_under_the_lock() {
        let queue = Arc::new(EventQueue::new(1));
        let waker = Waker::from(Arc::new(Looks(queue.clone())));
        let cx = Context::from_waker(&waker);
        assert!(queue.poll(&cx, |path| path).is_pending());
        queue.push(event(1));
        assert!(queue.poll(&cx, |path| path).is_ready());
        assert!(queue.poll(&cx, |path| path).is_pending());
        queue.end(Error::Closed(crate::Effect::NotApplied));
    }

    fn event(number: u32) -> Notice {
        Notice::Event(Event {
            event_type: EventType::NODE_DATA_CHANGED,
            path: format!("/{number}"),
        })
    }

    /// The content of the queue: the path of each event, and for each gap what it misses.
    fn content(queue: &EventQueue) -> Vec<Result<String, (u64, bool)>> {
        let items = std::mem::take(&mut queue.lock().items);
        let said = |item| match item {
            Item::Event(event) => Ok(event.path),
            Item::Missed(missed) => Err((missed.dropped, missed.reconnected)),
        };
        items.into_iter().map(said).collect()
    }

    #[test]
    fn a_full_queue_counts_the_events_it_drops() {
        let queue = EventQueue::new(2);
        (0..5).for_each(|number| queue.push(event(number)));
        let kept = ["/0", "/1"].map(|path| Ok(path.to_owned()));
        assert_eq!(content(&queue), [&kept[..], &[Err((3, false))]].concat());
        queue.push(event(9));
        assert_eq!(content(&queue), [Ok("/9".to_owned())]);
    }

    #[test]
    fn the_count_stands_in_the_place_of_the_missing_events() {
        let queue = EventQueue::new(2);
        (0..3).for_each(|number| queue.push(event(number)));
        queue.lock().items.pop_front();
        // The queue is still full; only the count grows.
        queue.push(event(3));
        queue.lock().items.pop_front();
        queue.push(event(4));
        assert_eq!(content(&queue), [Err((2, false)), Ok("/4".to_owned())]);
    }

    #[test]
    fn reconnects_do_not_make_the_queue_grow() {
        let queue = EventQueue::new(2);
        for number in 0..100 {
            queue.push(Notice::Reconnected);
            queue.push(event(number));
        }
        assert_eq!(
            content(&queue),
            [Err((0, true)), Ok("/0".to_owned()), Err((99, true))]
        );
    }
}
