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

use lockkeeper_proto::{Request, Xid};

use super::in_flight::{Own, ReplyTo};
use crate::machine::{RequestOptions, spare::give_back};

/// A request that was not handed to the transport yet.
#[derive(Debug)]
pub(crate) struct Queued<T> {
    pub(crate) request: Request,
    pub(crate) reply_to: ReplyTo<T>,
    pub(crate) options: RequestOptions,
    /// Unique among the requests of callers; 0 for those that a connection begins with.
    pub(crate) number: u64,
    bytes: usize,
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

    /// The bytes of the requests of callers, as [`request_bytes`](super::request_bytes) counts them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The oldest request.
    pub(crate) fn first(&self) -> Option<&Queued<T>> {
        self.waiting.front()
    }

    /// Puts a request of a caller at the end. `bytes` is its length.
    pub(crate) fn push(
        &mut self,
        request: Request,
        bytes: usize,
        reply_to: ReplyTo<T>,
        options: RequestOptions,
    ) -> u64 {
        self.last_number += 1;
        self.bytes += bytes;
        if let Some(deadline) = options.deadline {
            self.deadlines.insert((deadline, self.last_number));
        }
        self.waiting.push_back(Queued {
            request,
            reply_to,
            options,
            number: self.last_number,
            bytes,
        });
        self.last_number
    }

    /// Puts a request of the machine itself at the end, and returns its number. It does not outlive
    /// the connection, so it needs no deadline.
    pub(crate) fn push_own(&mut self, now: Instant, request: Request, own: Own) -> u64 {
        self.push(request, 0, ReplyTo::Own(own), RequestOptions::at(now))
    }

    /// Puts requests at the front, in this order.
    pub(crate) fn put_first(&mut self, requests: Vec<(Request, ReplyTo<T>)>, now: Instant) {
        for (request, reply_to) in requests.into_iter().rev() {
            self.waiting.push_front(Queued {
                request,
                reply_to,
                options: RequestOptions::at(now),
                number: 0,
                bytes: 0,
            });
        }
    }

    /// Takes out the oldest request.
    pub(crate) fn pop(&mut self) -> Option<Queued<T>> {
        let queued = self.waiting.pop_front()?;
        self.bytes -= queued.bytes;
        Some(queued)
    }

    /// Takes out the requests that do not outlive a connection: those of the machine itself.
    pub(crate) fn take_own(&mut self) -> VecDeque<Queued<T>> {
        let stays = |queued: &Queued<T>| matches!(queued.reply_to, ReplyTo::Caller(..));
        if self.waiting.iter().all(stays) {
            return VecDeque::new();
        }
        let (stay, go): (VecDeque<_>, VecDeque<_>) = self.waiting.drain(..).partition(stays);
        self.waiting = stay;
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
    pub(crate) fn next_xid(&self) -> Xid {
        Xid(self.next_xid)
    }

    /// That number is used.
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
            self.bytes -= queued.bytes;
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
