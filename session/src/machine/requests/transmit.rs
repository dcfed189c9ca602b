//! From queued requests to bytes, and from the state to the next deadline.
//!
//! Requests are encoded only here, when the transport asks: all that were submitted meanwhile go out in one piece, and
//! what was never asked for was never sent.

use std::time::Instant;

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    OpCode, Request, SessionId, Xid,
    connect::{ConnectRequest, PASSWORD_LEN},
    frame,
    header::RequestHeader,
    jute::{Encode, EncodeError},
};

use crate::Error;
use crate::machine::{InFlight, Machine, Phase, Queued, ReplyTo, metrics, requests::trace};

/// Not much more is encoded at a time: what waits as a request can still be given up, and lies in memory once.
const BURST: usize = 256 * 1024;

impl<T> Machine<T> {
    /// Appends what is to be sent now, and takes it for sent. Where very much waits this is a part of it: what follows is
    /// for the next call, when this has left.
    pub fn transmit(&mut self, now: Instant, out: &mut BytesMut) {
        let before = out.len();
        out.extend_from_slice(&self.control);
        self.control.clear();
        if self.is_connected() && !self.is_moving {
            // Nothing that is sent makes an operation suspect.
            let careful = self.probation.has_suspects();
            while out.len() - before < BURST
                && !(careful && (self.is_held() || self.request_sign_of_life(now, out)))
                && let Some(mut queued) = self.queue.pop()
            {
                if !self.unsupported.is_empty()
                    && let Some(error) = self.unsupported.refusal(queued.request.op())
                {
                    self.give_back(queued, error);
                    continue;
                }
                let next = self.prepare_to_send(&mut queued);
                if let ReplyTo::Auth { token } = queued.reply_to {
                    self.send_added(now, &queued.request, token, out);
                    continue;
                }
                let next = next.map(|request| queued.behind(request, now));
                self.send(now, queued, out);
                if let Some(next) = next {
                    self.send(now, next, out);
                }
            }
        }
        if out.len() > before {
            self.metrics.bytes_sent += metrics::bytes(out.len() - before);
            self.last_sent = now;
        }
    }

    /// Whether [`transmit`](Self::transmit) would send more.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        let is_open = self.is_connected() && !self.is_moving;
        !self.control.is_empty() || (is_open && !self.queue.is_empty() && !self.is_held())
    }

    fn send(&mut self, now: Instant, queued: Queued<T>, out: &mut BytesMut) {
        let (xid, op) = (Xid(self.next_xid), queued.request.op());
        let start = out.len();
        let written = append(out, xid, op, &queued.request);
        let limit = self.config.max_request;
        match written {
            Ok(length) if length <= limit => {
                self.take_xid();
                trace::sent(xid, op, &queued.request);
                self.in_flight.push_back(InFlight {
                    xid,
                    op,
                    sent: now,
                    reply_to: queued.reply_to,
                    options: queued.options,
                    number: queued.number,
                });
            }
            Ok(length) | Err(EncodeError { length }) => {
                out.truncate(start);
                let error = Error::TooLarge { length, limit };
                if matches!(queued.reply_to, ReplyTo::SetWatches { .. }) {
                    self.end_unset(&queued.request, &error);
                }
                if matches!(queued.reply_to, ReplyTo::SetWatches { restore: true }) {
                    self.restored();
                }
                self.give_back(queued, error);
            }
        }
    }

    /// The number of the next request. Unique in a session, also over its connections: a follower that still waits for a
    /// write of the former connection would answer the new request with the old one's result.
    pub(crate) fn take_xid(&mut self) -> Xid {
        let xid = self.next_xid;
        self.next_xid = xid.checked_add(1).unwrap_or(1);
        Xid(xid)
    }

    /// The first frame of a connection.
    pub(crate) fn send_handshake(&mut self) {
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.session.last_zxid,
            timeout_ms: self.config.session_timeout_ms(),
            session_id: if self.session.is_local {
                SessionId::NONE
            } else {
                self.session.id
            },
            password: Some(if self.session.is_local {
                Bytes::from_static(&[0; PASSWORD_LEN])
            } else {
                self.session.password.clone()
            }),
            read_only: Some(self.config.read_only),
        };
        // A password that a server gave fits a frame: it came in one.
        let _ = frame::append(&mut self.control, |writer| request.encode(writer));
    }

    pub(crate) fn send_ping(&mut self, now: Instant) {
        self.ping_sent = Some(now);
        let ping = RequestHeader {
            xid: Xid::PING,
            op: OpCode::PING,
        };
        let _ = frame::append(&mut self.control, |writer| ping.encode(writer));
    }

    /// When [`Input::Tick`](crate::machine::Input::Tick) is due; `None` when nothing but the world can go on.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        // Asked for in every turn: plain comparisons, in place of iterators over options.
        let earlier = |one: Option<Instant>, other: Option<Instant>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let phase = match &self.phase {
            Phase::Pausing { until } => Some(*until),
            Phase::Connecting { deadline, .. } | Phase::Handshaking { deadline, .. } => {
                Some(*deadline)
            }
            Phase::Connected { .. } => {
                let ping = self.ping_due().or_else(|| self.pong_deadline());
                let silence = Some(self.silence_deadline());
                let first = earlier(earlier(ping, silence), self.request_deadline());
                // None of the others is there on a connection that is kept, but for deadlines and an end.
                let first = earlier(first, self.search_due());
                return earlier(earlier(first, self.first_deadline()), self.closing);
            }
            Phase::Ended(_) => return None,
        };
        let waits = earlier(self.queue_deadline(), self.session_deadline());
        let ends = earlier(self.first_deadline(), self.closing);
        earlier(earlier(phase, waits), ends)
    }

    /// When a ping is to be sent, unless one is on its way.
    pub(crate) fn ping_due(&self) -> Option<Instant> {
        self.ping_sent
            .is_none()
            .then(|| self.last_sent + self.timing.ping)
    }

    /// When the ping on its way will have been unanswered for too long: as no other is sent meanwhile, the session is in
    /// danger by then, whatever else the server sends.
    pub(crate) fn pong_deadline(&self) -> Option<Instant> {
        self.ping_sent.map(|sent| sent + self.timing.read)
    }

    /// When the server will have been silent for too long.
    pub(crate) fn silence_deadline(&self) -> Instant {
        self.last_received + self.timing.read
    }

    /// When the oldest request will have been unanswered for too long.
    pub(crate) fn request_deadline(&self) -> Option<Instant> {
        let oldest = self.in_flight.front().map(|oldest| oldest.sent);
        [oldest, self.pending_auth_since()]
            .into_iter()
            .flatten()
            .min()
            .map(|sent| sent + self.timing.request)
    }

    /// When the oldest request that waits for a connection is given up.
    pub(crate) fn queue_deadline(&self) -> Option<Instant> {
        let waiting = !matches!(self.phase, Phase::Connected { .. } | Phase::Ended(_));
        let oldest = self.queue.oldest().filter(|_| waiting)?;
        Some(oldest.since + self.timing.queue_wait)
    }

    /// When the session counts as expired without a server having said so.
    pub(crate) fn session_deadline(&self) -> Option<Instant> {
        let lost = self.session.id != SessionId::NONE
            && !matches!(self.phase, Phase::Connected { .. } | Phase::Ended(_));
        let heard = self.session.heard.filter(|_| lost)?;
        Some(heard + self.timing.session_end)
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
