//! What a caller asks for: whether it is accepted, and how long it may take. And the way from queued
//! requests to bytes.
//!
//! A request gets its number only when the transport asks for bytes. All requests that were submitted
//! meanwhile go out in one write, and a request that was never asked for was never sent.
//!
//! Not here: what follows from replies (`replies`).

use std::time::Instant;

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    OpCode, Request, Xid, frame, header::RequestHeader, jute::Encode, records::AuthPacket,
};

use super::{
    Auth, Machine, Phase, RequestOptions, WatchId, metrics,
    requests::{Encoded, Queued, ReplyTo, Sent},
    watches::PendingWatch,
};
use crate::{Effect, Error};

/// About how many bytes are handed over at a time. A request that waits here can still be given up,
/// and is in memory only once.
const BURST: usize = 256 * 1024;

/// How many requests are under way at once; the others wait in the machine's queue, so that a lost
/// connection leaves few unknown outcomes, and a ping, which does not wait here, soon gets its turn
/// in the server's queue.
///
/// More would not be faster: a server that has so many requests in work stops reading. Source:
/// `ZooKeeperServer.java`, `globalOutstandingLimit`.
pub(crate) const WINDOW: usize = 1000;

impl<T> Machine<T> {
    /// Submits a request. Requests are sent in the order in which they are submitted. A request
    /// that waits for a connection fails when there is none within the session timeout.
    ///
    /// A request that leaves a watch (its `watch` is true) returns an id: the event comes with it.
    pub fn submit(
        &mut self,
        now: Instant,
        token: T,
        request: impl Into<Encoded>,
    ) -> Option<WatchId> {
        self.submit_with(now, token, request, RequestOptions::at(now))
    }

    /// As [`submit`](Self::submit), with options.
    pub fn submit_with(
        &mut self,
        now: Instant,
        token: T,
        request: impl Into<Encoded>,
        options: RequestOptions,
    ) -> Option<WatchId> {
        let mut request = request.into();
        let watch = match self.accept(now, &mut request, &options) {
            Ok(watch) => watch,
            Err(error) => {
                self.out.complete(request.op(), token, Err(error));
                return None;
            }
        };
        let id = watch.as_ref().map(PendingWatch::id);
        let reply_to = ReplyTo::Caller(Some(token), watch);
        self.queue.push(request, reply_to, options);
        id
    }

    /// The watch that the request will leave, if it is accepted.
    fn accept(
        &mut self,
        now: Instant,
        request: &mut Encoded,
        options: &RequestOptions,
    ) -> Result<Option<PendingWatch>, Error> {
        if let Some(error) = self.refusal(now, request, options) {
            return Err(error);
        }
        let Some(leaves) = request.take_leaves() else {
            return Ok(None);
        };
        let (watch, before) = self.watches.announce(leaves, &mut self.out)?;
        self.ask_about_watches(before);
        Ok(Some(watch))
    }

    /// Adds an identity, on this connection and on every later one.
    ///
    /// The machine keeps the identity at once, without waiting for the server's answer. It does not
    /// keep it if the request is too long or the machine has ended.
    pub fn add_auth(&mut self, now: Instant, token: T, auth: Auth) {
        let (request, options) = (packet(&auth), RequestOptions::at(now));
        if let Some(error) = self.refusal(now, &request, &options) {
            return self.out.complete(OpCode::AUTH, token, Err(error));
        }
        let reply_to = ReplyTo::Identity(Some(token), auth.scheme.clone());
        if !self.config.auth.contains(&auth) {
            self.config.auth.push(auth);
        }
        self.queue.push(request, reply_to, options);
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

    /// Why a caller's request is not accepted now. A request that is too long must not take space in
    /// the queue.
    fn refusal(&self, now: Instant, request: &Encoded, options: &RequestOptions) -> Option<Error> {
        let (op, length) = (request.op(), request.longest());
        if let Some(error) = self.ended() {
            return Some(error.clone());
        }
        if self.phase.closing().is_some() {
            return Some(Error::Closed(Effect::NotApplied));
        }
        if let Some(error) = self.support.refusal(op) {
            return Some(error);
        }
        let limit = self.config.max_request;
        if length > limit {
            return Some(Error::TooLarge { length, limit });
        }
        if options.deadline.is_some_and(|deadline| deadline <= now) {
            return Some(self.deadline_exceeded(op, options, Effect::NotApplied));
        }
        (!self.fits(request.len(), 2)).then(|| Error::TooManyRequests {
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
        while let Some((number, queued)) = self.queue.overdue(now) {
            if let Some(queued) = queued {
                let op = queued.request.op();
                let error = self.deadline_exceeded(op, &queued.options, Effect::NotApplied);
                self.fail(op, queued.reply_to, error);
            } else if let Phase::Open(open) = &mut self.phase
                && let Some((sent, caller)) = open.in_flight.abandon(number)
            {
                let (op, options, watch) = (sent.op, sent.options, sent.watch());
                // The server may have set the watch by now. The machine removes it when the reply
                // says so.
                if let Some(id) = watch {
                    self.cancel(id);
                }
                let error = self.deadline_exceeded(op, &options, Effect::Unknown);
                self.out.complete(op, caller, Err(error));
            }
        }
    }

    /// Fails the request that has waited for a connection for the longest time.
    pub(crate) fn fail_oldest_queued(&mut self, now: Instant) {
        if let Some(queued) = self.queue.pop() {
            let error = self.unreachable(now, now.duration_since(queued.options.since));
            self.give_back(queued, error);
        }
    }

    /// Appends what is to be sent now, and counts it as sent. With very much to send this is a part
    /// of it: call it again when these bytes have left.
    pub fn transmit(&mut self, now: Instant, out: &mut BytesMut) {
        let before = out.len();
        if let Phase::Trying(attempt) = &mut self.phase {
            out.extend_from_slice(&attempt.take_unsent());
        }
        while self.send_ping(out) || out.len() - before < BURST && self.send_next(now, out) {}
        if out.len() > before {
            self.out.metrics_mut().bytes_sent += metrics::bytes(out.len() - before);
        }
    }

    /// Whether [`transmit`](Self::transmit) would send more.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        match &self.phase {
            Phase::Trying(attempt) => attempt.has_unsent(),
            Phase::Open(open) => open.link.has_unsent_ping() || self.may_send_next(),
            Phase::Paused(_) | Phase::Ended(_) => false,
        }
    }

    /// Whether the oldest queued request may be sent now.
    fn may_send_next(&self) -> bool {
        let (Phase::Open(open), Some(next)) = (&self.phase, self.queue.first()) else {
            return false;
        };
        // A client that is being closed has no window to respect: its program may end before a reply
        // could make room, and the end of the session must not stay in the queue.
        let has_window = open.in_flight.len() < WINDOW || open.link.closing().is_some();
        let waits = self.config.requests_wait_for_identities && self.connections <= 1;
        let is_held_up =
            waits && open.link.is_authenticating() && next.request.op() != OpCode::AUTH;
        has_window && !open.link.is_moving() && !is_held_up
    }

    fn send_ping(&mut self, out: &mut BytesMut) -> bool {
        let open = self.phase.connection_mut();
        let has_ping = open.is_some_and(|open| open.link.take_unsent_ping());
        if has_ping {
            let (xid, op) = (Xid::PING, OpCode::PING);
            let _ = frame::append(out, |writer| RequestHeader { xid, op }.encode(writer));
        }
        has_ping
    }

    /// Sends the oldest queued request, if its turn has come.
    fn send_next(&mut self, now: Instant, out: &mut BytesMut) -> bool {
        let is_due = self.may_send_next();
        if is_due && let Some(queued) = self.queue.pop() {
            if let Some(error) = self.support.refusal(queued.request.op()) {
                self.give_back(queued, error);
            } else {
                self.send(now, queued, out);
            }
        }
        is_due
    }

    fn send(&mut self, now: Instant, queued: Queued<T>, out: &mut BytesMut) {
        let Phase::Open(open) = &mut self.phase else {
            return;
        };
        let op = queued.request.op();
        let xid = match op {
            // Its answer has no number of its own.
            OpCode::AUTH => Xid::AUTH,
            _ => self.queue.take_xid(),
        };
        tracing::trace!(xid = xid.0, %op, path = queued.request.path(), "request sent");
        if op.is_write() {
            open.proving.sent(now, xid);
        }
        open.in_flight.push(Sent {
            xid,
            op,
            asked: queued.request.send(xid, out),
            at: now,
            reply_to: queued.reply_to,
            options: queued.options,
            number: queued.number,
        });
    }
}

/// The request that gives this identity to the connection.
pub(crate) fn packet(auth: &Auth) -> Encoded {
    let packet = AuthPacket {
        auth_type: 0,
        scheme: auth.scheme.clone(),
        auth: Some(Bytes::clone(&auth.credentials)),
    };
    Request::Auth(packet).into()
}
