//! Frames of an established connection: replies, events, pings.

use std::time::Instant;

use bytes::Bytes;
use lockkeeper_proto::{
    ErrorCode, OpCode, Response, WatcherEvent, Xid, Zxid,
    frame::{FrameError, PREFIX_LEN},
    header::ReplyHeader,
    jute::{Decode, DecodeError, Reader},
};

use super::{
    in_flight::{InFlight, ReplyTo},
    trace,
    unsupported::is_unknown,
};
use crate::{
    AuthFailure, Cause, Error, Peer,
    machine::{Event, Input, Machine, State, metrics},
};

impl<T> Machine<T> {
    /// Takes in what happened.
    pub fn handle(&mut self, now: Instant, input: Input) {
        match input {
            Input::Connected => self.connected(now),
            Input::Frame(frame) => self.frame(now, frame),
            Input::Disconnected(cause) => self.disconnected(now, cause),
            Input::Oversized { length, limit } => self.oversized(now, length, limit),
            Input::Probed {
                endpoint,
                takes_writes,
            } => self.probed(now, &endpoint, takes_writes),
            Input::Tick => self.tick(now),
        }
    }

    fn frame(&mut self, now: Instant, frame: Bytes) {
        self.metrics.bytes_received += metrics::bytes(PREFIX_LEN + frame.len());
        if !self.is_connected() {
            // The handshake, or a frame of a connection that was given up already.
            return self.handshake_frame(now, frame);
        }
        // A process that slept finds frames that came meanwhile, on a connection whose server may
        // not know yet that the session is over. They prove nothing. Source:
        // `ClientCnxn.SendThread.run`, which looks at the clock first.
        if self
            .silence_deadline()
            .is_some_and(|deadline| deadline <= now)
        {
            return self.give_up(now, Cause::Silent(self.timing.read));
        }
        self.heard(now);
        self.reply(now, frame);
        self.move_if_idle(now);
    }

    /// The server has said something on an established connection.
    fn heard(&mut self, now: Instant) {
        self.session.heard = Some(now);
        if let Some(connection) = &mut self.connection {
            connection.last_received = now;
        }
    }

    fn reply(&mut self, now: Instant, frame: Bytes) {
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
                Ok(WatcherEvent {
                    event_type, path, ..
                }) => self.event(now, Event { event_type, path }),
                Err(error) => self.give_up(now, Cause::Decode(error)),
            },
            Xid::PING if header.err == ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH => {
                if self.established().is_some_and(|open| open.ping.is_some()) {
                    return self.refuse(AuthFailure::Required);
                }
                self.unasked(now, Xid::PING);
            }
            Xid::PING => {
                self.probation.answered(OpCode::PING);
                let ping = self.connection.as_mut().and_then(|open| open.ping.take());
                if let Some(ping) = ping {
                    self.ping_answered(now, ping.sent);
                }
            }
            Xid::AUTH => self.auth_answered(now, &header),
            xid if self.says_unknown(&header) => self.unknown_operation(now, xid),
            xid => match self.take_oldest(now, xid) {
                Ok(oldest) => self.answered(now, oldest, header, &mut reader),
                Err(expected) => {
                    self.give_up(now, Cause::UnexpectedReply { expected, got: xid });
                }
            },
        }
    }

    /// A reply that nobody asked for. Whatever it says costs the connection, and no more: it must
    /// not end the client.
    pub(crate) fn unasked(&mut self, now: Instant, got: Xid) {
        let expected = None;
        self.give_up(now, Cause::UnexpectedReply { expected, got });
    }

    /// Takes out the oldest request, which is answered, if it has this number. Otherwise returns
    /// its number.
    fn take_oldest(&mut self, now: Instant, xid: Xid) -> Result<InFlight<T>, Option<Xid>> {
        let connection = self.connection.as_mut().ok_or(None)?;
        let oldest = connection.in_flight.front().map(|oldest| oldest.xid);
        if oldest != Some(xid) {
            return Err(oldest);
        }
        connection.pop_answered(now).ok_or(None)
    }

    /// A message has come that is too long to be read. Only the reply to a request can be that
    /// long, and since errors are short it is a success. The connection is kept.
    fn oversized(&mut self, now: Instant, length: usize, limit: usize) {
        let open = self.established_mut();
        let Some(request) = open.and_then(|open| open.pop_answered(now)) else {
            return self.give_up(now, Cause::Frame(FrameError::TooLong { length, limit }));
        };
        self.heard(now);
        self.write_answered(now, &request, None);
        self.forget_deadline(&request.options, request.number);
        let op = request.op;
        let (token, watch) = match request.reply_to {
            ReplyTo::Caller { token, watch } => (Some(token), watch),
            ReplyTo::Nobody { watch } => (None, watch),
            // The replies to these have no body.
            _ => {
                return self.give_up(now, Cause::Frame(FrameError::TooLong { length, limit }));
            }
        };
        if let Some(watch) = watch {
            let requests = watch.settle(&mut self.watches, Some(ErrorCode::OK));
            self.send_watch_requests(requests);
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
        if header.zxid > Zxid::ZERO {
            self.session.last_zxid = self.session.last_zxid.max(header.zxid);
        }
        self.write_answered(now, &request, Some(header.err));
        self.forget_deadline(&request.options, request.number);
        self.probation.answered(request.op);
        trace::answered(&request, &header, now);
        if is_unknown(request.op, &header) {
            return self.settle_unknown(now, request.op, request.reply_to);
        }
        let needs_sasl = header.err == ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH;
        match request.reply_to {
            ReplyTo::Caller { token, watch } => {
                // The bytes behind an error must not be read.
                let decoded = header.err.is_ok().then(|| {
                    let response = Response::decode(request.op, body)?;
                    request.asked.check(header.zxid, &response)?;
                    Ok(response)
                });
                let malformed = match &decoded {
                    Some(Err(error)) => Some(*error),
                    _ => None,
                };
                if let Some(watch) = watch {
                    let code = malformed.is_none().then_some(header.err);
                    let requests = watch.settle(&mut self.watches, code);
                    self.send_watch_requests(requests);
                }
                self.metrics
                    .round_trips
                    .record(now.duration_since(request.sent));
                let result = result(request.op, header.err, decoded, || self.peer());
                self.complete(token, result);
                if let Some(error) = malformed {
                    return self.give_up(now, Cause::Decode(error));
                }
            }
            ReplyTo::Nobody { watch } => {
                if let Some(watch) = watch {
                    let requests = watch.settle(&mut self.watches, Some(header.err));
                    self.send_watch_requests(requests);
                }
            }
            ReplyTo::Proof => self.proof_answered(),
            ReplyTo::SetWatches { .. } if needs_sasl => {}
            ReplyTo::SetWatches { since, .. } if !header.err.is_ok() => {
                // They have not reported what came before.
                self.session.not_watched(since);
                return self.give_up(now, Cause::WatchesRefused(header.err));
            }
            ReplyTo::SetWatches { restore: true, .. } => self.restored(),
            // It does not matter whether the server had such a watch. Identities are answered under
            // a number of their own.
            ReplyTo::SetWatches { restore: false, .. } => return self.watches_set(request.number),
            ReplyTo::RemoveWatches | ReplyTo::Auth { .. } => return,
            ReplyTo::Close => return self.end(State::Closed, Cause::ByClient),
        }
        if needs_sasl {
            self.refuse(AuthFailure::Required);
        }
    }
}

/// The result that the caller gets. `peer` is called only for an error.
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
