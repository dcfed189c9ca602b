//! What a user asks for: whether there is room for it, how long it may take, and how it is given up.
//!
//! Not here: what becomes of it on the wire (`transmit`, `replies`).

use std::time::Instant;

use bytes::BytesMut;
use lockkeeper_proto::{Request, Xid};

use crate::machine::{
    InFlight, Machine, Phase, Queued, ReplyTo, RequestOptions, WatchId, requests::backlog,
    requests::in_flight::PendingWatch, requests::transmit,
};
use crate::{Effect, Error};

impl<T> Machine<T> {
    /// Asks something of the server. Requests are sent in the order in which they are submitted; those that wait for a
    /// connection are given up when none comes about within the session timeout.
    ///
    /// A request that leaves a watch (its `watch` is true) gets an id, under which the event comes.
    pub fn submit(&mut self, now: Instant, token: T, request: Request) -> Option<WatchId> {
        self.submit_with(now, token, request, RequestOptions::at(now))
    }

    /// As [`submit`](Self::submit), on options of the caller's own.
    pub fn submit_with(
        &mut self,
        now: Instant,
        token: T,
        request: Request,
        options: RequestOptions,
    ) -> Option<WatchId> {
        if let Some(error) = self.refusal(now, &request, &options) {
            self.complete(token, Err(error));
            return None;
        }
        let watch = PendingWatch::of(&request, &mut self.watches);
        let id = watch.as_ref().map(|watch| watch.id);
        let reply_to = ReplyTo::Caller { token, watch };
        let number = self.queue.push(request, reply_to, options);
        if let Some(deadline) = options.deadline {
            self.deadlines.insert((deadline, number));
        }
        id
    }

    /// Whether a request may be submitted now by whoever is able to wait, or gets an answer at once.
    ///
    /// [`submit`](Self::submit) takes twice as many requests and bytes, for those that cannot wait: the release of a lock
    /// in a `Drop` must not be refused because others ask for much.
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
            || (options.fail_fast && !self.is_connected())
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
    pub(crate) fn refusal(
        &self,
        now: Instant,
        request: &Request,
        options: &RequestOptions,
    ) -> Option<Error> {
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
        if options.deadline.is_some_and(|deadline| deadline <= now) {
            return Some(self.too_late(op, options, Effect::NotApplied));
        }
        if options.fail_fast && !self.is_connected() {
            return Some(Error::NotConnected(self.endpoints.newest()));
        }
        (!self.fits(request_bytes, 2)).then(|| Error::TooManyRequests {
            requests: self.outstanding(),
            bytes: self.queue.bytes(),
        })
    }

    fn too_late(
        &self,
        op: lockkeeper_proto::OpCode,
        options: &RequestOptions,
        effect: Effect,
    ) -> Error {
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

    /// When the first caller waits no longer.
    pub(crate) fn first_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Tells the callers whose deadline has come. What was sent goes on, and its reply will interest nobody.
    pub(crate) fn fail_overdue(&mut self, now: Instant) {
        while let Some((_, number)) = self
            .deadlines
            .first()
            .filter(|(due, _)| *due <= now)
            .copied()
        {
            self.deadlines.pop_first();
            if let Some(Queued {
                request,
                reply_to,
                options,
                ..
            }) = self.queue.withdraw(number)
            {
                let error = self.too_late(request.op(), &options, Effect::NotApplied);
                self.fail(request.op(), reply_to, error);
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
        let reply_to = std::mem::replace(&mut request.reply_to, ReplyTo::Nobody { watch: None });
        let ReplyTo::Caller { token, watch } = reply_to else {
            request.reply_to = reply_to;
            return;
        };
        // The watch may be left by now: it is taken back when the reply says so.
        let id = watch.as_ref().map(|watch| watch.id);
        request.reply_to = ReplyTo::Nobody { watch };
        let (op, options) = (request.op, request.options);
        if let Some(id) = id {
            self.cancel(now, id);
        }
        let error = self.too_late(op, &options, Effect::Unknown);
        tracing::trace!(%op, %error, "request failed");
        self.complete(token, Err(error));
    }

    /// Gives up the request that has waited longest for a connection.
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
