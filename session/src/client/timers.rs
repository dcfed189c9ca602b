//! Timers that fire in the client's task.
//!
//! Not here: the future that waits for one (`sleep`), the deadlines of the session
//! (`machine::link`).

use std::{collections::VecDeque, task::Waker, time::Instant};

use crate::machine::spare::shrink;

/// The timers of a client that are being waited for.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// By the time at which they fire, and by their numbers. Mostly a new one is the last.
    waiting: VecDeque<(Timer, Waker)>,
    last: u64,
}

/// When a timer fires, and its number.
pub(super) type Timer = (Instant, u64);

impl Timers {
    /// When the next timer fires.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.waiting.front().map(|((due, _), _)| *due)
    }

    /// Adds a timer, and returns its number.
    pub(super) fn add(&mut self, due: Instant, waker: Waker) -> u64 {
        self.last += 1;
        let timer = (due, self.last);
        let place = self.waiting.partition_point(|(other, _)| *other < timer);
        self.waiting.insert(place, (timer, waker));
        self.last
    }

    fn place(&self, timer: Timer) -> Option<usize> {
        let place = self.waiting.binary_search_by_key(&timer, |(it, _)| *it);
        place.ok()
    }

    /// Whom this timer wakes, if it has not fired.
    pub(super) fn waker(&mut self, timer: Timer) -> Option<&mut Waker> {
        let place = self.place(timer)?;
        self.waiting.get_mut(place).map(|(_, waker)| waker)
    }

    pub(super) fn remove(&mut self, timer: Timer) -> Option<Waker> {
        let place = self.place(timer)?;
        self.waiting.remove(place).map(|(_, waker)| waker)
    }

    /// Takes the timers from the first one on that are due.
    pub(crate) fn fire(&mut self, is_due: impl Fn(Instant) -> bool, woken: &mut Vec<Waker>) {
        while self.next().is_some_and(&is_due) {
            let Some((_, waker)) = self.waiting.pop_front() else {
                break;
            };
            woken.push(waker);
        }
    }

    /// Frees the capacity that many timers have left.
    pub(crate) fn shrink_to_fit(&mut self) {
        shrink(&mut self.waiting);
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    #[test]
    fn the_room_of_a_burst_is_given_back() {
        let (mut timers, due) = (Timers::default(), Instant::now());
        let all: Vec<_> = (0..1000)
            .map(|_| timers.add(due, Waker::noop().clone()))
            .collect();
        for number in all.into_iter().rev() {
            assert!(timers.remove((due, number)).is_some());
        }
        timers.shrink_to_fit();
        assert_eq!(timers.waiting.capacity(), 0);
    }
}
