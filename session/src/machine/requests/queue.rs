//! The requests that are not settled: first those that were sent on the connection, then those that
//! wait; and which of those sent a reply answers.
//!
//! A request that is sent keeps its place: the border between the two moves behind it.
//!
//! Invariants:
//! - The numbers of the requests grow from front to back, so a request is found by its number.
//! - Replies come in the order of the requests, and answers to identities in their own order, ahead
//!   of requests that the server has not processed yet. A reply whose xid is not that of the oldest
//!   request ends the connection.

use std::{collections::VecDeque, time::Instant};

use bytes::BytesMut;
use lockkeeper_proto::{Xid, header::ReplyHeader};

use super::overtakes;
use crate::machine::{encoded::Encoded, output::RequestOptions, spare::shrink};

/// A request that is not settled.
#[derive(Debug)]
pub(crate) struct Pending<R> {
    pub(crate) request: Encoded,
    pub(crate) reply_to: R,
    /// `None` for a request of the machine itself. It does not outlive a connection.
    pub(super) options: Option<RequestOptions>,
    /// Even, and unique among those that were pushed at the end. 0 for those that a connection
    /// begins with, odd for others that went ahead.
    pub(crate) number: u64,
    /// The number under which it was sent. It means nothing until then, and neither does `at`.
    pub(crate) xid: Xid,
    /// When it was handed over. The server cannot have received it earlier.
    pub(crate) at: Instant,
}

impl<R> Pending<R> {
    /// Whether it is one of the machine itself.
    pub(crate) fn is_own(&self) -> bool {
        self.options.is_none()
    }

    /// How much room it takes while it waits. Requests of the machine itself take none from callers.
    fn bytes(&self) -> usize {
        room(&self.request, self.options.is_some())
    }
}

fn room(request: &Encoded, is_callers: bool) -> usize {
    if is_callers { request.len() } else { 0 }
}

/// All of them, oldest first.
#[derive(Debug)]
pub(super) struct Queue<R> {
    requests: VecDeque<Pending<R>>,
    /// How many were sent.
    pub(super) sent: usize,
    /// How many of these are identities.
    identities: usize,
    /// Of the waiting requests of callers, without those of their frames.
    pub(super) bytes: usize,
    /// The number of the newest request that a transmit has seen.
    known: u64,
    /// When the last request was answered, or else when the connection was established.
    last_answered: Instant,
}

impl<R> Queue<R> {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            requests: VecDeque::new(),
            sent: 0,
            identities: 0,
            bytes: 0,
            known: 0,
            last_answered: now,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Puts a request at the end. Inline, as a request is long.
    #[inline]
    pub(super) fn push(
        &mut self,
        request: Encoded,
        reply_to: R,
        options: Option<RequestOptions>,
        number: u64,
    ) {
        self.bytes += room(&request, options.is_some());
        self.requests.push_back(Pending {
            request,
            reply_to,
            options,
            number,
            xid: Xid(0),
            at: self.last_answered,
        });
    }

    /// Moves the last request ahead of those that wait.
    pub(super) fn last_to_front(&mut self) {
        if let Some(last) = self.requests.pop_back() {
            self.requests.insert(self.sent, last);
        }
    }

    /// Puts a request of the machine itself behind its other ones that wait next, and ahead of all
    /// else.
    pub(super) fn push_ahead(&mut self, request: Encoded, reply_to: R) {
        let waiting = self.requests.range(self.sent..);
        let place = self.sent + waiting.take_while(|it| it.is_own()).count();
        let before = place.checked_sub(1).and_then(|at| self.requests.get(at));
        // Nobody looks for it by its number.
        let number = before.map_or(0, |before| before.number) | 1;
        self.push(request, reply_to, None, number);
        if let Some(last) = self.requests.pop_back() {
            self.requests.insert(place, last);
        }
    }

    /// The wait of callers begins now, unless it is known since when they wait.
    pub(super) fn waits_from(&mut self, now: Instant) {
        let waiting = self.requests.range_mut(self.sent..).rev();
        let new = waiting.take_while(|it| it.number > self.known);
        for options in new.filter_map(|it| it.options.as_mut()) {
            options.since.get_or_insert(now);
        }
        self.known = self.requests.back().map_or(self.known, |last| last.number);
    }

    /// The connection is established.
    pub(super) fn opened(&mut self, now: Instant) {
        self.last_answered = now;
    }

    /// The oldest request that waits.
    pub(super) fn next(&self) -> Option<&Pending<R>> {
        self.requests.get(self.sent)
    }

    /// Sends this one under this number.
    pub(super) fn send(&mut self, now: Instant, xid: Xid, out: &mut BytesMut) {
        let Some(next) = self.requests.get_mut(self.sent) else {
            return;
        };
        let request = &mut next.request;
        tracing::trace!(xid = xid.0, op = %request.op(), path = request.path(), "request sent");
        request.send(xid, out);
        (next.xid, next.at) = (xid, now);
        self.bytes -= next.bytes();
        self.sent += 1;
        self.identities += usize::from(xid == Xid::AUTH);
    }

    fn all_sent(&self) -> impl Iterator<Item = &Pending<R>> {
        self.requests.iter().take(self.sent)
    }

    /// The oldest request that was sent, except for identities.
    pub(super) fn oldest_sent(&self) -> Option<&Pending<R>> {
        self.all_sent().find(|sent| sent.xid != Xid::AUTH)
    }

    /// Since when the server could have answered the oldest request, or the oldest identity, which
    /// waits for no request.
    pub(super) fn unanswered_since(&self) -> Option<Instant> {
        let oldest = self.requests.front().filter(|_| self.sent > 0)?;
        let request = oldest.at.max(self.last_answered);
        if self.identities == 0 {
            return Some(request);
        }
        let identity = self.all_sent().find(|sent| sent.xid == Xid::AUTH)?;
        Some(request.min(identity.at))
    }

    fn position(&self, is_it: impl Fn(Xid) -> bool) -> Option<usize> {
        (0..self.sent).find(|at| self.requests.get(*at).is_some_and(|sent| is_it(sent.xid)))
    }

    /// The place of the request that is answered: the oldest identity for an answer to one; for any
    /// other the oldest request, whose number it must have. Only the answer that the server does not
    /// know an operation may overtake others.
    ///
    /// # Errors
    /// The number of the request whose reply should have come.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        header: Option<&ReplyHeader>,
    ) -> Result<usize, Option<Xid>> {
        let got = header.map(|header| header.xid);
        if header.is_some_and(overtakes) {
            if let Some(at) = self.position(|xid| Some(xid) == got) {
                return Ok(at);
            }
        }
        let is_identity = got == Some(Xid::AUTH);
        let at = self.position(|xid| (xid == Xid::AUTH) == is_identity);
        let at = at.ok_or(None)?;
        let expected = self.requests.get(at).map(|sent| sent.xid);
        if got.is_some() && got != expected {
            return Err(expected);
        }
        if !is_identity {
            // The time of those behind it counts from here: replies come in order, so the server
            // could not have answered them earlier.
            self.last_answered = now;
        }
        Ok(at)
    }

    /// The place of the request with this number.
    pub(super) fn find(&self, number: u64) -> Option<usize> {
        let found = self.requests.binary_search_by_key(&number, |it| it.number);
        found.ok()
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Pending<R>> {
        self.requests.get_mut(at)
    }

    /// Takes out the request at this place. Mostly it is the oldest of all. Inline, as a request is
    /// long.
    #[inline]
    pub(super) fn take(&mut self, at: usize) -> Option<Pending<R>> {
        let taken = self.requests.get(at)?;
        if at < self.sent {
            self.sent -= 1;
            self.identities -= usize::from(taken.xid == Xid::AUTH);
        } else {
            self.bytes -= taken.bytes();
        }
        match at {
            0 => self.requests.pop_front(),
            at => self.requests.remove(at),
        }
    }

    /// Takes out the waiting requests for which this holds.
    pub(super) fn take_waiting(&mut self, goes: &dyn Fn(&Pending<R>) -> bool) -> Vec<Pending<R>> {
        let mut taken = Vec::new();
        for waiting in self.requests.split_off(self.sent) {
            if goes(&waiting) {
                self.bytes -= waiting.bytes();
                taken.push(waiting);
            } else {
                self.requests.push_back(waiting);
            }
        }
        taken
    }

    /// Frees the capacity that a burst has left.
    pub(super) fn shrink_to_fit(&mut self) {
        shrink(&mut self.requests);
    }
}
