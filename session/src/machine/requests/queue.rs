//! Requests that were not handed to the transport yet: their order, their bytes, and the deadlines
//! of all callers.
//!
//! Invariant: the numbers of the requests grow from front to back, so a request is found by its
//! number. Not here: requests that were sent (`in_flight`), callers that wait for capacity
//! (`client::capacity`).

use std::{
    collections::{BTreeSet, VecDeque},
    time::Instant,
};

use lockkeeper_proto::Xid;

use super::{Encoded, in_flight::ReplyTo};
use crate::machine::{RequestOptions, spare::give_back};

/// A request that was not handed to the transport yet.
#[derive(Debug)]
pub(crate) struct Queued<T> {
    pub(crate) request: Encoded,
    pub(crate) reply_to: ReplyTo<T>,
    pub(crate) options: RequestOptions,
    /// Unique among the requests of callers; 0 for those that a connection begins with.
    pub(crate) number: u64,
}

impl<T> Queued<T> {
    /// How much room it takes. Requests of the machine itself take none from callers.
    fn bytes(&self) -> usize {
        if self.reply_to.has_caller() {
            self.request.len()
        } else {
            0
        }
    }
}

/// The queued requests, oldest first.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    waiting: VecDeque<Queued<T>>,
    /// Of the requests of callers.
    bytes: usize,
    last_number: u64,
    next_xid: i32,
    /// The deadlines of callers, each with the number of its request, which may have been sent.
    deadlines: BTreeSet<(Instant, u64)>,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            bytes: 0,
            last_number: 0,
            next_xid: 1,
            deadlines: BTreeSet::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The bytes of the requests of callers, without those of their frames.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The oldest request.
    pub(crate) fn first(&self) -> Option<&Queued<T>> {
        self.waiting.front()
    }

    /// Puts a request at the end, and returns its number.
    pub(crate) fn push(
        &mut self,
        request: Encoded,
        reply_to: ReplyTo<T>,
        options: RequestOptions,
    ) -> u64 {
        self.last_number += 1;
        let number = self.last_number;
        if let Some(deadline) = options.deadline {
            self.deadlines.insert((deadline, number));
        }
        let queued = Queued {
            request,
            reply_to,
            options,
            number,
        };
        self.bytes += queued.bytes();
        self.waiting.push_back(queued);
        number
    }

    /// Puts requests at the front, in this order: what a connection begins with.
    pub(crate) fn put_first(&mut self, requests: Vec<(Encoded, ReplyTo<T>)>, now: Instant) {
        for (request, reply_to) in requests.into_iter().rev() {
            let queued = Queued {
                request,
                reply_to,
                options: RequestOptions::at(now),
                number: 0,
            };
            self.bytes += queued.bytes();
            self.waiting.push_front(queued);
        }
    }

    /// Takes out the oldest request.
    pub(crate) fn pop(&mut self) -> Option<Queued<T>> {
        let queued = self.waiting.pop_front()?;
        self.bytes -= queued.bytes();
        Some(queued)
    }

    /// Takes out the requests that do not outlive a connection: those of the machine itself.
    pub(crate) fn take_own(&mut self) -> VecDeque<Queued<T>> {
        let stays = |queued: &Queued<T>| queued.reply_to.has_caller();
        if self.waiting.iter().all(stays) {
            return VecDeque::new();
        }
        let (stay, go): (VecDeque<_>, VecDeque<_>) = self.waiting.drain(..).partition(stays);
        self.waiting = stay;
        self.bytes -= go.iter().map(Queued::bytes).sum::<usize>();
        go
    }

    /// Takes out all requests.
    pub(crate) fn take(&mut self) -> VecDeque<Queued<T>> {
        self.bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    /// The number of the next request on the wire. It is unique in a session, over all its
    /// connections. Otherwise a follower that still waits for a write of the former connection would
    /// answer the new request with the result of the old one.
    pub(crate) fn take_xid(&mut self) -> Xid {
        let xid = self.next_xid;
        self.next_xid = xid.checked_add(1).unwrap_or(1);
        Xid(xid)
    }

    /// When the first caller wants to wait no longer.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// A request whose deadline has come: its number, and the request if it was not sent yet.
    pub(crate) fn overdue(&mut self, now: Instant) -> Option<(u64, Option<Queued<T>>)> {
        let (_, number) = *self
            .deadlines
            .first()
            .filter(|(deadline, _)| *deadline <= now)?;
        self.deadlines.pop_first();
        let index = self
            .waiting
            .binary_search_by_key(&number, |queued| queued.number);
        let queued = index.ok().and_then(|index| self.waiting.remove(index));
        if let Some(queued) = &queued {
            self.bytes -= queued.bytes();
        }
        Some((number, queued))
    }

    /// The request with this number is settled: its deadline counts no more.
    pub(crate) fn settled(&mut self, options: &RequestOptions, number: u64) {
        if let Some(deadline) = options.deadline {
            self.deadlines.remove(&(deadline, number));
        }
    }

    /// Frees the room that a burst has left.
    pub(crate) fn give_back_room(&mut self) {
        give_back(&mut self.waiting);
    }
}

#[cfg(test)]
impl<T> Queue<T> {
    /// Lets the numbers on the wire begin here.
    pub(crate) fn set_next_xid(&mut self, xid: i32) {
        self.next_xid = xid;
    }
}
