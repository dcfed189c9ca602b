//! Requests that were not handed to the transport yet: their order, their bytes, their options.
//!
//! Invariant: the numbers of the requests grow from front to back, so a request is found by its
//! number. Not here: requests that were sent (`in_flight`), callers that wait for capacity
//! (`client::capacity`).

use std::{collections::VecDeque, time::Instant};

use lockkeeper_proto::{
    Request,
    header::RequestHeader,
    jute::{Decode, Encode},
    records::SetWatches,
};

use super::in_flight::ReplyTo;
use crate::machine::{RequestOptions, spare::give_back};

/// A request that was not handed to the transport yet.
#[derive(Debug)]
pub(crate) struct Queued<T> {
    pub(crate) request: Request,
    pub(crate) reply_to: ReplyTo<T>,
    pub(crate) options: RequestOptions,
    /// Unique among the requests of callers; 0 for restored watches.
    pub(crate) number: u64,
    bytes: usize,
}

impl<T> Queued<T> {
    /// A request of the machine itself, to be sent right behind this one.
    pub(crate) fn behind(&self, watches: SetWatches, now: Instant) -> Self {
        let (since, restore) = (watches.relative_zxid, false);
        Self {
            request: Request::SetWatches(watches),
            reply_to: ReplyTo::SetWatches { since, restore },
            options: RequestOptions::at(now),
            number: self.number + 1,
            bytes: 0,
        }
    }
}

/// The queued requests, oldest first.
#[derive(Debug)]
pub(crate) struct Backlog<T> {
    queue: VecDeque<Queued<T>>,
    bytes: usize,
    last_number: u64,
}

impl<T> Backlog<T> {
    pub(crate) fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            bytes: 0,
            last_number: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The bytes of the requests of callers, as [`request_bytes`] counts them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The oldest request.
    pub(crate) fn first(&self) -> Option<&Request> {
        self.queue.front().map(|queued| &queued.request)
    }

    /// The options of the oldest request.
    pub(crate) fn oldest(&self) -> Option<&RequestOptions> {
        self.queue.front().map(|queued| &queued.options)
    }

    /// Puts a request at the end, and returns its number. `bytes` is its length, or 0 for a request
    /// of the machine itself.
    pub(crate) fn push(
        &mut self,
        request: Request,
        bytes: usize,
        reply_to: ReplyTo<T>,
        options: RequestOptions,
    ) -> u64 {
        // The number in between is for the request that may have to follow this one.
        self.last_number += 2;
        self.bytes += bytes;
        self.queue.push_back(Queued {
            request,
            reply_to,
            options,
            number: self.last_number,
            bytes,
        });
        self.last_number
    }

    /// Puts requests of the machine itself at the front, in this order.
    pub(crate) fn put_first(&mut self, requests: Vec<(Request, ReplyTo<T>)>, now: Instant) {
        for (request, reply_to) in requests.into_iter().rev() {
            self.queue.push_front(Queued {
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
        let queued = self.queue.pop_front()?;
        self.bytes -= queued.bytes;
        Some(queued)
    }

    /// Takes out the request with this number.
    pub(crate) fn withdraw(&mut self, number: u64) -> Option<Queued<T>> {
        let index = (self.queue)
            .binary_search_by_key(&number, |queued| queued.number)
            .ok()?;
        let queued = self.queue.remove(index)?;
        self.bytes -= queued.bytes;
        Some(queued)
    }

    /// Takes out the requests that do not outlive a connection: those of the machine itself.
    pub(crate) fn disconnect(&mut self) -> VecDeque<Queued<T>> {
        let stays = |queued: &Queued<T>| queued.reply_to.is_caller();
        if self.queue.iter().all(stays) {
            return VecDeque::new();
        }
        let (stay, go): (VecDeque<_>, VecDeque<_>) = self.queue.drain(..).partition(stays);
        self.queue = stay;
        self.bytes = self.queue.iter().map(|queued| queued.bytes).sum();
        go
    }

    /// Frees the room that a burst has left.
    pub(crate) fn give_back_room(&mut self) {
        give_back(&mut self.queue);
    }

    /// Takes out all requests.
    pub(crate) fn take(&mut self) -> VecDeque<Queued<T>> {
        self.bytes = 0;
        std::mem::take(&mut self.queue)
    }
}

/// The length of a request on the wire, without that of its frame.
#[must_use]
pub fn request_bytes(request: &Request) -> usize {
    RequestHeader::SMALLEST.saturating_add(request.encoded_len())
}
