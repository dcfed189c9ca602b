//! The queue of callers that wait for request capacity: first come, first served.
//!
//! Invariant: a new caller goes behind all waiting callers. When a caller stops waiting, the next
//! one may go. Not here: how much capacity there is (`Machine::has_capacity`), and the futures that
//! wait (`capacity`).

use std::{collections::VecDeque, mem, task::Waker, time::Instant};

use crate::machine::{Machine, RequestOptions};

/// The waiting callers, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct CapacityQueue {
    /// Each with its ticket. The tickets grow from front to back.
    waiting: VecDeque<(u64, Waiting)>,
    last_ticket: u64,
}

/// What is taken out of the queue must be dropped after the lock was released. The waker may be the
/// last handle of a task, whose futures take the lock.
#[derive(Debug)]
#[must_use]
pub(crate) struct Waiting {
    pub(crate) waker: Waker,
    pub(crate) bytes: usize,
    pub(crate) options: RequestOptions,
}

impl CapacityQueue {
    /// The number of waiting callers.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Adds a caller at the end of the queue, or puts it back into the place of its ticket. Returns
    /// the ticket, and what stood in the place.
    pub(crate) fn wait(&mut self, ticket: Option<u64>, waiting: Waiting) -> (u64, Option<Waiting>) {
        let place = ticket.and_then(|ticket| self.place(ticket));
        if let Some((ticket, former)) = place.and_then(|place| self.waiting.get_mut(place)) {
            return (*ticket, Some(mem::replace(former, waiting)));
        }
        self.last_ticket += 1;
        self.waiting.push_back((self.last_ticket, waiting));
        (self.last_ticket, None)
    }

    fn place(&self, ticket: u64) -> Option<usize> {
        let place = self.waiting.binary_search_by_key(&ticket, |(it, _)| *it);
        place.ok()
    }

    pub(crate) fn leave(&mut self, ticket: u64) -> Option<Waiting> {
        let place = self.place(ticket)?;
        self.waiting.remove(place).map(|(_, waiting)| waiting)
    }

    pub(crate) fn is_first(&self, ticket: Option<u64>) -> bool {
        let first = self.waiting.front();
        first.is_none_or(|(first, _)| ticket == Some(*first))
    }

    /// The callers that should check again: the first in the queue when there is capacity; all when
    /// the client ends.
    ///
    /// A caller that gets capacity calls this again and so wakes the next one.
    pub(crate) fn woken<T>(&mut self, now: Instant, machine: &Machine<T>, woken: &mut Vec<Waker>) {
        let Some((_, first)) = self.waiting.front() else {
            return;
        };
        if machine.link().is_closing() {
            let all = mem::take(&mut self.waiting);
            woken.extend(all.into_iter().map(|(_, waiting)| waiting.waker));
        } else if machine.has_capacity(now, first.bytes, &first.options) {
            woken.push(first.waker.clone());
        }
    }
}
