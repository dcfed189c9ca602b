//! From queued requests to bytes.
//!
//! Requests are encoded only when the transport asks. All requests that were submitted meanwhile go
//! out in one write, and a request that was never asked for was never sent.

use std::time::Instant;

use bytes::BytesMut;
use lockkeeper_proto::{
    OpCode, Request, Xid, frame,
    header::RequestHeader,
    jute::{Encode, EncodeError},
    records::AuthPacket,
};

use super::{
    asked::Asked,
    backlog::Queued,
    in_flight::{InFlight, ReplyTo},
    trace,
};
use crate::{
    Error,
    machine::{
        Machine,
        link::connection::{PendingIdentity, Ping},
        metrics,
    },
};

/// About how many bytes are encoded at a time. A request that is not encoded yet can still be given
/// up, and is in memory only once.
const BURST: usize = 256 * 1024;

/// How many requests are under way at once; the others wait in the machine's queue, so that a lost
/// connection leaves few unknown outcomes, and a ping, which does not wait here, soon gets its turn
/// in the server's queue.
///
/// More would not be faster: a server that has so many requests in work stops reading. Source:
/// `ZooKeeperServer.java`, `globalOutstandingLimit`.
pub(crate) const WINDOW: usize = 1000;

impl<T> Machine<T> {
    /// Appends what is to be sent now, and counts it as sent. With very much to send this is a part
    /// of it: call it again when these bytes have left.
    pub fn transmit(&mut self, now: Instant, out: &mut BytesMut) {
        let before = out.len();
        self.flush_control(out);
        if self.takes_requests() {
            while out.len() - before < BURST
                && self.has_window()
                && self.may_send_next(now, out)
                && let Some(queued) = self.queue.pop()
            {
                self.send_queued(now, queued, out);
            }
        }
        if out.len() > before {
            self.metrics.bytes_sent += metrics::bytes(out.len() - before);
        }
    }

    /// Whether [`transmit`](Self::transmit) would send more.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        let Some(connection) = &self.connection else {
            return false;
        };
        let has_requests = self.takes_requests() && !self.queue.is_empty() && self.has_window();
        !connection.control.is_empty() || (has_requests && !self.must_wait())
    }

    /// Whether the window leaves room for one more request. A client that is being closed has none
    /// to respect: its program may end before a reply could make room, and the end of the session
    /// must not stay in the queue.
    fn has_window(&self) -> bool {
        self.in_flight() < WINDOW || self.closing.is_some()
    }

    /// Whether requests may be sent on this connection now.
    fn takes_requests(&self) -> bool {
        let waits = self.config.requests_wait_for_identities && self.connections <= 1;
        self.established()
            .is_some_and(|open| !(open.is_moving || waits && open.is_authenticating()))
    }

    /// Moves what goes out before any request.
    pub(crate) fn flush_control(&mut self, out: &mut BytesMut) {
        if let Some(connection) = &mut self.connection {
            out.extend_from_slice(&connection.control);
            connection.control.clear();
        }
    }

    /// Whether the next queued request may be sent now. A suspect is sent alone, behind a ping if
    /// the server has answered nothing yet; this sends that ping.
    pub(crate) fn may_send_next(&mut self, now: Instant, out: &mut BytesMut) -> bool {
        if !self.probation.has_suspects() {
            return true;
        }
        if self.must_wait() {
            return false;
        }
        let needs_ping = self.is_suspect_next() && !self.probation.has_answers();
        if needs_ping {
            self.send_ping(now);
            self.flush_control(out);
        }
        !needs_ping
    }

    /// Whether queued requests must wait. There are two reasons:
    ///
    /// - An operation was sent alone, and is not answered yet.
    /// - The next operation is to be sent alone, and other requests are not answered yet.
    pub(crate) fn must_wait(&self) -> bool {
        let Some(connection) = &self.connection else {
            return false;
        };
        if !self.probation.has_suspects() {
            return false;
        }
        let is_suspect = |request: &InFlight<T>| self.probation.suspects(request.op);
        let waits_for_pong = !self.probation.has_answers() && connection.ping.is_some();
        connection.in_flight.iter().any(is_suspect)
            || self.is_suspect_next() && (!connection.is_idle() || waits_for_pong)
    }

    fn is_suspect_next(&self) -> bool {
        let next = self.queue.first();
        next.is_some_and(|request| self.probation.suspects(request.op()))
    }

    fn send_queued(&mut self, now: Instant, mut queued: Queued<T>, out: &mut BytesMut) {
        if !self.unsupported.is_empty()
            && let Some(error) = self.unsupported.refusal(queued.request.op())
        {
            return self.give_back(queued, error);
        }
        let next = self.prepare_to_send(&mut queued);
        if let ReplyTo::Auth { token } = queued.reply_to {
            return self.send_identity(now, &queued.request, token, out);
        }
        let next = next.map(|request| queued.behind(request, now));
        self.send(now, queued, out);
        if let Some(next) = next {
            self.send(now, next, out);
        }
    }

    fn send(&mut self, now: Instant, queued: Queued<T>, out: &mut BytesMut) {
        let (xid, op) = (Xid(self.next_xid), queued.request.op());
        let start = out.len();
        let written = append(out, xid, op, &queued.request);
        let limit = self.config.max_request;
        match (written, &mut self.connection) {
            (Ok(length), Some(connection)) if length <= limit => {
                trace::sent(xid, op, &queued.request);
                Self::write_sent(connection, now, xid, op);
                connection.in_flight.push_back(InFlight {
                    xid,
                    op,
                    asked: Asked::of(queued.request),
                    sent: now,
                    reply_to: queued.reply_to,
                    options: queued.options,
                    number: queued.number,
                });
                self.take_xid();
            }
            (Ok(length) | Err(EncodeError { length }), _) => {
                out.truncate(start);
                let error = Error::TooLarge { length, limit };
                let ReplyTo::SetWatches { restore, .. } = queued.reply_to else {
                    return self.give_back(queued, error);
                };
                self.end_unset(&queued.request, &error);
                self.watches_set(queued.number);
                if restore {
                    self.restored();
                }
            }
        }
    }

    /// Sends an identity that a caller has added. Its answer has no number of its own.
    fn send_identity(&mut self, now: Instant, request: &Request, token: T, out: &mut BytesMut) {
        if let Request::Auth(AuthPacket { scheme, .. }) = request
            && let Some(connection) = &mut self.connection
        {
            // Its length was checked when it was added.
            let _ = append(out, Xid::AUTH, OpCode::AUTH, request);
            connection.pending_auth.push_back(PendingIdentity {
                scheme: scheme.clone(),
                sent: now,
                token: Some(token),
            });
        }
    }

    /// The number of the next request. It is unique in a session, over all its connections.
    /// Otherwise a follower that still waits for a write of the former connection would answer the
    /// new request with the result of the old one.
    pub(crate) fn take_xid(&mut self) -> Xid {
        let xid = self.next_xid;
        self.next_xid = xid.checked_add(1).unwrap_or(1);
        Xid(xid)
    }

    pub(crate) fn send_ping(&mut self, now: Instant) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        connection.ping = Some(Ping {
            sent: now,
            since: now,
        });
        connection.last_ping = now;
        let ping = RequestHeader {
            xid: Xid::PING,
            op: OpCode::PING,
        };
        let _ = frame::append(&mut connection.control, |writer| ping.encode(writer));
    }
}

/// Appends a request's frame and returns the length of its message.
pub(crate) fn append(
    out: &mut BytesMut,
    xid: Xid,
    op: OpCode,
    request: &Request,
) -> Result<usize, EncodeError> {
    frame::append(out, |writer| {
        RequestHeader { xid, op }.encode(writer);
        request.encode(writer);
    })
}
