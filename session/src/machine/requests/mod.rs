//! Requests, from the caller's submit to the reply: those that wait to be sent, those under way, and
//! the deadlines of both.
//!
//! | file | what |
//! |---|---|
//! | `queue` | the requests that wait behind those that were sent, and the order of the replies |
//! | `support` | operations that servers do not know |
//!
//! What a reply is for is an `R`, of which this part knows nothing.
//!
//! Not here: what replies mean to the other parts (`machine`), callers that wait for capacity
//! (`client::capacity`).

mod queue;
mod support;

use std::{collections::VecDeque, time::Instant};

use bytes::BytesMut;
use lockkeeper_proto::{OpCode, Xid, header::ReplyHeader};

use super::{config::Config, encoded::Encoded, output::RequestOptions, spare::shrink};
use crate::{Error, ErrorKind, Peer};
pub(crate) use queue::Pending;
use queue::Queue;
use support::Support;
pub(crate) use support::{is_unknown, overtakes};

/// How many requests are under way at once; the others wait here, so that a lost connection leaves
/// few unknown outcomes, and a ping, which does not wait here, soon gets its turn in the server's
/// queue.
///
/// More would not be faster: a server that has so many requests in work stops reading. Source:
/// `ZooKeeperServer.java`, `globalOutstandingLimit`.
pub(crate) const WINDOW: usize = 1000;

/// A server may have closed the connection because of a request of this length or more. Each server
/// takes shorter ones, whatever its `jute.maxbuffer` is: it could not work otherwise.
const LONG: usize = 1024;

/// After so many connections in a row that ended at a request, it is blamed. A network that fails a
/// few times must not end a wait that could go on.
const BLAMED: u32 = 5;

/// A long request that was the oldest one under way when a server closed the connection. What is
/// sent again is like it, and has another number.
#[derive(Debug)]
struct Suspect {
    op: OpCode,
    length: usize,
    /// How many connections in a row have ended so.
    times: u32,
}

/// A request that gets no reply: its operation, and what the reply was for.
pub(crate) type Failed<R> = (OpCode, R);

/// A request whose deadline has come.
pub(crate) enum Overdue<'a, R> {
    /// It was not sent.
    Unsent(Failed<R>),
    /// It was sent, and goes on.
    Sent(&'a mut Pending<R>),
}

impl Suspect {
    fn is_like(&self, request: &Encoded) -> bool {
        (self.op, self.length) == (request.op(), request.len())
    }
}

/// All requests that are not settled.
#[derive(Debug)]
pub(crate) struct Requests<R> {
    queue: Queue<R>,
    /// The deadlines of callers, each with the number of its request, in order. Mostly a new one is
    /// the last.
    deadlines: VecDeque<(Instant, u64)>,
    last_number: u64,
    support: Support,
    suspect: Option<Box<Suspect>>,
    /// Whether there was capacity for all that is submitted now.
    is_admitted: bool,
    /// See [`Config`].
    max_request: usize,
    max_outstanding: usize,
    max_queued_bytes: usize,
}

impl<R> Requests<R> {
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        Self {
            queue: Queue::new(now),
            deadlines: VecDeque::new(),
            last_number: 0,
            support: Support::default(),
            suspect: None,
            is_admitted: false,
            max_request: config.max_request,
            max_outstanding: config.max_outstanding,
            max_queued_bytes: config.max_queued_bytes,
        }
    }

    /// How many wait to be sent.
    pub(crate) fn queued(&self) -> usize {
        self.queue.len() - self.queue.sent
    }

    /// The bytes of the waiting requests of callers, without those of their frames.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queue.bytes
    }

    /// How many wait for a reply.
    pub(crate) fn in_flight(&self) -> usize {
        self.queue.sent
    }

    // From the caller.

    /// Whether a caller that can wait may submit a request now, or would get an error at once.
    pub(crate) fn has_capacity(&self, length: usize) -> bool {
        length > self.max_request || self.fits(length, 1)
    }

    /// Whether a request of this size fits into `times` the configured capacity.
    fn fits(&self, length: usize, times: usize) -> bool {
        let (queued, most) = (self.queue.bytes, self.max_queued_bytes);
        self.queue.len() < self.max_outstanding.saturating_mul(times)
            // A request that is longer than the whole capacity goes alone.
            && (queued == 0 || queued.saturating_add(length) <= most.saturating_mul(times))
    }

    /// Why a caller's request is not accepted now. A request that is too long must not take space
    /// here.
    pub(crate) fn refusal(&self, request: &Encoded) -> Option<Error> {
        if let Some(error) = self.unsupported(request.op()) {
            return Some(error);
        }
        let (length, limit) = (request.longest(), self.max_request);
        if length > limit {
            return Some(ErrorKind::TooLarge { length, limit }.into());
        }
        let (requests, bytes) = (self.queue.len(), self.queue.bytes);
        let too_many = || ErrorKind::TooManyRequests { requests, bytes }.into();
        (!self.is_admitted && !self.fits(request.len(), 2)).then(too_many)
    }

    /// From now on there was capacity for all that is submitted, or there was not.
    #[cfg(feature = "tokio")]
    pub(crate) fn admit(&mut self, is_admitted: bool) {
        self.is_admitted = is_admitted;
    }

    /// Puts a request at the end, and returns its number. One of the machine itself has no options.
    pub(crate) fn push(
        &mut self,
        request: Encoded,
        reply_to: R,
        options: Option<RequestOptions>,
    ) -> u64 {
        // The numbers between are for requests that go ahead of others.
        self.last_number += 2;
        let number = self.last_number;
        if let Some(deadline) = options.and_then(|options| options.deadline) {
            let deadline = (deadline, number);
            let place = self.deadlines.partition_point(|other| *other < deadline);
            self.deadlines.insert(place, deadline);
        }
        self.queue.push(request, reply_to, options, number);
        number
    }

    /// Puts a request of the machine itself ahead of those that wait.
    pub(crate) fn push_front(&mut self, request: Encoded, reply_to: R) {
        self.queue.push(request, reply_to, None, 0);
        self.queue.last_to_front();
    }

    /// Puts a request of the machine itself ahead of the callers' requests that wait. There may be so
    /// many that it would wait behind them for long.
    pub(crate) fn push_ahead(&mut self, request: Encoded, reply_to: R) {
        self.queue.push_ahead(request, reply_to);
    }

    // To the transport.

    /// The wait of callers begins now, unless it is known since when they wait.
    #[inline]
    pub(crate) fn waits_from(&mut self, now: Instant) {
        if self.queued() > 0 {
            self.queue.waits_from(now);
        }
    }

    /// The connection of this number is established.
    pub(crate) fn opened(&mut self, now: Instant, connection: u64) {
        self.queue.opened(now);
        self.support.connected(connection);
    }

    /// The operation of the request that is to be sent next. Unless the client is being closed, it
    /// waits while the window is full: a program that ends may not wait for replies that make room,
    /// and the end of the session must not stay here.
    pub(crate) fn next(&self, is_closing: bool) -> Option<OpCode> {
        let has_window = self.in_flight() < WINDOW || is_closing;
        let next = self.queue.next().filter(|_| has_window)?;
        Some(next.request.op())
    }

    /// Whether the request that is to be sent next is one of the machine itself.
    pub(crate) fn is_next_own(&self) -> bool {
        self.queue.next().is_some_and(Pending::is_own)
    }

    /// Sends the oldest request under this number.
    pub(crate) fn send(&mut self, now: Instant, xid: Xid, out: &mut BytesMut) {
        self.queue.send(now, xid, out);
    }

    // From the server.

    /// The place of the request that this reply answers. Without a header it is the oldest one.
    ///
    /// # Errors
    /// The number of the request whose reply should have come; `None` if there is none.
    #[inline]
    pub(crate) fn answered(
        &mut self,
        now: Instant,
        header: Option<&ReplyHeader>,
    ) -> Result<usize, Option<Xid>> {
        let at = self.queue.answered(now, header)?;
        let sent = self.queue.get_mut(at).ok_or(None)?;
        let (options, number) = (sent.options, sent.number);
        self.settle(options, number);
        Ok(at)
    }

    /// Takes out the request at this place, which is answered.
    #[inline]
    pub(crate) fn take_answered(&mut self, at: usize) -> Option<Pending<R>> {
        if let (Some(suspect), Some(answered)) = (&self.suspect, self.queue.get_mut(at)) {
            if suspect.is_like(&answered.request) {
                self.suspect = None;
            }
        }
        self.queue.take(at)
    }

    /// The oldest request under way, except for identities.
    pub(crate) fn oldest_sent(&self) -> Option<&Pending<R>> {
        self.queue.oldest_sent()
    }

    // The end of requests.

    /// The request is settled: its deadline counts no more.
    fn settle(&mut self, options: Option<RequestOptions>, number: u64) {
        if let Some(deadline) = options.and_then(|options| options.deadline) {
            if let Ok(place) = self.deadlines.binary_search(&(deadline, number)) {
                self.deadlines.remove(place);
            }
        }
    }

    fn fail(&mut self, request: Pending<R>) -> Failed<R> {
        self.settle(request.options, request.number);
        (request.request.op(), request.reply_to)
    }

    /// A server has closed the connection. If several in a row have ended so behind a request like
    /// the oldest one of a caller, takes that out, and returns its length, too.
    pub(crate) fn take_blamed(&mut self) -> Option<(Failed<R>, usize)> {
        let former = self.suspect.take();
        let is_long = |it: &&Pending<R>| it.options.is_some() && it.request.len() >= LONG;
        let Pending {
            request, number, ..
        } = self.oldest_sent().filter(is_long)?;
        let (op, length, number) = (request.op(), request.len(), *number);
        let times = former
            .filter(|it| it.is_like(request))
            .map_or(1, |it| it.times.saturating_add(1));
        self.suspect = Some(Box::new(Suspect { op, length, times }));
        let at = self.queue.find(number).filter(|_| times >= BLAMED)?;
        let blamed = self.queue.take(at)?;
        Some((self.fail(blamed), length))
    }

    /// The connection is gone. Returns the requests that were under way, and those of the machine
    /// itself that were not sent. The others stay.
    pub(crate) fn closed(&mut self) -> Vec<Failed<R>> {
        let mut failed = Vec::new();
        while self.in_flight() > 0 {
            let Some(sent) = self.queue.take(0) else {
                break;
            };
            failed.push(self.fail(sent));
        }
        failed.extend(self.take(&|waiting| waiting.options.is_none()));
        failed
    }

    /// Takes out the waiting requests for which this holds.
    pub(crate) fn take(&mut self, goes: &dyn Fn(&Pending<R>) -> bool) -> Vec<Failed<R>> {
        let taken = self.queue.take_waiting(goes);
        taken.into_iter().map(|it| self.fail(it)).collect()
    }

    /// A server does not know this operation, on the connection of this number. Takes out the
    /// requests with it that wait.
    pub(crate) fn take_unknown(
        &mut self,
        op: OpCode,
        connection: u64,
        peer: &Peer,
    ) -> Vec<Failed<R>> {
        self.support.note_unknown(op, connection, peer);
        self.take(&|waiting| waiting.request.op() == op)
    }

    /// The error of a request with an operation that servers do not know.
    pub(crate) fn unsupported(&self, op: OpCode) -> Option<Error> {
        self.support.refusal(op)
    }

    // Time.

    /// When the first caller wants to wait no longer.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.front().map(|(deadline, _)| *deadline)
    }

    /// A request whose deadline has come, with its options.
    pub(crate) fn overdue(&mut self, now: Instant) -> Option<(Overdue<'_, R>, RequestOptions)> {
        while let Some(&(deadline, number)) = self.deadlines.front() {
            if deadline > now {
                break;
            }
            self.deadlines.pop_front();
            let Some(at) = self.queue.find(number) else {
                continue;
            };
            if at < self.in_flight() {
                let sent = self.queue.get_mut(at)?;
                let mut options = sent.options?;
                options.since.get_or_insert(sent.at);
                return Some((Overdue::Sent(sent), options));
            }
            let unsent = self.queue.take(at)?;
            let failed = (unsent.request.op(), unsent.reply_to);
            return Some((Overdue::Unsent(failed), unsent.options?));
        }
        None
    }

    /// Since when the oldest waiting request of a caller, which is the first of all, waits.
    pub(crate) fn waits_since(&self) -> Option<Instant> {
        self.queue.next()?.options?.since
    }

    /// Takes out the request that has waited for the longest time.
    pub(crate) fn take_first(&mut self) -> Option<Failed<R>> {
        let waiting = self.queue.take(self.in_flight())?;
        Some(self.fail(waiting))
    }

    /// Since when the server could have answered the oldest request under way.
    pub(crate) fn unanswered_since(&self) -> Option<Instant> {
        self.queue.unanswered_since()
    }

    /// Frees the capacity that a burst has left.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.queue.shrink_to_fit();
        shrink(&mut self.deadlines);
    }
}
