//! What a caller asks for: whether it is accepted, how long it may take, and how it is given up.
//!
//! Not here: what happens on the wire (`transmit`, `replies`).

use std::time::Instant;

use lockkeeper_proto::{OpCode, Request};

use super::{
    backlog::{Queued, request_bytes},
    in_flight::{InFlight, PendingWatch, ReplyTo},
};
use crate::{
    Effect, Error,
    machine::{Machine, RequestOptions, WatchId},
};

impl<T> Machine<T> {
    /// Submits a request. Requests are sent in the order in which they are submitted. A request
    /// that waits for a connection fails when there is none within the session timeout.
    ///
    /// A request that leaves a watch (its `watch` is true) returns an id: the event comes with it.
    pub fn submit(&mut self, now: Instant, token: T, request: Request) -> Option<WatchId> {
        self.submit_with(now, token, request, RequestOptions::at(now))
    }

    /// As [`submit`](Self::submit), with options.
    pub fn submit_with(
        &mut self,
        now: Instant,
        token: T,
        request: Request,
        options: RequestOptions,
    ) -> Option<WatchId> {
        let bytes = request_bytes(&request);
        if let Some(error) = self.refusal(now, request.op(), bytes, &options) {
            self.complete(token, Err(error));
            return None;
        }
        let watch = PendingWatch::of(&request, &mut self.watches);
        let id = watch.as_ref().map(|watch| watch.id);
        let reply_to = ReplyTo::Caller { token, watch };
        let number = self.queue.push(request, bytes, reply_to, options);
        if let Some(deadline) = options.deadline {
            self.deadlines.insert((deadline, number));
        }
        id
    }

    /// Whether a caller that can wait may submit a request now, or would get an error at once.
    ///
    /// [`submit`](Self::submit) accepts twice as many requests and bytes. That reserve is for
    /// callers that cannot wait: the release of a lock in a `Drop` must not fail because other
    /// callers submit much.
    #[must_use]
    pub fn has_capacity(
        &self,
        now: Instant,
        request_bytes: usize,
        options: &RequestOptions,
    ) -> bool {
        self.is_closing()
            || request_bytes > self.config.max_request
            || options.deadline.is_some_and(|deadline| deadline <= now)
            || self.fits(request_bytes, 1)
    }

    /// Whether a request of this size fits into `times` the configured capacity.
    fn fits(&self, request_bytes: usize, times: usize) -> bool {
        let (queued, most) = (self.queue.bytes(), self.config.max_queued_bytes);
        self.outstanding() < self.config.max_outstanding.saturating_mul(times)
            // A request that is longer than the whole capacity goes alone.
            && (queued == 0
                || queued.saturating_add(request_bytes) <= most.saturating_mul(times))
    }

    /// Why a caller's request of this length is not accepted now. A request that is too long must
    /// not take space in the queue.
    pub(crate) fn refusal(
        &self,
        now: Instant,
        op: OpCode,
        length: usize,
        options: &RequestOptions,
    ) -> Option<Error> {
        if let Some(error) = self.ended() {
            return Some(error.clone());
        }
        if self.closing.is_some() {
            return Some(Error::Closed(Effect::NotApplied));
        }
        if !self.unsupported.is_empty()
            && let Some(error) = self.unsupported.refusal(op)
        {
            return Some(error);
        }
        let limit = self.config.max_request;
        if length > limit {
            return Some(Error::TooLarge { length, limit });
        }
        if options.deadline.is_some_and(|deadline| deadline <= now) {
            return Some(self.deadline_exceeded(op, options, Effect::NotApplied));
        }
        (!self.fits(length, 2)).then(|| Error::TooManyRequests {
            requests: self.outstanding(),
            bytes: self.queue.bytes(),
        })
    }

    fn deadline_exceeded(&self, op: OpCode, options: &RequestOptions, effect: Effect) -> Error {
        let waited = options
            .deadline
            .map(|deadline| deadline.saturating_duration_since(options.since));
        Error::DeadlineExceeded {
            op,
            waited: waited.unwrap_or_default(),
            peer: self.peer(),
            effect,
        }
    }

    /// Fails the requests whose deadlines have come. A request that was sent goes on, and its reply
    /// is ignored.
    pub(crate) fn fail_overdue(&mut self, now: Instant) {
        while let Some((deadline, number)) = self.deadlines.first().copied()
            && deadline <= now
        {
            self.deadlines.pop_first();
            if let Some(queued) = self.queue.withdraw(number) {
                let op = queued.request.op();
                let error = self.deadline_exceeded(op, &queued.options, Effect::NotApplied);
                self.fail(op, queued.reply_to, error);
            } else {
                self.abandon(number);
            }
        }
    }

    /// Tells the caller of a request that was sent that its deadline has come.
    fn abandon(&mut self, number: u64) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        let in_flight = &mut connection.in_flight;
        let found = in_flight.binary_search_by_key(&number, |request| request.number);
        let Some(request) = found.ok().and_then(|index| in_flight.get_mut(index)) else {
            return;
        };
        let reply_to = std::mem::replace(&mut request.reply_to, ReplyTo::Nobody { watch: None });
        let ReplyTo::Caller { token, watch } = reply_to else {
            request.reply_to = reply_to;
            return;
        };
        // The server may have set the watch by now. The machine removes it when the reply says so.
        let id = watch.as_ref().map(|watch| watch.id);
        request.reply_to = ReplyTo::Nobody { watch };
        let (op, options) = (request.op, request.options);
        if let Some(id) = id {
            self.cancel(id);
        }
        let error = self.deadline_exceeded(op, &options, Effect::Unknown);
        self.complete_failed(op, token, error);
    }

    /// Fails the request that has waited for a connection for the longest time.
    pub(crate) fn fail_oldest_queued(&mut self, now: Instant) {
        if let Some(queued) = self.queue.pop() {
            let error = Error::Unreachable {
                waited: now.duration_since(queued.options.since),
                tried: self.failures_until(now),
                servers: self.endpoints.len(),
            };
            self.give_back(queued, error);
        }
    }

    /// Settles a request that was not sent.
    pub(crate) fn give_back(&mut self, queued: Queued<T>, error: Error) {
        self.forget_deadline(&queued.options, queued.number);
        self.fail(queued.request.op(), queued.reply_to, error);
    }

    /// Settles a request whose reply will not come.
    pub(crate) fn lose_request(&mut self, request: InFlight<T>, error: Error) {
        self.forget_deadline(&request.options, request.number);
        self.fail(request.op, request.reply_to, error);
    }

    pub(crate) fn forget_deadline(&mut self, options: &RequestOptions, number: u64) {
        if let Some(deadline) = options.deadline {
            self.deadlines.remove(&(deadline, number));
        }
    }
}
