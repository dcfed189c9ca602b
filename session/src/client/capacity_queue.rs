//! The line of callers whose requests would be too many, or too large together: first come, first served.
//!
//! Invariant: whoever comes while others wait goes behind them; whoever stops waiting makes place for the next one.
//! Not here: how much room there is (`machine::submit`), and the futures that wait (`room`).

use std::{
    collections::{BTreeMap, BTreeSet},
    task::Waker,
    time::Instant,
};

use crate::machine::{Machine, RequestOptions};

/// Those who wait, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct CapacityQueue {
    waiting: BTreeMap<u64, Waiting>,
    deadlines: BTreeSet<(Instant, u64)>,
    /// How many of them do not wait for a connection.
    fail_fast: usize,
    last_ticket: u64,
}

#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) waker: Waker,
    pub(crate) bytes: usize,
    pub(crate) options: RequestOptions,
}

impl CapacityQueue {
    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// When the first of them waits no longer.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Takes a place: a new one at the end, or the one that it had.
    pub(crate) fn wait(&mut self, ticket: Option<u64>, waiting: Waiting) -> u64 {
        let ticket = ticket.unwrap_or_else(|| {
            self.last_ticket += 1;
            self.last_ticket
        });
        self.leave(ticket);
        if let Some(deadline) = waiting.options.deadline {
            self.deadlines.insert((deadline, ticket));
        }
        self.fail_fast += usize::from(waiting.options.fail_fast);
        self.waiting.insert(ticket, waiting);
        ticket
    }

    pub(crate) fn leave(&mut self, ticket: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&ticket)?;
        if let Some(deadline) = waiting.options.deadline {
            self.deadlines.remove(&(deadline, ticket));
        }
        self.fail_fast -= usize::from(waiting.options.fail_fast);
        Some(waiting)
    }

    pub(crate) fn is_first(&self, ticket: Option<u64>) -> bool {
        let first = self.waiting.first_key_value();
        first.is_none_or(|(first, _)| ticket == Some(*first))
    }

    /// Who is to look again: the first one in the line when there is room, and whoever need not wait any longer.
    ///
    /// The first one that gets in calls the next.
    pub(crate) fn woken<T>(&mut self, now: Instant, machine: &Machine<T>) -> Vec<Waker> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        if machine.is_closing() {
            self.deadlines.clear();
            self.fail_fast = 0;
            let all = std::mem::take(&mut self.waiting);
            return all.into_values().map(|waiting| waiting.waker).collect();
        }
        let mut woken = Vec::new();
        while let Some((_, ticket)) =
            (self.deadlines.first().copied()).filter(|(due, _)| *due <= now)
        {
            woken.extend(self.leave(ticket).map(|waiting| waiting.waker));
        }
        if self.fail_fast > 0 && !machine.is_connected() {
            let fail_fast = |waiting: &Waiting| waiting.options.fail_fast;
            let tickets = self
                .waiting
                .iter()
                .filter(|(_, waiting)| fail_fast(waiting));
            let tickets: Vec<u64> = tickets.map(|(ticket, _)| *ticket).collect();
            for ticket in tickets {
                woken.extend(self.leave(ticket).map(|waiting| waiting.waker));
            }
        }
        if let Some((_, first)) = self.waiting.first_key_value()
            && machine.has_capacity(now, first.bytes, &first.options)
        {
            woken.push(first.waker.clone());
        }
        woken
    }
}
