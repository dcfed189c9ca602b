//! Frames of an established connection: what replies, events and pings mean to each part.
//!
//! Not here: frames before that (`connecting`).

use std::time::Instant;

use bytes::Bytes;
use lockkeeper_proto::{
    ErrorCode, OpCode, Response, WatcherEvent, Xid,
    frame::{FrameError, PREFIX_LEN},
    header::ReplyHeader,
    jute::{Decode, DecodeError, Reader},
    records::Empty,
};

use super::{
    Event, Machine, Phase, State, metrics,
    requests::{Own, ReplyTo, Sent, is_unknown, overtakes},
};
use crate::{AuthFailure, Cause, Effect, Error};

impl<T> Machine<T> {
    /// A whole message has arrived.
    pub(crate) fn frame(&mut self, now: Instant, frame: Bytes) {
        self.out.metrics_mut().bytes_received += metrics::bytes(PREFIX_LEN + frame.len());
        let read = self.session.timing().read;
        let Phase::Open(open) = &mut self.phase else {
            // The handshake, or a frame of a connection that was given up already.
            return self.handshake_frame(now, frame);
        };
        // A process that slept finds frames that came meanwhile, on a connection whose server may
        // not know yet that the session is over. They prove nothing. Source:
        // `ClientCnxn.SendThread.run`, which looks at the clock first.
        if open.link.silence(read) <= now {
            return self.give_up(now, Cause::Silent(read));
        }
        open.link.heard(now);
        self.session.hear(now);
        if let Err(cause) = self.reply(now, frame) {
            self.give_up(now, cause);
        }
        self.move_if_idle(now);
    }

    fn reply(&mut self, now: Instant, frame: Bytes) -> Result<(), Cause> {
        let Phase::Open(open) = &mut self.phase else {
            return Ok(());
        };
        let mut reader = Reader::new(frame);
        let header = ReplyHeader::decode(&mut reader).map_err(Cause::Decode)?;
        if header.xid == Xid::NOTIFICATION {
            let WatcherEvent {
                event_type, path, ..
            } = WatcherEvent::decode(&mut reader).map_err(Cause::Decode)?;
            self.out.metrics_mut().events += 1;
            let event = Event { event_type, path };
            let told = self.watches.event(&mut open.arrivals, event, &mut self.out);
            return told.map_err(|limit| Cause::TooManyEvents { limit });
        }
        // Nobody asked for it. Whatever it says costs the connection, and no more: it must not end
        // the client.
        let unasked = Cause::UnexpectedReply {
            expected: None,
            got: header.xid,
        };
        match header.xid {
            Xid::PING => {
                let sent = open.link.pong();
                if header.err == ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH {
                    sent.ok_or(unasked)?;
                    self.refuse(AuthFailure::Required);
                } else if let Some(sent) = sent {
                    self.lease.touched(&mut open.proving, now, sent);
                    self.lease_renewed(now);
                }
            }
            Xid::AUTH => {
                let identity = open.in_flight.identity_answered().ok_or(unasked)?;
                self.identity_answered(identity, header.err);
            }
            xid if overtakes(&header) && open.in_flight.has(xid) => {
                if let Some(request) = open.in_flight.overtaken(xid) {
                    self.answered(now, request, header, &mut reader)?;
                }
            }
            got => {
                let request = open.in_flight.answered(now, Some(got));
                let request =
                    request.map_err(|expected| Cause::UnexpectedReply { expected, got })?;
                open.link.answered(now, request.at);
                self.session.see(header.zxid);
                self.answered(now, request, header, &mut reader)?;
            }
        }
        Ok(())
    }

    /// The server has answered an identity.
    fn identity_answered(&mut self, identity: Sent<T>, code: ErrorCode) {
        let ReplyTo::Identity(token, scheme) = identity.reply_to else {
            return;
        };
        let result = if code.is_ok() {
            if token.is_none()
                && let Phase::Open(open) = &mut self.phase
            {
                open.link.accepted();
            }
            self.announce_state();
            Ok(Response::Auth(Empty {}))
        } else {
            self.refuse(AuthFailure::Refused { scheme, code });
            let ended = self.ended().cloned();
            Err(ended.unwrap_or(Error::Closed(Effect::Unknown)))
        };
        if let Some(token) = token {
            self.out.complete(OpCode::AUTH, token, result);
        }
    }

    /// A message has come that is too long to be read. Only the reply to a request can be that
    /// long, and since errors are short it is a success. The connection is kept.
    pub(crate) fn oversized(&mut self, now: Instant, length: usize, limit: usize) {
        let too_long = Cause::Frame(FrameError::TooLong { length, limit });
        let open = self.phase.connection_mut();
        let request = open.and_then(|open| {
            let request = open.in_flight.answered(now, None).ok()?;
            open.link.answered(now, request.at);
            open.link.heard(now);
            Some(request)
        });
        let Some(request) = request else {
            return self.give_up(now, too_long);
        };
        self.session.hear(now);
        self.settled(now, &request, None);
        // The replies to requests of the machine itself have no body.
        let ReplyTo::Caller(token, watch) = request.reply_to else {
            return self.give_up(now, too_long);
        };
        self.settle_watch(watch, Some(ErrorCode::OK));
        if let Some(token) = token {
            let error = Error::ReplyTooLarge {
                op: request.op,
                length,
                limit,
                peer: self.peer(),
            };
            self.out.complete(request.op, token, Err(error));
        }
        self.move_if_idle(now);
    }

    /// A request is answered, with this code if its reply was read.
    fn settled(&mut self, now: Instant, request: &Sent<T>, code: Option<ErrorCode>) {
        self.queue.settled(&request.options, request.number);
        // A read is not counted: some servers do not count it.
        if request.op.is_write()
            && let Phase::Open(open) = &mut self.phase
        {
            let proving = &mut open.proving;
            self.lease.touched(proving, now, request.at);
            self.lease.write_answered(proving, request.xid, code);
            self.lease_renewed(now);
        }
    }

    pub(crate) fn lease_renewed(&mut self, now: Instant) {
        if self.lease.is_renewed(now, self.session.timing()) {
            self.out.push(super::Output::LeaseRenewed);
        }
    }

    /// What the answer to a request means. An error costs the connection.
    fn answered(
        &mut self,
        now: Instant,
        request: Sent<T>,
        header: ReplyHeader,
        body: &mut Reader,
    ) -> Result<(), Cause> {
        let (op, code) = (request.op, header.err);
        let latency = now.duration_since(request.at);
        tracing::trace!(xid = request.xid.0, %op, code = code.0, ?latency, "request answered");
        self.settled(now, &request, Some(code));
        if is_unknown(op, &header) {
            tracing::debug!(%op, "the server does not know the operation");
            let own = request.reply_to.own();
            let peer = self.peer();
            self.unsupported(op, request.reply_to, peer);
            match own {
                Some(Own::SetWatches { .. }) => return Err(Cause::WatchesRefused(code)),
                Some(Own::Close) => self.end(State::Closed, Cause::ByClient),
                _ => {}
            }
            return Ok(());
        }
        let needs_sasl = code == ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH;
        match request.reply_to {
            ReplyTo::Caller(token, watch) => {
                // The bytes behind an error must not be read.
                let result = if code.is_ok() && token.is_some() {
                    Response::decode(op, body).and_then(|response| {
                        request.asked.check(header.zxid, &response)?;
                        Ok(Some(response))
                    })
                } else {
                    Ok(None)
                };
                self.settle_watch(watch, result.is_ok().then_some(code));
                let malformed = result.as_ref().err().copied();
                if let Some(token) = token {
                    self.out.metrics_mut().round_trips.record(latency);
                    let result = self.result(op, code, result);
                    self.out.complete(op, token, result);
                }
                if let Some(error) = malformed {
                    return Err(Cause::Decode(error));
                }
            }
            ReplyTo::Own(Own::SetWatches { .. }) if needs_sasl => {}
            ReplyTo::Own(Own::SetWatches { since, .. }) if !code.is_ok() => {
                // They have not reported what came before.
                let cause = Cause::WatchesRefused(code);
                if let Phase::Open(open) = &self.phase {
                    let lost = self.lost(open.link.endpoint().clone(), cause.clone());
                    self.watches_not_set(op, since, &lost);
                }
                return Err(cause);
            }
            ReplyTo::Own(Own::SetWatches { restore, .. }) => {
                self.watches_set(request.number, restore);
            }
            ReplyTo::Own(Own::Proof) => {
                if let Phase::Open(open) = &mut self.phase {
                    open.proving.has_written();
                }
            }
            // It does not matter whether the server had such a watch.
            ReplyTo::Own(Own::RemoveWatches) | ReplyTo::Identity(..) => {}
            ReplyTo::Own(Own::Close) => self.end(State::Closed, Cause::ByClient),
        }
        if needs_sasl {
            self.refuse(AuthFailure::Required);
        }
        Ok(())
    }

    /// The result that the caller gets.
    fn result(
        &self,
        op: OpCode,
        code: ErrorCode,
        decoded: Result<Option<Response>, DecodeError>,
    ) -> Result<Response, Error> {
        match decoded {
            Ok(Some(Response::Multi(response))) => match response.failure() {
                Some((index, code)) => {
                    let peer = self.peer();
                    Err(Error::TransactionRefused { index, code, peer })
                }
                None => Ok(Response::Multi(response)),
            },
            Ok(Some(response)) => Ok(response),
            Ok(None) => Err(Error::Refused {
                op,
                path: String::new(),
                code,
                peer: self.peer(),
            }),
            Err(error) => Err(Error::Malformed {
                op,
                error,
                peer: self.peer(),
            }),
        }
    }
}
