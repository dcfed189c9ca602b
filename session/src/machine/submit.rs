//! What a user asks for: whether there is room for it, how long it may take, and how it is given up.
//!
//! Not here: what becomes of it on the wire (`transmit`, `replies`).

use std::time::Instant;

use bytes::BytesMut;
use lockkeeper_proto::{Request, Xid};

use super::{
    InFlight, Machine, Phase, Purpose, Queued, Terms, WatchId, backlog, in_flight::Announced,
    transmit,
};
use crate::{Effect, Error};

impl<T> Machine<T> {
    /// Asks something of the server. Requests are sent in the order in which they are submitted; those that wait for a
    /// connection are given up when none comes about within the session timeout.
    ///
    /// A request that leaves a watch (its `watch` is true) gets an id, under which the event comes.
    pub fn submit(&mut self, now: Instant, token: T, request: Request) -> Option<WatchId> {
        self.submit_on(now, token, request, Terms::patient(now))
    }

    /// As [`submit`](Self::submit), on terms of the caller's own.
    pub fn submit_on(
        &mut self,
        now: Instant,
        token: T,
        request: Request,
        terms: Terms,
    ) -> Option<WatchId> {
        if let Some(error) = self.refusal(now, &request, &terms) {
            self.complete(token, Err(error));
            return None;
        }
        let watch = Announced::of(&request, &mut self.watches);
        let id = watch.as_ref().map(|watch| watch.id);
        let purpose = Purpose::Caller { token, watch };
        let number = self.queue.push(request, purpose, terms);
        if let Some(deadline) = terms.deadline {
            self.deadlines.insert((deadline, number));
        }
        id
    }

    /// Whether a request may be submitted now by whoever is able to wait, or gets an answer at once.
    ///
    /// [`submit`](Self::submit) takes twice as many requests and bytes, for those that cannot wait: the release of a lock
    /// in a `Drop` must not be refused because others ask for much.
    #[must_use]
    pub fn has_room(&self, now: Instant, request_bytes: usize, terms: &Terms) -> bool {
        self.is_closing()
            || request_bytes > self.config.max_request
            || terms.deadline.is_some_and(|deadline| deadline <= now)
            || (terms.fail_fast && !self.is_connected())
            || self.fits(request_bytes, 1)
    }

    /// Whether so many bytes fit into so many times the room that there is.
    fn fits(&self, request_bytes: usize, times: usize) -> bool {
        let (queued, most) = (self.queue.bytes(), self.config.max_queued_bytes);
        self.outstanding() < self.config.max_outstanding.saturating_mul(times)
            // What is longer than all the room goes alone.
            && (queued == 0
                || queued.saturating_add(request_bytes) <= most.saturating_mul(times))
    }

    /// Whether a server takes requests.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        matches!(self.phase, Phase::Connected { .. })
    }

    /// Why this is not taken from a caller now.
    pub(super) fn refusal(&self, now: Instant, request: &Request, terms: &Terms) -> Option<Error> {
        if let Phase::Ended(error) = &self.phase {
            return Some(error.clone());
        }
        if self.closing.is_some() {
            return Some(Error::Closed(Effect::NotApplied));
        }
        let op = request.op();
        if !self.unsupported.is_empty()
            && let Some(error) = self.unsupported.refusal(op)
        {
            return Some(error);
        }
        let request_bytes = backlog::request_bytes(request);
        if request_bytes > self.config.max_request {
            // Not worth a place in the line, nor in the buffer of all requests.
            let length = transmit::append(&mut BytesMut::new(), Xid(0), op, request);
            return Some(Error::TooLarge {
                length: length.unwrap_or_else(|error| error.length),
                limit: self.config.max_request,
            });
        }
        if terms.deadline.is_some_and(|deadline| deadline <= now) {
            return Some(self.too_late(op, terms, Effect::NotApplied));
        }
        if terms.fail_fast && !self.is_connected() {
            return Some(Error::NotConnected(self.endpoints.newest()));
        }
        (!self.fits(request_bytes, 2)).then(|| Error::TooManyRequests {
            requests: self.outstanding(),
            bytes: self.queue.bytes(),
        })
    }

    fn too_late(&self, op: lockkeeper_proto::OpCode, terms: &Terms, effect: Effect) -> Error {
        let waited = terms
            .deadline
            .map(|deadline| deadline.saturating_duration_since(terms.since));
        Error::DeadlineExceeded {
            op,
            waited: waited.unwrap_or_default(),
            peer: self.peer(),
            effect,
        }
    }

    /// When the first caller waits no longer.
    pub(super) fn first_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Tells the callers whose deadline has come. What was sent goes on, and its reply will interest nobody.
    pub(super) fn meet_deadlines(&mut self, now: Instant) {
        while let Some((_, number)) = self
            .deadlines
            .first()
            .filter(|(due, _)| *due <= now)
            .copied()
        {
            self.deadlines.pop_first();
            if let Some(Queued {
                request,
                purpose,
                terms,
                ..
            }) = self.queue.withdraw(number)
            {
                let error = self.too_late(request.op(), &terms, Effect::NotApplied);
                self.fail(request.op(), purpose, error);
            } else {
                self.abandon(now, number);
            }
        }
    }

    /// Tells the caller of a request that was sent that it has waited long enough.
    fn abandon(&mut self, now: Instant, number: u64) {
        let found = (self.in_flight).binary_search_by_key(&number, |request| request.number);
        let Some(request) = found.ok().and_then(|index| self.in_flight.get_mut(index)) else {
            return;
        };
        let purpose = std::mem::replace(&mut request.purpose, Purpose::Nobody { watch: None });
        let Purpose::Caller { token, watch } = purpose else {
            request.purpose = purpose;
            return;
        };
        // The watch may be left by now: it is taken back when the reply says so.
        let id = watch.as_ref().map(|watch| watch.id);
        request.purpose = Purpose::Nobody { watch };
        let (op, terms) = (request.op, request.terms);
        if let Some(id) = id {
            self.cancel(now, id);
        }
        let error = self.too_late(op, &terms, Effect::Unknown);
        tracing::trace!(%op, %error, "request failed");
        self.complete(token, Err(error));
    }

    /// Gives up the request that has waited longest for a connection.
    pub(super) fn lose_patience(&mut self, now: Instant) {
        if let Some(queued) = self.queue.pop() {
            let error = Error::Unreachable {
                waited: now.duration_since(queued.terms.since),
                tried: self.tried_by(now),
                servers: self.endpoints.len(),
            };
            self.give_back(queued, error);
        }
    }

    /// Settles a request that was not sent.
    pub(super) fn give_back(&mut self, queued: Queued<T>, error: Error) {
        self.forget_deadline(&queued.terms, queued.number);
        self.fail(queued.request.op(), queued.purpose, error);
    }

    /// Settles a request whose reply will not come.
    pub(super) fn lose_request(&mut self, request: InFlight<T>, error: Error) {
        self.forget_deadline(&request.terms, request.number);
        self.fail(request.op, request.purpose, error);
    }

    pub(super) fn forget_deadline(&mut self, terms: &Terms, number: u64) {
        if let Some(deadline) = terms.deadline {
            self.deadlines.remove(&(deadline, number));
        }
    }
}
