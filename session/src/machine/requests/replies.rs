//! Frames of an established connection: replies, notifications, pings.

use std::time::Instant;

use bytes::Bytes;
use lockkeeper_proto::{
    ErrorCode, OpCode, Response, WatcherEvent, Xid, Zxid,
    frame::FrameError,
    header::ReplyHeader,
    jute::{Decode, DecodeError, Reader},
};

use crate::machine::{
    Event, InFlight, Machine, ReplyTo, State, requests::trace, requests::unsupported::is_unknown,
};
use crate::{AuthFailure, Cause, Error, Peer};

impl<T> Machine<T> {
    /// A frame has come on an established connection.
    pub(crate) fn reply(&mut self, now: Instant, frame: Bytes) {
        let mut reader = Reader::new(frame);
        let header = match ReplyHeader::decode(&mut reader) {
            Ok(header) => header,
            Err(error) => return self.give_up(now, Cause::Decode(error)),
        };
        if header.xid != Xid::NOTIFICATION {
            self.watches.forget_echo();
        }
        match header.xid {
            Xid::NOTIFICATION => match WatcherEvent::decode(&mut reader) {
                Ok(event) => self.notification(now, event),
                Err(error) => self.give_up(now, Cause::Decode(error)),
            },
            Xid::PING if header.err == ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH => {
                self.refuse(AuthFailure::Required);
            }
            Xid::PING => {
                self.probation.answered(OpCode::PING);
                if let Some(sent) = self.ping_sent.take() {
                    self.confirm(sent);
                }
            }
            Xid::AUTH => self.auth_answered(&header),
            xid if self.says_unknown(&header) => self.unknown_operation(now, xid),
            xid => match self.in_flight.pop_front() {
                Some(oldest) if oldest.xid == xid => {
                    self.answered(now, oldest, header, &mut reader);
                }
                other => {
                    let expected = other.as_ref().map(|oldest| oldest.xid);
                    if let Some(oldest) = other {
                        self.in_flight.push_front(oldest);
                    }
                    self.give_up(now, Cause::UnexpectedReply { expected, got: xid });
                }
            },
        }
    }

    /// A message has come that is too long to be read: nothing but the reply to a request can be. As errors are short, it
    /// is a success. The connection is kept.
    pub(crate) fn oversized(&mut self, now: Instant, length: usize, limit: usize) {
        let request = self.in_flight.pop_front().filter(|_| self.is_connected());
        let Some(request) = request else {
            return self.give_up(now, Cause::Frame(FrameError::TooLong { length, limit }));
        };
        self.last_received = now;
        self.session.heard = Some(now);
        self.confirm(request.sent);
        self.forget_deadline(&request.options, request.number);
        let op = request.op;
        let (token, watch) = match request.reply_to {
            ReplyTo::Caller { token, watch } => (Some(token), watch),
            ReplyTo::Nobody { watch } => (None, watch),
            // The answers to these have no body.
            _ => {
                return self.give_up(now, Cause::Frame(FrameError::TooLong { length, limit }));
            }
        };
        if let Some(watch) = watch {
            let requests = watch.settle(&mut self.watches, Some(ErrorCode::OK));
            self.send_watch_requests(now, requests);
        }
        if let Some(token) = token {
            let error = Error::ReplyTooLarge {
                op,
                length,
                limit,
                peer: self.peer(),
            };
            self.complete(token, Err(error));
        }
        self.move_if_idle(now);
    }

    /// The oldest request is answered.
    fn answered(
        &mut self,
        now: Instant,
        request: InFlight<T>,
        header: ReplyHeader,
        body: &mut Reader,
    ) {
        // While watches are being restored, how far the server is does not tell what this client has seen: the next
        // connection would be asked for too little.
        if header.zxid > Zxid::ZERO && self.restoring < 2 {
            self.session.last_zxid = self.session.last_zxid.max(header.zxid);
        }
        self.confirm(request.sent);
        self.forget_deadline(&request.options, request.number);
        self.probation.answered(request.op);
        trace::answered(&request, &header, now);
        if is_unknown(request.op, &header) {
            return self.settle_unknown(now, request.op, request.reply_to);
        }
        match request.reply_to {
            ReplyTo::Caller { token, watch } => {
                // Whatever follows an error must not be read.
                let decoded = header
                    .err
                    .is_ok()
                    .then(|| Response::decode(request.op, body));
                let malformed = match &decoded {
                    Some(Err(error)) => Some(*error),
                    _ => None,
                };
                if let Some(watch) = watch {
                    let code = malformed.is_none().then_some(header.err);
                    let requests = watch.settle(&mut self.watches, code);
                    self.send_watch_requests(now, requests);
                }
                self.metrics
                    .round_trips
                    .record(now.duration_since(request.sent));
                let result = result(request.op, header.err, decoded, || self.peer());
                self.complete(token, result);
                if let Some(error) = malformed {
                    self.give_up(now, Cause::Decode(error));
                } else if header.err == ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH {
                    self.refuse(AuthFailure::Required);
                }
            }
            ReplyTo::Nobody { watch } => {
                if let Some(watch) = watch {
                    let requests = watch.settle(&mut self.watches, Some(header.err));
                    self.send_watch_requests(now, requests);
                }
                if header.err == ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH {
                    self.refuse(AuthFailure::Required);
                }
            }
            ReplyTo::SetWatches { .. }
                if header.err == ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH =>
            {
                self.refuse(AuthFailure::Required);
            }
            ReplyTo::SetWatches { .. } if !header.err.is_ok() => {
                self.give_up(now, Cause::WatchesRefused(header.err));
            }
            ReplyTo::SetWatches { restore: true } => self.restored(),
            // Whether the server had such a watch is of no interest; identities are answered under a number of their own.
            ReplyTo::SetWatches { restore: false }
            | ReplyTo::RemoveWatches
            | ReplyTo::Auth { .. } => {}
            ReplyTo::Close => self.end(State::Closed, Cause::ByClient),
        }
    }

    /// Something that is watched has changed.
    fn notification(&mut self, now: Instant, event: WatcherEvent) {
        self.metrics.events += 1;
        let event = Event {
            event_type: event.event_type,
            path: event.path,
        };
        if self.restoring == 0 {
            return self.fire(event);
        }
        if self.held_back.len() > self.most_held_back() {
            return self.give_up(now, Cause::WatchesRefused(ErrorCode::MARSHALLING_ERROR));
        }
        self.held_back.push(event);
    }

    /// A part of the watches of a former connection is restored. After the last one, what was kept back is told.
    pub(crate) fn restored(&mut self) {
        self.restoring = self.restoring.saturating_sub(1);
        if self.restoring == 0 {
            self.tell_reconnected();
            for event in std::mem::take(&mut self.held_back) {
                self.fire(event);
            }
        }
    }

    /// A request sent at this instant was answered: the server heard of the session no earlier.
    fn confirm(&mut self, sent: Instant) {
        self.confirmed = self.confirmed.map(|before| before.max(sent));
    }
}

/// What a caller is told of a reply. Of whom it came is asked for only where it is to be told.
fn result(
    op: OpCode,
    code: ErrorCode,
    decoded: Option<Result<Response, DecodeError>>,
    peer: impl FnOnce() -> Peer,
) -> Result<Response, Error> {
    match decoded {
        Some(Ok(Response::Multi(response))) => match response.failure() {
            Some((index, code)) => {
                let peer = peer();
                Err(Error::TransactionRefused { index, code, peer })
            }
            None => Ok(Response::Multi(response)),
        },
        Some(Ok(response)) => Ok(response),
        Some(Err(error)) => {
            let peer = peer();
            Err(Error::Malformed { op, error, peer })
        }
        None => Err(Error::Refused {
            op,
            path: String::new(),
            code,
            peer: peer(),
        }),
    }
}
