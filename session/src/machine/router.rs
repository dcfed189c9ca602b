//! What happens means something to several parts: here they hear of each other.
//!
//! `accept` and `send_next` are about a request, `hear` about a change of the link, `frame` and `reply`
//! about a message. What the world must know waits in the `Outbox`.
//!
//! Not here: when something is due (`deadlines`).

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use lockkeeper_proto::{
    ErrorCode, OpCode, WatcherEvent, Xid, Zxid,
    frame::{FrameError, PREFIX_LEN},
    header::ReplyHeader,
    jute::{Decode, Reader},
};

use super::{
    Asked, Bytes, BytesMut, Encoded, Event, Link, Notice, Output, Reply, RequestOptions, State,
    WatchId,
    kinds::Kinds,
    lease::{Checked, ForLeader, Lease, is_for_leader},
    link::Change,
    metrics::{self, Metrics},
    requests::{Overdue, Pending, Requests, is_unknown, overtakes},
    spare::shrink,
    watches::{Ask, PendingWatch, Tell, Watches},
};
use crate::{AuthFailure, Cause, Effect, Error, ErrorKind, Peer};

/// What a reply is for.
#[derive(Debug)]
pub(super) enum ReplyTo<T> {
    /// The caller, and the watch that the request leaves. `None` when the deadline of the caller has
    /// come. The request may still leave a watch.
    Caller(Option<T>, Option<PendingWatch>),
    /// An identity of this scheme. `None` for one that each connection sends, or when the deadline
    /// of the caller has come.
    Identity(Option<T>, String),
    /// The watches.
    Watches(Ask),
    /// The lease: the request is to prove it. A write checks these nodes.
    Proof(Option<Checked>),
    /// The end of the session.
    Close,
}

/// Outputs that the world has not taken yet.
#[derive(Debug)]
pub(crate) struct Outbox<T> {
    pub(super) queue: VecDeque<Output<T>>,
    /// The counters. A snapshot fills in what other parts know.
    pub(super) metrics: Metrics,
}

impl<T> Outbox<T> {
    pub(crate) fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            metrics: Metrics::default(),
        }
    }

    pub(crate) fn push(&mut self, output: Output<T>) {
        self.queue.push_back(output);
    }

    /// Gives a caller the result of its request.
    pub(crate) fn complete(&mut self, op: OpCode, token: T, mut result: Result<Reply, Error>) {
        self.metrics.settled(&result);
        if let Err(error) = &mut result {
            error.note_operation(op);
            if error.code().is_none() {
                tracing::trace!(%op, %error, "request failed");
            }
        }
        self.push(Output::Completed(token, result));
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        shrink(&mut self.queue);
    }
}

/// What the watches say goes to these.
pub(super) struct Voice<'a, T> {
    pub(super) out: &'a mut Outbox<T>,
    pub(super) requests: &'a mut Requests<ReplyTo<T>>,
}

impl<T> Tell for Voice<'_, T> {
    fn tell(&mut self, id: WatchId, last: Result<Event, Error>) {
        self.out.push(Output::Watch(id, last));
    }

    fn notice(&mut self, id: WatchId, notice: Notice) {
        self.out.push(Output::Notice(id, notice));
    }

    fn send(&mut self, request: Encoded, ask: Ask) -> Result<u64, Error> {
        match self.requests.unsupported(request.op()) {
            Some(error) => Err(error),
            None => Ok(self.requests.push(request, ReplyTo::Watches(ask), None)),
        }
    }
}

/// All parts. The machine lends them when what happens to one of them may concern another.
pub(super) struct Router<'a, T> {
    pub(super) link: &'a mut Link,
    pub(super) requests: &'a mut Requests<ReplyTo<T>>,
    pub(super) watches: &'a mut Watches,
    pub(super) lease: &'a mut Lease,
    pub(super) out: &'a mut Outbox<T>,
}

impl<T> Router<'_, T> {
    // From the user.

    /// The watch that the request will leave, if it is accepted. Inline: every request takes this way.
    #[inline]
    pub(super) fn accept(
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
        let (watches, mut voice) = self.watches();
        watches.announce(leaves, &mut voice).map(Some)
    }

    /// Why a caller's request is not accepted now. Inline likewise.
    #[inline]
    pub(super) fn refusal(
        &self,
        now: Instant,
        request: &Encoded,
        options: &RequestOptions,
    ) -> Option<Error> {
        if self.link.is_closing() {
            let ended = self.link.ended().cloned();
            return Some(ended.unwrap_or(ErrorKind::Closed.into()));
        }
        if options.is_over(now) {
            let peer = self.link.peer();
            return Some(options.exceeded(request.op(), Effect::NotApplied, peer));
        }
        self.requests.refusal(request)
    }

    // To the server.

    /// The operation of the next request, if its turn has come.
    pub(super) fn next_to_send(&self) -> Option<OpCode> {
        let op = self.requests.next(self.link.is_closing())?;
        self.link.may_send(op).then_some(op)
    }

    /// Sends the oldest queued request, if its turn has come.
    pub(super) fn send_next(&mut self, now: Instant, out: &mut BytesMut) -> bool {
        let Some(op) = self.next_to_send() else {
            return false;
        };
        let xid = match op {
            // Its answer has no number of its own.
            OpCode::AUTH => Xid::AUTH,
            _ => self.link.take_xid(),
        };
        if is_for_leader(op) {
            let (is_write, is_own) = (op.is_write(), self.requests.is_next_own());
            let request = ForLeader {
                xid,
                is_write,
                is_own,
            };
            self.lease.sent(now, request);
            if is_write {
                self.link.write_sent();
            }
        }
        self.requests.send(now, xid, out);
        true
    }

    // From the link.

    /// What the changes of the link mean to the world and to the other parts.
    pub(super) fn hear(&mut self) {
        while let Some(change) = self.link.poll_change() {
            match change {
                Change::Connect(endpoint) => {
                    self.out.metrics.attempts += 1;
                    self.out.push(Output::Connect(endpoint));
                }
                Change::Disconnect => self.out.push(Output::Disconnect),
                Change::Reach(other) => self.out.push(Output::Reach(other)),
                Change::State(snapshot) => self.out.push(Output::State(snapshot)),
                Change::Opened {
                    greeted,
                    at,
                    is_new,
                } => self.opened(greeted, at, is_new),
                Change::Closed(error) => self.closed(&error),
                Change::SessionOver(error) => {
                    if error.is_session_expired() {
                        self.out.metrics.expired_sessions += 1;
                    }
                    self.lease.end();
                    for (op, reply_to) in self.requests.take(&|_| true) {
                        self.fail(op, reply_to, error.clone());
                    }
                    self.end_watches(Kinds::ALL, &error);
                }
            }
        }
    }

    /// A server accepts requests on a new connection. It begins with all identities, because they
    /// belong to the connection and not to the session, and with the watches of the former one.
    fn opened(&mut self, greeted: Instant, at: Instant, is_new: bool) {
        (self.lease).begin(at, greeted, is_new, self.link.timing());
        self.lease_renewed(at);
        self.requests.opened(at, self.link.connections());
        if let Some(error) = self.requests.unsupported(OpCode::SET_WATCHES) {
            self.end_watches(Kinds::ONE_SHOT, &error);
        }
        let (newest, config) = (self.link.newest_zxid(), self.link.config());
        let watches = self.watches.restore(newest, config.max_request);
        for (request, ask) in watches.into_iter().rev() {
            let reply_to = ReplyTo::Watches(ask);
            self.requests.push_front(request, reply_to);
        }
        for auth in config.auth.iter().rev() {
            let reply_to = ReplyTo::Identity(None, auth.scheme.clone());
            self.requests.push_front(auth.packet(), reply_to);
        }
    }

    /// The connection is gone. Requests that were not sent stay, except for those of the machine
    /// itself, whose errors nobody sees.
    fn closed(&mut self, error: &Error) {
        let is_by_server = matches!(
            error.kind(),
            ErrorKind::ConnectionLost(Cause::ClosedByServer | Cause::Io { .. })
        );
        if is_by_server {
            if let Some(sent) = self.requests.oldest_sent() {
                if let ReplyTo::Watches(ask @ (Ask::Set { .. } | Ask::Restore { .. })) =
                    sent.reply_to
                {
                    self.watches_not_set(sent.request.op(), ask, error);
                }
            }
        }
        self.lease.disconnected();
        let (watches, mut voice) = self.watches();
        watches.disconnected(&mut voice);
        let blamed = is_by_server.then(|| self.requests.take_blamed());
        if let Some(((op, reply_to), length)) = blamed.flatten() {
            let kind = ErrorKind::ConnectionLost(Cause::ClosedAtRequest { op, length });
            let error = Error::new(kind, error.peer().clone(), Effect::Unknown);
            tracing::warn!(%error, "connections end at a request");
            self.fail(op, reply_to, error);
        }
        let is_refused = self.link.state() == State::AuthFailed;
        let refused = self.link.ended().filter(|_| is_refused).cloned();
        for (op, reply_to) in self.requests.closed() {
            // A connection sends it, too, and may hear of the refusal before its caller does.
            let refused = refused.as_ref().filter(|_| op == OpCode::AUTH);
            self.fail(op, reply_to, refused.unwrap_or(error).clone());
        }
    }

    // From the server.

    /// A whole message has arrived.
    pub(super) fn frame(&mut self, now: Instant, frame: Bytes) {
        self.out.metrics.bytes_received += metrics::bytes(PREFIX_LEN + frame.len());
        if let Some(frame) = self.link.frame(now, frame) {
            if let Err(cause) = self.reply(now, frame) {
                self.link.give_up(now, cause);
            }
        }
    }

    /// What a message on an established connection means. An error costs the connection.
    fn reply(&mut self, now: Instant, frame: Bytes) -> Result<(), Cause> {
        let mut body = Reader::new(frame);
        let header = ReplyHeader::decode(&mut body).map_err(Cause::Decode)?;
        let (got, needs_sasl) = (
            header.xid,
            header.err == ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH,
        );
        if got == Xid::NOTIFICATION {
            let WatcherEvent {
                event_type, path, ..
            } = WatcherEvent::decode(&mut body).map_err(Cause::Decode)?;
            self.out.metrics.events += 1;
            let (watches, mut voice) = self.watches();
            let told = watches.event(Event { event_type, path }, &mut voice);
            return told.map_err(|limit| Cause::TooManyEvents { limit });
        }
        if got == Xid::PING {
            let sent = self.link.pong(now);
            if needs_sasl {
                // Nobody asked for it. Whatever it says costs the connection, and no more: it must
                // not end the client.
                let expected = None;
                sent.ok_or(Cause::UnexpectedReply { expected, got })?;
                self.link.refuse(AuthFailure::Required);
            } else if let Some(sent) = sent {
                self.lease.ponged(now, sent, self.link.timing());
                self.lease_renewed(now);
            }
            return Ok(());
        }
        let request = self.requests.answered(now, Some(&header));
        let request = request.map_err(|expected| Cause::UnexpectedReply { expected, got })?;
        let Some(request) = self.requests.take_answered(request) else {
            return Ok(());
        };
        let latency = now.duration_since(request.at);
        if got != Xid::AUTH && !overtakes(&header) {
            self.link.answered(now, request.at, latency, header.zxid);
        }
        self.answered(now, latency, request, header, body)?;
        if needs_sasl {
            self.link.refuse(AuthFailure::Required);
        }
        Ok(())
    }

    /// What the answer to a request means.
    fn answered(
        &mut self,
        now: Instant,
        latency: Duration,
        sent: Pending<ReplyTo<T>>,
        header: ReplyHeader,
        mut body: Reader,
    ) -> Result<(), Cause> {
        let (op, code) = (sent.request.op(), header.err);
        tracing::trace!(xid = sent.xid.0, %op, code = code.0, ?latency, "request answered");
        self.prove(now, &sent, Some(code));
        if is_unknown(op, &header) {
            return self.unknown(op, code, sent.reply_to);
        }
        match sent.reply_to {
            ReplyTo::Caller(None, watch) => self.settle_watch(watch, Some(code)),
            ReplyTo::Caller(Some(token), watch) => {
                self.settle_watch(watch, Some(code));
                self.out.metrics.round_trips.record(latency);
                let peer = self.link.peer();
                let result = if code.is_ok() {
                    let (asked, body) = (sent.request.asked, body.into_rest());
                    Ok(Reply::new(op, header.zxid, asked, body, peer))
                } else {
                    // The bytes behind an error must not be read.
                    let path = String::new();
                    let kind = ErrorKind::Refused { op, path, code };
                    Err(Error::new(kind, peer, Effect::NotApplied))
                };
                self.out.complete(op, token, result);
            }
            ReplyTo::Identity(token, scheme) => self.identity_answered(token, scheme, code),
            ReplyTo::Watches(ask) if code.is_ok() || ask == Ask::Remove => {
                let (watches, mut voice) = self.watches();
                watches.answered(ask, sent.number, &mut voice);
            }
            ReplyTo::Watches(_) if code == ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH => {}
            ReplyTo::Watches(ask) => {
                // They have not reported what came before.
                let cause = Cause::WatchesRefused(code);
                if code == ErrorCode::THROTTLED_OP {
                    // The server could set them, and will when it has less to do.
                    self.watches.not_confirmed(ask);
                } else {
                    let kind = ErrorKind::ConnectionLost(cause.clone());
                    let error = Error::new(kind, self.link.peer(), Effect::Unknown);
                    self.watches_not_set(op, ask, &error);
                }
                return Err(cause);
            }
            ReplyTo::Proof(checked) => Self::note_checked(checked.as_ref(), op, &mut body),
            ReplyTo::Close => self.link.end(State::Closed, Cause::ByClient),
        }
        Ok(())
    }

    /// The server has answered an identity.
    fn identity_answered(&mut self, token: Option<T>, scheme: String, code: ErrorCode) {
        let result = if code.is_ok() {
            if token.is_none() {
                self.link.identity_accepted();
            }
            let (zxid, body, peer) = (Zxid::ZERO, Bytes::new(), self.link.peer());
            Ok(Reply::new(OpCode::AUTH, zxid, Asked::Nothing, body, peer))
        } else {
            self.link.refuse(AuthFailure::Refused { scheme, code });
            self.hear();
            let ended = self.link.ended().cloned();
            Err(ended.unwrap_or(Error::closed(Effect::Unknown)))
        };
        if let Some(token) = token {
            self.out.complete(OpCode::AUTH, token, result);
        }
    }

    /// A message has come that is too long to be read. Only the reply to a request can be that
    /// long, and since errors are short it is a success. The connection is kept.
    pub(super) fn oversized(&mut self, now: Instant, length: usize, limit: usize) {
        let too_long = Cause::Frame(FrameError::TooLong { length, limit });
        let sent = self.requests.answered(now, None).ok();
        let Some(sent) = sent.and_then(|at| self.requests.take_answered(at)) else {
            return self.link.give_up(now, too_long);
        };
        self.link.hear(now);
        let latency = now.duration_since(sent.at);
        self.link.answered(now, sent.at, latency, Zxid::ZERO);
        self.prove(now, &sent, None);
        // The replies to requests of the machine itself have no body.
        let ReplyTo::Caller(token, watch) = sent.reply_to else {
            return self.link.give_up(now, too_long);
        };
        self.settle_watch(watch, Some(ErrorCode::OK));
        if let Some(token) = token {
            let op = sent.request.op();
            self.out.metrics.round_trips.record(latency);
            let kind = ErrorKind::ReplyTooLarge { op, length, limit };
            let error = Error::new(kind, self.link.peer(), Effect::Unknown);
            self.out.complete(op, token, Err(error));
        }
    }

    /// A server says that it does not know the operation of this request.
    fn unknown(&mut self, op: OpCode, code: ErrorCode, reply_to: ReplyTo<T>) -> Result<(), Cause> {
        tracing::debug!(%op, "the server does not know the operation");
        let peer = self.link.peer();
        match reply_to {
            ReplyTo::Watches(ask @ (Ask::Set { .. } | Ask::Restore { .. })) => {
                self.watches.not_confirmed(ask);
                self.end_unsupported(op, peer);
                return Err(Cause::WatchesRefused(code));
            }
            ReplyTo::Close => self.link.end(State::Closed, Cause::ByClient),
            reply_to => {
                self.note_unknown(op, &peer);
                self.fail(op, reply_to, Error::unsupported(op, peer));
            }
        }
        Ok(())
    }

    /// Requests with this operation fail from now on.
    fn note_unknown(&mut self, op: OpCode, peer: &Peer) {
        let connection = self.link.connections();
        for (op, reply_to) in self.requests.take_unknown(op, connection, peer) {
            self.fail(op, reply_to, Error::unsupported(op, peer.clone()));
        }
    }

    /// A request gets no reply.
    fn fail(&mut self, op: OpCode, reply_to: ReplyTo<T>, error: Error) {
        let token = match reply_to {
            ReplyTo::Caller(token, watch) => {
                self.settle_watch(watch, None);
                token
            }
            ReplyTo::Identity(token, _) => token,
            ReplyTo::Watches(ask) => return self.watches.not_confirmed(ask),
            ReplyTo::Proof(_) | ReplyTo::Close => None,
        };
        if let Some(token) = token {
            self.out.complete(op, token, Err(error));
        }
    }

    // Watches.

    /// The watches, and who hears what they say.
    pub(super) fn watches(&mut self) -> (&mut Watches, Voice<'_, T>) {
        let (out, requests) = (&mut self.out, &mut self.requests);
        (&mut self.watches, Voice { out, requests })
    }

    /// The request that leaves this watch is answered with this code, or never will be.
    fn settle_watch(&mut self, watch: Option<PendingWatch>, code: Option<ErrorCode>) {
        if let Some(watch) = watch {
            let (watches, mut voice) = self.watches();
            watches.settle(&watch, code, &mut voice);
        }
    }

    pub(super) fn cancel(&mut self, id: WatchId) {
        let (watches, mut voice) = self.watches();
        watches.cancel(id, &mut voice);
    }

    pub(super) fn end_watches(&mut self, kinds: Kinds, error: &Error) {
        let (watches, mut voice) = self.watches();
        watches.end(kinds, error, &mut voice);
    }

    /// A connection ends on this operation, which sets watches. The next one sends it again, but not
    /// without end: the watches could be what the server cannot do.
    fn watches_not_set(&mut self, op: OpCode, ask: Ask, error: &Error) {
        self.watches.not_confirmed(ask);
        if self.watches.are_not_set() {
            tracing::warn!(%op, %error, "watches have ended: no server sets them");
            self.end_unsupported(op, error.peer().clone());
        }
    }

    /// Ends the watches that servers without this operation cannot restore.
    fn end_unsupported(&mut self, mut op: OpCode, peer: Peer) {
        self.note_unknown(op, &peer);
        let mut kinds = Kinds::ONE_SHOT;
        if op == OpCode::SET_WATCHES2 {
            (op, kinds) = (OpCode::ADD_WATCH, Kinds::ANY_PERSISTENT);
            self.note_unknown(op, &peer);
        }
        self.end_watches(kinds, &Error::unsupported(op, peer));
    }

    // Time.

    /// Fails a request whose deadline has come. A request that was sent goes on, and its reply is
    /// ignored.
    pub(super) fn fail_overdue(&mut self, now: Instant) {
        let Some((overdue, options)) = self.requests.overdue(now) else {
            return;
        };
        match overdue {
            Overdue::Unsent((op, reply_to)) => {
                let error = options.exceeded(op, Effect::NotApplied, self.link.peer());
                self.fail(op, reply_to, error);
            }
            Overdue::Sent(sent) => {
                let (caller, watch) = match &mut sent.reply_to {
                    ReplyTo::Caller(caller, watch) => (caller.take(), watch.as_ref()),
                    ReplyTo::Identity(caller, _) => (caller.take(), None),
                    _ => return,
                };
                let op = sent.request.op();
                // The server may have set the watch by now. The machine removes it when the reply
                // says so.
                if let Some(id) = watch.map(PendingWatch::id) {
                    self.cancel(id);
                }
                if let Some(caller) = caller {
                    let error = options.exceeded(op, Effect::Unknown, self.link.peer());
                    self.out.complete(op, caller, Err(error));
                }
            }
        }
    }

    /// Fails the request that has waited for a connection for too long.
    pub(super) fn fail_unsent(&mut self, now: Instant) {
        let Some(since) = self.requests.waits_since() else {
            return;
        };
        let error = self.link.unreachable(now, now.duration_since(since));
        if let Some((op, reply_to)) = self.requests.take_first() {
            self.fail(op, reply_to, error);
        }
    }

    /// Frees the capacity that requests have left.
    pub(super) fn shrink_to_fit(&mut self) {
        self.requests.shrink_to_fit();
        self.watches.shrink_to_fit();
        self.out.shrink_to_fit();
    }
}
