//! What waits for the listener of a persistent watch: a bounded queue of events.
//!
//! Rule for a slow listener: the queue holds so many events, the oldest ones. What finds it full is not kept but counted, and
//! the count stands in the queue where the events would have stood. Nothing is lost without a word.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use crate::client::WatchedEvent;
use crate::{
    Error,
    machine::{Event, Notice},
};

/// What a persistent watch has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchNotice {
    /// Something happened.
    Event(WatchedEvent),
    /// Here events are missing: read again whatever the watch is for.
    Missed(Missed),
}

/// Why events are missing, at one place in the stream of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missed {
    /// How many came when the queue was full: the listener was too slow.
    pub dropped: u64,
    /// Whether the connection was lost and made again meanwhile: servers do not tell a persistent watch what happened in
    /// between, be it nothing or anything.
    pub reconnected: bool,
}

/// What waits for a listener. The driver fills it, the listener empties it.
#[derive(Debug)]
pub(crate) struct EventQueue {
    capacity: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// At most as many as the capacity, and one [`Item::Missed`] behind them.
    items: VecDeque<Item>,
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
        let full = waiting.items.len() >= self.capacity;
        match notice {
            Notice::Event(event) if !full => waiting.items.push_back(Item::Event(event)),
            Notice::Event(_) => waiting.gap().dropped += 1,
            Notice::Reconnected => waiting.gap().reconnected = true,
        }
        waiting.wake();
    }

    pub(crate) fn end(&self, error: Error) {
        let mut waiting = self.lock();
        waiting.end = Some(error);
        waiting.has_ended = true;
        waiting.wake();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.lock().has_ended
    }

    /// The next notice, with the path of its event as `named` has it.
    pub(crate) fn poll(
        &self,
        cx: &Context<'_>,
        named: impl FnOnce(String) -> String,
    ) -> Poll<Option<Result<WatchNotice, Error>>> {
        let mut waiting = self.lock();
        if let Some(item) = waiting.items.pop_front() {
            return Poll::Ready(Some(Ok(match item {
                Item::Missed(missed) => WatchNotice::Missed(missed),
                Item::Event(Event { event_type, path }) => WatchNotice::Event(WatchedEvent {
                    event_type,
                    path: named(path),
                }),
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
    /// The last item, as one that says what is missing there.
    fn gap(&mut self) -> &mut Missed {
        if !matches!(self.items.back(), Some(Item::Missed(_))) {
            self.items.push_back(Item::Missed(Missed::default()));
        }
        match self.items.back_mut() {
            Some(Item::Missed(missed)) => missed,
            _ => unreachable!("it was just put there"),
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_proto::EventType;

    use super::*;

    fn event(number: u32) -> Notice {
        Notice::Event(Event {
            event_type: EventType::NODE_DATA_CHANGED,
            path: format!("/{number}"),
        })
    }

    /// What is in the queue: events as their number, gaps as what they miss.
    fn content(queue: &EventQueue) -> Vec<Result<String, (u64, bool)>> {
        let items = std::mem::take(&mut queue.lock().items);
        let said = |item| match item {
            Item::Event(event) => Ok(event.path),
            Item::Missed(missed) => Err((missed.dropped, missed.reconnected)),
        };
        items.into_iter().map(said).collect()
    }

    #[test]
    fn a_full_queue_counts_what_it_does_not_keep() {
        let queue = EventQueue::new(2);
        (0..5).for_each(|number| queue.push(event(number)));
        let kept = ["/0", "/1"].map(|path| Ok(path.to_owned()));
        assert_eq!(content(&queue), [&kept[..], &[Err((3, false))]].concat());
        queue.push(event(9));
        assert_eq!(content(&queue), [Ok("/9".to_owned())]);
    }

    #[test]
    fn what_is_missing_stands_where_it_would_have_stood() {
        let queue = EventQueue::new(2);
        (0..3).for_each(|number| queue.push(event(number)));
        queue.lock().items.pop_front();
        // Still no room but for the gap itself.
        queue.push(event(3));
        queue.lock().items.pop_front();
        queue.push(event(4));
        assert_eq!(content(&queue), [Err((2, false)), Ok("/4".to_owned())]);
    }

    #[test]
    fn no_number_of_reconnects_makes_it_grow() {
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
