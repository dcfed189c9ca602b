//! The bounded queue of events between a persistent watch and its listener.
//!
//! Rule for a slow listener: the queue keeps the oldest events, up to its capacity. When it is
//! full, it only counts further events. The count stands in the queue where the events would have
//! been. So the listener learns of every loss. The queue is also full when the paths of its events
//! are very long.

use std::{
    collections::VecDeque,
    task::{Context, Poll},
};

use crate::{
    Error,
    client::sync::mailbox::Mailbox,
    machine::{Event, Notice},
};

/// One item of the stream of a persistent watch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchNotice {
    /// The event of one change.
    Event(Event),
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
    waiting: Mailbox<Waiting>,
}

/// The bytes of paths that a queue keeps for each event of its capacity: longer than nearly all
/// paths, so that a server cannot fill the memory.
const PATH_BYTES: usize = 1024;

#[derive(Debug, Default)]
struct Waiting {
    /// At most `capacity` events, and one [`WatchNotice::Missed`] after them.
    items: VecDeque<WatchNotice>,
    /// The length of the paths of these events.
    bytes: usize,
    end: Option<Error>,
    has_ended: bool,
}

impl EventQueue {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            waiting: Mailbox::default(),
        }
    }

    pub(crate) fn push(&self, notice: Notice) {
        let most = self.capacity.saturating_mul(PATH_BYTES);
        self.waiting.tell(|waiting| {
            let is_full = |event: &Event| {
                // A path that is longer than all of it goes alone.
                waiting.items.len() >= self.capacity
                    || (waiting.bytes > 0 && waiting.bytes + event.path.len() > most)
            };
            match notice {
                Notice::Event(event) if !is_full(&event) => {
                    waiting.bytes += event.path.len();
                    waiting.items.push_back(WatchNotice::Event(event));
                }
                Notice::Event(_) => waiting.gap().dropped += 1,
                Notice::Reconnected => waiting.gap().reconnected = true,
            }
        });
    }

    pub(crate) fn end(&self, error: Error) {
        self.waiting.tell(|waiting| {
            waiting.end = Some(error);
            waiting.has_ended = true;
        });
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.waiting.look(|waiting| waiting.has_ended)
    }

    /// The next notice, with the server's path.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Option<Result<WatchNotice, Error>>> {
        self.waiting.poll(cx, |waiting| {
            let Some(item) = waiting.items.pop_front() else {
                let end = waiting.end.take().map(Err);
                return (end.is_some() || waiting.has_ended).then_some(end);
            };
            if let WatchNotice::Event(event) = &item {
                waiting.bytes = waiting.bytes.saturating_sub(event.path.len());
            }
            Some(Some(Ok(item)))
        })
    }
}

impl Waiting {
    /// The gap at the end of the queue.
    fn gap(&mut self) -> &mut Missed {
        if !matches!(self.items.back(), Some(WatchNotice::Missed(_))) {
            let gap = WatchNotice::Missed(Missed::default());
            self.items.push_back(gap);
        }
        match self.items.back_mut() {
            Some(WatchNotice::Missed(missed)) => missed,
            _ => unreachable!("it was just put there"),
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

    /// The content of the queue: the path of each event, and for each gap what it misses.
    fn content(queue: &EventQueue) -> Vec<Result<String, (u64, bool)>> {
        let items = queue
            .waiting
            .look(|waiting| std::mem::take(&mut waiting.items));
        let said = |item| match item {
            WatchNotice::Event(event) => Ok(event.path),
            WatchNotice::Missed(missed) => Err((missed.dropped, missed.reconnected)),
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
        queue.waiting.look(|waiting| waiting.items.pop_front());
        // The queue is still full; only the count grows.
        queue.push(event(3));
        queue.waiting.look(|waiting| waiting.items.pop_front());
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
